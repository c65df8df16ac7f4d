package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func wantReceipt(t testing.TB, receipt payment.Receipt, err error, sequence int64, replayed bool) {
	t.Helper()
	switch {
	case err != nil:
		t.Fatal(err)
	case receipt.OutboxID.IsZero() || receipt.CreatedAt.IsZero() || receipt.State != "PENDING":
		t.Errorf("receipt %+v", receipt)
	case receipt.SequenceID != sequence || receipt.Replayed != replayed:
		t.Errorf("sequence_id %d, replayed %t; want %d, %t", receipt.SequenceID, receipt.Replayed, sequence, replayed)
	}
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 2)
	first, err := ingest.Enqueue(t.Context(), order(1))
	wantReceipt(t, first, err, 1, false)

	same := order(1)
	same.Payload = []byte(`{"currency":"EUR",   "amount":"10.50"}`) // the same content, written otherwise
	again, err := ingest.Enqueue(t.Context(), same)
	wantReceipt(t, again, err, 1, true)
	if again.OutboxID != first.OutboxID || !again.CreatedAt.Equal(first.CreatedAt) {
		t.Errorf("the repetition got %+v, the first call %+v", again, first)
	}

	whole := order(2)
	whole.Priority, whole.Headers = payment.PriorityUrgent, map[string]string{"traceparent": "00-a-b-01"}
	whole.NotBefore, whole.ExpiresAt = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	second, err := ingest.Enqueue(t.Context(), whole)
	wantReceipt(t, second, err, 2, false)
	var priority int
	var trace string
	var due, expires time.Time
	cell.QueryRow(`
		SELECT priority, headers ->> 'traceparent', next_attempt_at, expires_at
		FROM railhead.v_outbox_pending WHERE sequence_id = 2`, nil, &priority, &trace, &due, &expires)
	if priority != 0 || trace != "00-a-b-01" || due.Sub(whole.NotBefore).Abs() > time.Millisecond ||
		expires.Sub(whole.ExpiresAt).Abs() > time.Millisecond {
		t.Errorf("stored priority %d, trace %q, due %v, expires %v", priority, trace, due, expires)
	}
}

