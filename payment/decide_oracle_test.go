package payment_test

import (
	"cmp"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// situation is one cell of the truth table of decisions: a rail, what is known
// about the instruction at the claim, and the word that came back.
type situation struct {
	acceptance payment.Acceptance
	resend     payment.Resend
	window     time.Duration // 0: not known
	asks       payment.NotFound
	callback   time.Duration // 0: the rail makes none
	covers     bool
	again      bool // the rail takes a key that it has refused

	action      payment.Action
	unknown     bool
	provisional bool
	restored    restored
	seen        bool // the rail answered an earlier send, or this one, by saying that it has the key
	expires     expiry
	lastSend    bool // this send reaches the ceiling, or has been reached before an inquiry
	lastAsk     bool // this inquiry reaches the ceiling, or it has been reached before a send
	age         age
	worn        bool // the rail has refused it, or was too busy for it, as long as is borne
	word        payment.Result
	asked       bool // an operator requested this one inquiry about a parked instruction
}

// age is what the claim says about its first and its latest earlier send; zero
// is a time that is not known.
type age struct{ first, last time.Duration }

// restored is what suspensions add about sends without a row.
type restored int

const (
	untouched restored = iota
	maybeSent          // an operator has compared; the caller may have repeated a call that was forgotten
	longAgo            // the same, and what was forgotten is older than any key window
	halfOver           // the same, and what was sent since was sent inside that window or after it
	doubted            // no operator has compared yet
)

// expiry is when the instruction's time is over.
type expiry int

const (
	never          expiry = iota
	overAlready           // before the answer
	overBeforeNext        // after it, and before anything could be sent again
)

// What the rails of the table have in common.
const (
	tableSends       = 3
	tableBusiness    = 1 // sends that may be refused for funds and followed by another
	tableInquiries   = 4
	tableNotFoundAge = 10 * time.Minute
	tableNotFoundEnd = 3 * time.Hour // a first send older than that is aged out
	tableElapsed     = 2 * time.Second
	tableRefusals    = 5
)

func (s situation) policy() payment.Policy {
	p := payment.Policy{
		Acceptance: s.acceptance, AnswerCoversKey: s.covers, IDAfterRefusal: payment.IDNew,
		ResendOnUnknown: s.resend, KeyWindow: span(s.window), CallbackDeadline: span(s.callback),
		Retry: payment.RetryPolicy{MaxSends: tableSends, Jitter: new(0.0)},
	}
	if s.again {
		p.IDAfterRefusal = payment.IDSame
		p.BusinessRetry = payment.BusinessRetry{Max: tableBusiness, Wait: span(time.Minute)}
	}
	if s.asks != "" {
		p.Inquiry = payment.InquiryPolicy{Max: tableInquiries, NotFound: s.asks, NotFoundAge: span(tableNotFoundAge),
			NotFoundUntil: span(tableNotFoundEnd)}
	}
	return p.WithDefaults()
}

func (s situation) claim() payment.Claim {
	c := payment.Claim{
		Action: s.action, AttemptNo: 1, ClaimedAt: noon,
		OutcomeUnknown: s.unknown, Provisional: s.provisional,
		SendCount: s.sendsBefore(), InquiryCount: 1,
		MaybeSent: s.restored != untouched, Doubted: s.restored == doubted,
	}
	c.SeenBefore, c.Asked = s.seen && s.asking(), s.asked
	forgotten := map[restored]time.Duration{longAgo: 48 * time.Hour, halfOver: 70 * time.Minute}
	c.ForgottenSince = noon.Add(-cmp.Or(forgotten[s.restored], 5*time.Minute))
	c.Gaps = []payment.Gap{{Since: c.ForgottenSince, Until: c.ForgottenSince.Add(time.Minute)}}
	if c.BusySince = noon.Add(-23 * time.Hour); s.worn {
		c.BusySince, c.RailRefusals = noon.Add(tableElapsed-24*time.Hour), tableRefusals-1
	}
	switch s.expires {
	case overAlready:
		c.ExpiresAt = noon.Add(tableElapsed)
	case overBeforeNext:
		c.ExpiresAt = noon.Add(tableElapsed + time.Millisecond)
	}
	if s.age.first > 0 {
		c.FirstSentAt, c.LastSentAt = noon.Add(-s.age.first), noon.Add(-s.age.last)
	}
	if s.lastAsk {
		c.InquiryCount = tableInquiries
		if s.asking() {
			c.InquiryCount--
		}
	}
	return c
}

func (s situation) asking() bool { return s.action == payment.ActionInquire }

// accepted: an operator has compared, and a call may repeat one that was forgotten.
func (s situation) accepted() bool {
	return s.restored == maybeSent || s.restored == longAgo || s.restored == halfOver
}

// coversKey: "one outcome a key" is said of a key that the rail has not forgotten.
func (s situation) coversKey() bool {
	known := s.resend == payment.ResendSameKey && s.window > 0 && s.restored != longAgo
	return s.covers && (s.restored == untouched || known)
}

func (s situation) sendsBefore() int {
	switch {
	case s.lastSend && s.asking():
		return tableSends
	case s.lastSend:
		return tableSends - 1
	case s.unknown:
		return 1
	default:
		return 0
	}
}

// verdict is what must follow by the design.
type verdict struct {
	state                payment.State
	code                 string
	park                 bool
	reason               payment.DeadReason
	next                 payment.Action // empty: it is not requeued
	unknown, provisional bool
	sent, asked          bool
}

func (v verdict) pending(state payment.State, code string, next payment.Action) verdict {
	v.state, v.code, v.next = state, code, next
	return v
}

// "While it is set, whatever would write FAILED writes PARKED."
func (v verdict) failed(code string) verdict {
	v.state, v.code, v.reason = payment.Failed, code, payment.DeadFailed
	if v.unknown {
		v.state, v.reason = payment.Parked, payment.DeadOutcomeUnknown
	}
	return v
}

// "Else also PARKED -> dead letter (OUTCOME_UNKNOWN)."
func (v verdict) parked(state payment.State, code string) verdict {
	v.state, v.code, v.park, v.reason = state, code, true, payment.DeadOutcomeUnknown
	return v
}

// expected returns what must follow, from the design alone. It is written in the
// order of the design's sentences, not of the code.
func (s situation) expected() verdict {
	v := verdict{unknown: s.unknown, provisional: s.provisional}
	if s.asked {
		return s.askedOnce(v)
	}
	switch s.word {
	case payment.ResultNotSent, payment.ResultRefusedRail, payment.ResultRefusedLater:
		// Counts no send, keeps its next action; but no re-send is promised that
		// the profile does not allow.
		code := map[payment.Result]string{
			payment.ResultNotSent: "NOT_SENT", payment.ResultRefusedRail: "RAIL_REFUSED",
			payment.ResultRefusedLater: "RAIL_BUSY",
		}[s.word]
		switch {
		case s.worn && s.word == payment.ResultRefusedRail:
			return s.givenUp(v, "RAIL_REFUSED_ONE")
		case s.worn && s.word == payment.ResultRefusedLater && (s.expires == never || s.asking()):
			return s.givenUp(v, "RAIL_BUSY")
		case s.asking() || !s.unknown:
		case s.expires != never:
			v.state, v.code, v.reason = payment.Parked, "EXPIRED", payment.DeadOutcomeUnknown
			return v
		case !s.insideWindow():
			v.state, v.code, v.reason = payment.Parked, "KEY_WINDOW_CLOSED", payment.DeadOutcomeUnknown
			return v
		}
		return v.pending(payment.Retryable, code, s.action)
	}
	// A send that a restore may have forgotten has no answer.
	v.unknown = v.unknown || s.restored == doubted
	if !s.asking() {
		switch s.word {
		case payment.ResultCheckFailed:
			return s.givenUp(v, "CHECK_FAILED")
		case payment.ResultRenderChanged:
			return s.givenUp(v, "RENDER_CHANGED")
		case payment.ResultWindowClosed:
			v.state, v.code, v.reason = payment.Parked, "KEY_WINDOW_CLOSED", payment.DeadOutcomeUnknown
			if s.unknown && s.expires == overAlready {
				v.code = "EXPIRED"
			}
			return v
		case payment.ResultTampered:
			v.state, v.code, v.reason = payment.Parked, "TAMPERED", payment.DeadTampered
			return v
		}
	}
	v.asked, v.sent = s.asking(), !s.asking()
	switch s.proof() {
	case "executed":
		v.state, v.unknown, v.provisional = payment.Dispatched, false, false
		return v
	case "refused for good":
		// A send that a restore may have forgotten is not the one that was refused.
		v.unknown = v.unknown || !s.asking() && s.accepted()
		return s.settled(v).failed("")
	case "refused for funds":
		// Sent again by the rule for it alone, where the rail takes the key.
		v.unknown = v.unknown || s.accepted()
		if !s.again || s.lastSend || s.sendsBefore() >= tableBusiness {
			return v.failed("BUSINESS_REFUSED")
		}
		if v.unknown {
			return s.inDoubt(v, payment.Retryable)
		}
		return v.pending(payment.Retryable, "", payment.ActionSend)
	case "refused for now":
		// It covers its own send alone: rails refuse for load before they look
		// the key up. Only a rail that takes a refused key again is sent it again.
		v.unknown = v.unknown || s.accepted()
		switch {
		case !s.again:
			return v.failed("NEW_ID_NEEDED")
		case s.lastSend:
			return v.failed("RETRIES_EXHAUSTED")
		case v.unknown:
			return s.inDoubt(v, payment.Retryable)
		default:
			return v.pending(payment.Retryable, "", payment.ActionSend)
		}
	case "not executed":
		return s.notExecuted(v)
	case "taken":
		v.unknown, v.provisional = true, true
		return s.inDoubt(v, payment.Accepted)
	default:
		v.unknown = true
		v = s.inDoubt(v, payment.Unknown)
		if s.seen && !s.asking() {
			v.code = "SEEN_BEFORE" // what an inquiry is believed or not by, later
		}
		return v
	}
}

// askedOnce: "puts a parked payment out for one inquiry and back to PARKED", and never
// for a send. Evidence ends it all the same.
func (s situation) askedOnce(v verdict) verdict {
	v.asked = s.word != payment.ResultNotSent && s.word != payment.ResultRefusedRail &&
		s.word != payment.ResultRefusedLater
	switch s.proof() {
	case "executed":
		v.state, v.unknown, v.provisional = payment.Dispatched, false, false
		return v
	case "refused for good":
		return s.settled(v).failed("")
	default:
		v.unknown = true
		return v.parked(payment.Unknown, "ASKED")
	}
}

// givenUp ends what the rail does not take. What may have been sent is not failed by it.
func (s situation) givenUp(v verdict, code string) verdict {
	v.unknown = v.unknown || s.restored != untouched
	return v.failed(code)
}

// proof is what the word proves. "Anything unmapped is UNKNOWN": a word proves
// something only as an answer to what was asked.
func (s situation) proof() string {
	switch {
	case s.asking() && s.word == payment.ResultExecuted:
		return "executed"
	case s.asking() && s.word == payment.ResultRefused &&
		(s.coversKey() || s.restored == untouched && s.sendsBefore() <= 1 && s.age.first == s.age.last):
		return "refused for good"
	case s.asking() && s.word == payment.ResultNotFound && s.asks == payment.NotFoundNotExecuted &&
		!s.provisional && !s.seen && s.age.last >= tableNotFoundAge && s.age.first < tableNotFoundEnd &&
		s.restored != longAgo:
		return "not executed"
	case s.asking():
		return ""
	case s.word == payment.ResultAccepted && s.acceptance == payment.AcceptanceFinal:
		return "executed"
	case s.word == payment.ResultExecuted && s.acceptance == payment.AcceptanceByAnswer:
		return "executed"
	case s.word == payment.ResultAccepted:
		return "taken"
	case s.word == payment.ResultRefusedFinal:
		return "refused for good"
	case s.word == payment.ResultRefusedTransient:
		return "refused for now"
	case s.word == payment.ResultRefusedBusiness:
		return "refused for funds"
	default:
		return ""
	}
}

// "An answer settles only the send that it answers", unless the rail keeps one
// outcome a key; what an inquiry proves settles all sends. That one of several
// sends was refused proves nothing about the others.
func (s situation) settled(v verdict) verdict {
	if s.asking() || s.coversKey() {
		v.unknown, v.provisional = false, false
	}
	return v
}

// An automatic re-send after NOT_FOUND only where the rail also de-duplicates
// by key, below the ceiling, inside the window. Where it is not sent again, a
// paused sender may still be in flight, and it stays unknown.
func (s situation) notExecuted(v verdict) verdict {
	switch {
	case s.resend != payment.ResendSameKey:
		return v.parked(payment.Unknown, "NO_SAFE_RECOVERY")
	case s.lastSend:
		return v.parked(payment.Unknown, "RETRIES_EXHAUSTED")
	case !s.insideWindow():
		return v.parked(payment.Unknown, "KEY_WINDOW_CLOSED")
	case s.expires != never:
		return v.parked(payment.Unknown, "EXPIRED")
	default:
		return v.pending(payment.Retryable, "NOT_FOUND", payment.ActionSend)
	}
}

// inDoubt is "INQUIRE, or SEND with the same key inside the key window; else
// PARKED", and for what the rail took: never re-sent.
func (s situation) inDoubt(v verdict, state payment.State) verdict {
	mayAsk := s.asks != "" && !s.lastAsk
	switch {
	case mayAsk:
		return v.pending(state, "", payment.ActionInquire)
	case v.provisional && s.callback > 0 && s.sinceLastSend() < s.callback:
		return v.pending(state, "", payment.ActionInquire)
	case v.provisional && s.callback > 0:
		return v.parked(state, "CALLBACK_OVERDUE")
	case v.provisional || s.asks != "":
		return v.parked(state, "INQUIRIES_EXHAUSTED")
	case s.resend != payment.ResendSameKey:
		return v.parked(state, "NO_SAFE_RECOVERY")
	case s.lastSend:
		return v.parked(state, "RETRIES_EXHAUSTED")
	case !s.insideWindow():
		return v.parked(state, "KEY_WINDOW_CLOSED")
	case s.expires != never:
		// The re-send may be the first one that is executed.
		return v.parked(state, "EXPIRED")
	default:
		return v.pending(state, "", payment.ActionSend)
	}
}

func (s situation) sinceLastSend() time.Duration {
	if s.asking() {
		return s.age.last
	}
	return 0
}

// insideWindow: the ages of the table are minutes away from any edge of it. An
// age that is not known is outside, and so is every age of a window that is not
// known; a first send has no age yet. What was sent inside the window of a send that is
// forgotten may have been answered as that one: where that window is over it is over too.
func (s situation) insideWindow() bool {
	if s.resend != payment.ResendSameKey {
		return false
	}
	if s.restored == halfOver && s.age.first == 20*time.Minute {
		return false
	}
	isFirst := !s.asking() && !s.unknown && s.restored != doubted && s.sendsBefore() == 0
	return s.age.first < s.window && (s.age.first > 0 || isFirst && s.window > 0)
}

// likeAnother leaves out what differs from another cell by a fact that has no meaning
// there: the table is large. The properties draw those, too.
func (s situation) likeAnother() bool {
	return s.asks == "" && s.lastAsk ||
		s.acceptance == payment.AcceptanceFinal && !s.provisional && s.callback > 0 ||
		s.acceptance == payment.AcceptanceByAnswer &&
			(s.covers || s.again || s.callback > 0 || s.asks == payment.NotFoundInconclusive)
}

// situations is the whole table.
func situations(yield func(situation) bool) {
	ages := []age{
		{first: time.Minute, last: time.Minute},
		{first: 20 * time.Minute, last: 20 * time.Minute},
		{first: 70 * time.Minute, last: 70 * time.Minute},
		{first: 70 * time.Minute, last: time.Minute},
		{first: 4 * time.Hour, last: 20 * time.Minute},
		{},
	}
	type resend struct {
		resend payment.Resend
		window time.Duration
	}
	// A rail that keeps one outcome a key takes none again.
	type key struct{ covers, again bool }
	keys := []key{{}, {covers: true}, {again: true}}
	no := []bool{false}
	either := []bool{false, true}
	var s situation
	pick := func() bool {
		for _, s.acceptance = range []payment.Acceptance{payment.AcceptanceFinal, payment.AcceptanceProvisional,
			payment.AcceptanceByAnswer} {
			for _, s.asks = range []payment.NotFound{"", payment.NotFoundInconclusive, payment.NotFoundNotExecuted} {
				for _, s.callback = range []time.Duration{0, 30 * time.Minute} {
					for _, k := range keys {
						s.covers, s.again = k.covers, k.again
						for _, s.lastSend = range either {
							for _, s.lastAsk = range either {
								if s.likeAnother() {
									continue
								}
								for _, s.age = range ages {
									for _, s.restored = range []restored{untouched, maybeSent, longAgo, halfOver, doubted} {
										if s.restored == longAgo && !s.covers || s.restored == halfOver && (s.covers || s.window == 0) {
											continue
										}
										for _, s.seen = range either {
											for _, s.expires = range []expiry{never, overAlready, overBeforeNext} {
												for _, s.word = range everyWord() {
													for _, s.worn = range either {
														if s.asked = s.asking() && !s.worn && !s.lastAsk; s.asked && !yield(s) {
															return false
														}
														s.asked = false
														matters := s.word == payment.ResultRefusedRail || s.word == payment.ResultRefusedLater
														if (matters || !s.worn) && !yield(s) {
															return false
														}
													}
												}
											}
										}
									}
								}
							}
						}
					}
				}
			}
		}
		return true
	}
	for _, r := range []resend{{payment.ResendNever, time.Hour}, {payment.ResendSameKey, 0},
		{payment.ResendSameKey, time.Hour}} {
		s.resend, s.window = r.resend, r.window
		for _, s.action = range []payment.Action{payment.ActionSend, payment.ActionInquire} {
			// What is not in doubt is not asked about, and what the rail took is not sent.
			unknowns, provisionals := either, no
			if s.asking() {
				unknowns, provisionals = []bool{true}, either
			}
			for _, s.unknown = range unknowns {
				for _, s.provisional = range provisionals {
					if !pick() {
						return
					}
				}
			}
		}
	}
}

// lost is what must follow where the worker never came back: "as UNKNOWN", and
// without a word of the rail.
func (s situation) lost() verdict {
	s.word, s.seen = payment.ResultUnknown, false
	v := s.expected()
	v.state = payment.ZombieRequeue
	if v.code == "" {
		v.code = payment.CodeWorkerLost
	}
	return v
}
