package metrics_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/reaper"
	"github.com/railhead-pay/railhead/relayer"
)

// Every observer is one of the component's own kind.
var (
	_ relayer.Observer  = (*metrics.Relayer)(nil)
	_ reaper.Observer   = (*metrics.Reaper)(nil)
	_ callback.Observer = (*metrics.Callbacks)(nil)
)

// read answers one scrape.
func read(t *testing.T, set *metrics.Set, accept string) exposition {
	t.Helper()
	request := httptest.NewRequest("GET", "/metrics", nil)
	request.Header.Set("Accept", accept)
	answer := httptest.NewRecorder()
	set.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(answer, request)
	if answer.Code != 200 {
		t.Fatalf("%d: %s", answer.Code, answer.Body)
	}
	return parse(t, answer.Body.String())
}

// hostile are words that must never become a label.
var hostile = []string{
	"", "UPPER", "with space", "quo\"te", "new\nline", "DE02120300000000202051", strings.Repeat("x", 64), "ünï", "a{b}",
	"\x00",
}

// TestLabelsAreBounded uses input that no rail of ours sends: three hundred rails, hostile names,
// codes, tables, results and verdicts. The series stay few, and no hostile word is among them.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	set := metrics.New("v1", "relayer")
	r, c := set.Relayer(), set.Callbacks([]string{"bank"})
	rails300 := make([]string, 0, 300)
	for n := range 300 {
		rails300 = append(rails300, fmt.Sprintf("rail-%d", n))
	}
	for _, rail := range append(slices.Clone(hostile), rails300...) {
		for _, word := range append([]string{"UNKNOWN"}, hostile...) {
			for _, action := range []payment.Action{payment.ActionSend, payment.ActionInquire} {
				r.Called(relayer.Call{RailType: rail, Action: action, Result: payment.Result(word), UnmappedIn: word + "!",
					Latency: time.Millisecond})
			}
			r.Late(payment.Outcome{Claim: payment.Claim{RailType: rail}}, payment.Verdict(word))
			c.Received(rail, word)
		}
		r.Breaker(rail, rails.BreakerOpen)
	}
	set.Watch(crowd(append(rails300, hostile...)))
	e := read(t, set, "text/plain")
	for _, word := range hostile {
		if len(word) > 1 && strings.Contains(e.text, word) {
			t.Errorf("%q is in what is exported", word)
		}
	}
	perName := map[string]int{}
	for sample := range e.samples {
		name, _, _ := strings.Cut(sample, "{")
		perName[name]++
	}
	for name, n := range perName {
		if n > 101*15+101 {
			t.Errorf("%s has %d series", name, n)
		}
	}
	if got := perName["railhead_rail_in_flight"]; got != 101 {
		t.Errorf("%d rails, want 100 and other", got)
	}
	err := e.want(map[string]float64{
		`railhead_rail_in_flight{rail="other"}`:                           210,
		`railhead_rail_breaker_state{rail="other",state="open"}`:          1,
		`railhead_rail_sends_total{rail="rail-0",result="unknown"}`:       1,
		`railhead_rail_sends_total{rail="rail-0",result="stopped"}`:       10,
		`railhead_rail_unmapped_codes_total{rail="rail-0",table="other"}`: 22,
	})
	if err != nil {
		t.Error(err)
	}
}

// crowd is a relayer that serves rails of these names, one call under way in each.
type crowd []string

func (c crowd) Lanes() []relayer.LaneState {
	var all []relayer.LaneState
	for _, name := range c {
		all = append(all, relayer.LaneState{RailType: name, Calls: 1, Limit: 2, Breaker: rails.BreakerOpen})
	}
	return all
}

func (crowd) NotifierState() relayer.NotifierState { return relayer.NotifierDisconnected }

// TestExemplars tests that a call that belongs to a trace leaves its id in the histogram.
func TestExemplars(t *testing.T) {
	t.Parallel()
	set := metrics.New("v1", "relayer")
	r := set.Relayer()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	r.Called(relayer.Call{RailType: "bank", Action: payment.ActionSend, Result: payment.ResultAccepted,
		Latency: 7 * time.Millisecond, TraceID: trace})
	r.Called(relayer.Call{RailType: "bank", Action: payment.ActionSend, Result: payment.ResultAccepted,
		Latency: 70 * time.Millisecond})
	text := read(t, set, "application/openmetrics-text; version=1.0.0").text
	if !strings.Contains(text, `dispatch_latency_ms_bucket{rail="bank",le="10.0"} 1 # {trace_id="`+trace+`"} 7`) ||
		strings.Count(text, "trace_id") != 1 {
		t.Errorf("no exemplar, or too many:\n%s", text)
	}
}

