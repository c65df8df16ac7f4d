// Package alertdrill makes one fault for each alert in a running Railhead, and checks by
// Prometheus' own API that the right alert fires and then resolves. Debian's Prometheus,
// PostgreSQL, the components and the simulated banks run as processes, each with its own
// database login.
package alertdrill

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/promrun"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

const cell = migrations.DefaultCell

// sizeLimit is the capacity that the run states for its disk.
const sizeLimit = 256 << 20

// world is the installation in which the faults are made.
type world struct {
	root     string // the repository's
	dir      string
	binaries string // folder of railhead and railsim
	programs promrun.Programs
	server   *pgserver.Server
	prom     *promrun.Server
	admin    *pgxpool.Pool
	ingest   *pgxpool.Pool
	banks    map[string]*bank
	services map[string]*child.Process
	targets  map[string]promrun.Target // their metrics
	calls    string                    // where callbacks are taken
	enqueued int
	aheadDir string           // of the clock that runs ahead
	ahead    *pgserver.Server // with that clock
	worn     *pgserver.Server // most of whose transaction ids have passed
	healing  []func() error
	// closing holds the functions that release what faults have left open. They are called when the
	// world is closed.
	closing []func()
	// endpointTakes reports whether the endpoint accepts events.
	endpointTakes atomic.Bool
}

// rail is one rail of the run, with a bank of its own.
type rail struct {
	Name                  string
	Dedupes, Asked, Calls bool
	Ordered               bool // the payments of a participant are sent one after another
	Answer, NotFoundAge   time.Duration
	BreakerFrom           int
}

// railsOfRun returns the rails, each for its own faults.
func railsOfRun() []*rail {
	const never = 10_000
	return []*rail{
		// what goes well all the time
		{Name: "bank", Dedupes: true, Asked: true, Answer: 2 * time.Second, NotFoundAge: 6 * time.Second, BreakerFrom: never},
		// the one whose breaker opens
		{Name: "wire", Dedupes: true, Asked: true, Answer: 2 * time.Second, NotFoundAge: 6 * time.Second, BreakerFrom: 10},
		// can't be asked and pays twice what is sent twice: an unknown outcome is parked
		{Name: "card", Answer: 2 * time.Second, BreakerFrom: never},
		// takes for now and calls back
		{Name: "giro", Dedupes: true, Calls: true, Answer: 2 * time.Second, BreakerFrom: never},
		// sends in order
		{Name: "line", Dedupes: true, Ordered: true, Answer: 2 * time.Second, BreakerFrom: never},
		// may be slow
		{Name: "swift", Dedupes: true, Asked: true, Answer: 8 * time.Second, NotFoundAge: 12 * time.Second,
			BreakerFrom: never},
	}
}

//go:embed profile.yaml.tmpl
var profileText string

// The sum of a profile's timeouts stays below the claim timeout, as in a real installation.
var profileTemplate = template.Must(template.New("profile").Parse(profileText))

