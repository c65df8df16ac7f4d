package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// source is a database whose gauges a test sets.
type source struct {
	say func(ctx context.Context, n int) (reader.Gauges, error) // n counts readings from 1
	n   int
}

func (s *source) Gauges(ctx context.Context, _ reader.GaugeQuery) (reader.Gauges, error) {
	s.n++
	return s.say(ctx, s.n)
}

// reading starts to read a source every 5 s, for as long as the test lasts.
func reading(t *testing.T, say func(context.Context, int) (reader.Gauges, error)) *metrics.Set {
	t.Helper()
	set := metrics.New("v1", "reaper")
	database, err := set.Database(metrics.DatabaseConfig{}, &source{say: say}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		database.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return set
}

func someGauges() reader.Gauges {
	return reader.Gauges{
		Wraparound: reader.Wraparound{Transactions: 0.5, Multixacts: 0.25},
		Rails: []reader.RailGauges{{RailType: "*"}, {RailType: "bank", Depth: 7, Relayers: 2, Paused: true,
			PausedByItself: true}},
		Letters: []reader.LetterGauge{
			{RailType: "bank", Reason: payment.DeadConflict, Open: 2, OpenedAt: time.UnixMilli(1_790_000_000_123)},
			{RailType: "gone", Reason: payment.DeadConflict, Open: 1, OpenedAt: time.UnixMilli(1_780_000_000_000)}},
	}
}

// TestReadingFails tests that the gauges keep their values, and that their age grows.
func TestReadingFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := reading(t, func(_ context.Context, n int) (reader.Gauges, error) {
			if n > 2 {
				return reader.Gauges{}, errors.New("away")
			}
			return someGauges(), nil
		})
		time.Sleep(7 * time.Second) // the bubble's time
		check := func(age, up float64) {
			t.Helper()
			err := read(t, set, "text/plain").want(map[string]float64{
				`railhead_wraparound_ratio{ids="transaction"}`: 0.5, `railhead_wraparound_ratio{ids="multixact"}`: 0.25,
				"railhead_database_stats_age_seconds": age, "railhead_database_up": up,
				`outbox_pending_depth{rail="bank"}`: 7, `railhead_rail_relayers{rail="bank"}`: 2, `dlq_depth{reason="CONFLICT"}`: 3, `dlq_depth{reason="FAILED"}`: 0,
				`railhead_dead_letters_open{rail="bank",reason="CONFLICT"}`:  2,
				`railhead_dead_letters_open{rail="other",reason="CONFLICT"}`: 1,
				`railhead_rail_paused{by="itself",rail="bank"}`:              1, `railhead_rail_paused{by="person",rail="bank"}`: 0,
				"railhead_conflicts_open": 3, `railhead_dead_letter_opened_timestamp_seconds{reason="CONFLICT"}`: 1_790_000_000.123,
				`railhead_dead_letter_opened_timestamp_seconds{reason="FAILED"}`: 0,
			})
			if err != nil {
				t.Error(err)
			}
		}
		check(2, 1)
		time.Sleep(time.Minute)
		check(62, 0)
	})
}

// TestScrapeDoesNotWait tests that a database that never answers delays no scrape, and that its
// reading ends by its timeout.
func TestScrapeDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		set := reading(t, func(ctx context.Context, _ int) (reader.Gauges, error) {
			<-ctx.Done()
			ended.Add(1)
			return reader.Gauges{}, ctx.Err()
		})
		time.Sleep(2 * time.Second)
		begun := time.Now()
		e := read(t, set, "text/plain")
		if took := time.Since(begun); took > 0 {
			t.Errorf("the scrape waited for %s", took)
		}
		err := e.want(map[string]float64{"railhead_database_up": 0, "railhead_database_stats_age_seconds": 2})
		if err != nil || e.types["dlq_depth"] != "" {
			t.Errorf("%v; what was never read is exported: %v", err, e.types["dlq_depth"] != "")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if ended.Load() == 0 {
			t.Error("the reading does not end")
		}
	})
}

// TestHeldBack tests the age of a snapshot: the server names the snapshot, and its time counts from
// when it was first seen, unless the server has an earlier one.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Pointer[[]reader.Holder]
		held.Store(new([]reader.Holder))
		set := reading(t, func(context.Context, int) (reader.Gauges, error) {
			return reader.Gauges{Holders: *held.Load()},
				nil
		})
		time.Sleep(time.Second) // readings are at 0, 5, 10 s and so on
		for n, step := range []struct {
			holders []reader.Holder
			want    float64 // after two readings
		}{
			{[]reader.Holder{{Holder: "session 1", XID: "700"}}, 5},
			{[]reader.Holder{{Holder: "session 1", XID: "700"}}, 15},
			{[]reader.Holder{{Holder: "session 1", XID: "701"}}, 5},
			{[]reader.Holder{{Holder: "prepared x", XID: "9", Known: time.Hour}, {Holder: "session 1", XID: "701"}}, 3605},
			{nil, 0},
		} {
			held.Store(&step.holders)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if got := read(t, set, "text/plain").samples["railhead_oldest_transaction_age_seconds"]; got != step.want {
				t.Errorf("step %d: held back for %v s, want %v", n, got, step.want)
			}
		}
	})
}

// TestRailsBeyondTheBound tests that the rails that share one label are not called unclaimed while relayers serve all
// of them, and are while one of them is served by none.
func TestRailsBeyondTheBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		served []int
		want   float64
	}{"all are served": {[]int{3, 2, 4}, 2}, "one is not": {[]int{3, 0, 4}, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var all []reader.RailGauges
			for n := range 100 {
				all = append(all, reader.RailGauges{RailType: fmt.Sprintf("rail-%d", n), Relayers: 1})
			}
			for n, relayers := range c.served {
				all = append(all, reader.RailGauges{RailType: fmt.Sprintf("more-%d", n), Relayers: relayers, Depth: 5})
			}
			set := reading(t, func(context.Context, int) (reader.Gauges, error) { return reader.Gauges{Rails: all}, nil })
			time.Sleep(time.Second)
			if err := read(t, set, "text/plain").want(map[string]float64{
				`railhead_rail_relayers{rail="other"}`: c.want, `outbox_pending_depth{rail="other"}`: 15,
			}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
