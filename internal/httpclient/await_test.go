package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestAwaitWithoutAWait: where nothing waits for the outcome, Await pauses between its calls, and where calls wait it
// does not.
func TestAwaitWithoutAWait(t *testing.T) {
	for name, c := range map[string]struct {
		wait time.Duration
		most int // calls in 5 minutes
	}{
		"answered at once":   {0, 70},
		"answered in time":   {25 * time.Second, 13},
		"waits for a second": {time.Second, 70},
	} {
		synctest.Test(t, func(t *testing.T) {
			id, calls := payment.NewID(), 0
			client := over(t, func(request *http.Request) (*http.Response, error) {
				text := fmt.Sprintf(`{"instruction_id": "i", "participant_id": "p1", "idempotency_key": "k", "state": "PENDING", `+
					`"certainty": "NOT_SENT", "outbox_id": %q}`, id)
				if !strings.HasSuffix(request.URL.Path, id.String()) {
					return answer(http.StatusOK, pageOf(text))
				}
				calls++
				time.Sleep(c.wait)
				return answer(http.StatusOK, text)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			last, err := client.Await(ctx, payment.Key{InstructionID: "i", IdempotencyKey: "k"})
			if !errors.Is(err, context.DeadlineExceeded) || last.OutboxID != id || calls > c.most || calls < 12 {
				t.Errorf("%s: %d calls, %+v, %v", name, calls, last, err)
			}
		})
	}
}
