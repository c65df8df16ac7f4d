package payment

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// Claim is one claimed instruction as its claim row says it: everything that a
// worker needs to send or inquire, and to decide what the answer means. It is of this
// package because nearly every rule takes it: what was sent before, when, and under which
// rules. How claims are made and where they are kept is of package outbox and the store.
type Claim struct {
	ClaimID        ID // the claim statement's
	OutboxID       ID
	AttemptNo      int // of the claim row; the outcome's is one more
	Action         Action
	InstructionID  string
	ParticipantID  string
	SequenceID     int64
	IdempotencyKey string
	RailType       string
	Payload        []byte // the text of the stored jsonb
	Headers        []byte // the text of the stored jsonb; trace context
	Fingerprint    []byte // from the key registry, SHA-256
	RailKey        string // from the key registry, as the rail gets it
	Priority       int
	CreatedAt      time.Time // of the instruction, database clock
	ClaimedAt      time.Time // database clock
	ExpiresAt      time.Time // zero: never
	FirstSentAt    time.Time // of the first send that may have reached the rail; zero: none
	LastSentAt     time.Time // of the latest such send; zero: none
	OutcomeUnknown bool      // some earlier send has no trustworthy answer
	Provisional    bool      // the rail took it; its final word is to come
	SendCount      int       // earlier sends that may have reached the rail
	InquiryCount   int       // earlier inquiries
	// RailReference is the rail's own name for the payment, and SeenBefore whether the
	// rail has shown that it knows the payment: it called a send a duplicate, took or
	// refused the payment, or said that it is in progress. Its "no such payment" is
	// worthless after that. Only the claims of inquiries have them.
	RailReference string
	SeenBefore    bool
	// Asked is set on the one inquiry that an operator asked for about what was parked:
	// it ends the payment or is parked again, and is never followed by a send.
	Asked bool
	// SendOnce is set where the caller wants one send alone: see Instruction.
	SendOnce bool
	// Replayed is set where an operator's replay is the last that was learned of an
	// instruction whose outcome is unknown: where the rail knows no keys, this one send
	// is made on the operator's word. Only the claims of sends have it.
	Replayed bool
	// BusySince is when the rail first said that it was busy, of the last run of such
	// answers; zero: it has not, or has said something else since. RailRefusals counts
	// the refusals of our credentials or route since it was enqueued or replayed, up to
	// MaxRailRefusals, and RailRefusedSince is when the first came.
	BusySince, RailRefusedSince time.Time
	RailRefusals                int
	// MaybeSent and Doubted are set by Weigh: a send may have been made that no row
	// knows; and no operator has compared with the rails since.
	MaybeSent, Doubted bool
	// ForgottenSince is the earliest moment at which a send may have been claimed that no
	// row knows. It has no meaning where MaybeSent is not set.
	ForgottenSince time.Time
	// Gaps are when such sends may have been made, of each restore, the newest first.
	Gaps          []Gap
	RenderVersion string // of the earlier sends; empty: none
	// SentUnder are the rules of the profiles that earlier sends were made under, where
	// another than that of this claim is among them.
	SentUnder []KeyRules
	// keyKnownFor is Policy.keyKnownFor of the profile in force, within a decision.
	keyKnownFor time.Duration
}

// Gap is a time of which no row may be left.
type Gap struct {
	Since time.Time // the newest moment that is known from before; the Unix epoch: none is
	Until time.Time // when the restore was noticed
}

// Outcome is what a worker appends for a claim. History.Late weighs it against what is
// recorded.
type Outcome struct {
	AttemptID     ID // made once, before the first try to record it
	ParkAttemptID ID // of the PARKED row that follows, if Decision.Park
	Claim         Claim
	Result        Result // what the rail's answer proves; empty when the reaper writes
	Decision      Decision
	RailReference string
	RailCode      string
	CodeTable     string // the code table and its version that gave the rail code its class
	ErrorMessage  string // bounded by MaxErrorMessage, never a payload
	Latency       time.Duration
	WorkerID      string
	Actor         string
	// ProfileVersion and RenderVersion are those the send was made with.
	ProfileVersion int
	RenderVersion  string
}

// MaxErrorMessage bounds attempts.error_message, in bytes.
const MaxErrorMessage = 2000

