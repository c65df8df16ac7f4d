package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// drawSpan favours edges and odd fractions.
func drawSpan(t *rapid.T, name string, most time.Duration) time.Duration {
	unit := rapid.SampledFrom([]time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second}).Draw(t,
		name+" unit")
	return min(time.Duration(rapid.IntRange(0, 90_000).Draw(t, name))*unit, most)
}

const shortCall = `{"timeouts": {"connect": "1ns", "tls": "1ns", "write": "1ns", "response_header": "1ns", "body": "1ns"}}`

// TestSameBudgetInGoAndSQL: rail apply and relayers (outbox.TimeBudget.Holds) and
// the schema (keep_time_budget) accept the same profiles under the same settings,
// whichever of the two changes last, and the same settings.
func TestSameBudgetInGoAndSQL(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	operator := d.operator()
	apply := func(profile string) error {
		_, _, err := operator.ApplyRailProfile(t.Context(), "bank", []byte(profile), "drawn")
		return err
	}
	rapid.Check(t, func(t *rapid.T) {
		timeouts := rails.Timeouts{
			Connect:        payment.Duration(drawSpan(t, "connect", 5*time.Minute)),
			TLS:            payment.Duration(drawSpan(t, "tls", 5*time.Minute)),
			Write:          payment.Duration(drawSpan(t, "write", 5*time.Minute)),
			ResponseHeader: payment.Duration(drawSpan(t, "response header", 5*time.Minute)),
			Body:           payment.Duration(drawSpan(t, "body", 5*time.Minute)),
		}
		profile := fmt.Sprintf(`{"timeouts": {"connect": %q, "tls": %q, "write": %q, "response_header": %q, "body": %q}}`,
			timeouts.Connect, timeouts.TLS, timeouts.Write, timeouts.ResponseHeader, timeouts.Body)
		call := timeouts.WithDefaults().Total()
		if got, want := d.text(`SELECT trim_scale(railhead.call_budget_ms($1::jsonb) * 1000000)::text`, profile), fmt.Sprint(call.Nanoseconds()); got != want {
			t.Fatalf("%s: %s ns in SQL, %s in Go", profile, got, want)
		}
		wholeMS := func(name string, most time.Duration) time.Duration {
			if rapid.IntRange(0, 9).Draw(t, name+" beyond its bounds") == 0 {
				return drawSpan(t, name, most).Truncate(time.Millisecond)
			}
			return time.Duration(rapid.IntRange(1000, int(most.Milliseconds())).Draw(t, name)) * time.Millisecond
		}
		budget := outbox.TimeBudget{
			StartWithin: wholeMS("start_within", time.Minute), RecordWithin: wholeMS("record_within", time.Minute),
			Drain: wholeMS("drain", 10*time.Minute), HeartbeatStale: wholeMS("heartbeat_stale", time.Hour),
		}
		off := rapid.IntRange(-3, 3).Draw(t, "off the edge")
		budget.ClaimTimeout = (budget.StartWithin + call + budget.RecordWithin + budget.Drain).Truncate(time.Millisecond) +
			time.Duration(off)*time.Millisecond
		set := func() error {
			changes := make(map[string]time.Duration)
			for _, s := range budget.Settings() {
				changes[s.Name] = s.Value
			}
			_, _, err := operator.SetTimeBudget(t.Context(), changes, "drawn")
			return err
		}
		agree := func(what string, err error, want bool) {
			if (err == nil) != want || err != nil && !errors.Is(err, outbox.ErrInvalid) {
				t.Fatalf("%s %s under %+v: %v in SQL, accepted by Go: %t", what, profile, budget, err, want)
			}
		}
		d.SetTimeBudget(outbox.TimeBudget{
			ClaimTimeout: time.Hour, StartWithin: 10 * time.Millisecond, RecordWithin: 10 * time.Millisecond,
			Drain: 10 * time.Millisecond, HeartbeatStale: time.Second,
		})
		if rapid.Bool().Draw(t, "the profile comes first") {
			agree("applying", apply(profile), true)
			agree("setting after", set(), budget.Validate() == nil && budget.Holds(call) == nil)
			return
		}
		agree("applying", apply(shortCall), true)
		err := set()
		agree("setting before", err, budget.Validate() == nil)
		if err == nil {
			agree("applying", apply(profile), budget.Holds(call) == nil)
		}
	})
}

