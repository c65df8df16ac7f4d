package pgtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// goneWithin is how long a session may take to notice that its client has closed it.
const goneWithin = 2 * time.Second

// Session is one server session on a test database.
type Session struct {
	PID         int32
	User        string
	Application string
	State       string // as in pg_stat_activity: "active", "idle", "idle in transaction", ...
	Query       string // the last one, at most 200 characters
	XactSeconds float64
}

func (s Session) String() string {
	return fmt.Sprintf("pid %d, user %s, application %q, %s for %.1f s, last query: %s",
		s.PID, s.User, s.Application, s.State, s.XactSeconds, s.Query)
}

const sessionsSQL = `
SELECT pid,
       COALESCE(usename::text, ''),
       COALESCE(application_name, ''),
       COALESCE(state, ''),
       left(query, 200),
       COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - xact_start), 0)::float8
  FROM pg_stat_activity
 WHERE datname = $1
   AND backend_type = 'client backend'
   AND pid <> pg_backend_pid()
 ORDER BY pid`

// Sessions lists the client sessions on the database.
func (db *DB) Sessions(ctx context.Context) (all []Session, err error) {
	err = db.cluster.retry(func() error {
		rows, err := db.cluster.admin.Query(ctx, sessionsSQL, db.Name)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Session])
		return err
	})
	return all, err
}

// inTransaction lists the sessions that stay inside an idle transaction. The server notices a
// closed client with a delay, so one look is not enough to report a session.
func (db *DB) inTransaction(ctx context.Context) ([]Session, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(goneWithin)
	for {
		all, err := db.Sessions(ctx)
		if err != nil {
			return nil, err
		}
		var idle []Session
		for _, s := range all {
			if strings.HasPrefix(s.State, "idle in transaction") {
				idle = append(idle, s)
			}
		}
		if len(idle) == 0 {
			return nil, nil
		}
		select {
		case <-deadline:
			return idle, nil
		case <-ctx.Done():
			return idle, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
