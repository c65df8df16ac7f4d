package rails

import (
	"fmt"
	"maps"
	"slices"

	"github.com/railhead-pay/railhead/outbox"
)

// Ordering is what the rail requires of the sequence of sends of one participant. Those of
// different participants are independent.
type Ordering struct {
	// Order applies to every participant that Participants does not name.
	Order Order `json:"order"`
	// OnBadEnd is what follows if an instruction that others wait behind ends unexecuted. It is
	// empty unless some participant is ordered; default BLOCK.
	OnBadEnd OnBadEnd `json:"order_on_bad_end,omitempty"`
	// Participants have an order of their own, at most MaxOrderParticipants.
	Participants map[string]Order `json:"order_participants,omitempty"`
}

// Order is how the instructions of one participant follow each other.
type Order string

// With NONE instructions are sent as they become due. With STRICT a participant has at most one
// instruction in flight, that with its lowest unresolved sequence_id.
const (
	OrderNone   Order = "NONE"
	OrderStrict Order = "STRICT"
)

// OnBadEnd is what follows an instruction that ended unexecuted without a cancellation: refused or
// expired.
type OnBadEnd string

// With BLOCK nothing follows until an operator has closed its dead letter. With SKIP the next
// instruction follows at once.
const (
	OnBadEndBlock OnBadEnd = "BLOCK"
	OnBadEndSkip  OnBadEnd = "SKIP"
)

// MaxOrderParticipants bounds Ordering.Participants.
const MaxOrderParticipants = 1000

// Of returns the order of a participant.
func (o Ordering) Of(participant string) Order {
	if own, ok := o.Participants[participant]; ok {
		return own
	}
	return o.Order
}

// Lane returns the order as a claim of the lane applies it.
func (o Ordering) Lane() outbox.Order {
	lane := outbox.Order{Strict: o.Order == OrderStrict}
	for _, participant := range slices.Sorted(maps.Keys(o.Participants)) {
		if o.Participants[participant] != o.Order {
			lane.Except = append(lane.Except, participant)
		}
	}
	return lane
}

func (o Ordering) withDefaults() Ordering {
	if o.Order == "" {
		o.Order = OrderNone
	}
	if o.OnBadEnd == "" && o.Lane().Any() {
		o.OnBadEnd = OnBadEndBlock
	}
	return o
}

func (o Ordering) validate() []error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if o.Order != OrderNone && o.Order != OrderStrict {
		refuse("order is %q, must be %s or %s", o.Order, OrderNone, OrderStrict)
	}
	switch {
	case !o.Lane().Any() && o.OnBadEnd != "":
		refuse("order_on_bad_end is %q, but no participant has order %s", o.OnBadEnd, OrderStrict)
	case o.Lane().Any() && o.OnBadEnd != OnBadEndBlock && o.OnBadEnd != OnBadEndSkip:
		refuse("order_on_bad_end is %q, must be %s or %s", o.OnBadEnd, OnBadEndBlock, OnBadEndSkip)
	}
	if len(o.Participants) > MaxOrderParticipants {
		refuse("order_participants has %d entries, more than %d", len(o.Participants), MaxOrderParticipants)
	}
	for _, participant := range slices.Sorted(maps.Keys(o.Participants)) {
		order := o.Participants[participant]
		if len(participant) < 1 || len(participant) > 128 {
			refuse("order_participants: a participant_id has 1 to 128 characters, not %d", len(participant))
		}
		if order != OrderNone && order != OrderStrict {
			refuse("order_participants[%q] is %q, must be %s or %s", participant, order, OrderNone, OrderStrict)
		}
	}
	return all
}
