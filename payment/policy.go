package payment

import (
	"cmp"
	"time"
)

// Policy is the part of a rail's profile that decides what is safe: which
// answers are final, whether silence may be answered by a re-send, and how the
// rail is asked. The zero value is the safest rail there is: nothing is ever
// re-sent, nothing can be asked, and every unknown outcome waits for a person.
type Policy struct {
	// Acceptance says whether an accepted send is the rail's last word.
	Acceptance Acceptance `json:"acceptance"`
	// AnswerCoversKey is set where an answer to one send speaks for every send
	// with that key, because the rail keeps one outcome a key. It contradicts
	// IDAfterRefusal SAME, by which a key that was refused may be executed later.
	AnswerCoversKey bool `json:"answer_covers_key"`
	// IDAfterRefusal says whether the rail takes the same key again after it refused
	// it, for now or for good. NEW sends nothing again after a refusal and refuses
	// replay: the participant enqueues the payment as a new instruction.
	IDAfterRefusal IDAfterRefusal `json:"id_after_refusal"`
	// ResendOnUnknown allows a same-key re-send after silence, inside KeyWindow.
	ResendOnUnknown Resend `json:"resend_on_unknown"`
	// KeyWindow is how long the rail remembers a key, from the first send. Zero
	// is "not known", which counts as none.
	KeyWindow Duration `json:"key_window"`
	// Inquiry is how the rail is asked; Max 0 means that it can't be.
	Inquiry InquiryPolicy `json:"inquiry"`
	// CallbackDeadline is how long a provisional acceptance waits for the rail's
	// callback, from the latest send. Zero: the rail makes none.
	CallbackDeadline Duration `json:"callback_deadline"`
	// Retry shapes re-sends after silence and, with IDAfterRefusal SAME, after a
	// refusal for now.
	Retry RetryPolicy `json:"retry"`
	// BusinessRetry sends again after a refusal for lack of funds, a limit or the hour.
	// It needs IDAfterRefusal SAME. The zero value sends nothing again: the payment is
	// FAILED with CodeBusinessRefused, and an operator or the participant decides.
	BusinessRetry BusinessRetry `json:"business_retry,omitzero"`
	// RailRefused says when refusals of our credentials or route pause the rail, and
	// when they end an instruction.
	RailRefused RailRefusedPolicy `json:"rail_refused"`
	// RefusesBeforeProcessing is set where a refusal of our credentials or route (class
	// H) is given before the rail looks at the payment, never by what filters its
	// answers. Such an answer to a send is UNKNOWN otherwise.
	RefusesBeforeProcessing bool `json:"refuses_before_processing"`
}

// KeyRules are what a profile says of keys: what a rail keeps of a send, and says of it again.
type KeyRules struct {
	Acceptance      Acceptance `json:"acceptance"`
	ResendOnUnknown Resend     `json:"resend_on_unknown"`
	KeyWindow       Duration   `json:"key_window"`
	AnswerCoversKey bool       `json:"answer_covers_key"`
}

// Under is the policy for an instruction that was sent under these rules, too. What a
// rail promises of its keys it promises of the sends that follow: the strictest rule of
// all holds.
func (p Policy) Under(earlier []KeyRules) Policy {
	for _, rules := range earlier {
		// The stored answer to an earlier send says what it said then.
		if rules.Acceptance.strictness() < p.Acceptance.strictness() {
			p.Acceptance = cmp.Or(rules.Acceptance, AcceptanceProvisional)
		}
		if rules.ResendOnUnknown != ResendSameKey {
			p.ResendOnUnknown = ResendNever
		}
		p.KeyWindow = min(p.KeyWindow, rules.KeyWindow)
		p.AnswerCoversKey = p.AnswerCoversKey && rules.AnswerCoversKey
	}
	return p
}

// BusinessRetry is how a payment is sent again after a business refusal.
type BusinessRetry struct {
	// Max is how many sends may be followed by another one for a business refusal: 0,
	// the default, to retry.max_sends - 1. Every send that may have reached the rail counts.
	Max int `json:"max"`
	// Wait is the least time until the next send, MinBusinessWait to 24 h; default 1 h.
	Wait Duration `json:"wait"`
}

