package outbox

import "time"

// Server is what a database server says of itself. The identifier and the
// timeline change in a failover or a restore, and data goes back over no other
// moment than a change of these or a start.
type Server struct {
	Version          int // 150018 is 15.18
	SystemIdentifier string
	Timeline         int64
	StartedAt        time.Time // of the server process, by its own clock
	LogPosition      int64     // bytes of write-ahead log since its beginning
	Now              time.Time // the database's clock at this look
	// AcceptedAt is when this identifier and timeline were accepted; zero: they were not.
	AcceptedAt time.Time
	// Suspensions are the latest, newest first.
	Suspensions []Suspension
}

// Up is how long the server has been running.
func (s Server) Up() time.Duration { return s.Now.Sub(s.StartedAt) }

// Same reports whether the other is this server, in the same start of it.
func (s Server) Same(other Server) bool {
	return s.SystemIdentifier == other.SystemIdentifier && s.Timeline == other.Timeline && s.StartedAt.Equal(other.StartedAt)
}
