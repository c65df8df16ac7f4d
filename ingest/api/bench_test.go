package api_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ingest/api"
)

// BenchmarkEnqueue is what a call costs the API itself: without the network, the database and the server of package
// net/http.
func BenchmarkEnqueue(b *testing.B) {
	made, err := api.New(api.Config{}, newFake(), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	handler := made.Handler()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		body := fmt.Sprintf(`{"instruction_id": "i-%d", "participant_id": "p1", "rail_type": "bank", "payload": {"amount": `+
			`"10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}}`, n)
		request := httptest.NewRequest(http.MethodPost, "/v1/instructions", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+aToken)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", fmt.Sprintf("k-%d", n))
		answer := httptest.NewRecorder()
		if handler.ServeHTTP(answer, request); answer.Code != http.StatusCreated {
			b.Fatal(answer.Body)
		}
	}
}
