package ledger

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config is the connection to a cell.
type Config struct {
	// URL is a libpq connection string or URL; PG* variables supply the values that it
	// does not have.
	URL string
	// Cell is the schema of the installation.
	Cell string
	// Name is the application_name in pg_stat_activity.
	Name string
	// MaxConns bounds the pool, 1 to 100; 0 is 4.
	MaxConns int32
	// ConnectTimeout bounds one connection attempt, and then the checks of the new connection, for which there are 5 s
	// at least; 0 is 5 s.
	ConnectTimeout time.Duration
	// Tracer traces every query; nil: none.
	Tracer pgx.QueryTracer
	// Log gets what the server warns of, each kind once an hour; nil: nothing is logged.
	Log *slog.Logger
}
