package ha

import (
	"context"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// breakage is one way to break the primary, or etcd.
type breakage struct {
	name string
	// strike breaks the primary. If it returns a moment, the cell can be written to from then
	// on at the earliest; otherwise from the strike on.
	strike func(context.Context, *run, *host) (time.Time, error)
	// watch checks rules of its own while the old primary is still broken and the new one
	// works; nil checks nothing.
	watch func(context.Context, *run, *host) error
	// undo mends what was broken, after another host has taken over.
	undo func(context.Context, *run, *host) error
	// same means that the old primary may be the new one.
	same bool
}

// breakages returns all of them, in the order in which they are dealt.
func breakages() []breakage {
	return []breakage{
		{name: "the primary is killed", strike: strikeKill, undo: undoKill},
		{name: "the primary is cut off", strike: strikeCut, undo: undoCut},
		{name: "etcd loses its quorum", strike: strikeQuorum, undo: undoNothing, same: true},
		{name: "the primary is frozen", strike: strikeFreeze, undo: undoFreeze},
		{name: "Patroni alone is frozen", strike: strikePatroni, watch: watchSplit, undo: undoFreeze},
		{name: "the disk of the primary is full", strike: strikeDisk, undo: undoDisk},
	}
}

func strikeKill(_ context.Context, _ *run, primary *host) (time.Time, error) {
	return time.Time{}, primary.kill()
}

func undoKill(_ context.Context, _ *run, old *host) error { return old.start("patroni") }

// strikeCut cuts the primary off from etcd, from the other hosts and from the services.
func strikeCut(_ context.Context, r *run, primary *host) (time.Time, error) {
	return time.Time{}, primary.cut(r.w.Draws().IntN(2) == 0)
}

func undoCut(_ context.Context, _ *run, old *host) error { return old.mend() }

func strikeFreeze(_ context.Context, _ *run, primary *host) (time.Time, error) {
	return time.Time{}, primary.freeze()
}

// undoFreeze lets PostgreSQL go on before Patroni does: for a moment nothing keeps the old
// primary from serving.
func undoFreeze(ctx context.Context, r *run, old *host) error {
	if err := old.signalPostgres(syscall.SIGCONT); err != nil {
		return err
	}
	if err := r.feedFor(ctx, 2*time.Second); err != nil {
		return err
	}
	return old.thaw()
}

// strikePatroni stops Patroni alone. There is no watchdog, so the old PostgreSQL runs on as
// a primary when the standby takes over.
func strikePatroni(_ context.Context, _ *run, primary *host) (time.Time, error) {
	return time.Time{}, primary.signalPatroni(syscall.SIGSTOP)
}

// strikeDisk fills the disk of the primary's data, and has the server need more of it.
func strikeDisk(ctx context.Context, r *run, primary *host) (time.Time, error) {
	begun := time.Now()
	if err := primary.fillDisk(); err != nil {
		return begun, err
	}
	conn, err := pgx.Connect(ctx, primary.direct("postgres", ""))
	if err != nil {
		return begun, nil // it has met the full disk
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// The preallocated files are soon used up: each switch of the WAL needs a new file.
	err = r.until(ctx, time.Minute, "the server to meet the full disk", func() (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := conn.Exec(ctx, `SELECT pg_switch_wal()`); err != nil {
			return true, nil
		}
		_, err := conn.Exec(ctx, `SELECT pg_logical_emit_message(false, 'ha', repeat('x', 100000))`)
		return err != nil, nil
	})
	return time.Time{}, err
}

func undoDisk(_ context.Context, r *run, old *host) error {
	if err := old.emptyDisk(); err != nil {
		return err
	}
	if p := old.services["patroni"]; p.Alive() {
		return nil
	}
	r.say("%s: Patroni had ended on the full disk, and is started again", old.name)
	return old.start("patroni")
}

// quietWithin bounds how long a primary may go on without etcd: ttl, and a retry.
const quietWithin = 40 * time.Second

// strikeQuorum takes two of three members of etcd away, sees that no host accepts writes
// and none is acknowledged, and brings them back.
func strikeQuorum(ctx context.Context, r *run, _ *host) (time.Time, error) {
	lost := r.w.Draws().Perm(hostCount)[:2]
	frozen := r.w.Draws().IntN(2) == 0
	for _, n := range lost {
		p := r.hosts.db[n].services["etcd"]
		if frozen {
			if err := p.Signal(syscall.SIGSTOP); err != nil {
				return time.Time{}, err
			}
			continue
		}
		if err := p.Kill(); err != nil {
			return time.Time{}, err
		}
	}
	if err := r.until(ctx, quietWithin, "the primary to stop without etcd", func() (bool, error) {
		return !r.writable(ctx), nil
	}); err != nil {
		return time.Time{}, err
	}
	quiet := time.Now()
	if err := r.feedFor(ctx, 10*time.Second); err != nil {
		return time.Time{}, err
	}
	recent, err := r.w.Since(quiet)
	if err != nil {
		return time.Time{}, err
	}
	if n := len(recent.Acknowledged); n > 0 || r.writable(ctx) {
		r.w.Broken("%d calls were acknowledged while etcd had no quorum", n)
	}
	back := time.Now()
	for _, n := range lost {
		one := r.hosts.db[n]
		if !frozen {
			err = one.start("etcd")
		} else {
			err = one.services["etcd"].Signal(syscall.SIGCONT)
		}
		if err != nil {
			return back, err
		}
	}
	return back, nil
}

func undoNothing(context.Context, *run, *host) error { return nil }

// writable reports whether PostgreSQL on any host says that it can be written to.
func (r *run) writable(ctx context.Context) bool {
	for _, one := range r.hosts.db {
		if one.writable(ctx) {
			return true
		}
	}
	return false
}

func (o *host) writable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, o.direct("postgres", "")) // read-write, or it is an error
	if err != nil {
		return false
	}
	_ = conn.Close(ctx)
	return true
}
