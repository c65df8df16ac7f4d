package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
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
		fault, ok := errors.AsType[*outbox.Fault](alone)
		if !ok || results[0].Fault == nil || fault.Message != results[0].Fault.Message {
			t.Fatalf("%s: %v, %+v", key, alone, results[0])
		}
		if fault.SQLState != outbox.StateForbiddenKey ||
			fault.Message != fmt.Sprintf("headers hold the forbidden key %q", strings.ToLower(key)) ||
			strings.Contains(fault.Error(), "hunter2") {
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

// TestRepetitionWithOtherTimes: what a repeated call says otherwise, and is no content, is
// named in its answer by both doors, before the first claim and after it.
func TestRepetitionWithOtherTimes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ingest := openIngest(t, d.Cell, 1)
	soon, later := time.Now().Add(time.Hour).Round(0), time.Now().Add(2*time.Hour).Round(0)
	plain, timed := order(1), order(2)
	timed.NotBefore, timed.ExpiresAt, timed.Priority, timed.SendOnce = soon, later, payment.PriorityUrgent, true
	ids := make([]payment.ID, 2)
	for n, in := range []payment.Instruction{plain, timed} {
		receipt, err := ingest.Enqueue(t.Context(), in)
		wantReceipt(t, receipt, err, int64(n+1), false)
		ids[n] = receipt.OutboxID
		if receipt.Differs != nil {
			t.Errorf("a first call differs in %v", receipt.Differs)
		}
	}
	differs := func(when string, in payment.Instruction, want ...string) {
		t.Helper()
		alone, err := ingest.Enqueue(t.Context(), in)
		d.must(err)
		batch, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in})
		d.must(err)
		for _, receipt := range []payment.Receipt{alone, batch[0].Receipt} {
			if !receipt.Replayed || !slices.Equal(receipt.Differs, want) {
				t.Errorf("%s: replayed %v, differs in %v, want %v", when, receipt.Replayed, receipt.Differs, want)
			}
		}
	}
	all := func(when string) {
		t.Helper()
		differs(when+", plain", plain)
		differs(when+", timed", timed)
		other := plain
		other.NotBefore = time.Now().Add(-time.Hour) // over at the enqueue: the same as none
		differs(when+", an hour ago", other)
		other = plain
		other.NotBefore, other.ExpiresAt, other.Priority, other.SendOnce = soon, later, payment.PriorityBulk, true
		differs(when+", plain and now timed", other, "not_before", "expires_at", "priority", "send_once")
		other = timed
		other.NotBefore, other.ExpiresAt, other.Priority, other.SendOnce = time.Time{}, time.Time{}, payment.PriorityNormal,
			false
		differs(when+", timed and now plain", other, "not_before", "expires_at", "priority", "send_once")
		other = timed
		other.ExpiresAt = later.Add(time.Minute)
		differs(when+", one more minute", other, "expires_at")
	}
	all("waiting")
	claim := d.claim(lane("bank", 1, 1))[ids[0]]
	all("claimed")
	d.record(told(sameKey, claim, payment.ResultRefusedFinal, ""))
	all("refused")

	// The rows of the order may leave before those of the archive.
	d.do(`ALTER TABLE railhead.payment_outbox_instructions DISABLE TRIGGER ALL`)
	gone := d.text(`SELECT railhead.payment_outbox_differs($1, NULL, NULL, 1, false)::text`, [16]byte(ids[0]))
	d.do(`DELETE FROM railhead.payment_outbox_instructions WHERE outbox_id = $1`, [16]byte(ids[0]))
	same(t, "with its order", gone, "{}")
	same(t, "without its order", d.text(`SELECT coalesce(railhead.payment_outbox_differs($1, NULL, NULL, 1, false)::text, 'not known')`, [16]byte(ids[0])), "not known")

	aside := d.enqueue()
	d.must(d.quarantine(aside, "23514"))
	same(t, "quarantined", d.text(`SELECT coalesce(railhead.payment_outbox_differs($1, NULL, NULL, 1, false)::text, 'not known')`, [16]byte(aside)), "not known")
}

// TestCallerSeesWhatMayHaveBeenPaid: the state tells what waits and was never sent, or
// provably not executed, from what waits and may have been paid.
func TestCallerSeesWhatMayHaveBeenPaid(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ingest := openIngest(t, d.Cell, 1)
	in := order(1)
	receipt, err := ingest.Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 1, false)
	state := func(want string) {
		t.Helper()
		again, err := ingest.Enqueue(t.Context(), in)
		d.must(err)
		same(t, "receipt", again.State, want)
		batch, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in})
		d.must(err)
		same(t, "receipt of a batch", batch[0].Receipt.State, want)
		same(t, "view", d.text(`SELECT state FROM railhead.supervisor_outbox_status
			WHERE outbox_id = $1`, [16]byte(receipt.OutboxID)), want)
	}
	state("PENDING")
	d.record(told(sameKey, d.claimOne(receipt.OutboxID), payment.ResultRefusedTransient, ""))
	state("PENDING")
	d.record(told(asks, d.claimOne(receipt.OutboxID), payment.ResultUnknown, ""))
	state("UNKNOWN")
	d.record(told(provisional, d.claimOne(receipt.OutboxID), payment.ResultInProgress, ""))
	state("UNKNOWN")

	in = order(2)
	receipt, err = ingest.Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 2, false)
	d.record(told(provisional, d.claimOne(receipt.OutboxID), payment.ResultAccepted, ""))
	state("ACCEPTED")
}