// TestSetTimeBudget: an act of an operator, with its reason and its sentence.
func TestSetTimeBudget(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	operator := d.operator()
	set := func(changes map[string]time.Duration, reason string) (int, bool, error) {
		return operator.SetTimeBudget(t.Context(), changes, reason)
	}
	budget, err := operator.TimeBudget(t.Context())
	d.must(err)
	same(t, "a new cell has", budget, outbox.DefaultTimeBudget())

	for what, c := range map[string]struct {
		changes map[string]time.Duration
		reason  string
		words   string
	}{
		"no reason":       {map[string]time.Duration{"claim_timeout": time.Minute}, " ", "reason"},
		"nothing":         {nil, "why", "no setting is named"},
		"no such setting": {map[string]time.Duration{"claim_timeouts": time.Minute}, "why", "'claim_timeouts' is not a setting"},
		"out of bounds":   {map[string]time.Duration{"drain": time.Hour, "claim_timeout": time.Millisecond}, "why", "claim_timeout is 1 ms, must be 1000 to 3600000; drain is 3600000 ms"},
		"a part of a ms":  {map[string]time.Duration{"claim_timeout": time.Minute + time.Microsecond}, "why", "not a whole number of milliseconds"},
		"no call fits":    {map[string]time.Duration{"claim_timeout": 45 * time.Second}, "why", "must be less than claim_timeout 45000 ms"},
		"a rail's call":   {map[string]time.Duration{"claim_timeout": 75 * time.Second}, "why", "a call of rail bank (profile version 1) 30000 ms + record_within 10000 ms + drain 30000 ms = 75000 ms"},
	} {
		_, _, err := set(c.changes, c.reason)
		refusedWith(t, what, err, "RH002", c.words)
	}
	_, _, err = operator.ApplyRailProfile(t.Context(), "slow", []byte(`{"timeouts": {"body": "2m"}}`), "why")
	refusedWith(t, "a profile", err, "RH002", "= 190000 ms, must be less than claim_timeout 120000 ms")

	version, changed, err := set(map[string]time.Duration{"claim_timeout": 2 * time.Minute}, "it is so")
	d.must(err)
	same(t, "the same again", fmt.Sprint(version, changed), "1 false")
	version, changed, err = set(map[string]time.Duration{"claim_timeout": time.Minute, "drain": 10 * time.Second},
		"one rack")
	d.must(err)
	same(t, "a change", fmt.Sprint(version, changed), "2 true")
	same(t, "log", d.text(`SELECT string_agg(concat_ws(' ', actor, act, subject, reason, detail -> 'changes' ->> 'claim_timeout', detail -> 'from' ->> 'claim_timeout'), '; ')
		FROM railhead.payment_operator_log
		WHERE act <> 'APPLY_PROFILE'`), celltest.Operator+" SET_TIME_BUDGET version 2 one rack 60000 120000")
	budget, err = operator.TimeBudget(t.Context())
	d.must(err)
	want := outbox.DefaultTimeBudget()
	want.Version, want.ClaimTimeout, want.Drain = 2, time.Minute, 10*time.Second
	same(t, "in force", budget, want)

	// Nor by hand.
	for _, sql := range []string{
		`UPDATE railhead.payment_outbox_settings SET claim_timeout_ms = 50000`,
		`UPDATE railhead.payment_outbox_settings SET claim_timeout_ms = 999, start_within_ms = 10, record_within_ms = 10, drain_ms = 10`,
	} {
		if _, err := d.super.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: taken", sql)
		}
	}
	d.do(`UPDATE railhead.payment_outbox_settings SET budget_version = 77, batch_items_max = 5`)
	same(t, "the version is the trigger's", d.Int(`SELECT budget_version FROM railhead.payment_outbox_settings`), 2)
}

