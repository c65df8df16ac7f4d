package faults

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// valid returns the facts of a run in which two instructions were dispatched, one of them
// after its worker died, and one waits for an operator.
func valid() Facts {
	pay := json.RawMessage(`{"amount": "10.50", "currency": "EUR", "creditor": {"account": "c"}}`)
	f := Facts{
		Orders: map[string]order{
			"i1": {InstructionID: "i1", Payload: pay}, "i2": {InstructionID: "i2", Payload: pay}, "i3": {InstructionID: "i3", Payload: pay},
		},
		Keys:    []keyRow{{"o1", "i1", "k1", "p", 1}, {"o2", "i2", "k2", "p", 2}, {"o3", "i3", "k3", "p", 3}},
		Next:    []nextRow{{"p", 4}},
		Pending: map[string]pendingRow{},
		Letters: map[string]letterRow{"o3": {"o3", payment.DeadOutcomeUnknown, true}},
	}
	row := func(id string, no int, state payment.State, answers int) {
		one := attemptRow{OutboxID: id, No: no, State: state, Digest: rowName(id, no)}
		if answers > 0 {
			one.Answers = &answers
		}
		f.Rows = append(f.Rows, one)
	}
	row("o1", 1, payment.Dispatching, 0)
	row("o1", 2, payment.Dispatched, 1)
	row("o2", 1, payment.Dispatching, 0)
	row("o2", 2, payment.ZombieRequeue, 1)
	row("o2", 3, payment.LateOutcome, 1)
	row("o2", 4, payment.Dispatched, 1)
	row("o3", 1, payment.Dispatching, 0)
	row("o3", 2, payment.Unknown, 1)
	row("o3", 3, payment.Parked, 0)
	f.Snapshots = []archive{{rowName("o1", 1): rowName("o1", 1)}}
	for _, id := range []string{"1", "2", "3"} {
		f.Journal = append(f.Journal, Entry{Kind: Attempt, InstructionID: "i" + id})
		if id != "3" { // its caller was never told
			f.Journal = append(f.Journal, Entry{Kind: Ack, InstructionID: "i" + id, OutboxID: "o" + id})
			f.Moved = append(f.Moved, railsim.Record{Kind: railsim.Executed, Reference: "i" + id, Amount: "10.50",
				Currency: "EUR", Creditor: "c"})
		}
		f.Heard = append(f.Heard, railsim.Request{Op: "payment", Reference: "i" + id, Key: "r" + id, BodySHA256: "b" + id})
	}
	return f
}

func TestJudgeSoundRun(t *testing.T) {
	t.Parallel()
	v := Judge(valid())
	if len(v.Broken) > 0 || v.Attempted != 3 || v.Acknowledged != 2 || v.Recovered != 1 || v.Dispatched != 2 ||
		v.Parked != 1 || v.PersonNeeded != 1 {
		t.Errorf("%+v", v)
	}
}

