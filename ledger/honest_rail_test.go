package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/internal/test/twin"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
)

// promises are profiles of one rail, by what it keeps of a key.
var promises = []struct {
	profile         string
	policy          payment.Policy
	dedupes, covers bool
}{
	{`{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`, payment.Policy{IDAfterRefusal: payment.IDSame}, false, false},
	{`{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME", "inquiry": {"max": 5, "intervals": ["1s"], "not_found": "INCONCLUSIVE"}}`,
		payment.Policy{IDAfterRefusal: payment.IDSame,
			Inquiry: payment.InquiryPolicy{Max: 5, Intervals: []payment.Duration{payment.Duration(time.Second)},
				NotFound: payment.NotFoundInconclusive}}, false, false},
	{keepsKeys, payment.Policy{ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour), IDAfterRefusal: payment.IDSame}, true, false},
	{strings.Replace(keepsKeys, `"SAME"}`, `"NEW", "answer_covers_key": true}`, 1), coversKey, true, true},
}

// atRail is a send as the rail knows it, which the product does not.
type atRail struct {
	claim    payment.Claim
	policy   payment.Policy // of its claim
	promise  int
	flying   bool // it may arrive yet
	arrived  bool
	outcome  string // executed, final, now, repeated
	name     string // the rail's reference
	forgot   bool   // the rail has aged its key out
	answered bool
	lost     bool // the reaper has repaired its claim
}

// honest is one instruction, and a rail that keeps what the profile in force at a send promises.
type honest struct {
	*rapid.T
	d       *desk
	rec     *twin.Recorder
	id      payment.ID
	promise int
	names   bool // the rail gives references
	sends   []*atRail
	trace   []string
}

// TestHonestRail: whatever is told of sends, in whichever order, by workers, the reaper, reports
// and operators who know the truth, over changes of the profile and answers that something
// filters: what the rail executed, or may yet, is never called unpaid, nor what it did not
// execute paid, and nothing is executed twice.
func TestHonestRail(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	rapid.Check(t, func(rt *rapid.T) {
		h := &honest{T: rt, d: d, names: rapid.Bool().Draw(rt, "references"),
			promise: rapid.IntRange(0, len(promises)-1).Draw(rt, "profile")}
		h.rec = &twin.Recorder{Ledger: d.exec, Looker: d.super, Differs: func(x string) { rt.Fatalf("%s: %s", x, h) }}
		h.apply()
		h.id = d.enqueue()
		for range rapid.IntRange(6, 16).Draw(rt, "steps") {
			h.step(rapid.SampledFrom([]string{
				"claim", "claim", "claim", "arrive", "worker", "worker", "worker", "reaper", "report", "profile", "age", "expire",
				"cancel", "resolve", "replay",
			}).Draw(rt, "step"))
			h.check()
		}
	})
}

func (h *honest) String() string {
	return strings.Join(h.trace, "; ") + ": " + h.d.rows(h.id) + ", letter " + h.d.letter(h.id)
}

func (h *honest) note(format string, args ...any) {
	h.trace = append(h.trace, fmt.Sprintf(format, args...))
}

func (h *honest) apply() {
	h.d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, promises[h.promise].profile)
	h.note("profile %d", h.promise)
}

func (h *honest) executed() int {
	n := 0
	for _, s := range h.sends {
		if s.outcome == "executed" {
			n++
		}
	}
	return n
}

// flying reports whether some send may be executed yet.
func (h *honest) flying() bool {
	return slices.ContainsFunc(h.sends, func(s *atRail) bool {
		return s.flying &&
			h.keptFor(s, "executed", "final") == nil
	})
}

// keptFor is the send whose outcome, one of these, the rail keeps for the key of another one, as
// the profiles promise that both were made under; nil: there is none.
func (h *honest) keptFor(s *atRail, outcomes ...string) *atRail {
	for _, earlier := range h.sends {
		a, b := promises[earlier.promise], promises[s.promise]
		kept := a.dedupes && b.dedupes && (earlier.outcome == "executed" || a.covers && b.covers)
		if earlier != s && kept && !earlier.forgot && slices.Contains(outcomes, earlier.outcome) {
			return earlier
		}
	}
	return nil
}

