package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// Replayed is the replay of a server's WAL by a copy of it that has the machine to itself.
type Replayed struct {
	Took time.Duration // by its own clock
	WAL  int64         // bytes
}

// replayWithin bounds the start of the copy, whose replay is part of it.
const replayWithin = 15 * time.Minute

// Replay measures how fast a standby could follow: it starts a server, backs it up after before
// has worked on it, and has the copy replay the WAL that during adds, from its own disk. Then it
// calls after with the copy.
func Replay(ctx context.Context, o Options, before, during, after func(*Server) error) (r Replayed, err error) {
	temp, err := os.MkdirTemp(o.Root, "railhead-replay-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	if err := os.Chmod(temp, 0o755); err != nil { // the server runs as another account when this process is root
		return r, err
	}
	settings := Settings()
	settings["wal_keep_size"] = "64GB"
	maps.Copy(settings, o.Settings)
	first, copied := filepath.Join(temp, "first"), filepath.Join(temp, "copy")
	begun, err := pgserver.Start(ctx, pgserver.Options{DataDir: first, TempRoot: o.Root, Settings: settings})
	if err != nil {
		return r, fmt.Errorf("starting PostgreSQL: %w", err)
	}
	primary := &Server{postgres: begun}
	defer func() { err = errors.Join(err, primary.Stop(ctx)) }()
	if err := before(primary); err != nil {
		return r, err
	}
	if err := primary.backUp(ctx, first, copied); err != nil {
		return r, err
	}
	from, err := primary.Read(ctx)
	if err != nil {
		return r, err
	}
	if err := during(primary); err != nil {
		return r, err
	}
	to, err := primary.Read(ctx)
	if err != nil {
		return r, err
	}
	r.WAL = to.Since(from).WAL
	if err := errors.Join(
		begun.Halt(ctx),
		duplicate(ctx, filepath.Join(first, "pg_wal")+"/.", filepath.Join(copied, "pg_wal")),
		os.WriteFile(filepath.Join(copied, "recovery.signal"), nil, 0o644),
	); err != nil {
		return r, err
	}
	settings["restore_command"] = "false" // everything is there
	second, err := pgserver.Start(ctx, pgserver.Options{DataDir: copied, TempRoot: o.Root, Settings: settings,
		StartTimeout: replayWithin})
	if err != nil {
		return r, fmt.Errorf("starting the copy: %w", err)
	}
	standby := &Server{postgres: second}
	defer func() { err = errors.Join(err, standby.Stop(ctx)) }()
	if err := standby.recovered(ctx); err != nil {
		return r, err
	}
	log, err := os.ReadFile(second.LogFile())
	if err != nil {
		return r, err
	}
	if r.Took, err = redoTook(log); err != nil {
		return r, err
	}
	return r, after(standby)
}

// backUp copies the data of the server while it runs, as a base backup does.
func (s *Server) backUp(ctx context.Context, from, to string) error {
	return s.as(ctx, "postgres", func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_backup_start('replay', true)"); err != nil {
			return err
		}
		if err := duplicate(ctx, from, to); err != nil {
			return err
		}
		var label string
		if err := conn.QueryRow(ctx, "SELECT labelfile FROM pg_backup_stop(false)").Scan(&label); err != nil {
			return err
		}
		name := filepath.Join(to, "backup_label")
		return errors.Join(
			os.Remove(filepath.Join(to, "postmaster.pid")),
			os.WriteFile(name, []byte(label), 0o600),
			os.Chmod(name, 0o666), // the server may run as another account, and writes it
		)
	})
}

// duplicate copies a folder.
func duplicate(ctx context.Context, from, to string) error {
	if output, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the server: %w\n%s", err, output)
	}
	return nil
}

// recovered waits until the replay has ended.
func (s *Server) recovered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, replayWithin)
	defer cancel()
	for {
		var recovering bool
		err := s.as(ctx, "postgres", func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&recovering)
		})
		if err != nil || !recovering {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the copy replays still: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// logTick is the resolution of the time in the log: a shorter time counts as logTick.
const logTick = 10 * time.Millisecond

var redoDone = regexp.MustCompile(`redo done at .* elapsed: ([0-9.]+) s`)

// redoTook returns how long the replay took, according to a server's log.
func redoTook(log []byte) (time.Duration, error) {
	found := redoDone.FindSubmatch(log)
	if found == nil {
		return 0, errors.New("the copy's log does not say that its replay is done")
	}
	seconds, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return 0, fmt.Errorf("how long the replay took: %w", err)
	}
	return max(time.Duration(seconds*float64(time.Second)), logTick), nil
}
