package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

var (
	theCell = reader.Gate{Scope: reader.GateCell, Name: operator.Everything}
	theBank = reader.Gate{Scope: reader.GateRail, Name: "bank"}
	theP1   = reader.Gate{Scope: reader.GateParticipant, Name: "p1"}
)

// gated is a desk on which p1 and p2 have enqueued once, order(1) and order(2).
func gated(t *testing.T) (*desk, *ingest.Ingest, *operator.Operator) {
	t.Helper()
	d := newDesk(t)
	ingest := openIngest(t, d.Cell, 4)
	for n, participant := range []string{"p1", "p2"} {
		in := order(n + 1)
		in.ParticipantID = participant
		receipt, err := ingest.Enqueue(t.Context(), in)
		wantReceipt(t, receipt, err, 1, false)
	}
	d.ApplyProfile("card", `{}`)
	return d, ingest, d.operator()
}

// of is an instruction of a participant on a rail.
func of(n int, participant, rail string) payment.Instruction {
	in := order(n)
	in.ParticipantID, in.RailType = participant, rail
	return in
}

// wantClosed insists on the refusal of a closed gate.
func wantClosed(t *testing.T, what string, err error, field, message string) {
	t.Helper()
	fault, ok := errors.AsType[*outbox.Fault](err)
	if !ok || !errors.Is(err, outbox.ErrEnqueueClosed) || errors.Is(err, outbox.ErrInvalid) {
		t.Fatalf("%s: got %v, want that enqueue is closed", what, err)
	}
	if fault.SQLState != "RH014" || fault.Field != field || fault.Rule != "CLOSED" ||
		!strings.HasPrefix(fault.Message, message) ||
		!strings.HasSuffix(fault.Message, ": "+why) || !strings.HasPrefix(fault.Hint, "Nothing was stored.") {
		t.Errorf("%s: %+v, want field %s and %q", what, fault, field, message)
	}
}

// TestClosedGate closes each gate in turn: what it is of is refused, alone and in a batch,
// takes no number and leaves no row; what it is not of goes in; known keys are answered.
func TestClosedGate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		gate    reader.Gate
		field   string
		refused map[string]bool // by participant and rail
	}{
		{theCell, "cell", map[string]bool{"p1 bank": true, "p1 card": true, "p2 bank": true, "p2 card": true, "new bank": true}},
		{theBank, "rail_type", map[string]bool{"p1 bank": true, "p2 bank": true, "new bank": true}},
		{theP1, "participant_id", map[string]bool{"p1 bank": true, "p1 card": true}},
	} {
		t.Run(test.gate.String(), func(t *testing.T) {
			t.Parallel()
			d, ingest, o := gated(t)
			wasOpen, err := o.CloseEnqueue(t.Context(), test.gate, why, time.Time{})
			d.must(err)
			same(t, "was open", wasOpen, true)
			message := "enqueue is closed for " + test.gate.String() + " by " + celltest.Operator + " since 2"

			places := []string{"p1 bank", "p1 card", "p2 bank", "p2 card", "new bank"}
			var all []payment.Instruction
			next := map[string]int64{"p1": 2, "p2": 2, "new": 1}
			for n, place := range places {
				participant, rail, _ := strings.Cut(place, " ")
				receipt, err := ingest.Enqueue(t.Context(), of(10+n, participant, rail))
				if test.refused[place] {
					wantClosed(t, place, err, test.field, message)
					if fault, _ := errors.AsType[*outbox.Fault](err); fault.Detail != "Closed: "+test.gate.String()+"." {
						t.Errorf("%s: detail %q", place, fault.Detail)
					}
				} else {
					wantReceipt(t, receipt, err, next[participant], false)
					next[participant]++
				}
				all = append(all, of(20+n, participant, rail))
			}
			first := of(1, "p1", "bank")
			receipt, err := ingest.Enqueue(t.Context(), first)
			wantReceipt(t, receipt, err, 1, true)
			_, err = ingest.Enqueue(t.Context(), func() payment.Instruction {
				in := first
				in.Payload = []byte(`{"amount":"9","currency":"EUR"}`)
				return in
			}())
			wantFault(t, err, "RH001", outbox.ErrConflict)
			second := first
			second.IdempotencyKey = "another"
			_, err = ingest.Enqueue(t.Context(), second)
			wantFault(t, err, "RH007", outbox.ErrInvalid)
			wrong := of(30, "p1", "bank")
			wrong.Payload = []byte(`{"amount":"0","currency":"EUR"}`)
			_, err = ingest.Enqueue(t.Context(), wrong)
			wantFault(t, err, "RH002", outbox.ErrInvalid)

			results, err := ingest.EnqueueBatch(t.Context(), append([]payment.Instruction{first, second, wrong}, all...))
			d.must(err)
			wantReceipt(t, results[0].Receipt, nil, 1, true)
			wantFault(t, results[1].Fault, "RH007", outbox.ErrInvalid)
			wantFault(t, results[2].Fault, "RH002", outbox.ErrInvalid)
			for n, place := range places {
				participant, _, _ := strings.Cut(place, " ")
				result := results[3+n]
				switch {
				case test.refused[place] && result.Fault == nil:
					t.Errorf("%s went in by a batch", place)
				case test.refused[place]:
					wantClosed(t, place+" in a batch", result.Fault, test.field, message)
				case result.Fault != nil:
					t.Errorf("%s in a batch: %v", place, result.Fault)
				default:
					wantReceipt(t, result.Receipt, nil, next[participant], false)
					next[participant]++
				}
			}

			wasClosed, err := o.OpenEnqueue(t.Context(), test.gate, why)
			d.must(err)
			same(t, "was closed", wasClosed, true)
			for n, place := range places {
				participant, rail, _ := strings.Cut(place, " ")
				receipt, err := ingest.Enqueue(t.Context(), of(40+n, participant, rail))
				wantReceipt(t, receipt, err, next[participant], false)
				next[participant]++
			}
			same(t, "the log", d.text(`SELECT string_agg(concat_ws(' ', actor, act, subject, detail ->> 'scope', reason), '; '
				ORDER BY act_id) FROM railhead.payment_operator_log WHERE act LIKE '%ENQUEUE'`),
				fmt.Sprintf("%s CLOSE_ENQUEUE %s %s %s; %[1]s OPEN_ENQUEUE %[2]s %[3]s %[4]s", celltest.Operator, test.gate.Name,
					test.gate.Scope, why))
		})
	}
}