func (h *honest) step(what string) {
	switch what {
	case "claim":
		h.claim()
	case "arrive":
		if s := h.pick(func(s *atRail) bool { return s.flying }); s != nil {
			h.arrive(s)
		}
	case "worker":
		if s := h.pick(func(s *atRail) bool { return !s.answered }); s != nil {
			h.answer(s)
		}
	case "reaper":
		if s := h.pick(func(s *atRail) bool { return !s.answered && !s.lost }); s != nil {
			s.lost = true
			h.tell("the reaper", lost(s.policy, s.claim))
		}
	case "report":
		if s := h.pick(func(s *atRail) bool { return s.arrived && s.outcome != "repeated" }); s != nil {
			result := payment.ResultRefused
			if s.outcome == "executed" {
				result = payment.ResultExecuted
			}
			h.late("a report", callback(h.id, result, s.name))
		}
	case "profile":
		h.promise = rapid.IntRange(0, len(promises)-1).Draw(h.T, "profile")
		h.apply()
	case "age":
		h.age()
	case "expire":
		h.d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(h.id))
		ended, err := h.d.exec.Expire(h.d.t.Context(), "reaper", 10)
		h.d.must(err)
		h.note("expired %d", len(ended))
	default:
		h.operate(what)
	}
}

// pick draws one of the sends that are like this; nil: there is none.
func (h *honest) pick(like func(*atRail) bool) *atRail {
	var all []*atRail
	for _, s := range h.sends {
		if like(s) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(h.T, "send")]
}