// TestEnqueueRefuses goes through every SQLSTATE, each by the single function and
// by the batch, and insists that no refusal takes a number.
func TestEnqueueRefuses(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 2)
	if _, err := ingest.Enqueue(t.Context(), order(1)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*payment.Instruction)
		state  string
		want   error
	}{
		"other content": {func(in *payment.Instruction) {
			*in = order(1)
			in.Payload = []byte(`{"amount":"10.51","currency":"EUR"}`)
		}, "RH001", outbox.ErrConflict},
		"other participant":   {func(in *payment.Instruction) { *in = order(1); in.ParticipantID = "p2" }, "RH001", outbox.ErrConflict},
		"no id":               {func(in *payment.Instruction) { in.InstructionID = "" }, "RH002", outbox.ErrInvalid},
		"id with zero":        {func(in *payment.Instruction) { in.InstructionID = "a\x00b" }, "22", outbox.ErrInvalid},
		"no payload":          {func(in *payment.Instruction) { in.Payload = nil }, "RH002", outbox.ErrInvalid},
		"payload is a list":   {func(in *payment.Instruction) { in.Payload = []byte(`[1]`) }, "RH002", outbox.ErrInvalid},
		"payload is no JSON":  {func(in *payment.Instruction) { in.Payload = []byte(`{}, {"x":1}`) }, "RH002", outbox.ErrInvalid},
		"a key twice":         {func(in *payment.Instruction) { in.Payload = []byte(`{"amount":"1","amount":"9","currency":"EUR"}`) }, "RH002", outbox.ErrInvalid},
		"lone surrogate":      {func(in *payment.Instruction) { in.Payload = []byte(`{"amount":"1","currency":"EUR","note":"\ud800"}`) }, "22", outbox.ErrInvalid},
		"number out of range": {func(in *payment.Instruction) { in.Payload = []byte(`{"amount":"1","currency":"EUR","n":1e999999}`) }, "RH005", outbox.ErrInvalid},
		"float":               {func(in *payment.Instruction) { in.Payload = []byte(`{"amount":10.5,"currency":"EUR"}`) }, "RH002", outbox.ErrInvalid},
		"digits":              {func(in *payment.Instruction) { in.Payload = []byte(`{"amount":"1.5","currency":"JPY"}`) }, "RH002", outbox.ErrInvalid},
		"zero":                {func(in *payment.Instruction) { in.Payload = []byte(`{"amount":"0.00","currency":"EUR"}`) }, "RH002", outbox.ErrInvalid},
		"priority":            {func(in *payment.Instruction) { in.Priority = 7 }, "RH002", outbox.ErrInvalid},
		"rail":                {func(in *payment.Instruction) { in.RailType = "nowhere" }, "RH003", outbox.ErrInvalid},
		"everything":          {func(in *payment.Instruction) { in.RailType = "*" }, "RH003", outbox.ErrInvalid},
		"forbidden key": {func(in *payment.Instruction) {
			in.Payload = []byte(`{"amount":"1","currency":"EUR","a":[{"CVV":"1"}]}`)
		}, "RH004", outbox.ErrInvalid},
		"too large": {func(in *payment.Instruction) {
			in.Payload = []byte(`{"amount":"1","currency":"EUR","a":"` + strings.Repeat("x", 1<<16) + `"}`)
		}, "RH005", outbox.ErrInvalid},
		"too deep": {func(in *payment.Instruction) {
			in.Payload = []byte(`{"amount":"1","currency":"EUR","a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`)
		}, "RH005", outbox.ErrInvalid},
		"expired":    {func(in *payment.Instruction) { in.ExpiresAt = time.Now().Add(-time.Second) }, "RH006", outbox.ErrInvalid},
		"second key": {func(in *payment.Instruction) { in.InstructionID = order(1).InstructionID }, "RH007", outbox.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			in := order(2)
			test.change(&in)
			_, err := ingest.Enqueue(t.Context(), in)
			wantFault(t, err, test.state, test.want)
			alone, _ := errors.AsType[*outbox.Fault](err)

			good := order(1)
			results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in, good, in})
			if err != nil {
				t.Fatal(err)
			}
			wantReceipt(t, results[1].Receipt, nil, 1, true)
			for _, n := range []int{0, 2} {
				if results[n].Fault == nil {
					t.Fatalf("item %d went in: %+v", n, results[n].Receipt)
				}
				wantFault(t, results[n].Fault, test.state, test.want)
				if fault := results[n].Fault; strings.HasPrefix(test.state, "RH") &&
					(fault.Message != alone.Message || fault.Hint != alone.Hint) {
					t.Errorf("the batch says %q, %q; alone it is %q, %q", fault.Message, fault.Hint, alone.Message, alone.Hint)
				}
			}
		})
	}
	receipt, err := ingest.Enqueue(t.Context(), order(3))
	wantReceipt(t, receipt, err, 2, false)
}

func wantFault(t testing.TB, err error, state string, want error) {
	t.Helper()
	fault, ok := errors.AsType[*outbox.Fault](err)
	if !ok || !errors.Is(err, want) || !strings.HasPrefix(fault.SQLState, state) || fault.Message == "" {
		t.Errorf("got %v (%s), want %s, which is %v", err, ledger.SQLState(err), state, want)
	}
	for _, secret := range []string{"10.51", "999999"} {
		if ok && strings.Contains(fault.Message+fault.Detail+fault.Hint, secret) {
			t.Errorf("the refusal quotes the payload: %v", err)
		}
	}
}

