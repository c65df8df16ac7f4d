package payment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

var claimedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// lateRows reads a history: states, with the claim that each answers, its result, and
// "?" where some send has no answer as of it.
func lateRows(t *testing.T, text string) []payment.Row {
	t.Helper()
	var rows []payment.Row
	for word := range strings.FieldsSeq(text) {
		row := payment.Row{AttemptID: payment.NewID(), No: len(rows) + 1}
		word, row.OutcomeUnknown = strings.CutSuffix(word, "?")
		state, rest, _ := strings.Cut(strings.TrimSuffix(word, ")"), "(")
		answers, result, _ := strings.Cut(rest, ":")
		result, row.ErrorCode, _ = strings.Cut(result, "/")
		if answers != "" {
			if _, err := fmt.Sscan(answers, &row.Answers); err != nil {
				t.Fatal(err)
			}
		}
		row.State, row.Result = payment.State(state), payment.Result(result)
		if row.State.IsClaim() || row.Answers > 0 {
			row.ClaimedAt = claimedAt
		}
		rows = append(rows, row)
	}
	return rows
}

func wordsOf(rows []payment.Row) string {
	var all []string
	for _, r := range rows {
		word := fmt.Sprintf("%s(%d:%s)", r.State, r.Answers, r.Result)
		if r.OutcomeUnknown {
			word += "?"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// TestLate is the truth table of the slow path. The answers are to claim 1, where no
// other is named; 0 is a report of the rail itself, and 9 a claim that a restore forgot.
func TestLate(t *testing.T) {
	t.Parallel()
	const (
		sent    = "DISPATCHING"
		silent  = "DISPATCHING UNKNOWN(1:UNKNOWN)?"
		again   = silent + " DISPATCHING"
		parked  = silent + " PARKED?"
		refused = "DISPATCHING FAILED(1:REFUSED_FINAL)"
		done    = "DISPATCHING DISPATCHED(1:ACCEPTED)"
	)
	for _, test := range []struct {
		rows, waits string // waits: "" nothing stands in pending; else the action, with "?" where it is unknown
		claim       int
		result      payment.Result
		verdict     payment.Verdict
		appended    string
		left        string // in pending
		letter      payment.DeadReason
	}{
		{sent, "", 1, payment.ResultAccepted, "IN", "DISPATCHED(1:ACCEPTED)", "", ""},
		{sent, "", 1, payment.ResultRefusedFinal, "IN", "FAILED(1:REFUSED_FINAL)", "", "FAILED"},
		{sent, "", 0, payment.ResultExecuted, "IN", "DISPATCHED(1:EXECUTED)", "", ""},
		{sent, "", 0, payment.ResultRefused, "IN", "FAILED(1:REFUSED)", "", "FAILED"},
		{sent, "", 9, payment.ResultUnknown, "LATE", "LATE_OUTCOME(0:UNKNOWN)?", "", ""},
		{sent + " LATE_OUTCOME(0:UNKNOWN)?", "", 1, payment.ResultRefusedFinal, "IN", "PARKED(1:REFUSED_FINAL)?", "", "OUTCOME_UNKNOWN"},
		{sent + " LATE_OUTCOME(0:EXECUTED)", "", 1, payment.ResultUnknown, "SETTLED", "LATE_OUTCOME(1:UNKNOWN) DISPATCHED(1:EXECUTED)", "", ""},
		{sent + " LATE_OUTCOME(0:EXECUTED)", "", 1, payment.ResultRefusedFinal, "CONFLICT", "LATE_OUTCOME(1:REFUSED_FINAL) DISPATCHED(1:EXECUTED)", "", "CONFLICT"},
		{silent, "SEND?", 1, payment.ResultAccepted, "SETTLED", "LATE_OUTCOME(1:EXECUTED)? DISPATCHED(1:EXECUTED)", "", ""},
		{silent, "SEND?", 1, payment.ResultRefusedFinal, "SETTLED", "LATE_OUTCOME(1:REFUSED_FINAL)? FAILED(1:REFUSED_FINAL)", "", "FAILED"},
		{silent, "SEND?", 9, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(0:REFUSED_FINAL)?", "SEND?", ""},
		{silent, "SEND?", 0, payment.ResultRefused, "SETTLED", "LATE_OUTCOME(0:REFUSED)? FAILED(0:REFUSED)", "", "FAILED"},
		{again, "", 1, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(1:REFUSED_FINAL)", "", ""},
		{"", "SEND", 9, payment.ResultUnknown, "LATE", "LATE_OUTCOME(0:UNKNOWN)?", "SEND?", ""},
		{"LATE_OUTCOME(0:UNKNOWN)?", "SEND?", 9, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(0:REFUSED_FINAL)", "SEND?", ""},
		{"", "SEND", 9, payment.ResultRefusedFinal, "SETTLED", "LATE_OUTCOME(0:REFUSED_FINAL) FAILED(0:REFUSED_FINAL)", "", "FAILED"},
		{parked, "", 1, payment.ResultAccepted, "SETTLED", "LATE_OUTCOME(1:EXECUTED)? DISPATCHED(1:EXECUTED)", "", ""},
		{"DISPATCHING PARKED(1:TAMPERED) LATE_OUTCOME(0:UNKNOWN)?", "", 9, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(0:REFUSED_FINAL)", "", ""},
		{refused, "", 1, payment.ResultRefusedFinal, "REPEATED", "", "", ""},
		// The event of a report is kept, once.
		{refused, "", 0, payment.ResultRefused, "LATE", "LATE_OUTCOME(0:REFUSED)", "", ""},
		{refused + " LATE_OUTCOME(0:REFUSED)", "", 0, payment.ResultRefused, "REPEATED", "", "", ""},
		// What is reported after a send may be of that send, and an end of ours is not the
		// rail's word.
		{again + " UNKNOWN(3:UNKNOWN)? PARKED? LATE_OUTCOME(0:REFUSED)?", "", 0, payment.ResultRefused, "REPEATED", "", "", ""},
		{silent + " LATE_OUTCOME(0:REFUSED)? DISPATCHING UNKNOWN(4:UNKNOWN)? PARKED?", "", 0, payment.ResultRefused, "LATE", "LATE_OUTCOME(0:REFUSED)?", "", ""},
		{silent + " FAILED(0:REFUSED/RESOLVED)", "", 1, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(1:REFUSED_FINAL)", "", ""},
		{silent + " FAILED(0:/EXPIRED)", "", 1, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(1:REFUSED_FINAL)", "", ""},
		{silent + " DISPATCHED(0:EXECUTED/RESOLVED)", "", 0, payment.ResultExecuted, "LATE", "LATE_OUTCOME(0:EXECUTED)", "", ""},
		// One of two sends was refused, and the other executed.
		{again + " LATE_OUTCOME(1:EXECUTED)? DISPATCHED(3:EXECUTED)", "", 3, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(3:REFUSED_FINAL)", "", ""},
		{silent + " DISPATCHED(0:EXECUTED)", "", 9, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(0:REFUSED_FINAL)", "", ""},
		// The rail called it in progress since.
		{silent + " INQUIRING UNKNOWN(3:IN_PROGRESS)?", "INQUIRE?", 1, payment.ResultRefusedFinal, "LATE", "LATE_OUTCOME(1:REFUSED_FINAL)?", "INQUIRE?", ""},
		{refused, "", 0, payment.ResultExecuted, "CONFLICT", "LATE_OUTCOME(0:EXECUTED)", "", "CONFLICT"},
		{refused, "", 9, payment.ResultUnknown, "CONFLICT", "LATE_OUTCOME(0:UNKNOWN)?", "", "CONFLICT"},
		{done, "", 0, payment.ResultExecuted, "REPEATED", "", "", ""},
		{done, "", 0, payment.ResultRefused, "CONFLICT", "LATE_OUTCOME(0:REFUSED)", "", "CONFLICT"},
		{done, "", 9, payment.ResultUnknown, "LATE", "LATE_OUTCOME(0:UNKNOWN)?", "", ""},
		{again + " LATE_OUTCOME(1:REFUSED_TRANSIENT/NEW_ID_NEEDED)?", "", 3, payment.ResultNotSent, "IN", "RETRYABLE(3:NOT_SENT)? PARKED(0:)?", "", "OUTCOME_UNKNOWN"},
		{again + " LATE_OUTCOME(1:REFUSED_BUSINESS/BUSINESS_REFUSED)?", "", 3, payment.ResultUnknown, "IN", "UNKNOWN(3:UNKNOWN)? PARKED(0:)?", "", "OUTCOME_UNKNOWN"},
		{again + " LATE_OUTCOME(1:REFUSED_TRANSIENT/NEW_ID_NEEDED)?", "", 3, payment.ResultAccepted, "IN", "DISPATCHED(3:ACCEPTED)", "", ""},
		{again + " LATE_OUTCOME(1:REFUSED_TRANSIENT)?", "", 3, payment.ResultNotSent, "IN", "RETRYABLE(3:NOT_SENT)?", "SEND?", ""},
		{silent, "SEND (older)", 0, payment.ResultExecuted, "SETTLED", "LATE_OUTCOME(0:EXECUTED)? DISPATCHED(0:EXECUTED)", "", ""},
	} {
		rows := lateRows(t, test.rows)
		h := payment.History{Rows: rows, Settled: true}
		if action, ok := strings.CutSuffix(test.waits, " (older)"); test.waits != "" {
			action, unknown := strings.CutSuffix(action, "?")
			h.Waiting = &payment.Waiting{AttemptCount: len(rows), NextAction: payment.Action(action), OutcomeUnknown: unknown}
			if ok {
				h.Waiting.AttemptCount--
			}
		}
		claim := payment.Claim{AttemptNo: test.claim, Action: payment.ActionSend, ClaimedAt: claimedAt}
		if test.claim == 0 {
			claim.ClaimedAt = time.Time{}
		}
		if test.claim == 3 {
			claim.OutcomeUnknown, claim.SendCount, claim.FirstSentAt = true, 1, claimedAt
		}
		o := payment.Outcome{AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: test.result}
		switch policy := (payment.Policy{ResendOnUnknown: payment.ResendSameKey,
			KeyWindow: payment.Duration(24 * time.Hour)}).WithDefaults(); {
		case test.claim > 0:
			o.Decision = policy.Decide(claim, payment.Answer{Result: test.result, Elapsed: time.Second})
		case test.result == payment.ResultExecuted:
			o.Decision = payment.Decision{State: payment.Dispatched}
		default:
			o.Decision = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
		}
		name := fmt.Sprintf("%s of claim %d, after %q, waiting %q", test.result, test.claim, test.rows, test.waits)
		got := h.Late(o)
		left := ""
		if got.Waiting != nil {
			left = string(got.Waiting.NextAction)
			if got.Waiting.OutcomeUnknown {
				left += "?"
			}
		}
		if got.Verdict != test.verdict || wordsOf(got.Append) != test.appended || left != test.left ||
			got.Opens != test.letter {
			t.Errorf("%s: %s, appends %q, leaves %q, opens %q; want %s, %q, %q, %q",
				name, got.Verdict, wordsOf(got.Append), left, got.Opens, test.verdict, test.appended, test.left, test.letter)
		}
		// The same outcome once more is the same row.
		h.Rows = append(slices.Clone(rows), got.Append...)
		if len(got.Append) > 0 && slices.ContainsFunc(got.Append,
			func(r payment.Row) bool { return r.AttemptID == o.AttemptID }) {
			if again := h.Late(o); again.Verdict != payment.VerdictMine || len(again.Append) != 0 {
				t.Errorf("%s, once more: %s, appends %q", name, again.Verdict, wordsOf(again.Append))
			}
		}
	}
}

// TestRefusalOfThePayment: "refused" ends a payment where it covers each of its
// sends: those that are known, and those that a restore may have forgotten.
func TestRefusalOfThePayment(t *testing.T) {
	t.Parallel()
	const (
		one    = "DISPATCHING UNKNOWN(1:UNKNOWN)? INQUIRING"
		two    = "DISPATCHING UNKNOWN(1:UNKNOWN)? DISPATCHING UNKNOWN(3:UNKNOWN)? INQUIRING"
		notNow = "DISPATCHING RETRYABLE(1:REFUSED_TRANSIENT) DISPATCHING UNKNOWN(3:UNKNOWN)? INQUIRING"
	)
	for _, test := range []struct {
		rows                        string
		covers, forgotten, reported bool
		want                        bool
	}{
		{one, false, false, false, true},
		{one, false, false, true, true},
		{one, false, true, false, false},
		{one, false, true, true, false},
		{one, true, true, false, true},
		{one, true, true, true, false}, // it may be of a send that was refused for now, and is forgotten
		{two, false, false, false, false},
		{two, true, false, false, true},
		{two, true, true, false, true},
		{two, true, false, true, true},
		{two, true, true, true, false},
		{notNow, true, false, false, true},
		{notNow, true, false, true, false},
	} {
		rows := lateRows(t, test.rows)
		h := payment.History{Rows: rows, Settled: true, CoversKey: test.covers, MaybeForgotten: test.forgotten}
		o := payment.Outcome{AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Result: payment.ResultRefused}
		o.Decision = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
		if !test.reported {
			o.Claim = payment.Claim{AttemptNo: len(rows), Action: payment.ActionInquire, ClaimedAt: claimedAt,
				OutcomeUnknown: true}
		}
		got := h.Late(o)
		ends := len(got.Append) > 0 && got.Append[len(got.Append)-1].State == payment.Failed
		if ends != test.want {
			t.Errorf("covers %t, forgotten %t, reported %t, after %q: appends %q", test.covers, test.forgotten, test.reported,
				test.rows, wordsOf(got.Append))
		}
	}
}

// TestLateUnderARefusedReference: what the rail executes under the reference that it has
// refused since the last send opens a CONFLICT, in addition to the end that it makes.
func TestLateUnderARefusedReference(t *testing.T) {
	t.Parallel()
	const (
		silent = "DISPATCHING UNKNOWN(1:UNKNOWN)? "
		asked  = silent + "INQUIRING UNKNOWN(3:REFUSED)? "
	)
	for _, test := range []struct {
		rows, reference string
		want            payment.Verdict
	}{
		{silent + "PARKED? LATE_OUTCOME(0:REFUSED)?", "R", payment.VerdictConflict},
		{silent + "PARKED? LATE_OUTCOME(0:REFUSED)?", "S", payment.VerdictSettled},
		{silent + "PARKED? LATE_OUTCOME(0:REFUSED)?", "", payment.VerdictSettled},
		{silent + "PARKED? FAILED(0:REFUSED/RESOLVED) REPLAYED", "R", payment.VerdictSettled}, // an operator's word
		{asked + "INQUIRING", "R", payment.VerdictConflict},
		{asked + "INQUIRING", "S", payment.VerdictIn},
		{asked + "DISPATCHING", "R", payment.VerdictIn}, // it was sent again
		{asked + "DISPATCHING RETRYABLE(5:NOT_SENT)?", "R", payment.VerdictConflict},
		{asked + "DISPATCHING UNKNOWN(5:UNKNOWN)?", "R", payment.VerdictSettled},
		{"DISPATCHING FAILED(1:REFUSED_FINAL) REPLAYED", "R", payment.VerdictConflict},
	} {
		h := payment.History{Rows: lateRows(t, test.rows), Settled: true}
		for n := range h.Rows {
			if h.Rows[n].Result.Refuses() {
				h.Rows[n].Reference = "R"
			}
		}
		o := payment.Outcome{
			AttemptID: payment.NewID(), Result: payment.ResultExecuted, RailReference: test.reference,
			Decision: payment.Decision{State: payment.Dispatched},
		}
		got := h.Late(o)
		last := got.Append[len(got.Append)-1]
		if got.Verdict != test.want || last.State != payment.Dispatched ||
			(got.Opens == payment.DeadConflict) != (test.want == payment.VerdictConflict) {
			t.Errorf("executed as %q after %q: %s, appends %q, opens %q; want %s", test.reference, test.rows, got.Verdict,
				wordsOf(got.Append), got.Opens, test.want)
		}
	}

	// What the answer to the open claim says itself: that it is no send, or a refusal.
	for _, test := range []struct {
		rows   string
		result payment.Result
	}{
		{asked + "DISPATCHING LATE_OUTCOME(1:EXECUTED)?", payment.ResultNotSent},
		{silent + "DISPATCHING LATE_OUTCOME(1:EXECUTED)?", payment.ResultRefusedFinal},
	} {
		h := payment.History{Rows: lateRows(t, test.rows), Settled: true}
		for n := range h.Rows {
			if r := &h.Rows[n]; r.Result.Refuses() || r.Result == payment.ResultExecuted {
				r.Reference = "R"
			}
		}
		claim := payment.Claim{AttemptNo: len(h.Rows) - 1, Action: payment.ActionSend, ClaimedAt: claimedAt,
			OutcomeUnknown: true, SendCount: 1}
		o := payment.Outcome{AttemptID: payment.NewID(), Claim: claim, Result: test.result}
		if test.result.Refuses() {
			o.RailReference = "R"
		}
		o.Decision = payment.Policy{}.WithDefaults().Decide(claim, payment.Answer{Result: test.result, Elapsed: time.Second})
		if got := h.Late(o); got.Verdict != payment.VerdictConflict {
			t.Errorf("%s after %q: %s, appends %q", test.result, test.rows, got.Verdict, wordsOf(got.Append))
		}
	}
}

// TestInProgressLate: "in progress" that comes late contradicts an end that the rail did
// not tell of the whole payment, and makes what waits unknown.
func TestInProgressLate(t *testing.T) {
	t.Parallel()
	const asked = "DISPATCHING UNKNOWN(1:UNKNOWN)? INQUIRING ZOMBIE_REQUEUE(3)? PARKED? "
	for _, test := range []struct {
		rows, waits string
		forgotten   bool
		want        payment.Verdict
	}{
		{asked + "FAILED(0:REFUSED/RESOLVED)", "", false, payment.VerdictConflict},
		{asked + "FAILED(0:REFUSED)", "", false, payment.VerdictLate},
		{asked + "FAILED(0:REFUSED)", "", true, payment.VerdictConflict},
		{"DISPATCHING UNKNOWN(1:UNKNOWN)? INQUIRING RETRYABLE(3:NOT_FOUND)", "SEND", true, payment.VerdictLate},
		{"", "SEND", true, payment.VerdictLate},
	} {
		h := payment.History{Rows: lateRows(t, test.rows), Settled: true}
		if test.waits != "" {
			h.Waiting = &payment.Waiting{AttemptCount: len(h.Rows), NextAction: payment.Action(test.waits)}
		}
		claim := payment.Claim{AttemptNo: 3, Action: payment.ActionInquire, ClaimedAt: claimedAt, OutcomeUnknown: true,
			SendCount: 1}
		if test.forgotten {
			claim.AttemptNo = 9
		}
		o := payment.Outcome{AttemptID: payment.NewID(), Claim: claim, Result: payment.ResultInProgress}
		o.Decision = payment.Policy{}.WithDefaults().Decide(claim, payment.Answer{Result: o.Result, Elapsed: time.Second})
		got := h.Late(o)
		if got.Verdict != test.want {
			t.Errorf("after %q: %s, want %s", test.rows, got.Verdict, test.want)
		}
		if w := got.Waiting; test.waits != "" && (w == nil || !w.OutcomeUnknown || w.NextAction != payment.ActionInquire) {
			t.Errorf("after %q it waits %+v", test.rows, w)
		}
	}
}
