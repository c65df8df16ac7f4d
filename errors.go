package railhead

import "github.com/railhead-pay/railhead/outbox"

// Fault is why an instruction was refused. Field and Rule name the invalid field and the
// violated rule, for callers to branch on; docs/ingest.md lists them. It contains nothing of the
// payload, and unwraps to one of the errors below. One that unwraps to [ErrCommitUnknown] is no
// refusal: the instruction may be stored.
type Fault = outbox.Fault

// Errors that a caller branches on, with errors.Is.
var (
	// ErrInvalid: the instruction is refused, and always will be as it is (RH002 to RH008).
	ErrInvalid = outbox.ErrInvalid
	// ErrConflict: by SQL, this InstructionID and IdempotencyKey were used with other content;
	// over HTTP, this IdempotencyKey was used with other content or for another InstructionID
	// (RH001). It may be the same payment with its payload written in another way, such as 10.5 for
	// 10.50: do not enqueue it under new ids.
	ErrConflict = outbox.ErrConflict
	// ErrEnqueueClosed: an operator has closed enqueue for the rail, the participant or
	// everything. Nothing was stored; the same call may succeed later (RH014).
	ErrEnqueueClosed = outbox.ErrEnqueueClosed
	// ErrOtherCell: the participant belongs to another cell. Nothing was stored in this one; the
	// same call is right for the other one (RH009). From HTTPClient.Await: the payment is in another
	// cell.
	ErrOtherCell = outbox.ErrOtherCell
	// ErrBusy: nothing was stored, because too many calls already wait or the API has no
	// capacity. Repeat the call later.
	ErrBusy = outbox.ErrBusy
	// ErrCommitUnknown: the instruction may or may not be stored. Repeat the call with the same key.
	ErrCommitUnknown = outbox.ErrCommitUnknown
	// ErrSeveralPayments: several cells have a payment of the key, for example of two participants.
	// The error names them. A key is unique in its cell.
	ErrSeveralPayments = outbox.ErrSeveralPayments
	// ErrNotFound: no such instruction, or not one of the caller's (RH010). While an earlier enqueue of it
	// may be under way, it does not mean that there is no payment: only the result of the same Enqueue,
	// repeated with the same ids and content, decides.
	ErrNotFound = outbox.ErrNotFound
	// ErrOtherSchema: another version of Railhead has migrated the cell. The error names what
	// to run.
	ErrOtherSchema = outbox.ErrOtherSchema
	// ErrToken: the token of a call over HTTP is not in force (RH030). Nothing was stored.
	ErrToken = outbox.ErrToken
	// ErrForbidden: the token is not for this act or participant (RH031). Nothing was stored.
	ErrForbidden = outbox.ErrForbidden
)
