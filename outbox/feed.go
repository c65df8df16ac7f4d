package outbox

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Place is how far a reader has come in the feed: the row that it came to last. The zero
// Place is before the first row.
type Place struct {
	System    uint64 // identifier of the database system whose transaction Xact is
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

// ErrBadPlace is returned by ParsePlace for text that Place.String has not made.
var ErrBadPlace = errors.New("not a cursor of an earlier answer")

const (
	placeForm  = 1 // of the text below
	placeBytes = 1 + 8 + 8 + 16 + 4 + 16
)

// String is the place as callers keep it: an opaque cursor of letters, digits, - and _.
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

// ParsePlace reads the text of String. One that was made up is a place as well: it leads to
// no row that its reader may not see.
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

// Subscription is what one reader of the feed wants to hear, and by which token.
type Subscription struct {
	Bearer
	Participants []string            // of the token's; nil: all of them
	Types        []payment.EventType // nil: all
}

// Heard is what the feed has after a place.
type Heard struct {
	Events []HeardEvent
	// Refused says of subscriptions, by their index, why they are not served: ErrToken
	// or ErrForbidden. They hear nothing of Events.
	Refused map[int]error
	// Place is where the next look goes on.
	Place Place
	// More is set where the look ended before the feed did.
	More bool
	// WentBack is set where a failover or a restore had forgotten the row of the place that
	// was given: some events are told again.
	WentBack bool
	// HeldSince is the time of the first row that is not told yet, because a transaction that
	// began before it is still under way in the server; zero: none is.
	HeldSince time.Time
}

// HeardEvent is an event, and for whom it is.
type HeardEvent struct {
	payment.Event
	For []int // indexes of subscriptions
	At  Place // of the feed, at which it is told
	// Last is set where no other event of the place follows, so that a reader may resume from it.
	Last bool
}
