package reader

import (
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// OtherKey is what is known of an instruction in another cell that has the key of one of this cell: a caller may have
// repeated its call there. Certainty concludes nothing from the rows of this cell alone then.
type OtherKey struct {
	OutboxID payment.ID `json:"outbox_id,omitzero"` // in the other cell; zero: it may be there
	Cell     string     `json:"cell,omitempty"`     // that was settled to take its participant, if it may be there
}

// OtherKeyOf returns what a cell said of the other one; nil if both are null.
func OtherKeyOf(id pgtype.UUID, cell pgtype.Text) *OtherKey {
	if !id.Valid && !cell.Valid {
		return nil
	}
	return &OtherKey{OutboxID: payment.ID(id.Bytes), Cell: cell.String}
}

// String is a sentence without its full stop.
func (k OtherKey) String() string {
	if k.OutboxID != (payment.ID{}) {
		return fmt.Sprintf("another cell has its key, too, as %s: see what became of it there", k.OutboxID)
	}
	return fmt.Sprintf("cell %s was settled to take its participant, and may have its key, too: "+
		"see whether it has, and what became of it there", k.Cell)
}