// TestSeveralClosedGates: the message is of the gate that opens last, the detail of all; a
// second closing keeps the first one's login and time, and the later end.
func TestSeveralClosedGates(t *testing.T) {
	t.Parallel()
	d, ingest, o := gated(t)
	soon, later := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	closeAs := func(gate reader.Gate, reason string, until time.Time, want bool) {
		t.Helper()
		wasOpen, err := o.CloseEnqueue(t.Context(), gate, reason, until)
		d.must(err)
		same(t, gate.String()+" was open", wasOpen, want)
	}
	refused := func(field, message string) {
		t.Helper()
		_, err := ingest.Enqueue(t.Context(), of(10, "p1", "bank"))
		wantClosed(t, message, err, field, message)
		if fault, _ := errors.AsType[*outbox.Fault](err); fault.Detail != "Closed: everything, participant p1, rail bank." {
			t.Errorf("the detail is %q", fault.Detail)
		}
	}
	closeAs(theCell, why, soon, true)
	closeAs(theBank, why, soon.Add(time.Minute), true)
	closeAs(theP1, why, soon.Add(-time.Minute), true)
	refused("rail_type", "enqueue is closed for rail bank by "+celltest.Operator+" since 2")
	closeAs(theP1, why, later, false)
	refused("participant_id", "enqueue is closed for participant p1 by ")
	closeAs(theP1, why, soon, false)
	gate, err := o.Reader().ClosedGate(t.Context(), theP1)
	d.must(err)
	if gate == nil || gate.Until.Sub(later).Abs() > time.Millisecond || gate.Reason != why ||
		gate.By != celltest.Operator {
		t.Errorf("the gate is %+v", gate)
	}
	_, err = ingest.Enqueue(t.Context(), of(10, "p1", "bank"))
	if want := " until " + later.UTC().Format("2006-01-02T15:04:05Z") + ": "; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
	closeAs(theCell, why, time.Time{}, false)
	closeAs(theCell, why, soon, false)
	refused("cell", "enqueue is closed for everything by ")

	all, err := o.Reader().ClosedGates(t.Context())
	d.must(err)
	var names []string
	for _, gate := range all {
		names = append(names, gate.String())
	}
	if !slices.Equal(names, []string{"participant p1", "rail bank", "everything"}) || !all[2].Until.IsZero() {
		t.Errorf("listed %v, %+v", names, all)
	}
	status, err := o.Reader().Status(t.Context())
	d.must(err)
	same(t, "gates of the status", fmt.Sprint(status.ClosedGates), fmt.Sprint(all))
	for _, gate := range []reader.Gate{theP1, theCell} {
		_, err := o.OpenEnqueue(t.Context(), gate, why)
		d.must(err)
	}
	_, err = ingest.Enqueue(t.Context(), of(10, "p1", "bank"))
	wantClosed(t, "one is left", err, "rail_type", "enqueue is closed for rail bank")
}

