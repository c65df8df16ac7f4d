package outbox

import (
	"crypto/sha256"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// The acts that a token of the HTTP API is for.
const (
	VerbEnqueue = "ENQUEUE"
	VerbRead    = "READ"
	VerbCancel  = "CANCEL"
)

// TokenDigest is what is kept of a token outside of its bearer: SHA-256 of its text.
func TokenDigest(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// Bearer is who calls over HTTP: SHA-256 of the token, and of the public key of the
// certificate that came with it, nil where none did.
type Bearer struct {
	Token       [32]byte
	Certificate []byte
}

// Token is what a token of the HTTP API is for.
type Token struct {
	ID                string
	Name              string
	Participants      []string
	Verbs             []string
	ExpiresAt         time.Time
	RequestsPerMinute int    // 0: no quota
	Certificate       []byte // SHA-256 of the public key that it is bound to; nil: to none
	InForce           bool
}

// Entrusted is an instruction, and the principal that a bearer enqueues it for.
type Entrusted struct {
	payment.Instruction
	OnBehalfOf string // empty: the bearer acts for itself
}

// Tracked is what a bearer learns about an instruction of one of its participants.
type Tracked struct {
	payment.Status
	InstructionID  string
	ParticipantID  string
	IdempotencyKey string // the caller's own
	OnBehalfOf     string
}

// PageMax is how many rows one page of instructions or attempts has at most.
const PageMax = 200

// Page says which instructions of a participant are shown: those with a number above
// After, at most Most of them (1 to PageMax); with InstructionID those of it alone, with
// IdempotencyKey the one that was enqueued over HTTP under it.
type Page struct {
	ParticipantID  string
	After          int64
	Most           int
	InstructionID  string
	IdempotencyKey string
}

// ArchiveRow is one row of the archive, without content and without free text.
type ArchiveRow struct {
	AttemptNo        int
	State            string
	CreatedAt        time.Time
	ClaimedAt        time.Time // zero: it is no claim
	CompletedAt      time.Time // zero: it is no outcome
	AnswersAttemptNo int       // 0: it answers no claim
	Result           string
	RailReference    string
	RailCode         string
	ErrorCode        string
	LatencyMS        int
}
