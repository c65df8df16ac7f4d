package reader

import (
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// OrderHead is the instruction that holds back the later ones of its participant on a rail with
// order STRICT, as recorded when the line was last advanced.
type OrderHead struct {
	OutboxID   payment.ID `json:"outbox_id"`
	SequenceID int64      `json:"sequence_id"`
	// HeldBy is why the head is unresolved by its rows of this snapshot: PENDING, QUARANTINED, or the state
	// of its last row, of which one that has ended has an open dead letter. Empty: it is resolved, and the
	// line goes on when it is next advanced.
	HeldBy        string             `json:"held_by,omitempty"`
	NextAttemptAt time.Time          `json:"next_attempt_at,omitzero"` // of a head in pending
	Letter        payment.DeadReason `json:"dead_letter,omitempty"`    // the reason of its open dead letter
	BlockedSince  time.Time          `json:"blocked_since,omitzero"`   // since when it was found to need an operator
}

// The values of HeldBy that are no states.
const (
	HeldPending     = "PENDING"
	HeldQuarantined = "QUARANTINED"
)

// Behind reports whether the instruction waits for another one because of its order: it is in
// pending, and the head of its line is an unresolved one with a lower number, or one that is claimed.
func (t Timeline) Behind() bool {
	h := t.Order
	return t.Pending != nil && h != nil && h.OutboxID != t.OutboxID && h.HeldBy != "" &&
		(h.SequenceID < t.SequenceID || payment.State(h.HeldBy).IsClaim())
}

// HoldsOthers reports whether the instruction is the head of its line, unresolved, and waits for an
// operator, so that nothing behind it is sent.
func (t Timeline) HoldsOthers() bool {
	h := t.Order
	return h != nil && h.OutboxID == t.OutboxID && h.HeldBy != "" && h.HeldBy != HeldPending &&
		!payment.State(h.HeldBy).IsClaim()
}

func scanOrder(row pgx.CollectableRow, h *OrderHead) error {
	var id pgtype.UUID
	var held, letter pgtype.Text
	var blocked, next pgtype.Timestamptz
	err := row.Scan(&id, &h.SequenceID, &blocked, &held, &next, &letter)
	h.OutboxID, h.HeldBy, h.Letter = payment.ID(id.Bytes), held.String, payment.DeadReason(letter.String)
	h.BlockedSince, h.NextAttemptAt = store.OrZero(blocked), store.OrZero(next)
	return err
}

// BlockedMax is the most heads of one rail that BlockedHeads counts.
const BlockedMax = 10_000

// BlockedHeads counts the participants of a rail with order STRICT whose head waits for an operator, so that
// nothing behind it is sent. A line to which something has happened since it was last advanced is not counted.
type BlockedHeads struct {
	Heads    int64      `json:"heads"`     // at most BlockedMax
	Since    time.Time  `json:"since"`     // of the one that has waited for longest
	OutboxID payment.ID `json:"outbox_id"` // that one
}

// Capped reports whether more heads may be blocked than were counted.
func (b BlockedHeads) Capped() bool { return b.Heads >= BlockedMax }

func scanBlocked(row pgx.CollectableRow, into map[string]*BlockedHeads) error {
	var rail string
	var id pgtype.UUID
	var b BlockedHeads
	err := row.Scan(&rail, &b.Heads, &b.Since, &id)
	b.OutboxID = payment.ID(id.Bytes)
	into[rail] = &b
	return err
}

// ParticipantHead is the instruction behind which the others of a participant wait on a rail that orders them.
type ParticipantHead struct {
	RailType   string
	OutboxID   payment.ID
	SequenceID int64
	// BlockedBy is why it waits for an operator: the reason of its dead letter, or its state; empty: it does not.
	BlockedBy    string
	BlockedSince time.Time // when a turn found that; zero: it is not blocked
	// ReadyAt is when it may be claimed, or since when; zero: it is claimed or blocked.
	ReadyAt time.Time
}

// ParticipantHeadsMax is the most rails of which Participant has the head, the blocked ones first.
const ParticipantHeadsMax = 50

func scanParticipantHead(row pgx.CollectableRow) (ParticipantHead, error) {
	var h ParticipantHead
	var id pgtype.UUID
	var by pgtype.Text
	var since, ready pgtype.Timestamptz
	err := row.Scan(&h.RailType, &id, &h.SequenceID, &by, &since, &ready)
	h.OutboxID, h.BlockedBy = payment.ID(id.Bytes), by.String
	h.BlockedSince, h.ReadyAt = store.OrZero(since), store.OrZero(ready)
	return h, err
}
