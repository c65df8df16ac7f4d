package store

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/engine"
	"github.com/railhead-pay/railhead/outbox"
)

// doubtKey is the key of a connection's doubts in its custom data.
const doubtKey = "railhead.doubts"

// doubts are what the server has said on a connection by which a commit may be lost.
type doubts struct {
	count atomic.Int64
	why   atomic.Pointer[string] // the last one
}

// How often a warning goes into the log, and how many kinds of them.
const (
	warnedEvery = time.Hour
	warnedMost  = 32
)

// warnings has what servers warn of on the connections of a DB.
type warnings struct {
	log *slog.Logger // nil: none

	mu     sync.Mutex
	logged map[[2]string]time.Time // by routine and SQLSTATE
}

// note counts a doubt, and logs any other warning.
func (w *warnings) note(c *pgconn.PgConn, notice *pgconn.Notice) {
	if why := engine.Doubt(notice); why != "" {
		if on, ok := c.CustomData()[doubtKey].(*doubts); ok {
			on.why.Store(&why)
			on.count.Add(1)
		}
		return
	}
	if w.log != nil && engine.IsWarning(notice) && w.next(notice, time.Now()) {
		w.log.Warn("the database warns", "warning", warningText(notice), "code", notice.Code,
			"routine", notice.Routine, "file", notice.File)
	}
}

// next reports whether a warning goes into the log: one of each kind within warnedEvery.
func (w *warnings) next(notice *pgconn.Notice, now time.Time) bool {
	kind := [2]string{notice.Routine, notice.Code}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, known := w.logged[kind]
	if known && now.Sub(last) < warnedEvery || !known && len(w.logged) == warnedMost {
		return false
	}
	if w.logged == nil {
		w.logged = make(map[[2]string]time.Time, 1)
	}
	w.logged[kind] = now
	return true
}

// warningText is the text of a warning about transaction ids, which has the name of a database and a number. Another
// one may be of a trigger or an extension, which puts statements with their values into it.
func warningText(notice *pgconn.Notice) string {
	if notice.File != "varsup.c" && notice.File != "multixact.c" {
		return "see the log of the server: the text may have values of a statement"
	}
	return strings.TrimSpace(notice.Message + ". " + notice.Hint)
}

// doubtsOn returns how often the server has said on a connection that a commit may be lost.
func doubtsOn(conn *pgx.Conn) int64 {
	if on, ok := conn.PgConn().CustomData()[doubtKey].(*doubts); ok {
		return on.count.Load()
	}
	return 0
}

// doubted returns outbox.ErrCommitUnknown if there are more doubts on a connection than there were before.
func doubted(conn *pgx.Conn, before int64) error {
	on, ok := conn.PgConn().CustomData()[doubtKey].(*doubts)
	if !ok || on.count.Load() == before {
		return nil
	}
	return fmt.Errorf("%w: %s", outbox.ErrCommitUnknown, *on.why.Load())
}
