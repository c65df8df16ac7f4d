package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// World is one installation that a fault works on: a database, two banks, relayers and
// reapers, callers. The fault counts in it what it injected and what was hit.
type World struct {
	Options  Options
	Lane     *Lane
	Director *Director
	Dedupes  *Bank // behind Keyed and Asked
	Bare     *Bank // behind Bare and BareAsked

	// Injected counts how often the fault acted; Hit counts how often a process met it.
	Injected, Hit int

	draws     *rand.Rand
	dir       string
	database  string
	admin     *pgxpool.Pool
	relayers  []*Process
	reapers   []*Process
	callers   []*Process
	api       *Process // nil: callers have SQL alone
	apiAddr   string
	token     string // of the callers over HTTP
	wires     map[*Process]*Wire
	orders    map[string]order
	started   int
	plans     int
	snapshots []archive
	peaks     map[string]int64
	broken    []string // rules that the fault itself found broken
	windows   []Window // within which the data went back, and what was acknowledged may be gone
	// reach returns the URL by which processes find the database, where that is not the
	// lane's socket.
	reach func(login string) string
	ends  []func(context.Context) error // of what a fault has started, last first
	// atRest is called once the services have ended, before the run is judged. It ends what
	// is between services and server, or counts what the services have delivered.
	atRest []func(context.Context) error
	env    []string // more settings of the services
}