// TestRowsByState counts the rows that each way of recording makes.
func TestRowsByState(t *testing.T) {
	t.Parallel()
	outcome := func(state payment.State, result payment.Result, park bool) payment.Outcome {
		return payment.Outcome{Result: result, Decision: payment.Decision{State: state, Park: park}}
	}
	for name, c := range map[string]struct {
		do   func(*metrics.Relayer, *metrics.Reaper, *metrics.Callbacks)
		want string
	}{
		"claims": {func(r *metrics.Relayer, _ *metrics.Reaper, _ *metrics.Callbacks) {
			r.Claimed([]payment.Claim{{Action: payment.ActionSend}, {Action: payment.ActionInquire},
				{Action: payment.ActionSend}})
		}, "DISPATCHING 2 INQUIRING 1"},
		"an outcome": {func(r *metrics.Relayer, _ *metrics.Reaper, _ *metrics.Callbacks) {
			r.Recorded(outcome(payment.Dispatched, payment.ResultAccepted, false))
		}, "DISPATCHED 1"},
		"one that parks": {func(r *metrics.Relayer, _ *metrics.Reaper, _ *metrics.Callbacks) {
			r.Recorded(outcome(payment.Unknown, payment.ResultUnknown, true))
		}, "UNKNOWN 1 PARKED 1"},
		"late, after all in": {func(r *metrics.Relayer, _ *metrics.Reaper, _ *metrics.Callbacks) {
			r.Recorded(outcome(payment.Dispatched, payment.ResultAccepted, false))
			r.Late(outcome(payment.Dispatched, payment.ResultAccepted, false), payment.VerdictIn)
		}, "DISPATCHED 1"},
		"late": {func(r *metrics.Relayer, _ *metrics.Reaper, _ *metrics.Callbacks) {
			r.Late(outcome(payment.Unknown, payment.ResultUnknown, false), payment.VerdictLate)
		}, "LATE_OUTCOME 1"},
		"late proof": {func(r *metrics.Relayer, _ *metrics.Reaper, _ *metrics.Callbacks) {
			r.Late(outcome(payment.Dispatched, payment.ResultAccepted, false), payment.VerdictSettled)
		}, "DISPATCHED 1 LATE_OUTCOME 1"},
		"evidence that is known": {func(r *metrics.Relayer, _ *metrics.Reaper, _ *metrics.Callbacks) {
			r.Late(outcome(payment.Dispatched, payment.ResultAccepted, false), payment.VerdictRepeated)
		}, ""},
		"a repair": {func(_ *metrics.Relayer, p *metrics.Reaper, _ *metrics.Callbacks) {
			p.Repaired(outcome(payment.ZombieRequeue, "", true))
		}, "ZOMBIE_REQUEUE 1 PARKED 1"},
		"a repair that late proof ended": {func(_ *metrics.Relayer, p *metrics.Reaper, _ *metrics.Callbacks) {
			p.NotNeeded(outcome(payment.ZombieRequeue, "", false), payment.VerdictSettled)
		}, "DISPATCHED 1"},
		"expiry": {func(_ *metrics.Relayer, p *metrics.Reaper, _ *metrics.Callbacks) { p.Expired(3, 0) }, "FAILED 3"},
		"expiry after a restore": {func(_ *metrics.Relayer, p *metrics.Reaper, _ *metrics.Callbacks) { p.Expired(2, 1) },
			"FAILED 2 PARKED 1"},
		"a refusal by callback": {func(_ *metrics.Relayer, _ *metrics.Reaper, c *metrics.Callbacks) {
			c.Recorded(outcome(payment.Failed, payment.ResultRefused, false), payment.VerdictSettled)
		}, "FAILED 1 LATE_OUTCOME 1"},
		"the same callback again": {func(_ *metrics.Relayer, _ *metrics.Reaper, c *metrics.Callbacks) {
			c.Recorded(outcome(payment.Failed, payment.ResultRefused, false), payment.VerdictMine)
		}, ""},
	} {
		set := metrics.New("v1", "relayer")
		c.do(set.Relayer(), set.Reaper(), set.Callbacks(nil))
		e := read(t, set, "text/plain")
		var got []string
		for _, state := range payment.States() {
			if n := e.samples[`attempts_total{state="`+string(state)+`"}`]; n > 0 {
				got = append(got, fmt.Sprintf("%s %v", state, n))
			}
		}
		if joined := strings.Join(got, " "); joined != c.want {
			t.Errorf("%s: %q, want %q", name, joined, c.want)
		}
	}
}

// TestTurnIsOverdue tests that a reaper without a turn that works counts for how long one is overdue, whatever fails
// meanwhile.
func TestTurnIsOverdue(t *testing.T) {
	t.Parallel()
	set := metrics.New("v1", "reaper")
	r := set.Reaper()
	for _, c := range []struct {
		within    time.Duration
		low, high float64
	}{{-2 * time.Minute, 120, 180}, {time.Hour, 0, 0}, {-time.Second, 1, 60}} {
		r.Due(c.within)
		r.TurnFailed()
		if got := read(t, set, "text/plain").samples["railhead_reaper_turn_overdue_seconds"]; got < c.low || got > c.high {
			t.Errorf("due within %s: overdue for %v s, want %v to %v", c.within, got, c.low, c.high)
		}
		if got := read(t, set, "text/plain").samples["railhead_reaper_turn_within_seconds"]; got != c.within.Seconds() {
			t.Errorf("due within %s: exported as %v s", c.within, got)
		}
	}
}

// unopened is a relayer whose rails were never opened, and one with a bound of calls.
type unopened []relayer.LaneState

func (u unopened) Lanes() []relayer.LaneState         { return slices.Clone(u) }
func (unopened) NotifierState() relayer.NotifierState { return relayer.NotifierListening }

// TestUnopenedRail tests that a rail whose profile could not be used since the start is shown as held, and has no
// calls; among those beyond the bound of rails it adds none.
func TestUnopenedRail(t *testing.T) {
	t.Parallel()
	set := metrics.New("v1", "relayer")
	set.Watch(unopened{
		{RailType: "bank", Stopped: true}, {RailType: "WIRE", Stopped: true},
		{RailType: "Z", Limit: 3, Rate: 7, Overdue: 2},
	})
	got := read(t, set, "").text
	for text, want := range map[string]int{
		`railhead_lane_held{rail="bank"} 1`: 1, `{rail="bank"`: 1, `railhead_lane_held{rail="other"} 1`: 1,
		`railhead_rail_rate_limit{rail="other"} 7`: 1, `railhead_rail_free_slots{rail="other"} 3`: 1,
		`railhead_rail_calls_overdue{rail="other"} 2`: 1,
	} {
		if n := strings.Count(got, text); n != want {
			t.Errorf("%s: %d times, want %d\n%s", text, n, want, got)
		}
	}
}
