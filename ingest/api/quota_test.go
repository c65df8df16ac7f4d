package api_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
)

// TestBatchThatWaitsForItsQuota: a caller that sends the lines over its quota again after the longest retry_after of
// them, and not earlier, has some stored by each call, also under the smallest quotas and to the last line.
func TestBatchThatWaitsForItsQuota(t *testing.T) {
	t.Parallel()
	for _, perMinute := range []int{1, 6, 7, 11, 12, 13, 17, 24, 30, 59} {
		synctest.Test(t, func(t *testing.T) {
			fake := newFake()
			fake.token.RequestsPerMinute = perMinute
			made, err := api.New(api.Config{}, fake, nil, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			var open []string
			for n := range 12 {
				open = append(open, lineOf("p1", n))
			}
			for len(open) > 0 {
				request := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/instructions/batch",
					strings.NewReader(strings.Join(open, "")))
				request.Header.Set("Authorization", "Bearer "+aToken)
				request.Header.Set("Content-Type", "application/x-ndjson")
				said := httptest.NewRecorder()
				made.Handler().ServeHTTP(said, request)
				var left []string
				wait := 0
				all, _ := answersTo(t, answer{text: said.Body.String()})
				for _, line := range all {
					if line.Status == 429 {
						left = append(left, open[line.Line-1])
						wait = max(wait, line.Problem.RetryAfter)
					}
				}
				if said.Code != 200 || len(left) == len(open) || len(left) > 0 && wait == 0 {
					t.Fatalf("%d a minute: of %d lines none was stored: %d\n%s", perMinute, len(open), said.Code, said.Body)
				}
				open = left
				time.Sleep(time.Duration(wait) * time.Second)
			}
			if len(fake.known) != 12 {
				t.Errorf("%d a minute: %d are stored", perMinute, len(fake.known))
			}
		})
	}
}
