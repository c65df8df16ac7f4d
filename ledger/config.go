package ledger

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// Config says how to reach a cell.
type Config struct {
	// URL is a libpq connection string or URL; PG* variables fill what it lacks.
	URL string
	// Cell is the schema of the installation.
	Cell string
	// Name shows in pg_stat_activity as application_name.
	Name string
	// MaxConns bounds the pool, 1 to 100; 0 is 4.
	MaxConns int32
	// ConnectTimeout bounds one connection attempt; 0 is 5 s.
	ConnectTimeout time.Duration
	// Tracer sees every query, if set.
	Tracer pgx.QueryTracer
}
