package outbox

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// EndpointLease is one worker's lease of an endpoint, for the delivery of events.
type EndpointLease struct {
	Endpoint string
	Worker   string
	Epoch    int64 // the fencing token of a DeliveryNote; an older one is refused with ErrNotHeld
	// HeldBy is the worker that has the lease if this one does not; empty: this one has it.
	HeldBy string
	// PausedAt is when an operator paused delivery, and PauseReason why; zero: it is not paused.
	PausedAt    time.Time
	PauseReason string
}

// DueEvent is an event that is to be delivered to an endpoint.
type DueEvent struct {
	payment.Event
	// Retry is set if the event waits because the endpoint did not accept it; Tries is the
	// number of tries.
	Retry bool
	Tries int
	// Behind is set if the event is no Retry and an earlier event of its instruction waits.
	Behind bool
	// At and Last are those of HeardEvent. A Retry has neither.
	At   Place
	Last bool
}

// DueEvents are the events that are to be delivered to an endpoint.
type DueEvents struct {
	// Events are the retries, in the order of each instruction, and then the events after
	// the endpoint's place.
	Events []DueEvent
	// Forgotten are events that waited for a retry and are no longer delivered: they have
	// left the archive, or are not of the participants and types of the endpoint.
	Forgotten []payment.EventKey
	// Place is where the next read continues once all Events are delivered or wait.
	Place Place
	// More is set if the read ended before the feed did.
	More bool
	// WentBack is set if a failover or a restore lost the row of the endpoint's place: some
	// events are delivered again.
	WentBack bool
	// Waiting is how many events wait for a retry. GivenUp is how many of them are not
	// retried until an operator requests it. OldestWaiting is the time of the oldest; zero:
	// there is none.
	Waiting, GivenUp int
	OldestWaiting    time.Time
	// Notes is the number of this read, for the DeliveryNote about it.
	Notes int64
}

// WaitingEvent is an event that an endpoint did not accept, or that waits behind such an
// event.
type WaitingEvent struct {
	payment.Event
	Tries  int
	Status string // why the last try failed, in a word; empty: there was none
	// Wait is the time until the next try. If GivenUp is set there is none until an
	// operator requests it.
	Wait    time.Duration
	GivenUp bool
}

// DeliveryNote is a worker's record of what it delivered.
type DeliveryNote struct {
	Notes   int64              // the number of the DueEvents
	Place   Place              // the endpoint's from now on; zero: unchanged
	Done    []payment.EventKey // waited, and wait no longer
	Waiting []WaitingEvent     // wait from now on
	Taken   bool               // the endpoint accepted an event
	Again   bool               // the endpoint answers again: the waiting events are due now, except those given up
}

// IsEmpty reports whether the note records nothing.
func (n DeliveryNote) IsEmpty() bool {
	return n.Place.IsZero() && len(n.Done) == 0 && len(n.Waiting) == 0 && !n.Taken && !n.Again
}

// ListedEndpoint is an endpoint as operators see it.
type ListedEndpoint struct {
	Endpoint      string    `json:"endpoint_id"`
	CreatedAt     time.Time `json:"created_at"`
	PausedAt      time.Time `json:"paused_at,omitzero"`
	PauseReason   string    `json:"pause_reason,omitempty"`
	Worker        string    `json:"worker_id,omitempty"` // that has the lease, or had it last
	LeaseUntil    time.Time `json:"lease_until,omitzero"`
	DeliveredAt   time.Time `json:"delivered_at,omitzero"` // when it last accepted an event
	ReadUntil     time.Time `json:"read_until,omitzero"`   // when the row of its place was written
	Waiting       int       `json:"waiting"`
	GivenUp       int       `json:"given_up"`
	OldestWaiting time.Time `json:"oldest_waiting_at,omitzero"`
	LastStatus    string    `json:"last_status,omitempty"` // why the last try failed
	GivenUpMark   int64     `json:"-"`                     // of the events that were given up; other ones have another
}