// TestRefusedBatchStoresNothing: a batch that a closed gate refuses leaves no row of a participant who never enqueued.
func TestRefusedBatchStoresNothing(t *testing.T) {
	t.Parallel()
	d, ingest, o := gated(t)
	_, err := o.CloseEnqueue(t.Context(), theBank, why, time.Time{})
	d.must(err)
	results, err := ingest.EnqueueBatch(t.Context(),
		[]payment.Instruction{of(10, "new", "bank"), of(11, "p1", "bank"), of(12, "p2", "card")})
	d.must(err)
	wantClosed(t, "new", results[0].Fault, "rail_type", "enqueue is closed for rail bank")
	wantReceipt(t, results[2].Receipt, nil, 2, false)
	same(t, "numbers", d.text(`SELECT string_agg(participant_id || ' ' || next_sequence_id, ', ' ORDER BY participant_id)
		FROM railhead.participant_outbox_sequences`), "p1 2, p2 3")
	_, err = o.OpenEnqueue(t.Context(), theBank, why)
	d.must(err)
	receipt, err := ingest.Enqueue(t.Context(), of(10, "new", "bank"))
	wantReceipt(t, receipt, err, 1, false)
}

// TestGateOfNothing: what is misspelt, without a reason or with an impossible end closes
// nothing, and no more participants are closed than the rules have room for.
func TestGateOfNothing(t *testing.T) {
	t.Parallel()
	d, ingest, o := gated(t)
	for name, test := range map[string]struct {
		gate         reader.Gate
		reason       string
		until        time.Time
		state, wants string
	}{
		"no reason":       {theBank, " ", time.Time{}, "RH002", "a reason of"},
		"an end that was": {theBank, why, time.Now().Add(-time.Second), "RH002", "must be in the future"},
		"an end too far":  {theBank, why, time.Now().Add(367 * 24 * time.Hour), "RH002", "366 days"},
		"no scope":        {reader.Gate{Scope: "lane", Name: "bank"}, why, time.Time{}, "RH002", "no such gate"},
		"part of a cell":  {reader.Gate{Scope: reader.GateCell, Name: "bank"}, why, time.Time{}, "RH002", "no such gate"},
		"no rail":         {reader.Gate{Scope: reader.GateRail, Name: "bnak"}, why, time.Time{}, "RH003", "rail 'bnak' is not known"},
		"all rails":       {reader.Gate{Scope: reader.GateRail, Name: "*"}, why, time.Time{}, "RH003", "rail '*' is not known"},
		"no participant":  {reader.Gate{Scope: reader.GateParticipant, Name: "p11"}, why, time.Time{}, "RH010", "never enqueued"},
	} {
		_, err := o.CloseEnqueue(t.Context(), test.gate, test.reason, test.until)
		refusedWith(t, name, err, test.state, test.wants)
		if strings.HasPrefix(name, "an end") {
			continue
		}
		_, err = o.OpenEnqueue(t.Context(), test.gate, test.reason)
		refusedWith(t, name+", opened", err, test.state, test.wants)
	}
	wasClosed, err := o.OpenEnqueue(t.Context(), theBank, why)
	d.must(err)
	same(t, "was closed", wasClosed, false)

	var many []payment.Instruction
	for n := range 101 {
		many = append(many, of(100+n, fmt.Sprintf("%0128d", n), "bank"))
	}
	_, err = ingest.EnqueueBatch(t.Context(), many)
	d.must(err)
	for n, in := range many {
		_, err := o.CloseEnqueue(t.Context(), reader.Gate{Scope: reader.GateParticipant, Name: in.ParticipantID}, why,
			time.Time{})
		if n < 100 {
			d.must(err)
		} else {
			refusedWith(t, "one more", err, "RH005", "100 participants already")
		}
	}
	same(t, "rows out of their page", d.Int(`SELECT pg_relation_size(reltoastrelid) FROM pg_class
		WHERE oid = 'railhead.payment_outbox_rules'::regclass`), 0)
	receipt, err := ingest.Enqueue(t.Context(), of(10, "p2", "bank"))
	wantReceipt(t, receipt, err, 2, false)
}