func TestConflictNamesTheFirstOnlyToItsParticipant(t *testing.T) {
	t.Parallel()
	ingest := openIngest(t, celltest.New(t), 1)
	first, err := ingest.Enqueue(t.Context(), order(1))
	wantReceipt(t, first, err, 1, false)
	for participant, named := range map[string]bool{"p1": true, "p2": false} {
		other := order(1)
		other.ParticipantID, other.Payload = participant, []byte(`{"amount":"2","currency":"EUR"}`)
		_, err := ingest.Enqueue(t.Context(), other)
		fault, ok := errors.AsType[*outbox.Fault](err)
		if !ok || fault.Hint == "" || strings.Contains(fault.Detail, first.OutboxID.String()) != named {
			t.Errorf("%s was told %v", participant, err)
		}
	}
}

// TestRollbackLeavesNoGap takes numbers in transactions of the caller's own that
// come to nothing, and insists that the next one gets the number.
func TestRollbackLeavesNoGap(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 2)
	gone := errors.New("the caller changed its mind")
	for n := range 3 {
		err := pgx.BeginFunc(t.Context(), ingest.Pool(), func(tx pgx.Tx) error {
			receipt, err := ingest.EnqueueTx(t.Context(), tx, order(n))
			wantReceipt(t, receipt, err, 1, false)
			return gone
		})
		if !errors.Is(err, gone) {
			t.Fatal(err)
		}
	}
	err := pgx.BeginFunc(t.Context(), ingest.Pool(), func(tx pgx.Tx) error {
		for n := range 2 {
			receipt, err := ingest.EnqueueTx(t.Context(), tx, order(n))
			wantReceipt(t, receipt, err, int64(n+1), false)
		}
		again, err := ingest.EnqueueTx(t.Context(), tx, order(0))
		wantReceipt(t, again, err, 1, true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantStream(t, cell, 2)
}

// TestBatch insists on one result per item in order, numbers in the order of the
// array within each participant, and that a batch can be repeated.
func TestBatch(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := openIngest(t, cell, 2)
	var all []payment.Instruction
	for n := range 30 {
		in := order(30 - n) // against the order of the ids
		in.ParticipantID = fmt.Sprintf("p%d", n%3)
		all = append(all, in)
	}
	bad, twin, other := order(99), all[0], all[1]
	bad.RailType = "nowhere"
	other.Payload = []byte(`{"amount":"3","currency":"EUR"}`)
	all = append(all, bad, twin, other)
	for round := range 2 {
		results, err := ingest.EnqueueBatch(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		for n, result := range results[:30] {
			if result.Fault != nil {
				t.Fatal(result.Fault)
			}
			wantReceipt(t, result.Receipt, nil, int64(n/3+1), round > 0)
		}
		wantFault(t, results[30].Fault, "RH003", outbox.ErrInvalid)
		wantReceipt(t, results[31].Receipt, nil, 1, true)
		wantFault(t, results[32].Fault, "RH001", outbox.ErrConflict)
	}
	wantStream(t, cell, 30)
	if results, err := ingest.EnqueueBatch(t.Context(), nil); err != nil || len(results) != 0 {
		t.Errorf("an empty batch: %v, %v", results, err)
	}
}

func TestBatchTooLong(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 2")
	_, err := openIngest(t, cell, 1).EnqueueBatch(t.Context(), []payment.Instruction{order(1), order(2), order(3)})
	wantFault(t, err, "RH005", outbox.ErrInvalid)
	wantStream(t, cell, 0)
}

// TestIngestMayOnlyEnqueue tries what the login must not be able to do.
func TestIngestMayOnlyEnqueue(t *testing.T) {
	t.Parallel()
	ingest := openIngest(t, celltest.New(t), 1)
	for _, statement := range []string{
		"SELECT FROM railhead.payment_outbox_keys",
		"SELECT FROM railhead.payment_outbox_pending",
		"SELECT railhead.bump_participant_outbox_seq('p1')",
	} {
		if _, err := ingest.Pool().Exec(t.Context(), statement); ledger.SQLState(err) != "42501" {
			t.Errorf("%s: %v", statement, err)
		}
	}
}
