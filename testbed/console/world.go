// Package console drives the web console of a whole installation by a real browser: through every page and every
// act, by mouse, by keyboard alone and without JavaScript. It takes pictures of the pages, and measures how soon
// they are painted.
package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/railsim"
)

const cell = migrations.DefaultCell

// world is an installation with a console, and with payments in every state that a page or an act needs.
type world struct {
	dir      string
	binaries string // folder of railhead
	server   *pgserver.Server
	admin    *pgxpool.Pool
	ingest   *pgxpool.Pool
	banks    map[string]*simrail.Served
	services []*child.Process
	endpoint *httptest.Server // for events; it refuses them
}

// profiles are the rails of the installation.
var profiles = map[string]string{
	// answers for good, and can be asked
	"bank": `acceptance: FINAL
answer_covers_key: true
id_after_refusal: NEW
resend_on_unknown: SAME_KEY
key_window: 24h
inquiry: {not_before: 300ms, intervals: [500ms], max: 20, not_found: NOT_EXECUTED, not_found_age: 10s, not_found_until: 24h}
`,
	// can be asked twice, and is not sent to again
	"wire": `acceptance: FINAL
id_after_refusal: NEW
resend_on_unknown: NEVER
inquiry: {not_before: 200ms, intervals: [300ms], max: 2, not_found: INCONCLUSIVE}
`,
	// can't be asked
	"card": `acceptance: FINAL
id_after_refusal: SAME
resend_on_unknown: NEVER
`,
	// keeps the order of participants
	"line": `acceptance: FINAL
order: STRICT
id_after_refusal: SAME
resend_on_unknown: NEVER
`,
	// is paused
	"giro": `acceptance: FINAL
id_after_refusal: NEW
resend_on_unknown: NEVER
`,
}

// timesOfRails are what all profiles have.
const timesOfRails = `retry: {max_sends: 5, shape: CONSTANT, base: 1s, cap: 1s, jitter: 0.2}
timeouts: {connect: 500ms, tls: 500ms, write: 500ms, response_header: 2s, body: 500ms}
concurrency: 16
breaker: {failure_ratio: 1, minimum_requests: 1000, window: 20s, open_for: 300ms, half_open_max: 2}
codes: {table: iso20022}
`

// newWorld starts PostgreSQL, the banks and the components.
func newWorld(ctx context.Context, o Options, settings map[string]string) (_ *world, err error) {
	w := &world{binaries: o.Binaries, banks: make(map[string]*simrail.Served)}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("/tmp", "console-"); err != nil {
		return nil, err
	}
	if w.server, err = pgserver.Start(ctx, pgserver.Options{Settings: settings, TempRoot: o.Root}); err != nil {
		return nil, err
	}
	admin, err := install.On(ctx, w.server, cell, timeBudget)
	if err != nil {
		return nil, err
	}
	if w.admin, err = pgxpool.New(ctx, admin); err != nil {
		return nil, err
	}
	if w.ingest, err = pgxpool.New(ctx, w.url(install.Ingest)); err != nil {
		return nil, err
	}
	if err = w.startRails(ctx); err != nil {
		return nil, err
	}
	return w, w.startServices(ctx)
}

// timeBudget is that of the cell.
var timeBudget = outbox.TimeBudget{
	ClaimTimeout: 15 * time.Second, StartWithin: time.Second, RecordWithin: 2 * time.Second, Drain: 2 * time.Second,
	HeartbeatStale: 8 * time.Second,
}

func (w *world) url(login string) string { return w.server.URL(install.Database, login) }

func (w *world) railsFile() string { return filepath.Join(w.dir, "rails.yaml") }