// TestSetAndApplyAtOnce: of a shorter claim timeout and a slower profile that come
// at once, the second weighs the first.
func TestSetAndApplyAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const slower, shorter = `SELECT railhead.apply_rail_profile('bank', '{"timeouts": {"body": "40s"}}', 'slower')`, `SELECT railhead.set_time_budget('{"claim_timeout": 100000}', 'shorter')`
	for name, order := range map[string][2]string{"the profile first": {slower, shorter},
		"the setting first": {shorter, slower}} {
		tx, err := d.super.Begin(t.Context())
		d.must(err)
		_, err = tx.Exec(t.Context(), order[0])
		d.must(err)
		second := d.Conn(t, "")
		done := make(chan error, 1)
		go func() {
			_, err := second.Exec(t.Context(), order[1])
			done <- err
		}()
		for d.Int(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
			AND pid = $1`, second.PgConn().PID()) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		d.must(tx.Commit(t.Context()))
		if err := <-done; err == nil || !strings.Contains(err.Error(), "must be less than claim_timeout 100000 ms") {
			t.Errorf("%s: the second: %v", name, err)
		}
		d.do(`SELECT railhead.set_time_budget('{"claim_timeout": 120000}', 'as before')`)
		d.do(`SELECT railhead.apply_rail_profile('bank', '{}', 'as before')`)
	}
}

// TestHeartbeatSaysNoLessThanTheCell: a component may run by what a beat returns,
// and its row says no less; nor less than the component says of itself.
func TestHeartbeatSaysNoLessThanTheCell(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	beat := func(budget outbox.TimeBudget, want string) outbox.TimeBudget {
		t.Helper()
		pulse, err := d.exec.Heartbeat(t.Context(),
			outbox.Heartbeat{Name: "relayer", Kind: "relayer", Host: "h", Version: "v", Status: "running", Budget: budget})
		d.must(err)
		same(t, "the row", d.text(`SELECT concat_ws(' ', claim_timeout_ms, start_within_ms, stale_after_ms, budget_version)
			FROM railhead.outbox_heartbeats`), want)
		return pulse.Budget
	}
	first := beat(outbox.TimeBudget{}, "120000 5000 15000 1")
	same(t, "the cell's", first, outbox.DefaultTimeBudget())
	d.do(`SELECT railhead.set_time_budget('{"claim_timeout": 100000, "start_within": 6000, "heartbeat_stale": 20000}', 'test')`)
	second := beat(first, "120000 6000 20000 1")
	same(t, "the new one", second, outbox.TimeBudget{
		Version: 2, ClaimTimeout: 100 * time.Second, StartWithin: 6 * time.Second, RecordWithin: 10 * time.Second,
		Drain: 30 * time.Second, HeartbeatStale: 20 * time.Second,
	})
	beat(first.Longest(second), "120000 6000 20000 1")
	beat(second, "100000 6000 20000 2")
}

// TestStaleByTheLongerBudget: a claim is due by the longer of what the reaper has
// read and what the claim's own worker says, span by span, and a dead worker says it
// still. What other workers say counts nothing.
func TestStaleByTheLongerBudget(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	short := outbox.TimeBudget{ClaimTimeout: 60 * time.Second, StartWithin: 2 * time.Second,
		HeartbeatStale: 10 * time.Second}
	for name, c := range map[string]struct {
		row     string // of the worker: claim_timeout_ms, start_within_ms, stale_after_ms, status; empty: none
		silent  time.Duration
		age     time.Duration
		due     bool
		unknown bool // the reaper does not know the rail's calls
	}{
		"acknowledged, past the shorter timeout":            {row: "60000, 2000, 10000, 'running'", age: 61 * time.Second, due: true},
		"acknowledged, not past it":                         {row: "60000, 2000, 10000, 'running'", age: 59 * time.Second},
		"not acknowledged, past the shorter timeout":        {row: "120000, 2000, 10000, 'running'", age: 61 * time.Second},
		"not acknowledged, past the longer timeout":         {row: "120000, 2000, 10000, 'running'", age: 121 * time.Second, due: true},
		"longer, not taken by its sender yet":               {row: "40000, 2000, 10000, 'running'", age: 41 * time.Second},
		"dead, past its call":                               {row: "120000, 2000, 10000, 'running'", silent: time.Hour, age: 33 * time.Second, due: true},
		"dead, may have started late by its own budget":     {row: "120000, 5000, 10000, 'running'", silent: time.Hour, age: 33 * time.Second},
		"dead, past that too":                               {row: "120000, 5000, 10000, 'running'", silent: time.Hour, age: 36 * time.Second, due: true},
		"silent beyond the shorter, not its own":            {row: "120000, 2000, 30000, 'running'", silent: 20 * time.Second, age: 50 * time.Second},
		"silent beyond its own, not the longer of the cell": {row: "120000, 2000, 5000, 'running'", silent: 7 * time.Second, age: 50 * time.Second},
		"stopped":                            {row: "120000, 2000, 30000, 'stopped'", age: 33 * time.Second, due: true},
		"stopped, may have started late":     {row: "120000, 5000, 30000, 'stopped'", age: 33 * time.Second},
		"never heard of":                     {age: 33 * time.Second, due: true},
		"never heard of, within its call":    {age: 31 * time.Second},
		"a rail without a profile, dead":     {row: "120000, 2000, 10000, 'running'", silent: time.Hour, age: 61 * time.Second, unknown: true},
		"a rail without a profile, past all": {row: "120000, 2000, 10000, 'running'", silent: time.Hour, age: 121 * time.Second, unknown: true, due: true},
	} {
		d.do(`DELETE FROM railhead.outbox_heartbeats`)
		d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, claim_timeout_ms, start_within_ms, stale_after_ms, status)
			VALUES ('another', 'relayer', 'h', 'v', 900000, 60000, 900000, 'running')`)
		claim := d.claimOne(d.enqueue())
		if c.row != "" {
			d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, claim_timeout_ms, start_within_ms, stale_after_ms, status, last_tick_at)
				SELECT worker_id, 'relayer', 'h', 'v', ` + c.row + fmt.Sprintf(`, clock_timestamp() - interval '%d ms'
				FROM railhead.payment_outbox_claims`, c.silent.Milliseconds()))
		}
		d.do(fmt.Sprintf(`UPDATE railhead.payment_outbox_claims SET claimed_at = clock_timestamp() - interval '%d ms'`, c.age.Milliseconds()))
		query := outbox.StaleQuery{Budget: short, Calls: map[string]time.Duration{"bank": 30 * time.Second}, Limit: 10}
		if c.unknown {
			query.Calls = nil
		}
		stale, err := d.exec.StaleClaims(t.Context(), query)
		d.must(err)
		if got := len(stale) == 1 && stale[0].Claim.OutboxID == claim.OutboxID; got != c.due || len(stale) > 1 {
			t.Errorf("%s: due %t (%d found), want %t", name, got, len(stale), c.due)
		}
		d.record(told(sameKey, claim, payment.ResultExecuted, "ref"))
		d.do(`DELETE FROM railhead.payment_outbox_claims`)
	}
}