// TestGateRights: a caller, a relayer and one who looks can't open or close.
func TestGateRights(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for _, login := range []string{celltest.Ingest, celltest.Relayer, celltest.Callbacks, celltest.Readonly,
		celltest.Auditor} {
		conn := cell.Conn(t, login)
		for _, statement := range []string{
			`SELECT railhead.close_enqueue('rail', 'bank', 'mine')`, `SELECT railhead.open_enqueue('rail', 'bank', 'mine')`,
			`INSERT INTO railhead.payment_closed_gates (scope, name, closed_by, close_reason) VALUES ('rail', 'bank', 'x', 'y')`,
			`DELETE FROM railhead.payment_closed_gates`, `UPDATE railhead.payment_outbox_rules SET closed_gates = NULL`,
		} {
			if _, err := conn.Exec(t.Context(), statement); ledger.SQLState(err) != "42501" {
				t.Errorf("%s: %s: %v", login, statement, err)
			}
		}
	}
}

// TestEndOfAGate: the reaper opens what has an end, when it has come, and leaves to the next
// turn what an operator has locked.
func TestEndOfAGate(t *testing.T) {
	t.Parallel()
	d, ingest, o := gated(t)
	end := func(want ...string) {
		t.Helper()
		ended, err := d.exec.EndPauses(t.Context())
		d.must(err)
		slices.Sort(ended)
		if !slices.Equal(ended, want) {
			t.Errorf("ended %v, want %v", ended, want)
		}
	}
	soon := time.Now().Add(time.Hour)
	for _, gate := range []reader.Gate{theP1, theBank, theCell} {
		_, err := o.CloseEnqueue(t.Context(), gate, why, soon)
		d.must(err)
	}
	_, err := o.CloseEnqueue(t.Context(), reader.Gate{Scope: reader.GateParticipant, Name: "p2"}, why, time.Time{})
	d.must(err)
	end()
	_, err = ingest.Enqueue(t.Context(), of(10, "p1", "bank"))
	wantClosed(t, "before the end", err, "cell", "enqueue is closed for everything")

	d.do(`UPDATE railhead.payment_closed_gates SET closed_until = now() WHERE closed_until IS NOT NULL`)
	tx, err := d.Conn(t, celltest.Operator).Begin(t.Context())
	d.must(err)
	_, err = tx.Exec(t.Context(), `SELECT railhead.open_enqueue('rail', 'card', 'left open')`)
	d.must(err)
	end()
	d.must(tx.Rollback(t.Context()))
	end("enqueue for everything", "enqueue for participant p1", "enqueue for rail bank")
	end()
	receipt, err := ingest.Enqueue(t.Context(), of(10, "p1", "bank"))
	wantReceipt(t, receipt, err, 2, false)
	_, err = ingest.Enqueue(t.Context(), of(11, "p2", "bank"))
	wantClosed(t, "one without an end", err, "participant_id", "enqueue is closed for participant p2")
	same(t, "the log", d.text(`SELECT string_agg(concat_ws(' ', actor, act, subject, detail ->> 'scope', reason), '; '
		ORDER BY subject) FROM railhead.payment_operator_log WHERE act = 'OPEN_ENQUEUE'`),
		strings.Join([]string{
			celltest.Relayer + " OPEN_ENQUEUE * cell the end of the closing has come: " + why,
			celltest.Relayer + " OPEN_ENQUEUE bank rail the end of the closing has come: " + why,
			celltest.Relayer + " OPEN_ENQUEUE p1 participant the end of the closing has come: " + why,
		}, "; "))
}

