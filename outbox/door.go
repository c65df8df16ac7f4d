package outbox

import (
	"crypto/sha256"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// The acts that a token of the HTTP API may allow.
const (
	VerbEnqueue = "ENQUEUE"
	VerbRead    = "READ"
	VerbCancel  = "CANCEL"
)

// TokenDigest returns SHA-256 of the text of a token. Only the bearer keeps the token
// itself.
func TokenDigest(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// Bearer identifies a caller over HTTP: SHA-256 of its token, and of the public key of
// its certificate, nil if it has none.
type Bearer struct {
	Token       [32]byte
	Certificate []byte
}

// Token is a token of the HTTP API, with what it allows.
type Token struct {
	ID                string
	Name              string
	Participants      []string
	Verbs             []string
	ExpiresAt         time.Time
	RequestsPerMinute int    // 0: no quota
	Certificate       []byte // SHA-256 of the public key to which it is bound; nil: none
	InForce           bool
}

// Entrusted is an instruction with the principal for which a bearer enqueues it.
type Entrusted struct {
	payment.Instruction
	OnBehalfOf string // empty: the bearer acts for itself
}

// Tracked is an instruction of one of a bearer's participants, with its status.
type Tracked struct {
	payment.Status
	InstructionID  string
	ParticipantID  string
	IdempotencyKey string // the caller's own; empty: the payment is in another cell, and the key is not known here
	OnBehalfOf     string
}

// A problem type of the HTTP API (RFC 9457, section 3.1.1) is ProblemsAt, its name and ProblemsEnd: the address of a
// page. An error without such a type is not the API's.
const (
	ProblemsAt  = "https://github.com/railhead-pay/railhead/blob/main/docs/problems/"
	ProblemsEnd = ".md"
)

// CallHeader is the header of the HTTP API by which a caller marks a call. Each answer repeats it.
const CallHeader = "Railhead-Call"

// PageMax is the maximum of rows in one page of instructions or attempts.
const PageMax = 200

// Page selects instructions of a participant: those with a number above After, at most
// Most of them (1 to PageMax). With InstructionID it selects only those of that id, with
// IdempotencyKey the one that was enqueued over HTTP with that key.
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
