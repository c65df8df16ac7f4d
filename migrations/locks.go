package migrations

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Patience is how long Up tries again while other transactions hold a lock that it needs.
type Patience struct {
	// Within is the time in which one migration is tried again; default DefaultWithin. A try that
	// has begun is ended by its own bounds.
	Within time.Duration
	// Waits is called after each try that did not get a lock and is repeated. It may be nil.
	Waits func(Wait)
}

// DefaultWithin is the default of Patience.Within.
const DefaultWithin = 5 * time.Minute

// pauseLeast is the shortest pause between two tries, the longest one is twice as long: what waited
// behind a try has to get through, and the tries of two commands should not meet.
const pauseLeast = 2 * time.Second

// Wait is a try that was ended because another transaction held a lock.
type Wait struct {
	Doing   string        // the migration, or what else was to be done
	Try     int           // 1 is the first
	Tried   time.Duration // since the first
	Again   time.Duration // the pause until the next one
	Holders []Holder      // as seen last during the try, at most five; empty if they were not seen
}

func (w Wait) String() string {
	return fmt.Sprintf("%s waits for a lock, %s: tried %d times in %s, again in %.1fs",
		w.Doing, heldBy(w.Holders), w.Try, w.Tried.Round(time.Second), w.Again.Seconds())
}

// Holder is a transaction that held a lock for which a migration waited.
type Holder struct {
	PID         int32  // 0: a prepared transaction, which has no session
	GID         string // of a prepared transaction
	Login       string
	Application string // its application_name
	State       string // as in pg_stat_activity; empty if it is not shown to this login
	Since       time.Time
}

func (h Holder) String() string {
	since := "since when is not shown to this login"
	if !h.Since.IsZero() {
		since = "since " + h.Since.UTC().Format(time.RFC3339)
	}
	if h.PID == 0 {
		return fmt.Sprintf("prepared transaction %q (login %q, %s)", h.GID, h.Login, since)
	}
	facts := []string{"login " + strconv.Quote(h.Login), "application " + strconv.Quote(h.Application)}
	if h.State != "" {
		facts = append(facts, h.State)
	}
	return fmt.Sprintf("pid %d (%s)", h.PID, strings.Join(append(facts, since), ", "))
}

func heldBy(holders []Holder) string {
	if len(holders) == 0 {
		return "and what holds it was not seen"
	}
	names := make([]string, len(holders))
	for n, holder := range holders {
		names[n] = holder.String()
	}
	return "which is held by " + strings.Join(names, "; ")
}

// LockedError is the error of an Up that did not get a lock in any of its tries. What was applied
// before stays, and what it was doing was rolled back.
type LockedError struct {
	Wait Wait // the last try
	err  error
}

func (e *LockedError) Error() string {
	var end strings.Builder
	end.WriteString("End that transaction")
	for _, holder := range e.Wait.Holders {
		if holder.PID != 0 {
			fmt.Fprintf(&end, ", or have a superuser run SELECT pg_terminate_backend(%d)", holder.PID)
		} else {
			fmt.Fprintf(&end, ", or have its owner commit or roll back prepared transaction %q", holder.GID)
		}
	}
	if len(e.Wait.Holders) == 0 {
		end.Reset()
		end.WriteString("Look for transactions that are open for long in pg_stat_activity and pg_prepared_xacts, end them")
	}
	server := e.err
	if pgErr, ok := errors.AsType[*pgconn.PgError](e.err); ok {
		server = pgErr // without what names the migration once more
	}
	return fmt.Sprintf("%s was not done: %d tries in %s did not get a lock, %s: %v\n%s, and run the same command again",
		e.Wait.Doing, e.Wait.Try, e.Wait.Tried.Round(time.Second), heldBy(e.Wait.Holders), server, end.String())
}

// Unwrap returns the error of the server.
func (e *LockedError) Unwrap() error { return e.err }

// persist repeats a step that did not get a lock. The step reports whether it has got further than
// before: then the bound begins anew.
func (o *opened) persist(ctx context.Context, step func() (further bool, err error)) error {
	begun := time.Now()
	for try := 1; ; try++ {
		seen := o.watchHolders(ctx)
		further, err := step()
		holders := seen()
		if !waitedForLock(err) {
			return err
		}
		if further {
			begun, try = time.Now(), 1
		}
		pause := pauseLeast + rand.N(pauseLeast)
		wait := Wait{Doing: o.doing, Try: try, Tried: time.Since(begun), Again: pause, Holders: holders}
		if wait.Tried+pause > o.patience.Within {
			return &LockedError{Wait: wait, err: err}
		}
		if o.patience.Waits != nil {
			o.patience.Waits(wait)
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// holdersEvery is how often the holders are read during a try: afterwards the server no longer has
// them.
const holdersEvery = 100 * time.Millisecond

// watchHolders reads what the sessions of Up wait for, on a connection of its own, until the
// function that it returns is called. That function returns the last ones.
func (o *opened) watchHolders(ctx context.Context) (stop func() []Holder) {
	ctx, cancel := context.WithCancel(ctx)
	last := make(chan []Holder, 1)
	go func() {
		var seen []Holder
		var conn *pgx.Conn
		defer func() {
			if conn != nil {
				conn.Close(context.WithoutCancel(ctx)) // it has only read
			}
			last <- seen
		}()
		tick := time.NewTicker(holdersEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// Without a connection the tries go on, and do not name the holders.
			var err error
			if conn == nil || conn.IsClosed() {
				if conn, err = pgx.ConnectConfig(ctx, o.config.Copy()); err != nil {
					conn = nil
					continue
				}
			}
			if found, err := holders(ctx, conn, o.sessions.all()); err == nil && len(found) > 0 {
				seen = found
			}
		}
	}()
	return func() []Holder {
		cancel()
		return <-last
	}
}

//go:embed holders.sql
var holdersSQL string

func holders(ctx context.Context, conn *pgx.Conn, sessions []int32) ([]Holder, error) {
	rows, err := conn.Query(ctx, holdersSQL, sessions)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Holder, error) {
		var h Holder
		var since *time.Time
		err := row.Scan(&h.PID, &h.Login, &h.Application, &h.State, &since, &h.GID)
		if since != nil {
			h.Since = *since
		}
		return h, err
	})
}
