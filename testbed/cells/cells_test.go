package cells

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// TestNemesisOfCells is the short form of make cells. Afterwards it plants errors in the witnesses, which are counted.
func TestNemesisOfCells(t *testing.T) {
	t.Parallel()
	binaries := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binaries+"/", "./cmd/railhead")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building railhead: %v\n%s", err, output)
	}
	w, counted, err := run(t.Context(), Options{
		Lasting: 5 * time.Second, PerSec: 40, Seed: 1, Bound: 10 * time.Minute,
		Evidence: filepath.Join(t.TempDir(), "evidence"), Binaries: binaries, Out: t.Output(),
	})
	if w != nil {
		defer func() {
			if err := w.end(t.Context()); err != nil {
				t.Error(err)
			}
		}()
	}
	t.Logf("%s; %s", counted.Faults(), counted)
	if err != nil {
		t.Fatal(err)
	}

	// A bank executes a payment once more, under another key.
	var paid *order
	for _, o := range w.orders {
		if o.RailType == railBare {
			paid = o
		}
	}
	body := fmt.Appendf(nil, `{"reference": %q, "amount": %q, "currency": "EUR", "debtor": {"account": %q}, "creditor": {"account": "payee"}}`,
		paid.InstructionID, paid.Amount, paid.ParticipantID)
	bank := w.banks[slices.IndexFunc(w.banks, func(b *simrail.Bank) bool { return b.Shape.RailType() == railBare })]
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, bank.URL+"/payments", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", "another-key")
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("paying once more: %v, %v", answer, err)
	}
	answer.Body.Close()
	// Two more keys of a cell: one is in a second cell too, with an outbox id of its own, and one is in no cell.
	for _, sql := range []string{
		`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER ALL`,
		`ALTER TABLE railhead_north.payment_outbox_keys DISABLE TRIGGER ALL`,
		`INSERT INTO railhead_north.payment_outbox_keys SELECT (jsonb_populate_record(NULL::railhead.payment_outbox_keys,
			to_jsonb(k) || jsonb_build_object('outbox_id', gen_random_uuid()))).* FROM (SELECT * FROM railhead.payment_outbox_keys WHERE instruction_id <> $1
			ORDER BY instruction_id LIMIT 1) k`,
		`DELETE FROM railhead.payment_outbox_keys WHERE outbox_id = (SELECT outbox_id FROM railhead.payment_outbox_keys
			WHERE instruction_id <> $1 ORDER BY instruction_id DESC LIMIT 1)`,
	} {
		var args []any
		if sql[:5] != "ALTER" {
			args = append(args, paid.InstructionID)
		}
		if _, err := w.cells[0].admin.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	f, err := w.facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A number that two payments have is false, too.
	c := judge(f)
	if c.Doubled != 2 || c.Lost != 1 || c.False == 0 || c.verdict(nil) == nil {
		t.Errorf("planted: %s %q", c, c.wrong)
	}
}

// sound returns facts of one payment of each kind: dispatched, refused with an open dead letter, and one that was
// refused and then sent again; and of a bucket that moved with the first.
func sound() facts {
	at := func(s int) time.Time { return time.Unix(1_000_000+int64(s), 0) }
	f := facts{Read: at(100)}
	for n, state := range []payment.State{payment.Dispatched, payment.Failed, payment.Dispatched} {
		o := &order{Amount: "1.00", Instruction: railhead.Instruction{InstructionID: fmt.Sprint("i-", n), ParticipantID: "p1",
			RailType: railOrdered}}
		id := payment.ID{byte(n)}
		for _, s := range []int{n, 50} {
			o.Receipts = append(o.Receipts, receipt{railhead.Receipt{OutboxID: id, SequenceID: int64(n + 1)}, at(s), at(s + 1)})
		}
		o.Said = []saying{{"PENDING", "NOT_SENT", at(n), at(n + 1)}, {string(state), "", at(50), at(51)}}
		r := row{Cell: "east", Participant: "p1", InstructionID: o.InstructionID, OutboxID: id, SequenceID: int64(n + 1),
			State: string(state)}
		if state == payment.Failed {
			r.LetterStatus = string(payment.LetterPending)
		} else {
			f.Moved = append(f.Moved, railsim.Record{Kind: railsim.Executed, Reference: o.InstructionID, Amount: "1.00",
				Debtor: "p1", Time: at(40)})
		}
		f.Orders, f.Rows = append(f.Orders, o), append(f.Rows, r)
	}
	f.Orders[2].Said = append(f.Orders[2].Said, saying{"FAILED", "REFUSED", at(30), at(31)})
	f.Changes = []change{{(&order{Instruction: railhead.Instruction{ParticipantID: "p1"}}).bucket(), 2, "west", at(20)},
		{7, 2, "west", at(20)}}
	return f
}

