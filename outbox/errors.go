package outbox

import "errors"

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
	// ErrPutBack: the row was put back in pending, past the product. It is quarantined,
	// not claimed (RH013).
	ErrPutBack = errors.New("the row was put back in pending")
	// ErrEnqueueClosed: an operator has closed enqueue for the rail, the participant or
	// everything. Nothing was stored; the same call may succeed later (RH014).
	ErrEnqueueClosed = errors.New("enqueue is closed")
	// ErrBusy: nothing was stored, because too much waits already, or another transaction enqueues for the
	// participant (RH015); the same call may be repeated.
	ErrBusy = errors.New("busy")
	// ErrNoPayload: no row has the payload of an instruction that waits, as when its month
	// of instructions was detached. It is quarantined, not claimed (RH016).
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

// ErrNotHeld is returned where another worker has the endpoint, or an operator has asked that
// it be begun anew: what this one had in hand is not noted.
var ErrNotHeld = errors.New("the endpoint is not this worker's any more, or not as it was looked at")