// NewWorld starts an installation and waits until it is ready.
func NewWorld(ctx context.Context, lane *Lane, o Options) (_ *World, err error) {
	w := &World{
		Options: o, Lane: lane, draws: o.draws(), wires: make(map[*Process]*Wire), orders: make(map[string]order),
		peaks: make(map[string]int64),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close(ctx))
		}
	}()
	// The path of a unix socket has to be short.
	if w.dir, err = os.MkdirTemp("/tmp", "fault-"); err != nil {
		return nil, err
	}
	if w.Director, err = newDirector(filepath.Join(w.dir, "points")); err != nil {
		return nil, err
	}
	if w.database, err = lane.newDatabase(ctx); err != nil {
		return nil, err
	}
	if err = w.Reconnect(ctx); err != nil {
		return nil, err
	}
	mode := []string{"--mode", string(railsim.Sync)}
	if o.ByReference {
		mode = []string{"--mode", string(railsim.Provisional), "--settle-delay", o.SettleAfter.String()}
	}
	if w.Dedupes, err = startBank(ctx, w.dir, "bank-dedupes", lane.built.Bank, o.Seed,
		append(mode, "--key-window", cmp.Or(o.BankWindow, o.KeyWindow).String(),
			"--on-replay", string(o.OnReplay),
			"--store-refusals="+strconv.FormatBool(o.IDAfterRefusal == payment.IDNew))...); err != nil {
		return nil, err
	}
	if w.Bare, err = startBank(ctx, w.dir, "bank-bare", lane.built.Bank, o.Seed+1,
		append(mode, "--dedupe=false")...); err != nil {
		return nil, err
	}
	if err := w.applyRails(ctx); err != nil {
		return nil, err
	}
	for range o.Relayers {
		if _, err := w.StartRelayer(ctx); err != nil {
			return nil, err
		}
	}
	for range o.Reapers {
		if _, err := w.StartReaper(ctx); err != nil {
			return nil, err
		}
	}
	if o.ThroughAPI {
		if err := w.admit(ctx); err != nil {
			return nil, err
		}
		if err := w.StartAPI(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Reconnect gives the oracle new connections of its own to the lane's server.
func (w *World) Reconnect(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(w.Lane.url(w.database, ""))
	if err != nil {
		return err
	}
	config.MaxConns = 3
	config.ConnConfig.RuntimeParams["application_name"] = "oracle"
	opened, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	if w.admin != nil {
		w.admin.Close()
	}
	w.admin = opened
	return nil
}

func (w *World) addrFile(name string) string { return filepath.Join(w.dir, name+".addr") }

func (w *World) railsFile() string { return filepath.Join(w.dir, "rails.yaml") }

func (w *World) applyRails(ctx context.Context) error {
	if err := writeRails(w.railsFile(), w.Dedupes.URL, w.Bare.URL, w.Options); err != nil {
		return err
	}
	arguments := []string{"settings", "set"}
	for _, s := range w.Options.timeBudget().Settings() {
		arguments = append(arguments, s.Name, s.Value.String())
	}
	if err := w.Operate(ctx, append(arguments, "--reason", "fault run")...); err != nil {
		return err
	}
	return w.Operate(ctx, "rail", "apply", w.railsFile(), "--reason", "fault run")
}

// Operate runs one command as an operator.
func (w *World) Operate(ctx context.Context, args ...string) error {
	return w.command(ctx, "RAILHEAD_OPERATOR_URL="+w.url(loginOperator), args...)
}

// administer runs one command as the superuser.
func (w *World) administer(ctx context.Context, args ...string) error {
	return w.command(ctx, "RAILHEAD_ADMIN_URL="+w.Lane.url(w.database, ""), args...)
}

func (w *World) command(ctx context.Context, env string, args ...string) error {
	command := exec.CommandContext(ctx, w.Lane.built.Railhead, args...)
	command.Env = append(child.Clean(os.Environ()), env, "RAILHEAD_CELL="+cell)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("railhead %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return nil
}

// url returns the URL by which a login reaches the database of the run.
func (w *World) url(login string) string {
	if w.reach != nil {
		return w.reach(login)
	}
	return w.Lane.url(w.database, login)
}

// Heal ends every fault. It releases held processes, continues frozen ones, restores
// networks, banks and the server, and starts processes until enough of them run.
func (w *World) Heal(ctx context.Context) error {
	w.Director.disarm()
	for _, p := range w.processes() {
		if p.Alive() {
			if err := p.Thaw(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
	}
	for _, wire := range w.wires {
		if err := wire.Mend(); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Dedupes.Spoil(ctx), w.Bare.Spoil(ctx)); err != nil {
		return err
	}
	if !w.Lane.runs() {
		if err := w.Lane.Server.Restart(ctx); err != nil {
			return err
		}
	}
	for running(w.relayers) < w.Options.Relayers {
		if _, err := w.StartRelayer(ctx); err != nil {
			return err
		}
	}
	for running(w.reapers) < w.Options.Reapers {
		if _, err := w.StartReaper(ctx); err != nil {
			return err
		}
	}
	if w.Options.ThroughAPI && !w.api.Alive() {
		return w.StartAPI(ctx)
	}
	return nil
}

func running(all []*Process) int {
	n := 0
	for _, p := range all {
		if p.Alive() {
			n++
		}
	}
	return n
}

func (w *World) processes() []*Process { return append(w.services(), w.callers...) }

// services returns the relayers, the reapers, and the API if there is one.
func (w *World) services() []*Process {
	all := append(slices.Clone(w.relayers), w.reapers...)
	if w.api != nil {
		all = append(all, w.api)
	}
	return all
}

// Broken records a rule that the fault itself found broken.
func (w *World) Broken(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// StopServices ends the services gracefully, and reports each that does not end or that had
// ended by itself.
func (w *World) StopServices() error {
	var all []error
	for _, p := range w.services() {
		all = append(all, p.Died(), p.Stop(w.Options.Drain+w.Options.RecordWithin+20*time.Second))
	}
	return errors.Join(all...)
}

// Close ends all processes and connections of the run, and drops its database if the
// server runs. The folder stays until Discard removes it.
func (w *World) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for _, p := range w.processes() {
		if p.Alive() {
			_ = p.Signal(syscall.SIGKILL)
			<-p.Over()
		}
	}
	for _, bank := range []*Bank{w.Dedupes, w.Bare} {
		if bank != nil && bank.Process != nil && bank.Alive() {
			_ = bank.Kill()
		}
	}
	for _, wire := range w.wires {
		wire.Close()
	}
	if w.Director != nil {
		w.Director.close()
	}
	if w.admin != nil {
		w.admin.Close()
	}
	var all []error
	for _, end := range slices.Backward(w.ends) {
		all = append(all, end(ctx))
	}
	if w.database != "" && w.Lane.runs() {
		all = append(all, w.Lane.dropDatabase(ctx, w.database))
	}
	return errors.Join(all...)
}

// Discard removes the folder of a run that went well.
func (w *World) Discard() error { return os.RemoveAll(w.dir) }
