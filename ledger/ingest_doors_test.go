package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestForbiddenKeyInHeaders: headers lie in the archive as payloads do, and are refused
// by the same keys, by both doors.
func TestForbiddenKeyInHeaders(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 1)
	for _, key := range []string{"password", "Token", "PAN"} {
		in := order(1)
		in.Headers = map[string]string{"traceparent": "00-a-b-01", key: "hunter2"}
		_, alone := ingest.Enqueue(t.Context(), in)
		results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in})
		if err != nil {
			t.Fatal(err)
		}
		fault, ok := errors.AsType[*payment.Fault](alone)
		if !ok || results[0].Fault == nil || fault.Message != results[0].Fault.Message {
			t.Fatalf("%s: %v, %+v", key, alone, results[0])
		}
		if fault.SQLState != payment.StateForbiddenKey || fault.Message != fmt.Sprintf("headers hold the forbidden key %q", strings.ToLower(key)) || strings.Contains(fault.Error(), "hunter2") {
			t.Errorf("%s: %v", key, fault)
		}
	}
	in := order(1)
	in.Headers = map[string]string{"note": `"token":`}
	receipt, err := ingest.Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 1, false)
}

// TestBatchWantsAMoment: a moment of a batch means the same whatever the session's zone
// and clock; what does not is refused, and the field named.
func TestBatchWantsAMoment(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	conn := cell.Conn(t, celltest.Ingest)
	for _, zone := range []string{"UTC", "Asia/Karachi"} {
		if _, err := conn.Exec(t.Context(), "SET TimeZone = '"+zone+"'"); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"not_before", "expires_at"} {
			for n, test := range []struct{ text, want string }{
				{"2999-12-01T09:00:00Z", "-"}, {"2999-12-01T09:00:00.123456789+05:30", "-"},
				{"2999-12-01 09:00", "RH002"}, {"2999-12-01T09:00:00", "RH002"}, {"2999-12-01T09:00:00+0530", "RH002"}, {"2999-12-01T09:00Z", "RH002"},
				{"2999-02-30T09:00:00Z", "RH002"}, {"2999-12-01T24:00:00Z", "RH002"}, {"29991201", "RH002"}, {"", "RH002"},
				{"now", "RH002"}, {"today", "RH002"}, {"tomorrow", "RH002"}, {"yesterday", "RH002"}, {"epoch", "RH002"}, {"infinity", "RH002"}, {"-infinity", "RH002"},
			} {
				if field == "not_before" {
					test.text = strings.Replace(test.text, "2999-12", time.Now().AddDate(0, 6, 0).Format("2006-01"), 1)
				}
				var code, message string
				err := conn.QueryRow(t.Context(), `
					SELECT coalesce(b.error_code, '-'), coalesce(b.error_message, '')
					FROM railhead.enqueue_payment_outbox_batch(jsonb_build_array(jsonb_build_object('instruction_id', $1::text, 'participant_id', 'p',
						'idempotency_key', 'k', 'rail_type', 'bank', 'payload', '{"amount": "1.00", "currency": "EUR"}'::jsonb, $2::text, $3::text))) b`,
					fmt.Sprintf("%s-%s-%d", zone, field, n), field, test.text).Scan(&code, &message)
				if err != nil {
					t.Fatal(err)
				}
				if code != test.want || code != "-" && !strings.HasPrefix(message, field+" must be a timestamp with its zone") {
					t.Errorf("%s %q in %s: %s %s", field, test.text, zone, code, message)
				}
			}
		}
	}
}
