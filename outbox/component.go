package outbox

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// RailRow is a rail of the cell as the database has it.
type RailRow struct {
	RailType       string
	ProfileVersion int
	Profile        []byte // JSON
	Paused         bool   // itself, or everything
	// Suspended is set while a suspension is open. DoubtedUnder is then what the versions
	// of the profile before the one in force say of keys that were in force since the
	// moment from which rows may be missing.
	Suspended    bool
	DoubtedUnder []payment.KeyRules
}

// ComponentKinds lists the kinds of components that beat.
func ComponentKinds() []string { return []string{"relayer", "reaper", "callback", "ingest", "events"} }

// Heartbeat is one sign of life of a component.
type Heartbeat struct {
	Name     string // its worker id
	Kind     string // one of ComponentKinds
	Host     string
	Version  string
	Status   string // starting, running, draining, stopped or held
	Activity string // what it does, for a person
	// Budget is by what it runs, at the longest: claims that it made by an older one
	// may still be open. The database takes the longer one of this and of its own; the
	// zero value takes the database's.
	Budget TimeBudget
	// Looked is the start of the server that the component has looked at: a beat
	// on another one is refused with ErrServerChanged. Zero: any.
	Looked time.Time
	// Vouched is set where it has compared that start with what it remembers.
	Vouched bool
	// Lanes are the rails that a relayer serves, in the order of their names.
	Lanes []LaneReport
}

// LaneReport is what a relayer says of a rail that it serves. Waits are in
// milliseconds from the beat.
type LaneReport struct {
	RailType       string `json:"rail_type"`
	ProfileVersion int    `json:"profile_version"`
	Slots          int    `json:"slots"` // the most calls that may be under way
	Calls          int    `json:"calls"` // that are
	// Breaker is CLOSED, OPEN or HALF_OPEN; it lets a probe through after OpenMS.
	Breaker string  `json:"breaker"`
	OpenMS  int64   `json:"open_ms,omitempty"`
	Rate    float64 `json:"rate,omitempty"` // calls a second that may be started; 0: there is no bound
	// Suspended says why it is not claimed, where the database may have forgotten
	// sends or was not compared yet with what components remember.
	Suspended string `json:"suspended,omitempty"`
	// StoppedMS is the wait until a lane whose rows could not be claimed is tried
	// again; 0: it is not stopped.
	StoppedMS int64 `json:"stopped_ms,omitempty"`
}

// Pulse is the answer to a Heartbeat.
type Pulse struct {
	Beats int64 // how many the row counts
	// Budget is the time budget of the cell. The component may run by it from now on:
	// the row says so already.
	Budget TimeBudget
}
