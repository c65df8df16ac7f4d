package payment

import "time"

// Policy is the part of a rail's profile that decides what is safe: which
// answers are final, whether a re-send may follow silence, and how Railhead
// inquires. The zero value is the safest rail: there are no re-sends and no
// inquiries, and every unknown outcome waits for an operator.
type Policy struct {
	// Acceptance defines whether an accepted send is final.
	Acceptance Acceptance `json:"acceptance"`
	// AnswerCoversKey is set if an answer to one send covers every send with that
	// key, because the rail keeps one outcome for each key. It contradicts
	// IDAfterRefusal SAME, with which the rail may execute a key that it has refused.
	AnswerCoversKey bool `json:"answer_covers_key"`
	// IDAfterRefusal defines whether the rail accepts the same key again after it has
	// refused it. With NEW there are no re-sends and no replay after a refusal: once its dead
	// letter is closed, the participant enqueues the payment as a new instruction.
	IDAfterRefusal IDAfterRefusal `json:"id_after_refusal"`
	// ResendOnUnknown allows a same-key re-send after silence, inside KeyWindow.
	ResendOnUnknown Resend `json:"resend_on_unknown"`
	// KeyWindow is how long the rail remembers a key, from the first send. Zero
	// means that it is not known, and allows no re-send.
	KeyWindow Duration `json:"key_window"`
	// Inquiry is how Railhead inquires; Max 0: the rail does not answer inquiries.
	Inquiry InquiryPolicy `json:"inquiry"`
	// CallbackDeadline is how long a provisional acceptance waits for the rail's
	// callback, from the latest send. Zero: the rail makes no callbacks.
	CallbackDeadline Duration `json:"callback_deadline"`
	// Retry shapes re-sends after silence and, with IDAfterRefusal SAME, after a
	// refusal for now.
	Retry RetryPolicy `json:"retry"`
	// BusinessRetry allows re-sends after a refusal for lack of funds, a limit or the
	// hour. It requires IDAfterRefusal SAME. With the zero value the payment is FAILED
	// with CodeBusinessRefused, and an operator or the participant decides.
	BusinessRetry BusinessRetry `json:"business_retry,omitzero"`
	// RailRefused defines when refusals of our credentials or route pause the rail, and
	// when they end an instruction.
	RailRefused RailRefusedPolicy `json:"rail_refused"`
	// RefusesBeforeProcessing is set if the rail refuses our credentials or route (class
	// H) before it processes the payment, and no gateway gives such an answer in place of
	// the rail's. Otherwise such an answer to a send is UNKNOWN.
	RefusesBeforeProcessing bool `json:"refuses_before_processing"`
}

// KeyRules are the rules of a profile about keys: what a rail remembers of a send, and what
// it answers to the next send with that key.
type KeyRules struct {
	Acceptance      Acceptance `json:"acceptance"`
	ResendOnUnknown Resend     `json:"resend_on_unknown"`
	KeyWindow       Duration   `json:"key_window"`
	AnswerCoversKey bool       `json:"answer_covers_key"`
}

// BusinessRetry defines how a payment is sent again after a business refusal.
type BusinessRetry struct {
	// Max is how many sends may be followed by another one after a business refusal: 0,
	// the default, to retry.max_sends - 1. Every send that may have reached the rail counts.
	Max int `json:"max"`
	// Wait is the minimum time until the next send, MinBusinessWait to 24 h; default 1 h.
	Wait Duration `json:"wait"`
}

// RailRefusedPolicy distinguishes a rail that refuses us from an instruction that the rail
// refuses. A zero field gets its default.
type RailRefusedPolicy struct {
	// After refusals in a row pause the rail, if they concern at least Instructions
	// instructions and no answer about a payment is among them. 1 to MaxRailRefusals;
	// default 3 refusals of 2 instructions.
	After        int `json:"after"`
	Instructions int `json:"instructions"` // at most After
	// PerInstruction is how many refusals end one instruction while the rail answers
	// others: 1 to MaxRailRefusals; default 5. The first refusal ends none, also with 1.
	PerInstruction int `json:"per_instruction"`
}

// WithDefaults replaces zero fields by their defaults.
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

// Acceptance is the meaning of a rail's positive answer to a send.
type Acceptance string

// With FINAL the answer ends the instruction. With PROVISIONAL an inquiry or a callback
// brings the final answer. With BY_ANSWER each answer is one of the two: EXECUTED ends
// the instruction, ACCEPTED is provisional.
const (
	AcceptanceFinal       Acceptance = "FINAL"
	AcceptanceProvisional Acceptance = "PROVISIONAL"
	AcceptanceByAnswer    Acceptance = "BY_ANSWER"
)

// strictness orders the meanings of a positive answer: the less certain, the lower.
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

// IDAfterRefusal is which key a rail accepts after a refusal.
type IDAfterRefusal string

// With SAME the rail accepts the key again. With NEW it requires another, as FedNow does.
const (
	IDSame IDAfterRefusal = "SAME"
	IDNew  IDAfterRefusal = "NEW"
)

// Resend is which re-send is safe after silence.
type Resend string

// NEVER is for rails that do not de-duplicate by key; SAME_KEY is for those that do.
const (
	ResendNever   Resend = "NEVER"
	ResendSameKey Resend = "SAME_KEY"
)

// InquiryPolicy is the schedule of inquiries, and what "no such payment" proves.
type InquiryPolicy struct {
	NotBefore Duration   `json:"not_before"` // from the latest send; FedNow refuses earlier than 25 s
	Intervals []Duration `json:"intervals"`  // between inquiries; the last one repeats
	// Max is how many inquiries an instruction gets before it is parked. 0: the rail does
	// not answer inquiries.
	Max         int      `json:"max"`
	NotFound    NotFound `json:"not_found"`     // what "no such payment" proves
	NotFoundAge Duration `json:"not_found_age"` // the minimum age of the latest send for that proof
	// NotFoundUntil is the maximum age of the first send for that proof: how far back the
	// rail's own look-up goes. A rail that no longer finds an old payment gives the same
	// answer even if it executed it. Required with NOT_EXECUTED.
	NotFoundUntil Duration `json:"not_found_until"`
}

// NotFound is what the answer "no such payment" proves.
type NotFound string

// INCONCLUSIVE proves nothing: the rail may not have indexed the payment yet. NOT_EXECUTED
// proves that no send was executed so far. A send may still be on its way, so only a
// re-send with the same key may follow.
const (
	NotFoundInconclusive NotFound = "INCONCLUSIVE"
	NotFoundNotExecuted  NotFound = "NOT_EXECUTED"
)

// The bounds that Validate checks.
const (
	MaxSends          = 20
	MaxInquiries      = 100
	MinBusinessWait   = time.Minute
	MaxRailRefusals   = 100
	maxRetryCap       = 24 * time.Hour
	maxInquiryHorizon = 30 * 24 * time.Hour
)

// WithDefaults replaces zero fields by their documented defaults.
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