// TestJudgeFindsEachOffence spoils the facts in one way at a time, and checks that Judge
// reports it.
func TestJudgeFindsEachOffence(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name  string
		spoil func(f *Facts)
		says  string
		count func(v Verdict) int // nil: no count of its own
	}{
		{"acknowledged and gone", func(f *Facts) { f.Keys = f.Keys[1:]; f.Rows = f.Rows[2:] }, "is not in", func(v Verdict) int { return v.Lost }},
		{"acknowledged as another", func(f *Facts) { f.Journal[1].OutboxID = "o9" }, "is not in", func(v Verdict) int { return v.Lost }},
		{"two receipts", func(f *Facts) {
			f.Journal = append(f.Journal, Entry{Kind: Ack, InstructionID: "i1", OutboxID: "o2"})
		}, "was acknowledged as", func(v Verdict) int { return v.Doubled }},
		{"two instructions of one key", func(f *Facts) { f.Keys[1].InstructionID = "i1" }, "is two instructions", func(v Verdict) int { return v.Doubled }},
		{"no caller enqueued it", func(f *Facts) { f.Journal = f.Journal[2:] }, "no caller enqueued", func(v Verdict) int { return v.Unexpected }},
		{"refused", func(f *Facts) { f.Journal = append(f.Journal, Entry{Kind: Refusal, InstructionID: "i1"}) }, "was refused", nil},
		{"executed twice", func(f *Facts) { f.Moved = append(f.Moved, f.Moved[0]) }, "executed i1 2 times", func(v Verdict) int { return v.Doubled }},
		{"never ordered", func(f *Facts) { f.Moved[0].Reference = "i9" }, "no caller ordered", func(v Verdict) int { return v.Unexpected }},
		{"another amount", func(f *Facts) { f.Moved[0].Amount = "105.0" }, "ordered were", func(v Verdict) int { return v.Unexpected }},
		{"two rail keys", func(f *Facts) {
			f.Heard = append(f.Heard, railsim.Request{Op: "payment", Reference: "i1", Key: "other", BodySHA256: "b1"})
		}, "two rail keys", nil},
		{"other bytes", func(f *Facts) {
			f.Heard = append(f.Heard, railsim.Request{Op: "payment", Reference: "i1", Key: "r1", BodySHA256: "other"})
		}, "different bytes", nil},
		{"false DISPATCHED", func(f *Facts) { f.Moved = f.Moved[1:] }, "never executed", func(v Verdict) int { return v.FalseDispatched }},
		{"false FAILED", func(f *Facts) {
			f.Rows[1].State = payment.Failed
			f.Letters["o1"] = letterRow{"o1", payment.DeadFailed, true}
		},
			"says FAILED and the bank executed", func(v Verdict) int { return v.FalseFailed }},
		{"a gap in the sequence", func(f *Facts) { f.Keys[2].SequenceID = 4 }, "follows 2", nil},
		{"a number given back", func(f *Facts) { f.Next[0].Next = 3 }, "next sequence_id", nil},
		{"a gap in the rows", func(f *Facts) { f.Rows[1].No = 3 }, "has number 3", nil},
		{"an illegal row", func(f *Facts) { f.Rows[1].State = payment.Cancelled }, "says CANCELLED after", nil},
		{"a claim without an answer", func(f *Facts) { f.Rows[1].Answers = nil }, "has 0 answers", nil},
		{"a claim answered twice", func(f *Facts) { f.Rows[8].Answers = new(1) }, "has 2 answers", nil},
		{"an answer to no claim", func(f *Facts) { f.Rows[1].Answers = new(2) }, "which is no claim", nil},
		{"a row changed", func(f *Facts) { f.Rows[0].Digest = "other" }, "has changed", nil},
		{"a row gone", func(f *Facts) { f.Snapshots[0]["o7 row 1"] = "x" }, "is gone", nil},
		{"parked without a letter", func(f *Facts) { delete(f.Letters, "o3") }, "is lost", func(v Verdict) int { return v.Lost }},
		{"still waiting", func(f *Facts) { delete(f.Letters, "o3"); f.Pending["o3"] = pendingRow{"o3", false} }, "still waits", nil},
		{"ended and waiting", func(f *Facts) { f.Pending["o1"] = pendingRow{"o1", false} }, "waits in pending still", nil},
		{"rows without a key", func(f *Facts) { f.Rows = append(f.Rows, attemptRow{OutboxID: "o9", No: 1, State: payment.Dispatching}) }, "no key", nil},
		{"a young claim taken", func(f *Facts) {
			f.Patience, f.Rows[3].Claimed, f.Rows[3].Created = 2*time.Second, new(time.Unix(0, 0)), time.Unix(1, 0)
		}, "takes a claim that is 1s old", nil},
		{"a claim in flight", func(f *Facts) { f.Claims = 1 }, "in flight", nil},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			f := valid()
			one.spoil(&f)
			v := Judge(f)
			if !strings.Contains(strings.Join(v.Broken, "\n"), one.says) {
				t.Errorf("found %q, want %q", v.Broken, one.says)
			}
			if one.count != nil && one.count(v) == 0 {
				t.Errorf("not counted: %+v", v)
			}
		})
	}
}

