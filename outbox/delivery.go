package outbox

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// EndpointLease is one worker's right to deliver events to an endpoint.
type EndpointLease struct {
	Endpoint string
	Worker   string
	Epoch    int64 // of what the worker notes; another one's is refused with ErrNotHeld
	// HeldBy names the worker that has it where this one does not; empty: this one has it.
	HeldBy string
	// PausedAt is since when nothing is delivered, and PauseReason why; zero: it is.
	PausedAt    time.Time
	PauseReason string
}

// DueEvent is an event that is to be delivered to an endpoint.
type DueEvent struct {
	payment.Event
	// Retry is set where it waits in the endpoint's row of what was not taken; Tries are
	// how often it was tried.
	Retry bool
	Tries int
	// Behind is set of one that is no Retry where an earlier event of its instruction waits.
	Behind bool
	// At and Last are as of HeardEvent, of one that is no Retry.
	At   Place
	Last bool
}

// DueEvents is what is to be delivered to an endpoint.
type DueEvents struct {
	// Events are the retries first, those of an instruction in their order, then what follows
	// the endpoint's place.
	Events []DueEvent
	// Forgotten waited to be tried again, and is told no more: it is not in the archive any
	// more, or not of the participants and types that were asked for.
	Forgotten []payment.EventKey
	// Place is where the next look goes on once all of Events are delivered or wait.
	Place Place
	// More is set where the look ended before the feed did.
	More bool
	// WentBack is set where a failover or a restore had forgotten the row of the endpoint's
	// place: some events are told again.
	WentBack bool
	// Waiting is how many events wait to be tried again, GivenUp how many of them are not tried
	// by themselves; OldestWaiting is the time of the oldest, zero: there is none.
	Waiting, GivenUp int
	OldestWaiting    time.Time
	// Notes is by which number the worker notes what it delivers of this.
	Notes int64
}

// WaitingEvent is an event that an endpoint has not taken, or that waits behind such a one.
type WaitingEvent struct {
	payment.Event
	Tries  int
	Status string // why the last try failed, in a word; empty: it only waits
	// Wait is until it is tried again. GivenUp: it is not, until an operator asks.
	Wait    time.Duration
	GivenUp bool
}

// DeliveryNote is what a worker notes of the events that were due.
type DeliveryNote struct {
	Notes   int64              // of the look at what was due
	Place   Place              // the endpoint's from now on; zero: as it was
	Done    []payment.EventKey // waited, and wait no more
	Waiting []WaitingEvent     // wait from now on
	Taken   bool               // the endpoint took something
	Again   bool               // what waits is due now but for what was given up, because the endpoint answers again
}

// IsEmpty reports whether there is nothing to note.
func (n DeliveryNote) IsEmpty() bool {
	return n.Place.IsZero() && len(n.Done) == 0 && len(n.Waiting) == 0 && !n.Taken && !n.Again
}

// ListedEndpoint is an endpoint as operators see it.
type ListedEndpoint struct {
	Endpoint      string    `json:"endpoint_id"`
	CreatedAt     time.Time `json:"created_at"`
	PausedAt      time.Time `json:"paused_at,omitzero"`
	PauseReason   string    `json:"pause_reason,omitempty"`
	Worker        string    `json:"worker_id,omitempty"` // that has it, or had it last
	LeaseUntil    time.Time `json:"lease_until,omitzero"`
	DeliveredAt   time.Time `json:"delivered_at,omitzero"` // when it took an event last
	ReadUntil     time.Time `json:"read_until,omitzero"`   // when the row of its place was written
	Waiting       int       `json:"waiting"`
	GivenUp       int       `json:"given_up"`
	OldestWaiting time.Time `json:"oldest_waiting_at,omitzero"`
	LastStatus    string    `json:"last_status,omitempty"` // why the last try failed
}
