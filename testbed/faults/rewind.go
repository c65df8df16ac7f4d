package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// rewind is a way to make the data go back to an earlier moment. The server keeps its
// address, so that every process finds it again.
type rewind interface {
	// mark makes the present the moment to which the data goes back.
	mark(ctx context.Context, w *World) error
	// lose ends the server at once; all that it wrote since the mark is lost.
	lose(ctx context.Context, w *World) error
	// raise starts a server at the same address, with the data as it was at the mark.
	raise(ctx context.Context, w *World) error
}

// point is a moment to which the data can go back.
type point struct {
	at        time.Time // by the database's clock
	snapshots int       // how many were taken before it, and still have to hold
}

// markWith makes the present the moment to which the data goes back.
func (w *World) markWith(ctx context.Context, r rewind) (point, error) {
	if err := w.Snapshot(ctx); err != nil {
		return point{}, err
	}
	p := point{snapshots: len(w.snapshots)}
	if err := w.admin.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&p.at); err != nil {
		return p, err
	}
	return p, r.mark(ctx, w)
}

// goBack ends the server and starts it again from the point. It calls between while the
// server is down and only the services run.
func (w *World) goBack(ctx context.Context, r rewind, p point, between func() error) error {
	if err := r.lose(ctx, w); err != nil {
		return err
	}
	w.windows = append(w.windows, Window{From: p.at, To: time.Now()})
	w.snapshots = w.snapshots[:p.snapshots]
	if err := between(); err != nil {
		return err
	}
	if err := r.raise(ctx, w); err != nil {
		return err
	}
	return w.Reconnect(ctx)
}

// newFolder returns the path of a folder of the run that does not exist yet.
func (w *World) newFolder(kind string) string {
	for n := 1; ; n++ {
		path := filepath.Join(w.dir, fmt.Sprintf("%s-%d", kind, n))
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return path
		}
	}
}

// restart starts the lane's server again, and connects the oracle to it.
func (w *World) restart(ctx context.Context) error {
	if err := w.Lane.Server.Restart(ctx); err != nil {
		return err
	}
	return w.Reconnect(ctx)
}

// copyData copies the data folder of a server that is down.
func copyData(ctx context.Context, from, to string) error {
	if output, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the server: %w\n%s", err, output)
	}
	// A server that was killed leaves this file behind. The process id in it may be that of
	// any process by now.
	if err := os.Remove(filepath.Join(to, "postmaster.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// replaceData replaces the data of the lane's server with a copy of other data.
func (w *World) replaceData(ctx context.Context, data string) error {
	own := w.Lane.Server.DataDir()
	if err := os.RemoveAll(own); err != nil {
		return err
	}
	return copyData(ctx, data, own)
}

// configure appends settings to those of a data folder, which they override.
func configure(data string, settings ...string) error {
	file, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, each := range settings {
		if _, err := file.WriteString(each + "\n"); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return file.Close()
}

// lagging is an asynchronous standby that stalls at the mark, and takes over the
// primary's address when the primary is lost.
type lagging struct{ *standby }

func newLagging(ctx context.Context, w *World) (rewind, error) {
	s, err := w.newStandby(ctx)
	return lagging{s}, err
}

func (l lagging) mark(ctx context.Context, w *World) error {
	var seen string
	if err := w.admin.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn()::text`).Scan(&seen); err != nil {
		return err
	}
	if err := w.standbyHas(ctx, seen); err != nil {
		return err
	}
	l.wire.Cut()
	return nil
}

func (l lagging) lose(_ context.Context, w *World) error { return w.Lane.Server.Kill9() }

func (l lagging) raise(ctx context.Context, w *World) error {
	if _, err := l.promote(ctx); err != nil {
		return err
	}
	if err := l.server.Stop(ctx); err != nil {
		return err
	}
	if err := w.replaceData(ctx, l.server.DataDir()); err != nil {
		return err
	}
	return w.Lane.Server.Restart(ctx)
}

// image is a storage snapshot: a copy of the data folder of a server that was stopped or
// that crashed. A server that starts from it has the same identity and timeline as
// before.
type image struct{ data string }

func newImage(context.Context, *World) (rewind, error) { return &image{}, nil }

func (i *image) mark(ctx context.Context, w *World) error {
	i.data = w.newFolder("image")
	if err := w.endLane(); err != nil {
		return err
	}
	server := w.Lane.Server
	stop := func() error { return server.Halt(ctx) }
	if w.draws.IntN(2) == 0 {
		stop = server.Kill9
	}
	if err := stop(); err != nil {
		return err
	}
	if err := copyData(ctx, server.DataDir(), i.data); err != nil {
		return err
	}
	return w.restart(ctx)
}

func (i *image) lose(_ context.Context, w *World) error { return w.Lane.Server.Kill9() }

func (i *image) raise(ctx context.Context, w *World) error {
	if err := w.replaceData(ctx, i.data); err != nil {
		return err
	}
	return w.Lane.Server.Restart(ctx)
}
