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
	// MaxRailRefusals, and RailRefusedAt has the times of them, in order.
	BusySince     time.Time
	RailRefusals  int
	RailRefusedAt []time.Time
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