func (h *honest) claim() {
	h.d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = CASE outbox_id WHEN $1 THEN '2000-01-01'
		ELSE 'infinity' END::timestamptz`, [16]byte(h.id))
	free := lane("bank", 1, 1)
	free.ProfileVersion = h.d.Int(`SELECT profile_version FROM railhead.payment_rails WHERE rail_type = 'bank'`)
	c, ok := h.d.claim(free)[h.id]
	if !ok {
		return
	}
	policy := promises[h.promise].policy.WithDefaults()
	switch {
	case c.Action == payment.ActionInquire:
		h.note("claim %d asks", c.AttemptNo)
		h.inquire(c, policy)
	case !policy.MaySend(c, 0):
		h.note("claim %d may not send", c.AttemptNo)
		h.tell("the worker", told(policy, c, payment.ResultWindowClosed, ""))
	default:
		h.note("claim %d sends", c.AttemptNo)
		h.sends = append(h.sends, &atRail{claim: c, policy: policy, promise: h.promise, flying: true})
	}
}

// arrive is the rail's work on a send: what it keeps of the sends before decides, as the profiles
// promised that they were made under.
func (h *honest) arrive(s *atRail) {
	s.flying, s.arrived = false, true
	if kept := h.keptFor(s, "executed"); kept != nil {
		s.outcome, s.name = "repeated", kept.name
	} else if kept := h.keptFor(s, "final"); kept != nil {
		s.outcome, s.name = "final", kept.name
	}
	if s.outcome == "" {
		s.outcome = rapid.SampledFrom([]string{"executed", "executed", "final", "now"}).Draw(h.T, "the rail")
		if h.names {
			s.name = fmt.Sprintf("%s-%d", h.id, s.claim.AttemptNo)
		}
		if s.outcome == "now" && promises[s.promise].covers {
			s.outcome = "final"
		}
	}
	h.note("claim %d is %s", s.claim.AttemptNo, s.outcome)
}

// answer is what the worker of a send tells of it.
func (h *honest) answer(s *atRail) {
	s.answered = true
	fate := rapid.SampledFrom([]string{"silence", "not sent", "answer", "answer", "answer", "filter"}).Draw(h.T, "answer")
	if fate == "not sent" && !s.flying {
		fate = "silence"
	}
	if (fate == "answer" || fate == "filter") && s.flying {
		h.arrive(s)
	}
	result, seen := payment.ResultUnknown, false
	switch {
	case fate == "not sent":
		s.flying = false
		result = rapid.SampledFrom([]payment.Result{payment.ResultNotSent, payment.ResultRefusedLater}).Draw(h.T, "not sent")
	case fate == "filter":
		result = s.policy.Proven(payment.Claim{Action: payment.ActionSend}, payment.ResultRefusedRail, true)
	case fate == "silence" || !s.arrived:
	case s.outcome == "executed":
		result = payment.ResultAccepted
	case s.outcome == "final":
		result = payment.ResultRefusedFinal
	case s.outcome == "now":
		result = payment.ResultRefusedTransient
	case rapid.Bool().Draw(h.T, "says that it repeats"): // the first answer, or one that may speak of the repetition
		result = codes.FirstOnly.Result(codes.Context{SendNo: s.claim.SendNo()})
		seen = true
	default:
		result = payment.ResultAccepted
	}
	o := told(s.policy, s.claim, result, "")
	if fate == "answer" {
		o = told(s.policy, s.claim, result, s.name)
	}
	if seen {
		d := s.policy.Decide(s.claim, payment.Answer{Result: result, SeenBefore: result == payment.ResultUnknown,
			Elapsed: time.Second})
		o = outcome(s.claim, d, result, s.name)
	}
	h.tell("the worker", o)
}

// inquire is answered at once, about some send that has arrived.
func (h *honest) inquire(c payment.Claim, policy payment.Policy) {
	result, name := payment.ResultNotFound, ""
	if s := h.pick(func(s *atRail) bool { return s.arrived && s.outcome != "repeated" && !s.forgot }); s != nil {
		result, name = payment.ResultRefused, s.name
		if s.outcome == "executed" {
			result = payment.ResultExecuted
		}
	}
	h.tell("an inquiry", told(policy, c, result, name))
}

// age lets a day go by, after which the rail knows no key of before, and nothing is in flight.
func (h *honest) age() {
	h.d.do(`UPDATE railhead.payment_outbox_pending SET first_sent_at = first_sent_at - interval '25 hours', last_sent_at = last_sent_at - interval '25 hours'
		WHERE outbox_id = $1`, [16]byte(h.id))
	if h.d.waiting(h.id) == "" {
		return // its times are those of rows, which do not change
	}
	for _, s := range h.sends {
		s.forgot, s.flying = true, false
	}
	h.note("a day goes by")
}

// operate is an operator who knows the truth.
func (h *honest) operate(act string) {
	ctx, o := h.d.t.Context(), h.d.operator()
	unpaid := h.executed() == 0 && !h.flying()
	var err error
	switch {
	case act == "cancel":
		_, err = o.CancelPayment(ctx, h.id, why)
	case act == "resolve" && h.executed() > 0:
		_, err = o.ResolvePayment(ctx, h.id, stated("statement-"+h.id.String()))
	case act == "resolve" && unpaid:
		_, err = o.ResolvePayment(ctx, h.id, notExecuted())
	case act == "replay" && unpaid:
		_, err = o.ReplayPayment(ctx, h.id, time.Time{}, why)
	default:
		return
	}
	h.note("%s: %v", act, err == nil)
}

func (h *honest) tell(who string, o payment.Outcome) {
	result, err := h.d.exec.Turn(h.d.t.Context(),
		outbox.Turn{Outcomes: []payment.Outcome{o}, Finished: []payment.ID{o.Claim.ClaimID}})
	h.d.must(err)
	h.note("%s of claim %d says %s", who, o.Claim.AttemptNo, o.Result)
	if len(result.Late) > 0 {
		h.late("late", o)
	}
}

func (h *honest) late(who string, o payment.Outcome) {
	verdict, err := h.rec.RecordLate(h.d.t.Context(), o)
	h.d.must(err)
	h.note("%s: %s is %s", who, o.Result, verdict)
}

func (h *honest) check() {
	state := h.d.text(`SELECT coalesce((SELECT state::text FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 AND state <> 'LATE_OUTCOME' ORDER BY attempt_no DESC LIMIT 1), '')`, [16]byte(h.id))
	letter := h.d.letter(h.id)
	conflict := strings.HasPrefix(letter, "CONFLICT") && !strings.HasSuffix(letter, "resolved")
	unpaid := payment.State(state).EndsUnpaid()
	switch {
	case h.executed() > 1:
		h.Fatalf("executed %d times: %s", h.executed(), h)
	case unpaid && !conflict && (h.executed() > 0 || h.flying()):
		h.Fatalf("%s, and it was executed %v, or may be: %s", state, h.executed() > 0, h)
	case state == string(payment.Dispatched) && !conflict && h.executed() == 0:
		h.Fatalf("DISPATCHED, and not executed: %s", h)
	}
}
