package payment

import (
	"errors"
	"time"
)

// Lane asks for instructions of one rail.
type Lane struct {
	RailType string
	// Free is how many can be sent right now: no more is ever claimed, so that
	// DISPATCHING means "may have reached the rail".
	Free int
	// Oldest of them go to the rows that are longest due, whatever their
	// priority, so that urgent ones never starve bulk.
	Oldest         int
	ProfileVersion int
	RenderVersion  string
	// GoesOn lets the lane be claimed although a suspension is open: its rail
	// de-duplicates by key, and its key window covers what may be forgotten.
	GoesOn bool
}

// ClaimRequest is one claim statement. ClaimID is made by the caller before its
// first try, so that a claim of unknown commit can be looked up.
type ClaimRequest struct {
	ClaimID  ID
	WorkerID string
	Lanes    []Lane
	// Server is the one that the lanes were found free to be claimed on: a claim on
	// any other is refused with ErrServerChanged. Zero is the one that was checked last.
	Server Server
}

// Turn is what one transaction records and claims.
type Turn struct {
	Outcomes []Outcome
	// Finished are the claims whose last answer is among Outcomes.
	Finished []ID
	Claim    ClaimRequest
}

// TurnResult is what came of it, once committed.
type TurnResult struct {
	// Late are the outcomes that lost the fence, or that are to be weighed against what
	// the rail said before: they go by the slow path.
	Late   []Outcome
	Claims []Claim
}

// Verdict is what the ledger did with an outcome on the slow path.
type Verdict string

// The words that record_late_outcome returns.
const (
	VerdictMine     Verdict = "MINE"     // written by an earlier try
	VerdictIn       Verdict = "IN"       // answered a claim that was still open
	VerdictSettled  Verdict = "SETTLED"  // late evidence ended the instruction: this one, or proof that came before it
	VerdictLate     Verdict = "LATE"     // late, stored, nothing more changed
	VerdictRepeated Verdict = "REPEATED" // equal evidence is stored already
	VerdictConflict Verdict = "CONFLICT" // contradicts what is recorded
	VerdictRetired  Verdict = "RETIRED"  // the instruction has left the archive with its month: nothing was stored
)

// Verdicts lists every word.
func Verdicts() []Verdict {
	return []Verdict{VerdictMine, VerdictIn, VerdictSettled, VerdictLate, VerdictRepeated, VerdictConflict, VerdictRetired}
}

// Errors that a caller of the ledger branches on.
var (
	// ErrCommitUnknown: the transaction may or may not have committed. Outcomes
	// are recorded again (the ledger knows its own rows); a claim is looked up.
	ErrCommitUnknown = errors.New("it is not known whether the transaction committed")
	// ErrLockTimeout: another session holds a lock that the turn needs.
	ErrLockTimeout = errors.New("a lock was not to be had in time")
	// ErrConflict: the idempotency key was used with other content (RH001).
	ErrConflict = errors.New("the idempotency key was used with other content")
	// ErrInvalid: the instruction is refused and never will be taken (RH002 to RH008).
	ErrInvalid = errors.New("the instruction is refused")
	// ErrNotFound: no such instruction (RH010).
	ErrNotFound = errors.New("no such instruction")
	// ErrMayBeForgotten: there is none, and the database may have forgotten one.
	ErrMayBeForgotten = errors.New("no such instruction, and the database may have forgotten some")
	// ErrNotAllowed: the state of the instruction does not allow the act (RH020).
	ErrNotAllowed = errors.New("the state of the instruction does not allow it")
	// ErrContended: the instruction can't be appended to now, because others keep
	// appending to it, or because its rows are missing. Nothing
	// happened; the same call may succeed (RH011).
	ErrContended = errors.New("the instruction can not be appended to now")
	// ErrPutBack: the row was put back in pending, past the product. It is set aside,
	// not claimed (RH013).
	ErrPutBack = errors.New("the row was put back in pending")
	// ErrEnqueueClosed: an operator has closed enqueue for the rail, the participant or
	// everything. Nothing was stored; the same call may succeed later (RH014).
	ErrEnqueueClosed = errors.New("enqueue is closed")
	// ErrBusy: nothing was stored, because too much waits already, or another transaction enqueues for the
	// participant (RH015); the same call may be repeated.
	ErrBusy = errors.New("busy")
	// ErrNoPayload: no row has the payload of an instruction that waits, as when its month
	// of instructions was detached. It is set aside, not claimed (RH016).
	ErrNoPayload = errors.New("no row has the payload of the instruction")
	// ErrToken: the token of a call over HTTP is not in force (RH030). Nothing was done.
	ErrToken = errors.New("the token is not in force")
	// ErrForbidden: the token is not for this act or participant (RH031). Nothing was done.
	ErrForbidden = errors.New("the token is not for this")
	// ErrSecondKeys: the cell allows second keys, and takes nothing over HTTP (RH032).
	ErrSecondKeys = errors.New("the cell allows second keys")
	// ErrServerChanged: after a failover or a restore this is another server than
	// the one that was checked. Nothing was claimed on it.
	ErrServerChanged = errors.New("the server is another one than before")
	// ErrOtherSchema: another build has migrated the cell. The error says what to run.
	ErrOtherSchema = errors.New("this binary does not work on this cell")
	// ErrUnsafeServer: the server may forget what it has committed.
	ErrUnsafeServer = errors.New("the server's settings do not keep what is committed")
)

// Unfit reports whether a service can't work on what it is connected to, and ends
// with this error instead of trying again: only an operator can change it.
func Unfit(err error) bool {
	return errors.Is(err, ErrUnsafeServer) || errors.Is(err, ErrOtherSchema) || errors.Is(err, ErrOtherBudget)
}

// CodePutBack is the code of a dead letter whose row was put back in pending.
const CodePutBack = "PUT_BACK"

// SetAsideCode is the error code of the dead letter of an instruction that is set
// aside, by the SQLSTATE that its row was refused with.
func SetAsideCode(sqlState string) string {
	if IsPutBack(sqlState) {
		return CodePutBack
	}
	return "SQLSTATE_" + sqlState
}

// IsPutBack reports whether a claim or an expiry of one row, refused with this
// SQLSTATE, says that it was put back in pending: it is told, or the number of the
// instruction's next row is taken (unique_violation), as of one that claims to be new.
func IsPutBack(sqlState string) bool {
	return sqlState == StatePutBack || sqlState == "23505"
}

// StaleQuery says which open claims are due for repair.
type StaleQuery struct {
	// Budget is the cell's. Where the worker of a claim says that it runs by a longer
	// one, that counts for its claims.
	Budget TimeBudget
	// Calls are the longest calls by rail. No claim is touched that is younger than
	// StartWithin and its rail's call, however dead its worker looks; for rails that
	// are not in it, than ClaimTimeout.
	Calls map[string]time.Duration
	Limit int
}

// StaleClaim is an open claim whose worker died or stalled.
type StaleClaim struct {
	Claim    Claim
	Age      time.Duration // by the database's clock
	WorkerID string
	// ProfileVersion is the one that it was made by; 0: not known.
	ProfileVersion int
}
