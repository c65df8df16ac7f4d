package payment

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// Claim is one claimed instruction, read from its claim row: everything that a
// worker needs to send or inquire, and to decide what the answer means. Nearly every rule
// takes it, for what was sent before, when, and under which profile. Package outbox and
// the store define how claims are made and stored.
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
	// RailReference is the rail's own reference of the payment. SeenBefore is set if the
	// rail has shown that it has the payment: it called a send a duplicate, accepted or
	// refused the payment, or reported it in progress. A later "no such payment" of that
	// rail proves nothing. Only the claims of inquiries have them.
	RailReference string
	SeenBefore    bool
	// Asked is set on the one inquiry that an operator requested about a parked payment:
	// it ends the payment or parks it again, and no send follows it.
	Asked bool
	// SendOnce is set if the caller allows one send only: see Instruction.
	SendOnce bool
	// Replayed is set if the outcome of the instruction is unknown and nothing is recorded
	// after an operator's replay: on a rail without keys, that operator answers for this
	// one send. Only the claims of sends have it.
	Replayed bool
	// BusySince is when the current run of answers "busy" began; zero: the rail never
	// answered so, or has given another answer since. RailRefusals counts the refusals of
	// our credentials or route since the instruction was enqueued or replayed, up to
	// MaxRailRefusals, and RailRefusedSince is the time of the first.
	BusySince, RailRefusedSince time.Time
	RailRefusals                int
	// Weigh sets MaybeSent if a send may have been made of which there is no row, and
	// Doubted if, in addition, no operator has compared with the rails since.
	MaybeSent, Doubted bool
	// ForgottenSince is the earliest moment at which a send without a row may have been
	// claimed. It has no meaning unless MaybeSent is set.
	ForgottenSince time.Time
	// Gaps are the times in which such sends may have been made, one for each restore, the
	// newest first.
	Gaps          []Gap
	RenderVersion string // of the earlier sends; empty: none
	// SentUnder are the key rules of the profiles of the earlier sends. It is empty if the
	// profile of this claim is the only one.
	SentUnder []KeyRules
	// keyKnownFor is Policy.keyKnownFor of the profile in force, within a decision.
	keyKnownFor time.Duration
}

// Gap is a time whose rows a restore may have lost.
type Gap struct {
	Since time.Time // the newest moment before it that is recorded; the Unix epoch: none
	Until time.Time // when the restore was noticed
}

// Outcome is what a worker appends for a claim. History.Late decides about one whose
// number is taken.
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
// separator, which identifiers can't contain. The SQL function
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

// OneSend reports whether at most one send may have reached the rail. A replay
// resets the counters but not the time of the first send. Neither includes a
// send that a restore has lost.
func (c Claim) OneSend() bool {
	return !c.MaybeSent && c.SendCount <= 1 && c.FirstSentAt.Equal(c.LastSentAt)
}

// Expired reports whether the instruction's time is over, elapsed after the claim.
func (c Claim) Expired(elapsed time.Duration) bool {
	return !c.ExpiresAt.IsZero() && !c.ClaimedAt.Add(elapsed).Before(c.ExpiresAt)
}

// lateCode returns the error code of a re-send that comes too late.
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

// wasSentOnce reports whether the caller allows one send only, that send may have been made,
// and no operator has requested another.
func (c Claim) wasSentOnce() bool {
	return c.SendOnce && !c.Replayed && (c.SendCount > 0 || c.OutcomeUnknown)
}

// unknownAge is an age that no key window covers. A wait can be added to it without an
// overflow.
const unknownAge = time.Duration(1) << 62

// SinceFirstSend returns the age of the first send that may have reached the rail,
// elapsed after the claim. For a first send that is elapsed itself. Times of the
// database are compared with each other only, never with the clock of this machine.
// If an earlier send has no time, or a time after the claim (the clock stepped
// back), its age is unknown and exceeds every limit.
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

// SinceLastSend returns the age of the latest send that may have reached the rail. For a
// claim that sends it is elapsed itself.
func (c Claim) SinceLastSend(elapsed time.Duration) time.Duration {
	if c.Action == ActionSend || c.LastSentAt.IsZero() {
		return elapsed
	}
	return c.ClaimedAt.Sub(c.LastSentAt) + elapsed
}

// doubt describes the sends of the claim, elapsed after it was made, on a rail that
// remembers a key no longer than knownFor.
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

// sinceKey returns the age of the send from which the rail may have the key. That is the
// first send, or an earlier one that a restore may have lost: the rail may have answered
// the first send with the stored outcome of that one, if it still had the key. The same
// holds from gap to gap.
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
