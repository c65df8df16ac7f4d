package metrics_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/railhead-pay/railhead/payment"
)

// ours reports whether a family is Railhead's and not that of Go or the process.
func ours(name string) bool {
	return !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_")
}

// TestCatalogue pays a few instructions and compares docs/metrics.md with /metrics: the same names,
// types and labels, and no others; every listed value of a label is present, with 0 if nothing has
// happened.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue(5)
	e := w.await(func(e exposition) error {
		return e.want(map[string]float64{
			`attempts_total{state="DISPATCHED"}`: 5, `attempts_total{state="DISPATCHING"}`: 5, `attempts_total{state="PARKED"}`: 0,
			`outbox_pending_depth{rail="bank"}`: 0, `railhead_rail_relayers{rail="bank"}`: 1, `oldest_pending_age_seconds{rail="bank"}`: 0,
			`railhead_oldest_claimable_age_seconds{rail="bank"}`: 0,
			`railhead_order_blocked_heads{rail="bank"}`:          0, `railhead_order_blocked_age_seconds{rail="bank"}`: 0,
			`dispatch_latency_ms_count{rail="bank"}`:                   5,
			`railhead_rail_sends_total{rail="bank",result="accepted"}`: 5,
			`railhead_rail_in_flight{rail="bank"}`:                     0, `railhead_rail_breaker_state{rail="bank",state="closed"}`: 1,
			`railhead_components{kind="relayer",status="fresh"}`: 1, `railhead_components{kind="reaper",status="fresh"}`: 1,
			`railhead_component_heartbeat_age_seconds{kind="callback"}`: math.Inf(1),
			`railhead_database_up`: 1, `railhead_notifier_state{state="listening"}`: 1, `railhead_partition_months_ahead`: 3,
			`railhead_database_size_limit_bytes`: 1 << 40,
		})
	})
	w.await(func(e exposition) error {
		for _, name := range []string{"notify_wakeups_total", "claim_batches_total", "railhead_poll_wakeups_total",
			`railhead_notifier_tests_total{result="heard"}`, `railhead_reaper_cycles_total{result="ok"}`,
			"railhead_claim_batch_size_sum", "railhead_record_batch_size_sum", "railhead_turn_duration_seconds_count",
			"railhead_reaper_cycle_duration_seconds_count", "railhead_database_size_bytes"} {
			if e.samples[name] <= 0 {
				return fmt.Errorf("%s stays 0", name)
			}
		}
		return nil
	})

	documents := catalogue(t)
	if len(documents) < 40 {
		t.Errorf("the catalogue has %d metrics: the test reads it wrongly", len(documents))
	}
	for name, kind := range e.types {
		if documents[name].kind == "" && ours(name) {
			t.Errorf("%s is exported and not in docs/metrics.md", name)
		} else if ours(name) && documents[name].kind != kind {
			t.Errorf("%s is a %s, docs/metrics.md says %s", name, kind, documents[name].kind)
		}
	}
	for name, document := range documents {
		if e.types[name] == "" {
			t.Errorf("%s is in docs/metrics.md and not exported", name)
			continue
		}
		checkLabels(t, e, name, document)
	}
}

func checkLabels(t *testing.T, e exposition, name string, document documented) {
	t.Helper()
	values := map[string]map[string]bool{}
	for sample := range e.samples {
		family, labels, _ := strings.Cut(sample, "{")
		if family != name && (document.kind != "histogram" || strings.TrimSuffix(family, "_count") != name) {
			continue
		}
		for pair := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), ",") {
			if label, value, ok := strings.Cut(pair, "="); ok {
				if values[label] == nil {
					values[label] = map[string]bool{}
				}
				values[label][strings.Trim(value, `"`)] = true
			}
		}
	}
	want := slices.Sorted(maps.Keys(document.labels))
	if got := slices.Sorted(maps.Keys(values)); !slices.Equal(got, want) {
		t.Errorf("%s has labels %v, docs/metrics.md says %v", name, got, want)
	}
	for label, listed := range document.labels {
		if got := slices.Sorted(maps.Keys(values[label])); listed != nil && !sameWords(got, listed) {
			t.Errorf("%s{%s} has %v, docs/metrics.md says %v", name, label, got, listed)
		}
	}
	if name == "attempts_total" {
		for _, state := range payment.States() {
			if !values["state"][string(state)] {
				t.Errorf("%s has no %s", name, state)
			}
		}
	}
}

// sameWords compares lists as sets.
func sameWords(got, want []string) bool {
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	return slices.Equal(got, want)
}

// TestLint tests the naming rules: two names are older than the rules, and no others break them.
func TestLint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueue(1)
	e := w.await(func(e exposition) error {
		return e.want(map[string]float64{`dispatch_latency_ms_count{rail="bank"}`: 1, "stuck_dispatching_count": 0})
	})
	problems, err := promlint.New(strings.NewReader(e.text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]bool{}
	for _, problem := range problems {
		if ours(problem.Metric) {
			broken[problem.Metric] = true
		}
		if problem.Metric != "dispatch_latency_ms" && problem.Metric != "stuck_dispatching_count" {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
	if len(broken) != 2 {
		t.Errorf("the linter complains of %v", broken)
	}
}

// TestOpenMetrics tests that a scraper gets OpenMetrics on request.
func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if e := w.scrape("application/openmetrics-text; version=1.0.0"); !strings.HasSuffix(e.text, "# EOF\n") ||
		e.types["attempts"] != "counter" {
		t.Error("this is no OpenMetrics")
	}
}