// Fingerprint identifies the content of an instruction: the SHA-256 over
// participant, rail and the text of the stored payload, separated by the unit
// separator, which identifiers can't hold. The schema's
// payment_outbox_fingerprint computes the same.
func Fingerprint(participantID, railType string, payload []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(participantID))
	h.Write([]byte{0x1f})
	h.Write([]byte(railType))
	h.Write([]byte{0x1f})
	h.Write(payload)
	return [sha256.Size]byte(h.Sum(nil))
}

// Intact reports whether the claimed payload is the one that was enqueued.
func (c Claim) Intact() bool {
	sum := Fingerprint(c.ParticipantID, c.RailType, c.Payload)
	return bytes.Equal(sum[:], c.Fingerprint)
}

// OneSend reports whether at most one send may have reached the rail. Counters
// begin anew with a replay, the time of the first send never does; a send that
// a restore forgot is none of them.
func (c Claim) OneSend() bool {
	return !c.MaybeSent && c.SendCount <= 1 && c.FirstSentAt.Equal(c.LastSentAt)
}

// Expired reports whether the instruction's time is over, elapsed after the claim.
func (c Claim) Expired(elapsed time.Duration) bool {
	return !c.ExpiresAt.IsZero() && !c.ClaimedAt.Add(elapsed).Before(c.ExpiresAt)
}

// lateCode says why a re-send is not made.
func (c Claim) lateCode(elapsed time.Duration) string {
	switch {
	case c.OutcomeUnknown && c.Expired(elapsed):
		return CodeExpired
	case c.wasSentOnce():
		return CodeRetriesExhausted
	default:
		return CodeWindowClosed
	}
}

// wasSentOnce reports whether its caller wants one send alone, which may have been made, and
// no operator asked for another.
func (c Claim) wasSentOnce() bool {
	return c.SendOnce && !c.Replayed && (c.SendCount > 0 || c.OutcomeUnknown)
}

// unknownAge is an age that no key window covers. It leaves room to add to.
const unknownAge = time.Duration(1) << 62

// SinceFirstSend is the age of the first send that may have reached the rail,
// elapsed after the claim. For a first send that is elapsed itself. All
// database times are compared with each other and never with this machine's.
// Where an earlier send has no time, or one after the claim (the clock stepped
// back), its age is unknown and counts as too old for everything.
func (c Claim) SinceFirstSend(elapsed time.Duration) time.Duration {
	sentBefore := c.Action == ActionInquire || c.SendCount > 0 || c.OutcomeUnknown || c.Doubted
	switch {
	case c.FirstSentAt.IsZero() && !sentBefore:
		return elapsed
	case c.FirstSentAt.IsZero() || c.FirstSentAt.After(c.ClaimedAt):
		return unknownAge
	default:
		return c.ClaimedAt.Sub(c.FirstSentAt) + elapsed
	}
}

// SinceLastSend is the age of the latest such send; for a claim that sends it
// is elapsed itself.
func (c Claim) SinceLastSend(elapsed time.Duration) time.Duration {
	if c.Action == ActionSend || c.LastSentAt.IsZero() {
		return elapsed
	}
	return c.ClaimedAt.Sub(c.LastSentAt) + elapsed
}

// doubt is what the claim knows of its sends, elapsed after it was made, on a rail that
// knows a key for so long at most.
func (c Claim) doubt(elapsed, knownFor time.Duration) UnknownOutcome {
	return UnknownOutcome{
		SinceFirstSend: c.SinceFirstSend(elapsed),
		SinceLastSend:  c.SinceLastSend(elapsed),
		MaybeSent:      c.MaybeSent,
		SinceForgotten: c.ClaimedAt.Add(elapsed).Sub(c.ForgottenSince),
		SinceKey:       c.sinceKey(elapsed, knownFor),
		SeenBefore:     c.SeenBefore,
	}
}

// sinceKey is the age of the send from which the rail may have the key: the first, or one
// that a restore may have forgotten and whose outcome the rail may have told the first
// one, because it knew the key still; and so on, from gap to gap.
func (c Claim) sinceKey(elapsed, knownFor time.Duration) time.Duration {
	now, since := c.ClaimedAt.Add(elapsed), c.SinceFirstSend(elapsed)
	for _, gap := range c.Gaps {
		if now.Sub(gap.Until)-since >= knownFor {
			continue
		}
		age := now.Sub(gap.Since)
		if age < 0 { // of a clock that stepped back
			return unknownAge
		}
		since = max(since, age)
	}
	return since
}
