package httpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/payment"
)

// TestLongestOptions tests that a client with the longest timeout and back-off sends, and waits between its attempts
// for as long as the comments say.
func TestLongestOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time // attempts, but those of a list
		id := payment.NewID()
		client, err := httpclient.NewHTTP(httpclient.Config{
			BaseURL: "https://payments.example", ParticipantID: "p1", Attempts: 3,
			Timeout: math.MaxInt64, Backoff: math.MaxInt64,
			Token: func(context.Context) (string, error) { return "t", nil },
			Transport: transport(func(request *http.Request) (*http.Response, error) {
				if err := request.Context().Err(); err != nil {
					return nil, err
				}
				if strings.HasSuffix(request.URL.Path, "/instructions") && request.Method == http.MethodGet {
					return answer(http.StatusOK, pageOf(fmt.Sprintf(`{"instruction_id": "i", "participant_id": "p1", `+
						`"idempotency_key": "k", "state": "PENDING", "certainty": "NOT_SENT", "outbox_id": %q}`, id)))
				}
				at = append(at, time.Now())
				response, err := answer(http.StatusTooManyRequests, `{}`)
				response.Header = http.Header{"Retry-After": {"1"}}
				return response, err
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		in := payment.Instruction{InstructionID: "i", ParticipantID: "p1", IdempotencyKey: "k", RailType: "bank",
			Payload: json.RawMessage(`{}`)}
		key := payment.Key{InstructionID: "i", IdempotencyKey: "k"}
		for name, call := range map[string]func(context.Context) error{
			"enqueue": func(ctx context.Context) error { _, err := client.Enqueue(ctx, in); return err },
			"batch": func(ctx context.Context) error {
				_, err := client.EnqueueBatch(ctx, []payment.Instruction{in})
				return err
			},
			"await": func(ctx context.Context) error { _, err := client.Await(ctx, key); return err },
		} {
			at = nil
			err := call(t.Context())
			if err == nil || errors.Is(err, context.DeadlineExceeded) || len(at) != 3 {
				t.Fatalf("%s: %d attempts: %v", name, len(at), err)
			}
			for n := range 2 {
				if wait := at[n+1].Sub(at[n]); wait < 5*time.Second || wait > 10*time.Second {
					t.Errorf("%s: attempt %d came %s after the one before", name, n+2, wait)
				}
			}
		}
	})
}