func (w *world) startRails(ctx context.Context) error {
	var all []railsfile.Rail
	for name, profile := range profiles {
		asked := strings.Contains(profile, "inquiry:")
		bank, err := simrail.Serve(railsim.Config{
			LedgerPath: filepath.Join(w.dir, name+".jsonl"), Mode: railsim.Sync, Draw: railsim.DrawByArrival,
			Behaviour: railsim.Behaviour{NoDedupe: !strings.Contains(profile, "SAME_KEY")},
		})
		if err != nil {
			return err
		}
		w.banks[name] = bank
		rail := railsfile.Rail{Name: name, URL: bank.URL, Profile: profile + timesOfRails, Reference: railsfile.Key,
			Refused: "REFUSED"}
		if asked {
			rail.Inquiry = railsfile.ByKey
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
	return w.railhead(ctx, "rail", "apply", w.railsFile(), "--reason", "first installation")
}

// railhead runs a command of an operator.
func (w *world) railhead(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, filepath.Join(w.binaries, "railhead"), args...)
	command.Env = append(child.Clean(os.Environ()), "RAILHEAD_CELL="+cell,
		"RAILHEAD_OPERATOR_URL="+w.url(install.Operator))
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("railhead %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return nil
}

func (w *world) startServices(ctx context.Context) error {
	w.endpoint = httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		answer.WriteHeader(http.StatusServiceUnavailable)
	}))
	events := filepath.Join(w.dir, "events.yaml")
	text := fmt.Sprintf("endpoints:\n  - {id: shop, url: %q, secrets: [\"env:WEBHOOK_SECRET\"], "+
		"all_participants: true, from: BEGINNING, allow_private: true}\n", w.endpoint.URL)
	if err := os.WriteFile(events, []byte(text), 0o600); err != nil {
		return err
	}
	for _, each := range []struct{ kind, variable, login string }{
		{"relayer", "RAILHEAD_RELAYER_URL", install.Relayer}, {"reaper", "RAILHEAD_REAPER_URL", install.Reaper},
		{"events", "RAILHEAD_EVENTS_URL", install.Events},
	} {
		_, err := w.start(ctx, each.kind, each.kind, each.variable+"="+w.url(each.login),
			"RAILHEAD_EVENTS_FILE="+events, "WEBHOOK_SECRET=c2VjcmV0IG9mIGEgcnVuIHRoYXQgZ3VhcmRzIG5vdGhpbmc=")
		if err != nil {
			return err
		}
	}
	return nil
}

// start starts a component, and waits until it is ready.
func (w *world) start(ctx context.Context, kind, name string, more ...string) (*child.Process, error) {
	addrFile := filepath.Join(w.dir, name+".addr")
	env := append([]string{
		"RAILHEAD_CELL=" + cell, "RAILHEAD_RAILS_FILE=" + w.railsFile(), "RAILHEAD_HTTP_ADDR_FILE=" + addrFile,
		"RAILHEAD_STATE_DIR=" + filepath.Join(w.dir, "state-"+name), "RAILHEAD_POLL=250ms", "RAILHEAD_HEARTBEAT_EVERY=500ms",
		"RAILHEAD_REAP_EVERY=500ms", "RAILHEAD_REAP_GRACE=1s", "RAILHEAD_REFRESH_EVERY=500ms",
	}, more...)
	p, addr, err := child.In(w.dir, name, filepath.Join(w.binaries, "railhead"), env, kind).Listen(ctx, addrFile)
	if p != nil {
		w.services = append(w.services, p)
	}
	if err != nil {
		return nil, err
	}
	return p, p.AwaitReady(ctx, addr)
}

// console starts one with a role, and returns the address that logs in to it once. It is written to a file of its
// owner, and printed nowhere.
func (w *world) console(ctx context.Context, name, role string, more ...string) (link string, err error) {
	file := filepath.Join(w.dir, name+".link")
	p, err := w.start(ctx, "console", name, append([]string{"RAILHEAD_READER_URL=" + w.url(install.Readonly),
		"RAILHEAD_OPERATOR_URL=" + w.url(install.Operator), "RAILHEAD_CONSOLE_OPERATE=true", "RAILHEAD_CONSOLE_LINK=" + role,
		"RAILHEAD_CONSOLE_LINK_FILE=" + file}, more...)...)
	if err != nil {
		return "", err
	}
	return p.AwaitFile(ctx, file)
}

// close ends everything, and leaves the logs in the folder of the run.
func (w *world) close() error {
	var all []error
	for _, p := range w.services {
		all = append(all, p.Stop(30*time.Second))
	}
	for _, bank := range w.banks {
		all = append(all, bank.Close())
	}
	if w.endpoint != nil {
		w.endpoint.Close()
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
