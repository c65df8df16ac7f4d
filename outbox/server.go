package outbox

import "time"

// Server is the identity and state of a database server. The identifier and the timeline
// change in a failover or a restore. Rows are lost only with such a change, or with a
// start of the server.
type Server struct {
	Version          int // 150018 is 15.18
	SystemIdentifier string
	Timeline         int64
	StartedAt        time.Time // of the server process, by its own clock
	LogPosition      int64     // bytes of write-ahead log since its beginning
	Now              time.Time // the database's clock when this was read
	// AcceptedAt is when this identifier and timeline were accepted; zero: they were not.
	AcceptedAt time.Time
	// Suspensions are the latest, newest first.
	Suspensions []Suspension
}

// Up returns how long the server has been running.
func (s Server) Up() time.Duration { return s.Now.Sub(s.StartedAt) }

// Same reports whether other is the same server since the same start.
func (s Server) Same(other Server) bool {
	return s.SystemIdentifier == other.SystemIdentifier &&
		s.Timeline == other.Timeline && s.StartedAt.Equal(other.StartedAt)
}
