package outbox

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// RailRow is a rail of the cell, read from the database.
type RailRow struct {
	RailType       string
	ProfileVersion int
	Profile        []byte // JSON
	Paused         bool   // itself, or everything
	// Suspended is set while a suspension is open. DoubtedUnder are then the key rules of
	// the earlier profile versions that were in force at some time since the moment from
	// which rows may be missing.
	Suspended    bool
	DoubtedUnder []payment.KeyRules
}

// ComponentKinds lists the kinds of components that send heartbeats.
func ComponentKinds() []string { return []string{"relayer", "reaper", "callback", "ingest", "events"} }

// Heartbeat is one heartbeat of a component.
type Heartbeat struct {
	Name     string // its worker id
	Kind     string // one of ComponentKinds
	Host     string
	Version  string
	Status   string // starting, running, draining, stopped or held
	Activity string // its current work, in a sentence for operators
	// Budget has the longest spans by which the component still works: claims that it made
	// by an older budget may be open. The database stores the longer one of each span of
	// this and its own budget; for the zero value it stores its own.
	Budget TimeBudget
	// Looked is the start of the server that the component has checked: a heartbeat on
	// another one is refused with ErrServerChanged. Zero: any.
	Looked time.Time
	// Vouched is set if the component has compared that start with its memory.
	Vouched bool
	// Lanes are the rails that a relayer serves, in the order of their names.
	Lanes []LaneReport
}

// LaneReport is a relayer's report about a rail that it serves. Waits are in
// milliseconds from the heartbeat.
type LaneReport struct {
	RailType       string `json:"rail_type"`
	ProfileVersion int    `json:"profile_version"`
	Slots          int    `json:"slots"` // the maximum of calls in flight
	Calls          int    `json:"calls"` // calls in flight
	// Breaker is CLOSED, OPEN or HALF_OPEN; it lets a probe through after OpenMS.
	Breaker string  `json:"breaker"`
	OpenMS  int64   `json:"open_ms,omitempty"`
	Rate    float64 `json:"rate,omitempty"` // calls that may start per second; 0: no bound
	// Suspended is why the lane is not claimed while the database may have lost sends, was
	// not yet compared with the memory of components, or takes no outcomes, or while the
	// profile in force can't be used. Where none could be used since the start, version and
	// slots are 0.
	Suspended string `json:"suspended,omitempty"`
	// StoppedMS is the wait until a lane whose rows could not be claimed is tried
	// again; 0: it is not stopped.
	StoppedMS int64 `json:"stopped_ms,omitempty"`
}

// Pulse is the answer to a Heartbeat.
type Pulse struct {
	Beats int64 // the number of heartbeats in the row
	// Budget is the time budget of the cell. The component may work by it from now on: its
	// row already has it.
	Budget TimeBudget
}
