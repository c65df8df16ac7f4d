package outbox

import "errors"

// Errors that a caller of the ledger branches on.
var (
	// ErrCommitUnknown: the transaction may or may not have committed. The caller records
	// outcomes again (the ledger recognizes its own rows) and looks a claim up.
	ErrCommitUnknown = errors.New("it is not known whether the transaction committed")
	// ErrLockTimeout: another session holds a lock that the turn needs.
	ErrLockTimeout = errors.New("a lock was not available in time")
	// ErrConflict: the idempotency key was used with other content (RH001).
	ErrConflict = errors.New("the idempotency key was used with other content")
	// ErrInvalid: the instruction is refused, and always will be (RH002 to RH008).
	ErrInvalid = errors.New("the instruction is refused")
	// ErrOtherCell: the participant belongs to another cell. Nothing was stored in this one
	// (RH009).
	ErrOtherCell = errors.New("the participant belongs to another cell")
	// ErrElsewhere: the instruction was enqueued in another cell, before its participant was moved to this one. Its
	// payment is there.
	ErrElsewhere = errors.New("the payment is in another cell")
	// ErrNoSetting: a process has no connection string of the cell of a participant. Nothing was
	// stored.
	ErrNoSetting = errors.New("there is no connection string of the cell")
	// ErrNoMap: a process that has connection strings of several cells knows none with a map of the
	// participant's bucket. Nothing was stored.
	ErrNoMap = errors.New("no cell that was reached has a map of cells")
	// ErrSeveralPayments: several cells have a payment of the key. The error names them.
	ErrSeveralPayments = errors.New("several cells have a payment of the key")
	// ErrUnanswerable: a question to the ledger, such as a filter that contradicts itself, has no answer. Nothing was
	// read.
	ErrUnanswerable = errors.New("this can't be answered")
	// ErrNotFound: no such instruction (RH010).
	ErrNotFound = errors.New("no such instruction")
	// ErrMayBeForgotten: no such instruction, but the database may have lost one.
	ErrMayBeForgotten = errors.New("no such instruction, and the database may have forgotten some")
	// ErrNotAllowed: the state of the instruction, or of the cells, does not allow the act (RH020).
	ErrNotAllowed = errors.New("the state of the instruction, or of the cells, does not allow it")
	// ErrContended: no row can be appended to the instruction now, because concurrent
	// writers keep appending, or because rows of it are missing. Nothing was stored; the
	// same call may succeed later (RH011).
	ErrContended = errors.New("the instruction can not be appended to now")
	// ErrPutBack: the row of pending was not written by Railhead. It is quarantined, not
	// claimed (RH013).
	ErrPutBack = errors.New("the row was put back in pending")
	// ErrEnqueueClosed: an operator has closed enqueue for the rail, the participant or
	// everything. Nothing was stored; the same call may succeed later (RH014).
	ErrEnqueueClosed = errors.New("enqueue is closed")
	// ErrBusy: nothing was stored, because too many calls already wait, or because another
	// transaction enqueues for the participant (RH015). The same call may be repeated.
	ErrBusy = errors.New("busy")
	// ErrNoPayload: no row has the payload of an instruction, for example because its month of
	// instructions was detached. It is quarantined, not claimed, and can't be revealed (RH016).
	ErrNoPayload = errors.New("no row has the payload of the instruction")
	// ErrToken: the token of a call over HTTP is not in force (RH030). Nothing was done.
	ErrToken = errors.New("the token is not in force")
	// ErrForbidden: the token is not for this act or participant (RH031). Nothing was done.
	ErrForbidden = errors.New("the token is not for this")
	// ErrSecondKeys: the cell allows second keys, and so no enqueue over HTTP (RH032).
	ErrSecondKeys = errors.New("the cell allows second keys")
	// ErrServerChanged: after a failover or a restore, this is another server than the one
	// that was checked. Nothing was claimed on it.
	ErrServerChanged = errors.New("the server is another one than before")
	// ErrOtherSchema: another build has migrated the cell. The error names what to run.
	ErrOtherSchema = errors.New("this binary does not work on this cell")
	// ErrUnsafeServer: the server may lose committed transactions.
	ErrUnsafeServer = errors.New("the server's settings do not keep what is committed")
	// ErrReadOnly: nothing can be written by a connection.
	ErrReadOnly = errors.New("the server can't be written to: it is a standby, or default_transaction_read_only is on " +
		"for the login or the database. Name the primary (target_session_attrs=read-write finds it), or set that to off")
	// ErrUnfitServer: the server is not a PostgreSQL on which the guards of a cell work, or
	// the path to it spreads a transaction over several sessions. The error says which guard
	// would be missing.
	ErrUnfitServer = errors.New("a cell loses guards on this server")
)

// Unfit reports whether only an operator can resolve this error of a connection: a
// service then ends with it instead of trying again.
func Unfit(err error) bool {
	return errors.Is(err, ErrUnsafeServer) || errors.Is(err, ErrUnfitServer) || errors.Is(err, ErrOtherSchema) ||
		errors.Is(err, ErrOtherBudget)
}

// ErrNotHeld is returned if another worker has the lease of the endpoint, or if an operator
// has changed the endpoint since it was read. The note is not stored.
var ErrNotHeld = errors.New("another worker has the endpoint, or an operator has changed it")
