package payment

import "time"

// Server is what a database server says of itself. The identifier and the
// timeline change in a failover or a restore.
type Server struct {
	Version          int // 150018 is 15.18
	SystemIdentifier string
	Timeline         int64
	Up               time.Duration
}

// RailRow is a rail of the cell as the database has it.
type RailRow struct {
	RailType       string
	ProfileVersion int
	Profile        []byte // JSON
	Paused         bool   // itself, or everything
}

// ComponentKinds lists the kinds of components that beat.
func ComponentKinds() []string { return []string{"relayer", "reaper", "callback", "ingest"} }

// Heartbeat is one sign of life of a component.
type Heartbeat struct {
	Name     string // its worker id
	Kind     string // one of ComponentKinds
	Host     string
	Version  string
	Status   string // starting, running, draining, stopped or held
	Activity string // what it does, for a person
	// StaleAfter is the silence from which it counts as dead; 0 is 15 s.
	StaleAfter time.Duration
}