// RailRefusedPolicy tells a rail that refuses us from an instruction that it refuses.
// What is left out gets the default.
type RailRefusedPolicy struct {
	// The rail is paused after so many refusals in a row, without an answer about a
	// payment between, of so many instructions. 1 to MaxRailRefusals; default 3 of 2.
	After        int `json:"after"`
	Instructions int `json:"instructions"` // at most After
	// PerInstruction refusals of one instruction, while others pass, end it:
	// 1 to MaxRailRefusals; default 5.
	PerInstruction int `json:"per_instruction"`
}

// WithDefaults fills what was left out.
func (r RailRefusedPolicy) WithDefaults() RailRefusedPolicy {
	if r.After == 0 {
		r.After = max(3, r.Instructions)
	}
	if r.Instructions == 0 {
		r.Instructions = min(2, r.After)
	}
	if r.PerInstruction == 0 {
		r.PerInstruction = 5
	}
	return r
}

// Acceptance is what a rail's "yes" means.
type Acceptance string

// FINAL ends the instruction; PROVISIONAL leaves the final word to inquiry or
// callback; with BY_ANSWER each answer says which of the two it is: EXECUTED ends the
// instruction, ACCEPTED is provisional.
const (
	AcceptanceFinal       Acceptance = "FINAL"
	AcceptanceProvisional Acceptance = "PROVISIONAL"
	AcceptanceByAnswer    Acceptance = "BY_ANSWER"
)

// strictness orders what a "yes" may mean: the less it settles the lower.
func (a Acceptance) strictness() int {
	switch a {
	case AcceptanceFinal:
		return 2
	case AcceptanceByAnswer:
		return 1
	default:
		return 0
	}
}

// IDAfterRefusal says what a rail wants after a refusal.
type IDAfterRefusal string

// SAME takes the key again; NEW wants another, as FedNow does.
const (
	IDSame IDAfterRefusal = "SAME"
	IDNew  IDAfterRefusal = "NEW"
)

// Resend says what a rail allows after silence.
type Resend string

// NEVER is for rails that do not de-duplicate by key.
const (
	ResendNever   Resend = "NEVER"
	ResendSameKey Resend = "SAME_KEY"
)

// InquiryPolicy is the schedule on which a rail is asked.
type InquiryPolicy struct {
	NotBefore   Duration   `json:"not_before"`    // from the latest send; FedNow refuses earlier than 25 s
	Intervals   []Duration `json:"intervals"`     // between inquiries; the last one repeats
	Max         int        `json:"max"`           // inquiries an instruction; then it parks. 0: the rail can't be asked
	NotFound    NotFound   `json:"not_found"`     // what "no such payment" says
	NotFoundAge Duration   `json:"not_found_age"` // how old the latest send must be for it to say that
	// NotFoundUntil is how old the first send may be for it to say that: as long as
	// the rail's own look-up goes back. A rail that has aged a payment out says the same
	// of one that it executed. Required with NOT_EXECUTED.
	NotFoundUntil Duration `json:"not_found_until"`
}

// NotFound is what a rail's "no such payment" says.
type NotFound string

// INCONCLUSIVE says nothing: the rail may not have indexed it yet. NOT_EXECUTED says that no
// send was executed by then. It settles none of them: one may be on its way still, whose
// place a re-send of the same key takes.
const (
	NotFoundInconclusive NotFound = "INCONCLUSIVE"
	NotFoundNotExecuted  NotFound = "NOT_EXECUTED"
)

// Bounds that Validate holds a policy to.
const (
	MaxSends          = 20
	MaxInquiries      = 100
	MinBusinessWait   = time.Minute
	MaxRailRefusals   = 100
	maxRetryCap       = 24 * time.Hour
	maxInquiryHorizon = 30 * 24 * time.Hour
)

// WithDefaults fills what was left out with the documented defaults.
func (p Policy) WithDefaults() Policy {
	if p.Acceptance == "" {
		p.Acceptance = AcceptanceFinal
	}
	if p.IDAfterRefusal == "" {
		p.IDAfterRefusal = IDNew
	}
	if p.ResendOnUnknown == "" {
		p.ResendOnUnknown = ResendNever
	}
	if p.Inquiry.Max > 0 && len(p.Inquiry.Intervals) == 0 {
		p.Inquiry.Intervals = []Duration{Duration(30 * time.Second), Duration(time.Minute), Duration(5 * time.Minute)}
	}
	p.Retry = p.Retry.WithDefaults()
	if p.BusinessRetry.Max > 0 && p.BusinessRetry.Wait == 0 {
		p.BusinessRetry.Wait = Duration(time.Hour)
	}
	p.RailRefused = p.RailRefused.WithDefaults()
	return p
}