// TestJudgeWindows checks that what was acknowledged within a window may be gone, or
// enqueued as another instruction once the caller repeats it, and that what was
// acknowledged outside may not.
func TestJudgeWindows(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	windows := []Window{{From: at(10), To: at(20)}, {From: at(50), To: at(60)}}
	for _, one := range []struct {
		name               string
		receipts           []Entry
		in                 string // the outbox_id of the instruction; empty: it is not enqueued
		doubled, lost, out int
	}{
		{"within the first", []Entry{{OutboxID: "a", At: at(15)}}, "", 0, 0, 1},
		{"within the second", []Entry{{OutboxID: "a", At: at(60)}}, "", 0, 0, 1},
		{"between them", []Entry{{OutboxID: "a", At: at(30)}}, "", 0, 1, 0},
		{"repeated", []Entry{{OutboxID: "a", At: at(15)}, {OutboxID: "b", At: at(25)}}, "b", 0, 0, 0},
		{"repeated, and forgotten once more", []Entry{{OutboxID: "a", At: at(15)}, {OutboxID: "b", At: at(55)}}, "", 0, 0, 1},
		{"repeated, the first outside", []Entry{{OutboxID: "a", At: at(5)}, {OutboxID: "b", At: at(25)}}, "b", 1, 0, 0},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			f := Facts{Windows: windows, Journal: []Entry{{Kind: Attempt, InstructionID: "i"}}}
			for _, receipt := range one.receipts {
				receipt.Kind, receipt.InstructionID = Ack, "i"
				f.Journal = append(f.Journal, receipt)
			}
			if one.in != "" {
				f.Keys = []keyRow{{one.in, "i", "k", "p", 1}}
			}
			var v Verdict
			v.judgeCallers(f)
			if v.Doubled != one.doubled || v.Lost != one.lost || v.LostInWindow != one.out {
				t.Errorf("doubled %d, lost %d, within a window %d; want %d, %d, %d: %q",
					v.Doubled, v.Lost, v.LostInWindow, one.doubled, one.lost, one.out, v.Broken)
			}
		})
	}
}

// TestReportIsGoodOnlyIfTheFaultWasHit checks that a run is good only if a process met
// the fault, the archive holds nothing false, and the run had no error.
func TestReportIsGoodOnlyIfTheFaultWasHit(t *testing.T) {
	t.Parallel()
	if (Report{Injected: 1}).Good() {
		t.Error("a run without a hit is good")
	}
	if !(Report{Injected: 1, Hit: 1}).Good() {
		t.Error("a run with a hit is not")
	}
	if (Report{Hit: 1, Verdict: Verdict{FalseFailed: 1}}).Good() || (Report{Hit: 1, Error: "x"}).Good() {
		t.Error("a false word or an error is good")
	}
}

// TestUnclaimed checks that sends without a claim that is young enough are returned.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	at := func(seconds ...int) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, time.Unix(int64(s), 0))
		}
		return all
	}
	for _, one := range []struct{ claims, sends, left []time.Time }{
		{at(10, 30), at(11, 31), nil},
		{at(10, 30), at(31), nil},        // the first one was never sent
		{at(10, 30), at(31, 32), at(32)}, // the first one was sent late
		{at(10), at(15), at(15)},         // and here it was not claimed again
		{at(10, 30), at(29, 31), at(29)}, // or not yet
		{nil, at(1), at(1)},
	} {
		if left := unclaimed(one.claims, one.sends, 5*time.Second); !slices.Equal(left, one.left) {
			t.Errorf("claims %v, sends %v: %v are left, want %v", one.claims, one.sends, left, one.left)
		}
	}
}
