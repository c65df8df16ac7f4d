package api

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

//go:embed rails.yaml.tmpl
var railsTemplate string

// world is an installation that is broken on purpose.
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

// service is a process that is started again at the same address when it was killed.
type service struct {
	name string
	args []string
	env  []string
	dir  string

	cmd    *exec.Cmd
	ended  chan struct{}
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
		LogFile: filepath.Join(w.Evidence, "postgres.log"), Settings: map[string]string{"max_connections": "100", "shared_buffers": "128MB"}, Log: w.log,
	})
	if err != nil {
		return fmt.Errorf("starting a private PostgreSQL: %w", err)
	}
	if w.admin, err = install.Create(ctx, w.server); err != nil {
		return err
	}
	if _, err := install.Prepare(ctx, w.admin, migrations.DefaultCell, func(string) string { return "" }); err != nil {
		return err
	}
	return install.SetTimeBudget(ctx, w.admin, migrations.DefaultCell, outbox.TimeBudget{
		ClaimTimeout: 15 * time.Second, StartWithin: time.Second, RecordWithin: 2 * time.Second, Drain: 2 * time.Second, HeartbeatStale: 2 * time.Second,
	}, "a run of make api")
}

func (w *world) url(login string) string { return w.server.URL(install.Database, login) }

func (w *world) startBank(ctx context.Context) error {
	addrFile := filepath.Join(w.Evidence, "bank.addr")
	w.bank = &service{name: "bank", dir: w.Evidence, args: []string{
		filepath.Join(w.Binaries, "railsim"), "--listen", "127.0.0.1:0", "--addr-file", addrFile, "--ledger", w.ledger(), "--draw", "arrival",
	}}
	if err := w.bank.start(); err != nil {
		return err
	}
	addr, err := awaitFile(ctx, addrFile)
	if err != nil {
		return err
	}
	rails := filepath.Join(w.Evidence, "rails.yaml")
	if err := os.WriteFile(rails, fmt.Appendf(nil, railsTemplate, "http://"+addr), 0o600); err != nil {
		return err
	}
	apply := exec.CommandContext(ctx, filepath.Join(w.Binaries, "railhead"), "rail", "apply", rails, "--reason", "a run of make api")
	apply.Env = append(clean(), "RAILHEAD_OPERATOR_URL="+w.url("railhead_operator_login"))
	if output, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("railhead rail apply: %w\n%s", err, output)
	}
	return nil
}

func (w *world) ledger() string { return filepath.Join(w.Evidence, "bank-ledger.jsonl") }

func clean() []string {
	var kept []string
	for _, each := range os.Environ() {
		if !strings.HasPrefix(each, "RAILHEAD_") && !strings.HasPrefix(each, "DATABASE_URL=") && !strings.HasPrefix(each, "PG") {
			kept = append(kept, each)
		}
	}
	return kept
}

func (w *world) startServices(ctx context.Context) error {
	for _, each := range []struct{ name, kind, variable, login string }{
		{"api-1", "api", "RAILHEAD_API_URL", "railhead_api_login"}, {"api-2", "api", "RAILHEAD_API_URL", "railhead_api_login"},
		{"relayer", "relayer", "RAILHEAD_RELAYER_URL", "railhead_relayer_login"}, {"reaper", "reaper", "RAILHEAD_REAPER_URL", "railhead_reaper_login"},
	} {
		s := &service{
			name: each.name, dir: w.Evidence, args: []string{filepath.Join(w.Binaries, "railhead"), each.kind}, health: filepath.Join(w.Evidence, each.name+".health"),
		}
		s.env = []string{
			each.variable + "=" + w.url(each.login), "RAILHEAD_RAILS_FILE=" + filepath.Join(w.Evidence, "rails.yaml"), "RAILHEAD_LOG_FORMAT=json",
			"RAILHEAD_HTTP_ADDR_FILE=" + s.health, "RAILHEAD_STATE_DIR=" + filepath.Join(w.Evidence, "state-"+each.name),
			"RAILHEAD_HEARTBEAT_EVERY=300ms", "RAILHEAD_REAP_EVERY=500ms", "RAILHEAD_REAP_GRACE=1s", "RAILHEAD_POLL=200ms", "RAILHEAD_STORE_TIMEOUT=5s",
		}
		if each.kind == "api" {
			free, err := freeAddr()
			if err != nil {
				return err
			}
			s.env = append(s.env, "RAILHEAD_API_ADDR="+free)
			wire, err := newWire(free)
			if err != nil {
				return err
			}
			w.wires = append(w.wires, wire)
		}
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

func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func (s *service) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, s.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	if s.health != "" {
		if err := os.Remove(s.health); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(clean(), s.env...), s.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		cmd.Wait() //nolint:errcheck // how it ends is known: it is killed or stopped
		close(ended)
	}(s.ended)
	return nil
}

// end ends the process by a signal, and waits.
func (s *service) end(sig syscall.Signal) {
	if s == nil || s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(sig) //nolint:errcheck // it may have ended
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		s.cmd.Process.Kill() //nolint:errcheck // as above
		<-s.ended
	}
}

// awaitReady waits until the process says that it can work.
func (s *service) awaitReady(ctx context.Context) error {
	addr, err := awaitFile(ctx, s.health)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return await(ctx, s.name+" is ready", func() bool {
		answer, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

func awaitFile(ctx context.Context, path string) (text string, err error) {
	err = await(ctx, path+" is written", func() bool {
		read, err := os.ReadFile(path)
		text = strings.TrimSpace(string(read))
		return err == nil && text != ""
	})
	return text, err
}

func await(ctx context.Context, what string, done func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// faultsDuring breaks one thing after another until the work is done, and heals all.
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
		return w.restart(ctx, w.all[w.draws.IntN(2)])
	case drawn < 6:
		w.made.killedRelayer++
		return w.restart(ctx, w.all[2])
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

// restart kills a service and starts it again. That it is ready is not waited for.
func (w *world) restart(_ context.Context, s *service) error {
	s.end(syscall.SIGKILL)
	return s.start()
}

// end stops everything.
func (w *world) end(ctx context.Context) error {
	for _, s := range w.all {
		s.end(syscall.SIGTERM)
	}
	w.bank.end(syscall.SIGTERM)
	for _, each := range w.wires {
		each.listener.Close()
		each.cut()
	}
	if w.server == nil {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return w.server.Stop(last)
}
