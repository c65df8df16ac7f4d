package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// standby is a streaming standby of the lane's server. What it receives comes
// over a wire that can be cut: then the primary goes on and the standby does not.
type standby struct {
	server *pgserver.Server
	wire   *Wire
}

// follow gives the run a streaming standby, and lets every process find the one of the
// two servers that can be written to. The run has no processes yet when it is called:
// those that are started later get an address with two hosts.
func (w *World) follow(ctx context.Context) (*standby, error) {
	primary := w.Lane.Server
	s, err := w.newStandby(ctx)
	if err != nil {
		return nil, err
	}
	hosts := primary.TCPAddr() + "," + s.server.TCPAddr()
	w.reach = func(login string) string {
		return primary.TCPURL(hosts, w.database, login) + "&target_session_attrs=read-write"
	}
	return s, nil
}

// newStandby stops the lane's server for a copy, and returns once a standby
// streams from it.
func (w *World) newStandby(ctx context.Context) (*standby, error) {
	primary := w.Lane.Server
	if err := primary.AllowTCP(ctx, pgserver.Superuser); err != nil {
		return nil, err
	}
	data := w.newFolder("standby")
	if err := w.copyServer(ctx, data); err != nil {
		return nil, err
	}
	if err := w.restart(ctx); err != nil {
		return nil, err
	}
	s := &standby{}
	var err error
	if s.wire, err = NewWire("standby", AnyPort, primary.TCPAddr()); err != nil {
		return nil, err
	}
	w.ends = append(w.ends, func(context.Context) error { s.wire.Close(); return nil })
	if s.server, err = startStandby(ctx, data,
		primary.TCPURL(s.wire.Addr(), "postgres", "")+"&application_name=standby"); err != nil {
		return nil, err
	}
	w.ends = append(w.ends, s.server.Stop)
	return s, await.Until(ctx, startedWithin, "the standby to stream", func() (bool, error) { return w.streams(ctx) })
}

// copyServer stops the lane's server gracefully and copies its data. The server is not used
// after the run.
func (w *World) copyServer(ctx context.Context, data string) error {
	server := w.Lane.Server
	if err := w.endLane(); err != nil {
		return err
	}
	if err := server.Halt(ctx); err != nil {
		return err
	}
	return copyData(ctx, server.DataDir(), data)
}

// endLane makes the lane's server end with the run: its data is not the lane's any more,
// and other servers may run on copies of it.
func (w *World) endLane() error {
	server := w.Lane.Server
	w.ends = append(w.ends, func(context.Context) error { return server.Kill9() })
	// The server runs as another account when this process is root.
	return os.Chmod(w.dir, 0o755)
}

// startStandby starts a server that follows another one, on a copy of its data.
func startStandby(ctx context.Context, data, primary string) (*pgserver.Server, error) {
	signal := filepath.Join(data, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o644); err != nil {
		return nil, err
	}
	// The data may come from a restore, whose target a standby must not stop at.
	if err := configure(data, "restore_command = ''", "recovery_target_time = ''",
		"recovery_target_lsn = ''"); err != nil {
		return nil, err
	}
	return pgserver.Start(ctx, pgserver.Options{
		DataDir: data, TCP: "127.0.0.1:0",
		Settings: map[string]string{"max_connections": "90", "primary_conninfo": primary,
			"wal_retrieve_retry_interval": "200ms"},
	})
}

// move continues the run with a server on a copy of the data, in a folder or an
// environment of its own, and starts the processes on it.
func (w *World) move(ctx context.Context, data string, env ...string) error {
	if err := w.copyServer(ctx, data); err != nil {
		return err
	}
	moved, err := pgserver.Start(ctx, pgserver.Options{
		DataDir: data, Env: env, TCP: "127.0.0.1:0",
		Settings: map[string]string{"max_connections": "90", "deadlock_timeout": "200ms"},
	})
	if err != nil {
		return err
	}
	w.ends = append(w.ends, moved.StopImmediate)
	w.Lane = &Lane{Server: moved, built: w.Lane.built}
	if err := w.Reconnect(ctx); err != nil {
		return err
	}
	w.Options.Relayers, w.Options.Reapers = 1, 1
	if _, err := w.StartRelayer(ctx); err != nil {
		return err
	}
	_, err = w.StartReaper(ctx)
	return err
}

// standbyHas waits until the standby has replayed the primary's WAL up to a position.
func (w *World) standbyHas(ctx context.Context, position string) error {
	return await.Until(ctx, startedWithin, "the standby to have what was looked at", func() (bool, error) {
		var has bool
		err := w.admin.QueryRow(ctx, `SELECT coalesce(bool_or(replay_lsn >= $1::pg_lsn), false)
		  FROM pg_stat_replication WHERE application_name = 'standby'`, position).Scan(&has)
		return has, err
	})
}

// streams reports whether the standby has all that the primary has written.
func (w *World) streams(ctx context.Context) (bool, error) {
	var all bool
	err := w.admin.QueryRow(ctx, `SELECT coalesce(bool_or(replay_lsn >= pg_current_wal_lsn()), false)
	  FROM pg_stat_replication WHERE application_name = 'standby'`).Scan(&all)
	return all, err
}

// promote makes the standby the run's server, and returns the time of the last commit
// that it has from the old one.
func (w *World) promote(ctx context.Context, s *standby) (last time.Time, err error) {
	if last, err = s.promote(ctx); err != nil {
		return last, err
	}
	w.Lane = &Lane{Server: s.server, built: w.Lane.built}
	return last, w.Reconnect(ctx)
}

// promote makes the standby a primary, and returns the time of the last commit that it
// has from the old one.
func (s *standby) promote(ctx context.Context) (last time.Time, err error) {
	conn, err := pgx.Connect(ctx, s.server.URL("postgres", ""))
	if err != nil {
		return last, fmt.Errorf("connecting to the standby: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var done bool
	if err := conn.QueryRow(ctx, `SELECT pg_promote(true, 60)`).Scan(&done); err != nil {
		return last, fmt.Errorf("promoting the standby: %w", err)
	}
	if !done {
		return last, errors.New("the standby was not promoted within a minute")
	}
	// The standby has replayed all that it received, except for a record that was cut in
	// half.
	if err := conn.QueryRow(ctx, `SELECT coalesce(pg_last_xact_replay_timestamp(), 'epoch')`).Scan(&last); err != nil {
		return last, fmt.Errorf("asking how far the standby came: %w", err)
	}
	return last, nil
}

// returns starts the old primary again, at its old address, as a standby of the
// new one.
func (w *World) returns(ctx context.Context, old *pgserver.Server, through *Wire) error {
	if err := os.WriteFile(filepath.Join(old.DataDir(), "standby.signal"), nil, 0o644); err != nil {
		return err
	}
	// What ALTER SYSTEM writes wins over the settings that a start writes. The
	// password is that of the superuser on both.
	conninfo := "primary_conninfo = '" + old.TCPURL(through.Addr(), "postgres", "") + "'\n"
	file, err := os.OpenFile(filepath.Join(old.DataDir(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(conninfo)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return old.Restart(ctx)
}