// interval is the wait before inquiry number n, counted from 0; the first one
// follows not_before alone.
func (i InquiryPolicy) interval(n int) time.Duration {
	if n == 0 || len(i.Intervals) == 0 {
		return 0
	}
	return time.Duration(i.Intervals[min(n-1, len(i.Intervals)-1)])
}

// usableWindow is the part of the key window in which a re-send may still
// start: a tenth of it, five minutes at the most, is kept for skew between our
// clocks and the rail's and for the call itself.
func (p Policy) usableWindow() time.Duration {
	window := time.Duration(p.KeyWindow)
	return window - min(window/10, 5*time.Minute)
}

// MayResend reports whether a same-key re-send may start this long after the
// first send that may have reached the rail. A negative age is no age: a clock
// stepped back, and how much of the window is left is not known.
func (p Policy) MayResend(sinceFirstSend time.Duration) bool {
	return p.ResendOnUnknown == ResendSameKey && sinceFirstSend >= 0 && sinceFirstSend < p.usableWindow()
}

// MaySend reports whether the send of a claim may start this long after the
// claim: where nothing is unknown, always; else only as a same-key re-send
// inside the window, also that of a send that a restore may have forgotten, and
// before expires_at, because it may be the first one that is executed; never where
// the rail took the instruction already, or where its caller wants one send alone
// and it may have been made. Where the rail knows no keys, a send that an operator
// asked for is made.
func (p Policy) MaySend(c Claim, elapsed time.Duration) bool {
	knownFor := max(c.keyKnownFor, p.keyKnownFor(c))
	p = p.Under(c.SentUnder)
	switch {
	case c.Provisional, c.wasSentOnce():
		return false
	case c.OutcomeUnknown && c.Expired(elapsed):
		return false
	case c.OutcomeUnknown && c.Replayed && !c.Doubted && p.ResendOnUnknown != ResendSameKey:
		return true
	case c.OutcomeUnknown || c.Doubted:
		return p.mayRepeat(c.doubt(elapsed, knownFor), 0)
	default:
		return true
	}
}

// MayLeave is MaySend for a send whose bytes take so long at most to be written: the rail has to
// know the key of a re-send still when the last one arrives.
func (p Policy) MayLeave(c Claim, elapsed, write time.Duration) bool {
	if !p.MaySend(c, elapsed) {
		return false
	}
	c.ExpiresAt = time.Time{} // holds for the first byte
	return p.MaySend(c, elapsed+write)
}

// AwaitsAcceptance reports whether the send of a claim waits until an operator has accepted
// the server: nothing but a restore may have made a send of it, whose caller wants one
// alone, or whose key the rail might know no more (MayLeave). Once accepted it is sent as any
// other.
func (p Policy) AwaitsAcceptance(c Claim, elapsed, write time.Duration) bool {
	return c.Doubted && !c.OutcomeUnknown && !c.Provisional && (c.SendOnce || !p.MayLeave(c, elapsed, write))
}

// mayRepeat is MayResend for a re-send after a wait, also by what a restore may have forgotten:
// a send in the key window of a forgotten one may have been told that one's outcome, and the
// rail has to know the key of that one still.
func (p Policy) mayRepeat(d UnknownOutcome, wait time.Duration) bool {
	return p.MayResend(d.SinceFirstSend+wait) && p.MayResend(max(d.SinceKey, d.SinceFirstSend)+wait)
}

// keyKnownFor is how long the rail may know the key of a send at most: the longest window that
// it promised, and what usableWindow keeps of it, for a send that arrived later than it was
// claimed. What it does not promise is not known.
func (p Policy) keyKnownFor(c Claim) time.Duration {
	longest := time.Duration(p.KeyWindow)
	for _, rules := range c.SentUnder {
		longest = max(longest, time.Duration(rules.KeyWindow))
	}
	return longest + min(longest/10, 5*time.Minute)
}