// TestGateDuringAnotherChange: what makes the rules of an enqueue again during another change
// waits for that and keeps it, whichever of them was first.
func TestGateDuringAnotherChange(t *testing.T) {
	t.Parallel()
	d, ingest, o := gated(t)
	during := func(first string, second func() error) {
		t.Helper()
		tx, err := d.Conn(t, "").Begin(t.Context())
		d.must(err)
		_, err = tx.Exec(t.Context(), first)
		d.must(err)
		done := make(chan error, 1)
		go func() { done <- second() }()
		for d.Int(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock'`) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		d.must(tx.Commit(t.Context()))
		d.must(<-done)
	}
	conn := d.Conn(t, "")
	during(`SELECT railhead.close_enqueue('rail', 'bank', '`+why+`')`, func() error {
		_, err := conn.Exec(t.Context(), `INSERT INTO railhead.payment_forbidden_keys VALUES ('iris_scan')`)
		return err
	})
	_, err := ingest.Enqueue(t.Context(), of(10, "p2", "bank"))
	if !errors.Is(err, outbox.ErrEnqueueClosed) {
		t.Errorf("closed before another change: %v", err)
	}
	during(`INSERT INTO railhead.payment_forbidden_keys VALUES ('retina_scan')`, func() error {
		_, err := o.CloseEnqueue(t.Context(), theP1, why, time.Time{})
		return err
	})
	_, err = ingest.Enqueue(t.Context(), of(11, "p1", "card"))
	wantClosed(t, "closed after another change", err, "participant_id", "enqueue is closed for participant p1")
	for _, key := range []string{"iris_scan", "retina_scan"} {
		in := of(12, "p2", "card")
		in.Payload = []byte(`{"amount":"1","currency":"EUR","` + key + `":"x"}`)
		_, err = ingest.Enqueue(t.Context(), in)
		wantFault(t, err, "RH004", outbox.ErrInvalid)
	}
}

// TestGateDuringAnEnqueue: the gate waits for no enqueue, and one that began before goes in;
// what repeats its key waits for it, and is told that it is known and not that nothing was
// stored. So in a batch, and of a participant's very first instruction.
func TestGateDuringAnEnqueue(t *testing.T) {
	t.Parallel()
	d, ingest, o := gated(t)
	for name, repeat := range map[string]func(payment.Instruction) (payment.Receipt, error){
		"single": func(in payment.Instruction) (payment.Receipt, error) { return ingest.Enqueue(t.Context(), in) },
		"batch": func(in payment.Instruction) (payment.Receipt, error) {
			results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in})
			if err != nil {
				return payment.Receipt{}, err
			}
			if results[0].Fault != nil {
				return payment.Receipt{}, results[0].Fault
			}
			return results[0].Receipt, nil
		},
	} {
		for _, end := range []string{"COMMIT", "ROLLBACK"} {
			for _, participant := range []string{"p1", "new " + name + " " + end} {
				in := of(d.n+100, strings.ReplaceAll(participant, " ", "-"), "bank")
				d.n++
				what := name + " " + end + " " + participant
				conn := d.Conn(t, celltest.Ingest)
				_, err := conn.Exec(t.Context(), "BEGIN")
				d.must(err)
				var sequence int64
				d.must(conn.QueryRow(t.Context(), `SELECT sequence_id FROM railhead.enqueue_payment_outbox($1, $2, $3, 'bank', $4)`,
					in.InstructionID, in.ParticipantID, in.IdempotencyKey, string(in.Payload)).Scan(&sequence))
				_, err = o.CloseEnqueue(t.Context(), theBank, why, time.Time{})
				d.must(err)
				type answer struct {
					receipt payment.Receipt
					err     error
				}
				answered := make(chan answer, 1)
				go func() {
					receipt, err := repeat(in)
					answered <- answer{receipt, err}
				}()
				for d.Int(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
					AND wait_event_type = 'Lock'`) == 0 {
					select {
					case got := <-answered:
						t.Fatalf("%s: answered during the open transaction with %+v, %v", what, got.receipt, got.err)
					case <-time.After(5 * time.Millisecond):
					}
				}
				_, err = conn.Exec(t.Context(), end)
				d.must(err)
				got := <-answered
				if end == "COMMIT" {
					wantReceipt(t, got.receipt, got.err, sequence, true)
				} else {
					wantClosed(t, what, got.err, "rail_type", "enqueue is closed for rail bank")
				}
				_, err = o.OpenEnqueue(t.Context(), theBank, why)
				d.must(err)
				if receipt, err := ingest.Enqueue(t.Context(), in); err != nil || receipt.SequenceID != sequence ||
					receipt.Replayed != (end == "COMMIT") {
					t.Errorf("%s, opened: %+v, %v; want number %d", what, receipt, err, sequence)
				}
			}
		}
	}
}

// TestGateInASnapshot: above READ COMMITTED an enqueue goes by the gates of now, too: one that was closed since the
// transaction's snapshot is not passed. The caller tries the transaction again, which is refused as any other. A
// closing waits for no caller, and a caller for no closing.
func TestGateInASnapshot(t *testing.T) {
	t.Parallel()
	d, ingest, o := gated(t)
	conn := d.Conn(t, celltest.Ingest)
	mustExec(t, conn, "SET lock_timeout = '3s'")
	enqueues := map[string]string{
		"enqueue_payment_outbox": `SELECT FROM railhead.enqueue_payment_outbox($1, 'p1', $1, 'bank',
			'{"amount": "10.50", "currency": "EUR"}')`,
		"enqueue_payment_outbox_arrays": `SELECT FROM railhead.enqueue_payment_outbox_arrays(ARRAY[$1], ARRAY['p1'], ARRAY[$1],
			ARRAY['bank'], ARRAY['{"amount": "10.50", "currency": "EUR"}'::jsonb])`,
		"enqueue_payment_outbox_batch": `SELECT FROM railhead.enqueue_payment_outbox_batch(jsonb_build_array(
			jsonb_build_object('instruction_id', $1, 'participant_id', 'p1', 'idempotency_key', $1, 'rail_type', 'bank',
				'payload', '{"amount": "10.50", "currency": "EUR"}'::jsonb)))`,
	}
	n := 0
	enqueue := func(name string) error {
		n++
		_, err := conn.Exec(t.Context(), strings.ReplaceAll(enqueues[name], "$1", fmt.Sprintf("'snapshot-%d'", n)))
		return err
	}
	want := 0
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		for name := range enqueues {
			mustExec(t, conn, "BEGIN ISOLATION LEVEL "+level)
			d.must(enqueue(name)) // several, with nothing changed, as its callers do
			d.must(enqueue(name))
			want += 2
			begun := time.Now()
			_, err := o.CloseEnqueue(t.Context(), theBank, why, time.Time{})
			d.must(err)
			if took := time.Since(begun); took > 4*time.Second {
				t.Errorf("a closing took %s while a caller was in %s", took, level)
			}
			mustExec(t, conn, "SAVEPOINT s")
			if err := enqueue(name); ledger.SQLState(err) != "40001" || !strings.Contains(err.Error(), "has changed since") {
				t.Errorf("%s in %s, after the gate was closed: %v", name, level, err)
			}
			mustExec(t, conn, "ROLLBACK TO s; COMMIT")

			// An operator who has not committed is not waited for, and who has locked the row alone has changed nothing.
			_, err = o.OpenEnqueue(t.Context(), theBank, why)
			d.must(err)
			closing := d.Conn(t, celltest.Operator)
			mustExec(t, closing, "BEGIN; SELECT railhead.close_enqueue('rail', 'bank', 'a test')")
			mustExec(t, conn, "BEGIN ISOLATION LEVEL "+level)
			d.must(enqueue(name))
			mustExec(t, closing, "ROLLBACK")
			d.do(`SELECT FROM railhead.payment_outbox_rules FOR UPDATE`)
			d.must(enqueue(name))
			want += 2
			mustExec(t, conn, "COMMIT")
		}
	}
	same(t, "stored", d.Int(`SELECT count(*) FROM railhead.payment_outbox_keys WHERE instruction_id LIKE 'snapshot-%'`), want)

	begin := func() pgx.Tx {
		t.Helper()
		tx, err := ingest.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		d.must(err)
		t.Cleanup(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
		_, err = tx.Exec(t.Context(), "SELECT 1")
		d.must(err)
		return tx
	}
	early := begin()
	receipt, err := ingest.EnqueueTx(t.Context(), early, of(10, "p1", "bank"))
	wantReceipt(t, receipt, err, int64(2+want), false)
	late := begin()
	d.must(early.Commit(t.Context()))
	if _, err = ingest.EnqueueTx(t.Context(), late, of(10, "p1", "bank")); ledger.SQLState(err) != "40001" {
		t.Errorf("a key that the snapshot can't see: %v", err)
	}
}

// TestRulesInASnapshot: what else enqueue goes by is that of now, too: the version of a rail, a setting, a key that is
// forbidden.
func TestRulesInASnapshot(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueue()
	for _, change := range []string{
		`INSERT INTO railhead.payment_forbidden_keys (key) VALUES ('iban_of_a_test')`,
		`UPDATE railhead.payment_outbox_settings SET payload_bytes_max = payload_bytes_max - 1`,
		`UPDATE railhead.payment_rails SET profile_version = profile_version WHERE rail_type = 'bank'`,
	} {
		mustExec(t, d.ingest, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
		d.do(change)
		_, err := d.ingest.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('old', 'participant', 'old', 'bank',
			'{"amount": "10.50", "currency": "EUR"}')`)
		if ledger.SQLState(err) != "40001" {
			t.Errorf("enqueue in a snapshot from before %s: %v", change, err)
		}
		mustExec(t, d.ingest, "ROLLBACK")
	}
}