// TestJudge plants each error in sound facts.
func TestJudge(t *testing.T) {
	t.Parallel()
	good := Count{Payments: 3, Letters: 1, Moves: 1, Assignments: 1, Late: 3}
	for _, one := range []struct {
		name  string
		plant func(f *facts)
		want  func(c *Count)
	}{
		{"nothing", func(*facts) {}, func(*Count) {}},
		{"in no cell", func(f *facts) { f.Rows = f.Rows[:2] }, func(c *Count) { c.Lost = 1 }},
		{"not executed", func(f *facts) { f.Moved = f.Moved[:1] }, func(c *Count) { c.Lost, c.False = 1, 1 }},
		{"not executed, and called pending", func(f *facts) {
			f.Moved, f.Rows[2].State, f.Orders[2].Said = f.Moved[:1], "PENDING", nil
		}, func(c *Count) { c.Lost = 1 }},
		{"closed without a payment", func(f *facts) { f.Rows[1].LetterStatus = string(payment.LetterResolved) },
			func(c *Count) { c.Lost, c.Letters = 1, 0 }},
		{"in a cell, and no caller was told", func(f *facts) {
			f.Orders[2].Receipts, f.Orders[2].Said, f.Moved, f.Rows[2].State = nil, nil, f.Moved[:1], "PENDING"
		}, func(c *Count) { c.Lost, c.Unaccepted, c.Payments, c.Late = 1, 1, 2, 2 }},
		{"executed twice", func(f *facts) { f.Moved = append(f.Moved, f.Moved[1]) }, func(c *Count) { c.Doubled = 1 }},
		{"in two cells", func(f *facts) {
			f.Rows = append(f.Rows, f.Rows[2])
			f.Rows[3].Cell, f.Rows[3].OutboxID, f.Rows[3].SequenceID = "west", payment.ID{9}, 4
		}, func(c *Count) { c.Doubled = 1 }},
		{"its key in a second cell", func(f *facts) {
			f.Rows = append(f.Rows, f.Rows[2])
			f.Rows[3].Cell, f.Rows[3].State = "west", ""
		}, func(*Count) {}},
		{"only its key is left", func(f *facts) { f.Rows[2].State = "" }, func(c *Count) { c.Lost = 1 }},
		{"a payment of two cells", func(f *facts) {
			f.Rows = append(f.Rows, f.Rows[2])
			f.Rows[3].Cell = "west"
		}, func(c *Count) { c.Doubled = 1 }},
		{"told two outbox ids", func(f *facts) { f.Orders[0].Receipts[1].OutboxID = payment.ID{9} },
			func(c *Count) { c.Doubled = 1 }},
		{"told two numbers", func(f *facts) { f.Orders[0].Receipts[1].SequenceID = 9 }, func(c *Count) { c.False = 1 }},
		{"a number twice", func(f *facts) { f.Rows[2].SequenceID = 2 }, func(c *Count) { c.False = 1 }},
		{"a number is missing", func(f *facts) { f.Rows[2].SequenceID = 4 }, func(c *Count) { c.False = 1 }},
		{"called DISPATCHED too soon", func(f *facts) { f.Orders[0].Said[0].State = "DISPATCHED" },
			func(c *Count) { c.False = 1 }},
		{"called FAILED after it was executed", func(f *facts) { f.Orders[0].Said[1].State = "FAILED" },
			func(c *Count) { c.False = 1 }},
		{"called NOT_SENT after it was executed", func(f *facts) {
			f.Orders[0].Said[1] = saying{"UNKNOWN", "NOT_SENT", f.Orders[0].Said[1].From, f.Orders[0].Said[1].To}
		}, func(c *Count) { c.False = 1 }},
		{"FAILED in the cell, and executed", func(f *facts) { f.Rows[0].State = "FAILED" }, func(c *Count) { c.False = 1 }},
		{"another amount was executed", func(f *facts) { f.Moved[0].Amount = "9.00" }, func(c *Count) { c.False = 1 }},
		{"what no caller may be told", func(f *facts) { f.Orders[1].Wrong = []string{"a second key was accepted"} },
			func(c *Count) { c.False = 1 }},
		{"executed and never called for", func(f *facts) { f.Moved[1].Reference = "i-9" },
			func(c *Count) { c.Lost, c.False = 1, 2 }},
		{"a version of two cells", func(f *facts) { f.Changes[1] = change{f.Changes[0].Bucket, 2, "north", f.Changes[0].At} },
			func(c *Count) { c.False, c.Moves, c.Assignments, c.Late = 1, 2, 0, 6 }},
		{"overtaken", func(f *facts) { slices.Reverse(f.Moved) }, func(c *Count) { c.Overtaken = 1 }},
		{"never accepted", func(f *facts) { f.Orders = append(f.Orders, &order{}) }, func(c *Count) { c.Unaccepted = 1 }},
	} {
		f, want := sound(), good
		one.plant(&f)
		one.want(&want)
		c := judge(f)
		wrong := c.wrong
		c.wrong = nil
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s: %#v, want %#v: %q", one.name, c, want, wrong)
		}
		bad := want.Lost+want.Doubled+want.False+want.Overtaken+want.Unaccepted > 0
		c.Payments = leastPayments
		if err := c.verdict(nil); (err != nil) != (bad || want.Assignments == 0) {
			t.Errorf("%s: the verdict is %v", one.name, err)
		}
	}
	enough := good
	enough.Payments = leastPayments
	if enough.verdict(nil) != nil || enough.verdict([]string{"cut"}) == nil || good.verdict(nil) == nil {
		t.Error("a run in which too little happened passes")
	}
}

// TestTooFew tests that a run that could prove nothing is refused.
func TestTooFew(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{Lasting: time.Second, PerSec: 40}, {Lasting: time.Minute, PerSec: 1}} {
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
