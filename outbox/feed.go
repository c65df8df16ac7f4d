package outbox

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Place is a reader's position in the feed: the last row that it has read. The zero Place
// is before the first row.
type Place struct {
	System    uint64 // identifier of the database system of the transaction Xact
	Xact      uint64 // the transaction that wrote the row
	OutboxID  payment.ID
	AttemptNo int
	AttemptID payment.ID
}

// IsZero reports whether it is before the first row.
func (p Place) IsZero() bool { return p == Place{} }

// Before reports whether the row of one place comes before that of another.
func (p Place) Before(other Place) bool {
	switch {
	case p.Xact != other.Xact:
		return p.Xact < other.Xact
	case p.OutboxID != other.OutboxID:
		return string(p.OutboxID[:]) < string(other.OutboxID[:])
	default:
		return p.AttemptNo < other.AttemptNo
	}
}

// ErrBadPlace is returned by ParsePlace for text that Place.String did not make.
var ErrBadPlace = errors.New("not a cursor of an earlier answer")

const (
	placeForm  = 1 // of the text below
	placeBytes = 1 + 8 + 8 + 16 + 4 + 16
)

// String returns the place as an opaque cursor of letters, digits, - and _.
func (p Place) String() string {
	text := make([]byte, 0, placeBytes)
	text = append(text, placeForm)
	text = binary.BigEndian.AppendUint64(text, p.System)
	text = binary.BigEndian.AppendUint64(text, p.Xact)
	text = append(text, p.OutboxID[:]...)
	text = binary.BigEndian.AppendUint32(text, uint32(p.AttemptNo))
	text = append(text, p.AttemptID[:]...)
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParsePlace reads the text of String. A forged text can be a place too: it gives its
// reader no row beyond those that its token allows.
func ParsePlace(text string) (Place, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != placeBytes || raw[0] != placeForm {
		return Place{}, fmt.Errorf("%.80q: %w", text, ErrBadPlace)
	}
	p := Place{System: binary.BigEndian.Uint64(raw[1:]), Xact: binary.BigEndian.Uint64(raw[9:])}
	copy(p.OutboxID[:], raw[17:33])
	number := binary.BigEndian.Uint32(raw[33:])
	copy(p.AttemptID[:], raw[37:])
	if p.AttemptNo = int(int32(number)); p.AttemptNo < 0 {
		return Place{}, fmt.Errorf("%.80q: %w", text, ErrBadPlace)
	}
	return p, nil
}

// Subscription is what one reader of the feed receives, and its token.
type Subscription struct {
	Bearer
	Participants []string            // of the token's; nil: all of them
	Types        []payment.EventType // nil: all
	Cell         string              // the setting of the cell whose feed it reads; empty: there is one
}

// Heard is the part of the feed after a place.
type Heard struct {
	Events []HeardEvent
	// Refused has the errors of subscriptions that are not served, by their index: ErrToken
	// or ErrForbidden. None of Events is for them.
	Refused map[int]error
	// Place is where the next read continues.
	Place Place
	// More is set if the read ended before the feed did.
	More bool
	// WentBack is set if a failover or a restore lost the row of the place: some events are
	// delivered again.
	WentBack bool
	// HeldSince is the time of the first row that is not yet delivered, because a transaction
	// that began before it is still in progress on the server; zero: there is none.
	HeldSince time.Time
}

// HeardEvent is an event of the feed, with the subscriptions that receive it.
type HeardEvent struct {
	payment.Event
	For []int // indexes of subscriptions
	At  Place // the place of the feed at which it is delivered
	// Last is set if no other event of the place follows: a reader may resume from it.
	Last bool
}
