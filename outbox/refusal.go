package outbox

import "slices"

// The SQLSTATEs of the refusals by enqueue, claims and operator functions.
const (
	StateConflict      = "RH001" // the key was used with other content
	StateInvalid       = "RH002"
	StateUnknownRail   = "RH003"
	StateForbiddenKey  = "RH004" // in the payload or the headers
	StateTooLarge      = "RH005"
	StateExpired       = "RH006"
	StateSecondKey     = "RH007" // the instruction is enqueued under another key
	StateCardNumber    = "RH008" // a card number in the payload
	StateOtherCell     = "RH009" // the participant belongs to another cell
	StateNoInstruction = "RH010"
	StateContended     = "RH011" // concurrent writers won every try, or the server has to be compared first
	StatePutBack       = "RH013" // a row that was put back in pending: it is not claimed
	StateEnqueueClosed = "RH014" // an operator has closed enqueue
	StateBusy          = "RH015" // another transaction enqueues for the participant
	StateNoPayload     = "RH016" // no row has the payload of an instruction that is due, or is to be revealed
	StateNotAllowed    = "RH020" // the state of the instruction, or of the cells, does not allow the operator's act
	StateToken         = "RH030" // the token of a call over HTTP is not in force
	StateForbidden     = "RH031" // the token is not for this act or participant
	StateSecondKeys    = "RH032" // the cell allows second keys, and so no enqueue over HTTP
)

// Refusal is one of the SQLSTATEs of class RH.
type Refusal struct {
	SQLState string
	Sentinel error  // on which callers branch; nil: reserved, nothing raises it
	Meaning  string // the text in the table of refusals of docs/ingest.md
}

// refusals are the SQLSTATEs of class RH. A test compares them with those that the
// schema raises and with the documents.
var refusals = []Refusal{
	{StateConflict, ErrConflict, "the key was used with other content"},
	{StateInvalid, ErrInvalid, "invalid instruction, reason, profile or setting"},
	{StateUnknownRail, ErrInvalid, "unknown rail"},
	{StateForbiddenKey, ErrInvalid, "a forbidden key in the payload or the headers (documents, secrets, card data)"},
	{StateTooLarge, ErrInvalid, "too large, too deep, or too many items"},
	{StateExpired, ErrInvalid, "already expired"},
	{StateSecondKey, ErrInvalid, "this `instruction_id` is enqueued under another key"},
	{StateCardNumber, ErrInvalid, "a card number in the payload"},
	{StateOtherCell, ErrOtherCell, "the participant belongs to another cell"},
	{StateNoInstruction, ErrNotFound, "no such instruction, rail key, participant or cell"},
	{StateContended, ErrContended, "the instruction can not be appended to now"},
	{"RH012", nil, "reserved: over a limit of the participant"},
	{StatePutBack, ErrPutBack, "the row was put back in pending, and does not wait there"},
	{StateEnqueueClosed, ErrEnqueueClosed, "an operator has closed enqueue for the rail, the participant or everything"},
	{StateBusy, ErrBusy, "another transaction enqueues for the participant, and the call was not to wait"},
	{StateNoPayload, ErrNoPayload, "no row has the payload of the instruction: it is not claimed, and can't be revealed"},
	{StateNotAllowed, ErrNotAllowed, "the state of the instruction, or of the cells, does not allow the act"},
	{"RH021", nil, "reserved: the act needs an approval"},
	{"RH022", nil, "reserved: the approver is the one who asked"},
	{"RH023", nil, "reserved: the request was decided or has expired"},
	{StateToken, ErrToken, "over HTTP: the token is not known, has expired, was revoked, or is bound to another certificate"},
	{StateForbidden, ErrForbidden, "over HTTP: the token is not for this act or participant"},
	{StateSecondKeys, ErrSecondKeys, "over HTTP: the cell allows second keys, and takes nothing that way"},
}

// Refusals lists every SQLSTATE of class RH in order, including those that are reserved.
func Refusals() []Refusal { return slices.Clone(refusals) }

// SentinelOf returns the error on which a caller branches for an SQLSTATE; nil if that
// is not one of Railhead's.
func SentinelOf(sqlState string) error {
	for i := range refusals {
		if refusals[i].SQLState == sqlState {
			return refusals[i].Sentinel
		}
	}
	return nil
}

// CodePutBack is the code of a dead letter whose row was put back in pending.
const CodePutBack = "PUT_BACK"

// QuarantineCode returns the error code of the dead letter of a quarantined instruction,
// by the SQLSTATE of the error about its row.
func QuarantineCode(sqlState string) string {
	if IsPutBack(sqlState) {
		return CodePutBack
	}
	return "SQLSTATE_" + sqlState
}

// IsPutBack reports whether this SQLSTATE of the claim or expiry of one row means that
// the row was put back in pending: StatePutBack, or unique_violation, because the number
// of the instruction's next row is taken although its row in pending counts fewer.
func IsPutBack(sqlState string) bool {
	return sqlState == StatePutBack || sqlState == "23505"
}

// IsOfRow reports whether an SQLSTATE of the claim or expiry of one row is about what that row has: it
// fails again until an operator has corrected it, and says nothing about others. So it is with a value
// (class 22), a constraint (23), an exception that a function raises (P0), a refusal of Railhead (RH), and
// stored data that can't be read (XX001). Every other one may pass, or be every row's.
func IsOfRow(sqlState string) bool {
	switch {
	case len(sqlState) != 5, sqlState == StateContended, sqlState == StateBusy:
		return false
	default:
		return slices.Contains([]string{"22", "23", "P0", "RH"}, sqlState[:2]) || sqlState == "XX001"
	}
}

// MayBeOfRow reports whether an SQLSTATE of the claim or expiry of one row may be about what that row has, which shows
// if it comes each time while other rows pass: damaged data fails by many of them, such as XX000 and 58P01. The others
// are never a row's: those of IsAway, lost races (class 40), the schema and its grants (42), resources (53), locks
// (55) and cancelled statements (57), and refusals that pass.
func MayBeOfRow(sqlState string) bool {
	switch {
	case IsAway(sqlState), sqlState == StateContended, sqlState == StateBusy:
		return false
	default:
		return !slices.Contains([]string{"40", "42", "53", "55", "57"}, sqlState[:2])
	}
}

// IsAway reports whether an SQLSTATE means that the server, or a session on it, can't be had now: the
// connection (class 08), the state of its transaction or a server that can't be written to (25), the login
// (28), too many connections, and a server that stops or starts (57P). Other rows, or fewer, fail too.
func IsAway(sqlState string) bool {
	switch {
	case len(sqlState) != 5:
		return true // not an error of the server
	case sqlState[:3] == "57P", sqlState == "53300":
		return true
	default:
		return slices.Contains([]string{"08", "25", "28"}, sqlState[:2])
	}
}
