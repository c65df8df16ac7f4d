package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

// world is the installation in which the faults are made.
type world struct {
	Options
	log    *slog.Logger
	server *pgserver.Server
	admin  string
	bank   *service
	all    []*service // that are killed: two APIs, then the relayer, then the reaper
	wires  []*wire    // to the APIs, of which callers know the addresses alone
	draws  *rand.Rand
	made   Count
}

// service is a process that is started again at the same address after it was killed.
type service struct {
	child.Command
	*child.Process
	health string // file of its health address
}

func newWorld(ctx context.Context, o Options, log *slog.Logger) (*world, error) {
	w := &world{Options: o, log: log, draws: rand.New(rand.NewPCG(o.Seed, 1))}
	for _, step := range []func(context.Context) error{w.startDatabase, w.startBank, w.startServices} {
		if err := step(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) startDatabase(ctx context.Context) (err error) {
	w.server, err = pgserver.Start(ctx, pgserver.Options{
		LogFile:  filepath.Join(w.Evidence, "postgres.log"),
		Settings: map[string]string{"max_connections": "100", "shared_buffers": "128MB"}, Log: w.log,
	})
	if err != nil {
		return fmt.Errorf("starting a private PostgreSQL: %w", err)
	}
	w.admin, err = install.On(ctx, w.server, migrations.DefaultCell, outbox.TimeBudget{
		ClaimTimeout: 15 * time.Second, StartWithin: time.Second, RecordWithin: 2 * time.Second, Drain: 2 * time.Second,
		HeartbeatStale: 2 * time.Second,
	})
	return err
}

func (w *world) url(login string) string { return w.server.URL(install.Database, login) }

func (w *world) startBank(ctx context.Context) error {
	addrFile := filepath.Join(w.Evidence, "bank.addr")
	w.bank = w.program("bank", "railsim", nil, "--listen", "127.0.0.1:0", "--addr-file", addrFile, "--ledger",
		w.ledger(), "--draw", "arrival")
	if err := w.bank.start(); err != nil {
		return err
	}
	addr, err := w.bank.AwaitFile(ctx, addrFile)
	if err != nil {
		return err
	}
	text, err := railsfile.Bank("http://" + addr)
	if err != nil {
		return err
	}
	rails := filepath.Join(w.Evidence, "rails.yaml")
	if err := os.WriteFile(rails, text, 0o600); err != nil {
		return err
	}
	apply := exec.CommandContext(ctx, filepath.Join(w.Binaries, "railhead"), "rail", "apply", rails, "--reason",
		"a run of make api")
	apply.Env = append(child.Clean(os.Environ()), "RAILHEAD_OPERATOR_URL="+w.url(install.Operator))
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("railhead rail apply: %w\n%s", err, output)
	}
	return nil
}

func (w *world) ledger() string { return filepath.Join(w.Evidence, "bank-ledger.jsonl") }

// program returns a service that runs one of the installation's programs and logs its output under
// its name.
func (w *world) program(name, binary string, env []string, args ...string) *service {
	return &service{Command: child.In(w.Evidence, name, filepath.Join(w.Binaries, binary), env, args...)}
}

func (w *world) startServices(ctx context.Context) error {
	for _, each := range []struct{ name, kind, variable, login string }{
		{"api-1", "api", "RAILHEAD_API_URL", install.API}, {"api-2", "api", "RAILHEAD_API_URL", install.API},
		{"relayer", "relayer", "RAILHEAD_RELAYER_URL", install.Relayer},
		{"reaper", "reaper", "RAILHEAD_REAPER_URL", install.Reaper},
	} {
		health := filepath.Join(w.Evidence, each.name+".health")
		env := []string{
			each.variable + "=" + w.url(each.login), "RAILHEAD_RAILS_FILE=" + filepath.Join(w.Evidence, "rails.yaml"),
			"RAILHEAD_LOG_FORMAT=json",
			"RAILHEAD_HTTP_ADDR_FILE=" + health, "RAILHEAD_STATE_DIR=" + filepath.Join(w.Evidence, "state-"+each.name),
			"RAILHEAD_HEARTBEAT_EVERY=300ms", "RAILHEAD_REAP_EVERY=500ms", "RAILHEAD_REAP_GRACE=1s", "RAILHEAD_POLL=200ms",
			"RAILHEAD_STORE_TIMEOUT=5s",
		}
		if each.kind == "api" {
			free, err := child.FreeAddr()
			if err != nil {
				return err
			}
			env = append(env, "RAILHEAD_API_ADDR="+free)
			wire, err := newWire(free)
			if err != nil {
				return err
			}
			w.wires = append(w.wires, wire)
		}
		s := w.program(each.name, "railhead", env, each.kind)
		s.health = health
		w.all = append(w.all, s)
		if err := s.start(); err != nil {
			return err
		}
		if err := s.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) start() (err error) {
	if s.health != "" {
		if err := os.Remove(s.health); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	s.Process, err = s.Command.Start()
	return err
}

// stop ends the process gracefully, unless it was never started or has ended.
func (s *service) stop() error {
	if s == nil || s.Process == nil {
		return nil
	}
	return s.Stop(30 * time.Second)
}

// awaitReady waits until the process reports that it is ready.
func (s *service) awaitReady(ctx context.Context) error {
	addr, err := s.AwaitFile(ctx, s.health)
	if err != nil {
		return err
	}
	return s.AwaitReady(ctx, addr)
}

// faultsDuring makes one fault after another until the work is done.
func (w *world) faultsDuring(ctx context.Context, work func(context.Context) error) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	var worked error
	var all sync.WaitGroup
	all.Go(func() {
		defer stop()
		worked = work(ctx)
	})
	var broken error
	for broken == nil {
		timer := time.NewTimer(time.Duration(300+w.draws.IntN(900)) * time.Millisecond)
		select {
		case <-timer.C:
			broken = w.fault(ctx)
			continue
		case <-working.Done():
		}
		break
	}
	all.Wait()
	return errors.Join(worked, broken)
}

func (w *world) fault(ctx context.Context) error {
	switch drawn := w.draws.IntN(10); {
	case drawn < 4:
		w.made.killedAPI++
		return w.restart(w.all[w.draws.IntN(2)])
	case drawn < 6:
		w.made.killedRelayer++
		return w.restart(w.all[2])
	case drawn < 7:
		w.made.killedDatabase++
		exited := w.server.Exited()
		if err := syscall.Kill(w.server.PID(), syscall.SIGQUIT); err != nil {
			return fmt.Errorf("immediate stop of PostgreSQL: %w", err)
		}
		<-exited
		return w.server.Restart(ctx)
	default:
		w.made.cuts++
		w.wires[w.draws.IntN(len(w.wires))].cut()
		return nil
	}
}

// restart kills a service and starts it again, without waiting until it is ready.
func (w *world) restart(s *service) error {
	if err := s.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return s.start()
}

// end stops everything.
func (w *world) end(ctx context.Context) error {
	var all []error
	for _, s := range append(w.all, w.bank) {
		all = append(all, s.stop())
	}
	for _, each := range w.wires {
		each.listener.Close()
		each.cut()
	}
	if w.server != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		all = append(all, w.server.Stop(last))
	}
	return errors.Join(all...)
}
