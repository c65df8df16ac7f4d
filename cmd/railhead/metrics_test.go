package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// noopRail has a rail that needs no bank, and accepts callbacks for it.
const noopRail = `
allow_noop: true
rails:
  - rail_type: bank
    adapter: noop
    callback: {secrets: ["env:WEBHOOK_SECRET"], key: reference, status: status, statuses: {EXECUTED: EXECUTED}}
`

// TestEveryComponentServesMetrics starts each as a process and reads /metrics on
// its health listener: its own metrics, those of the database, and its build.
func TestEveryComponentServesMetrics(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for kind, own := range map[string][]string{
		"relayer":   {"claim_batches_total", `railhead_build_info{component="relayer"`, `dispatch_latency_ms_count{rail="bank"}`},
		"reaper":    {"railhead_reaper_cycles_total", `railhead_build_info{component="reaper"`},
		"callbacks": {`railhead_callbacks_total{rail="bank"`, `railhead_build_info{component="callbacks"`},
		"api":       {`railhead_api_answers_total{class="2xx",operation="enqueue"} 0`, `railhead_build_info{component="api"`},
		"events":    {`railhead_webhook_lag_seconds{endpoint="shop"} 0`, `railhead_build_info{component="events"`},
		"run":       {"claim_batches_total", "railhead_reaper_cycles_total", `component="reaper"`, `component="relayer"`},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			login, more := celltest.Relayer, []string(nil)
			if kind == "api" { // whose login reads no table either
				login, more = celltest.API, []string{"RAILHEAD_METRICS_URL=" + cell.URL(celltest.Readonly)}
			}
			if kind == "callbacks" { // whose login reads no table
				login, more = celltest.Callbacks, []string{"RAILHEAD_METRICS_URL=" + cell.URL(celltest.Readonly)}
			}
			if kind == "events" { // nor does its own
				login, more = celltest.Events, []string{
					"RAILHEAD_METRICS_URL=" + cell.URL(celltest.Readonly),
					"RAILHEAD_EVENTS_FILE=" + writeFile(t, "events.yaml", endpointAt("https://shop.invalid/")),
				}
			}
			url := start(t, kind, cell.URL(login), more...)
			awaitMetrics(t, url, append(own, `outbox_pending_depth{rail="bank"} 0`, "railhead_database_up 1", `attempts_total{state="PARKED"} 0`)...)
		})
	}
}

// TestMetricsOfADefaultInstallation: without RAILHEAD_METRICS_URL the API, callbacks and webhooks read no gauges of the
// database, and say all the same that they run: by that the rules count what is scraped.
func TestMetricsOfADefaultInstallation(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for kind, login := range map[string]string{
		"api": celltest.API, "callbacks": celltest.Callbacks, "events": celltest.Events,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := start(t, kind, cell.URL(login), "RAILHEAD_EVENTS_FILE="+writeFile(t, "events.yaml",
				endpointAt("https://shop.invalid/")))
			awaitMetrics(t, url, `railhead_component_info{component="`+kind+`"} 1`)
		})
	}
}

// TestCallbacksOfAnotherRole: with the login of a worker the endpoint could record
// nothing. It ends, and names the role that it needs.
func TestCallbacksOfAnotherRole(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := command{t: t, env: []string{
		"RAILHEAD_CALLBACKS_URL=" + cell.URL(celltest.Relayer), "RAILHEAD_RAILS_FILE=" + writeFile(t, "rails.yaml", noopRail),
		"WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}}
	if got := who.want(exitDenied, "callbacks"); !strings.Contains(got.errors,
		"RAILHEAD_CALLBACKS_URL takes a member of railhead_callbacks") {
		t.Errorf("it says %s", got.errors)
	}
}

// TestAPIOfAnotherRole: with another role's login no call could be accepted. It ends, and
// names the role that it needs; and where one key could be two payments it does not start.
func TestAPIOfAnotherRole(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := command{t: t, env: []string{"RAILHEAD_API_URL=" + cell.URL(celltest.Ingest)}}
	if got := who.want(exitDenied, "api"); !strings.Contains(got.errors,
		"RAILHEAD_API_URL takes a member of railhead_api") {
		t.Errorf("it says %s", got.errors)
	}
	cell.Exec("UPDATE railhead.payment_outbox_settings SET allow_second_key = true")
	who = command{t: t, env: []string{"RAILHEAD_API_URL=" + cell.URL(celltest.API)}}
	if got := who.want(exitUsage, "api"); !strings.Contains(got.errors, "second keys") {
		t.Errorf("it says %s", got.errors)
	}
	who.env = append(who.env, "RAILHEAD_API_CERT_FILE=api.pem")
	who.want(exitUsage, "api")
}

// TestMetricsWithoutADatabase: a component that can't reach its database reports it.
func TestMetricsWithoutADatabase(t *testing.T) {
	t.Parallel()
	url := start(t, "reaper", "postgres://unknown@127.0.0.1:1/nowhere")
	awaitMetrics(t, url, "railhead_database_up 0", "railhead_database_stats_age_seconds", `railhead_reaper_cycles_total{result="failed"}`)
}

// start runs a component until the test ends, and returns where its metrics are.
func start(t *testing.T, kind, database string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	addrFile, railsPath := filepath.Join(dir, "addr"), filepath.Join(dir, "rails.yaml")
	if err := os.WriteFile(railsPath, []byte(noopRail), 0o600); err != nil {
		t.Fatal(err)
	}
	one := exec.Command(os.Args[0], kind) // it outlives the test's context, so that it can stop in order
	one.Env = []string{
		asCommand, "DATABASE_URL=" + database, "RAILHEAD_HTTP_ADDR_FILE=" + addrFile, "RAILHEAD_RAILS_FILE=" + railsPath,
		"RAILHEAD_METRICS_EVERY=100ms", "RAILHEAD_LOG_LEVEL=error",
		"WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}
	one.Env = append(one.Env, more...)
	one.Stderr = t.Output()
	if err := one.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := one.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("stopping %s: %v", kind, err)
		}
		if err := one.Wait(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	})
	var addr []byte
	awaitThat(t, func() (err error) {
		addr, err = os.ReadFile(addrFile)
		return err
	})
	return "http://" + strings.TrimSpace(string(addr)) + "/metrics"
}

// awaitMetrics scrapes until each of these is there.
func awaitMetrics(t *testing.T, url string, want ...string) {
	t.Helper()
	awaitThat(t, func() error {
		answer, err := http.Get(url)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s, %v: %.200s", answer.Status, err, text)
		}
		for _, each := range want {
			if !strings.Contains(string(text), each) {
				return fmt.Errorf("no %s", each)
			}
		}
		return nil
	})
}

// awaitThat checks every 50 ms, for half a minute.
func awaitThat(t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute) // a transaction of another test, open for half a minute, holds events back
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}