// newWorld starts PostgreSQL, with its data in a folder or in /tmp, the banks and the components; startPrometheus
// starts the rest.
func newWorld(
	ctx context.Context, root, binaries, data string, programs promrun.Programs,
) (_ *world, err error) {
	w := &world{
		root: root, binaries: binaries, programs: programs,
		banks: make(map[string]*bank), services: make(map[string]*child.Process), targets: make(map[string]promrun.Target),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("/tmp", "alerts-"); err != nil {
		return nil, err
	}
	settings := map[string]string{"max_connections": "100"}
	if w.server, err = pgserver.Start(ctx, pgserver.Options{Settings: settings, TempRoot: data}); err != nil {
		return nil, err
	}
	admin, err := install.On(ctx, w.server, cell, timeBudget)
	if err != nil {
		return nil, err
	}
	if w.admin, err = pgxpool.New(ctx, admin); err != nil {
		return nil, err
	}
	if w.ingest, err = pgxpool.New(ctx, w.url("ingest")); err != nil {
		return nil, err
	}
	if w.calls, err = child.FreeAddr(); err != nil {
		return nil, err
	}
	if err = w.startRails(ctx); err != nil {
		return nil, err
	}
	for _, kind := range []string{"relayer", "reaper", "callbacks"} {
		if err = w.start(ctx, kind); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// url is the connection string of a role's login.
func (w *world) url(role string) string {
	return w.server.URL(install.Database, "railhead_"+role+"_login")
}

func (w *world) railsFile() string { return filepath.Join(w.dir, "rails.yaml") }

func (w *world) startRails(ctx context.Context) error {
	var all []railsfile.Rail
	for _, each := range railsOfRun() {
		bank, err := w.startBank(ctx, each)
		if err != nil {
			return err
		}
		w.banks[each.Name] = bank
		var profile strings.Builder
		if err := profileTemplate.Execute(&profile, each); err != nil {
			return err
		}
		rail := railsfile.Rail{Name: each.Name, URL: bank.URL, Profile: profile.String(), Reference: railsfile.Instruction,
			Refused: "REFUSED"}
		if each.Asked {
			rail.Inquiry = railsfile.ByKey
		}
		if each.Calls {
			rail.Secret = "env:BANK_SECRET"
		}
		all = append(all, rail)
	}
	text, err := railsfile.Text(all...)
	if err != nil {
		return err
	}
	if err := os.WriteFile(w.railsFile(), text, 0o644); err != nil {
		return err
	}
	if said, err := w.shell(ctx, nil, `railhead rail apply "`+w.railsFile()+`" --reason "run of the alerts"`); err != nil {
		return fmt.Errorf("applying the profiles: %w\n%s", err, said)
	}
	return nil
}

// timeBudget is the time budget of the cell.
var timeBudget = outbox.TimeBudget{
	ClaimTimeout: 18 * time.Second, StartWithin: time.Second, RecordWithin: 3 * time.Second, Drain: 3 * time.Second,
	HeartbeatStale: 8 * time.Second,
}

// start starts a component that is scraped under its kind; more holds further variables of its
// environment.
func (w *world) start(ctx context.Context, kind string, more ...string) error {
	return w.startAs(ctx, kind, kind, "", more...)
}

// startAs starts a component under another name. Its metrics are labelled with the cell of, or with
// none if of is empty.
func (w *world) startAs(ctx context.Context, kind, name, of string, more ...string) error {
	addrFile := filepath.Join(w.dir, name+".addr")
	env := []string{
		"RAILHEAD_CELL=" + cell, "RAILHEAD_RAILS_FILE=" + w.railsFile(), "RAILHEAD_HTTP_ADDR_FILE=" + addrFile,
		"RAILHEAD_STATE_DIR=" + w.stateFolder(name), "BANK_SECRET=" + bankSecret,
		"RAILHEAD_RELAYER_URL=" + w.url("relayer"), "RAILHEAD_REAPER_URL=" + w.url("reaper"),
		"RAILHEAD_CALLBACKS_URL=" + w.url("callback"),
		"RAILHEAD_METRICS_EVERY=200ms",
		"RAILHEAD_DATABASE_SIZE_LIMIT=" + fmt.Sprint(sizeLimit), "RAILHEAD_CALLBACKS_ADDR=" + w.calls,
		// These intervals are shorter than in an installation.
		"RAILHEAD_POLL=250ms", "RAILHEAD_HEARTBEAT_EVERY=500ms", "RAILHEAD_REAP_EVERY=300ms", "RAILHEAD_REAP_GRACE=1s",
		"RAILHEAD_NOTIFIER_TEST_EVERY=1s", "RAILHEAD_REFRESH_EVERY=500ms", "RAILHEAD_STORE_TIMEOUT=3s",
	}
	if kind == "relayer" || kind == "reaper" { // by default the others have no gauges of the database
		// The gauges have a login of their own, so that a fault can disable that login alone.
		env = append(env, "RAILHEAD_METRICS_URL="+w.url("auditor"))
	}
	env = append(env, more...)
	p, addr, err := child.In(w.dir, name, filepath.Join(w.binaries, "railhead"), env, kind).Listen(ctx, addrFile)
	if p != nil {
		w.services[name] = p
	}
	if err != nil {
		return err
	}
	if err := p.AwaitReady(ctx, addr); err != nil {
		return err
	}
	w.targets[name] = promrun.Target{Addr: addr, Cell: of}
	return w.retarget()
}

// startAgain stops and starts a component n times at its address, each time after it was scraped.
func (w *world) startAgain(ctx context.Context, kind string, n int) error {
	addr := w.targets[kind].Addr
	for range n {
		if err := errors.Join(w.stop(kind), w.start(ctx, kind, "RAILHEAD_HTTP_ADDR="+addr)); err != nil {
			return err
		}
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// during registers stop to be called when the fault is healed.
func (w *world) during(stop func() error) { w.healing = append(w.healing, stop) }

func (w *world) heal() error {
	var all []error
	for _, stop := range w.healing {
		all = append(all, stop())
	}
	w.healing = nil
	return errors.Join(all...)
}

// retarget gives Prometheus the addresses of the components.
func (w *world) retarget() error {
	if w.prom == nil {
		return nil
	}
	return w.prom.SetTargets(w.targets)
}

// stopWithin bounds how long a process may take to end.
const stopWithin = 30 * time.Second

// stop ends a component gracefully; kill ends it at once.
func (w *world) stop(kind string) error { return w.services[kind].Stop(stopWithin) }

func (w *world) kill(kind string) error {
	if p := w.services[kind]; p.Alive() {
		return p.Kill()
	}
	return nil
}

// shell runs a command as on-call would, and returns its standard output.
func (w *world) shell(ctx context.Context, env []string, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
	c.Env = append(child.Clean(os.Environ()),
		"PATH="+w.binaries+":"+w.programs.Dir()+":"+os.Getenv("PATH"), "NO_COLOR=1", "RAILHEAD_CELL="+cell,
		"RAILHEAD_READER_URL="+w.url("readonly"), "RAILHEAD_OPERATOR_URL="+w.url("operator"),
		"RAILHEAD_ADMIN_URL="+w.server.URL(install.Database, ""), "PGCONNECT_TIMEOUT=10")
	if w.prom != nil {
		c.Env = append(c.Env, "PROMETHEUS_URL="+w.prom.URL)
	}
	c.Env = append(c.Env, env...)
	c.Dir = w.dir
	var said, complained strings.Builder
	c.Stdout, c.Stderr = &said, &complained
	if err := c.Run(); err != nil {
		return said.String(), fmt.Errorf("%s: %w: %s", command, err, complained.String())
	}
	return said.String(), nil
}

// close ends all processes and closes what the run has opened. The folder of logs stays.
func (w *world) close() error {
	var all []error
	all = append(all, w.heal())
	for name := range w.services {
		all = append(all, w.kill(name))
	}
	for _, each := range w.banks {
		all = append(all, each.Stop(stopWithin))
	}
	if w.prom != nil {
		all = append(all, w.prom.Stop())
	}
	for _, end := range w.closing {
		end()
	}
	for _, pool := range []*pgxpool.Pool{w.admin, w.ingest} {
		if pool != nil {
			pool.Close()
		}
	}
	if w.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		all = append(all, w.server.StopImmediate(ctx))
	}
	return errors.Join(all...)
}
