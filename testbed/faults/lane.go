package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/migrations"
)

// Lane is a PostgreSQL cluster of its own. Runs of one lane follow each other,
// each in a database of its own; lanes run concurrently.
type Lane struct {
	Server *pgserver.Server // nil: another rig runs the servers, and reach leads to them
	reach  Reacher
	built  Binaries
	made   int
}

// Reacher returns the connection string by which a login reaches a database of a cluster
// that another rig runs; "" is the superuser.
type Reacher func(database, login string) string

// NewLaneOn builds the template of the databases on a cluster that another rig runs. Each
// login gets the password.
func NewLaneOn(ctx context.Context, built Binaries, reach Reacher, password string) (*Lane, error) {
	lane := &Lane{reach: reach, built: built}
	if err := lane.exec(ctx, "postgres", "CREATE DATABASE "+templateName); err != nil {
		return nil, err
	}
	_, err := install.Prepare(ctx, reach(templateName, ""), cell, logins, func(string) string { return password })
	return lane, err
}

// url returns the connection string of a login for a database; "" is the superuser.
func (l *Lane) url(database, login string) string {
	if l.reach != nil {
		return l.reach(database, login)
	}
	return l.Server.URL(database, login)
}

// runs reports whether the server can be asked. One of another rig is that rig's concern.
func (l *Lane) runs() bool { return l.Server == nil || l.Server.PID() != 0 }

// These are the logins, one for each component.
const (
	loginRelayer  = install.Relayer
	loginReaper   = install.Reaper
	loginIngest   = install.Ingest
	loginAPI      = install.API
	loginEvents   = install.Events
	loginOperator = install.Operator
	loginReadonly = install.Readonly
)

var logins = install.Logins(loginRelayer, loginReaper, loginIngest, loginAPI, loginEvents, loginOperator, loginReadonly)

// cell is the schema of every run.
const cell = migrations.DefaultCell

const templateName = "cell_template"

// NewLane starts a cluster and builds the template of its databases.
func NewLane(ctx context.Context, built Binaries) (_ *Lane, err error) {
	server, err := pgserver.Start(ctx, pgserver.Options{
		TCP: "127.0.0.1:0",
		// The server looks for deadlocks early, so that one that the order of writes should
		// have prevented shows in a short run.
		Settings: map[string]string{"max_connections": "90", "deadlock_timeout": "200ms", "log_lock_waits": "on"},
	})
	if err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	lane := &Lane{Server: server, built: built}
	defer func() {
		if err != nil {
			err = errors.Join(err, lane.Close())
		}
	}()
	if err := lane.exec(ctx, "postgres", "CREATE DATABASE "+templateName); err != nil {
		return nil, err
	}
	if _, err := install.Prepare(ctx, server.URL(templateName, ""), cell, logins, install.NoPassword); err != nil {
		return nil, err
	}
	return lane, server.AllowTCP(ctx, slices.Collect(maps.Keys(logins))...)
}

// newDatabase clones the template for a run.
func (l *Lane) newDatabase(ctx context.Context) (string, error) {
	l.made++
	name := fmt.Sprintf("run_%d", l.made)
	if err := l.exec(ctx, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+templateName); err != nil {
		return "", err
	}
	return name, l.exec(ctx, name, install.Copied(cell))
}

func (l *Lane) dropDatabase(ctx context.Context, name string) error {
	return l.exec(ctx, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
}

func (l *Lane) exec(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, l.url(database, ""))
	if err != nil {
		return fmt.Errorf("connecting as superuser: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// crash stops the whole server immediately, without a checkpoint, and starts it again:
// what was not on disk is lost.
func (l *Lane) crash(ctx context.Context, down time.Duration) error {
	exited := l.Server.Exited()
	if err := syscall.Kill(l.Server.PID(), syscall.SIGQUIT); err != nil {
		return fmt.Errorf("immediate stop: %w", err)
	}
	<-exited
	pause(ctx, down)
	if err := l.Server.Restart(ctx); err != nil {
		return fmt.Errorf("starting after an immediate stop: %w", err)
	}
	return nil
}

// Close stops the cluster and removes it, unless another rig runs it.
func (l *Lane) Close() error {
	if l.Server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return l.Server.Stop(ctx)
}

// Binaries are the programs that a run starts, built once.
type Binaries struct {
	Railhead, Bank, Caller string
	// Digest identifies the code by the bytes of these programs.
	Digest string
	// root is the folder of the repository.
	root string
}

// Build builds the programs from the repository at root into dir.
func Build(ctx context.Context, root, dir string) (Binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Binaries{}, err
	}
	// Without paths and versions in them, the same code gives the same bytes.
	for _, module := range []struct {
		folder   string
		programs []string
	}{{".", []string{"./cmd/railhead", "./cmd/railsim"}}, {"testbed", []string{"./cmd/testbed"}}} {
		command := exec.CommandContext(ctx, "go",
			append([]string{"build", "-trimpath", "-buildvcs=false", "-tags", "faultpoint", "-o", dir + "/"},
				module.programs...)...)
		command.Dir = filepath.Join(root, module.folder)
		if output, err := command.CombinedOutput(); err != nil {
			return Binaries{}, fmt.Errorf("building with the tag faultpoint: %w\n%s", err, output)
		}
	}
	built := Binaries{
		Railhead: filepath.Join(dir, "railhead"), Bank: filepath.Join(dir, "railsim"),
		Caller: filepath.Join(dir, "testbed"), root: root,
	}
	built.Digest, err = digestOf(built.Railhead, built.Bank, built.Caller)
	return built, err
}
