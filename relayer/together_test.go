package relayer_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/reaper"
	"github.com/railhead-pay/railhead/relayer"
)

// quick are calls of at most 700 ms, so that claims can be repaired within a test.
const quick = `"timeouts": {"connect": "200ms", "tls": "50ms", "write": "100ms", "response_header": "250ms", "body": "100ms"},
	"retry": {"max_sends": 20, "base": "20ms", "cap": "200ms"}, "breaker": {"failure_ratio": 1, "minimum_requests": 1000}`

// badDay are the faults of a bank, a fifth of all requests together.
func badDay() []railsim.Fault {
	return []railsim.Fault{
		{Kind: railsim.DelayArrival, DelayMS: 300, Probability: 0.02}, // executes after we gave up on it
		{Kind: railsim.DropBefore, Probability: 0.03},
		{Kind: railsim.DropAfter, Probability: 0.03},
		{Kind: railsim.ResetAfter, Probability: 0.02},
		{Kind: railsim.StatusBefore, Status: 503, Probability: 0.02},
		{Kind: railsim.StatusAfter, Status: 502, Probability: 0.02},
		{Kind: railsim.HangAfter, Probability: 0.02},
		{Kind: railsim.HTMLAfter, Probability: 0.02},
		{Kind: railsim.Refuse, Code: "AC04", Probability: 0.02},
		{Kind: railsim.RefuseDrop, Code: "AC04", Probability: 0.02},
	}
}

// TestTogether runs relayers, one of which loses commits and one of which dies half way, and two
// reapers, on one queue and a bank with faults. The bank's ledger shows which payments were made;
// ours must agree, or have them as unknown.
func TestTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile string
		bank    func(*railsim.Config)
		n       int
		parked  bool // a person may be needed
	}{
		"asked, same key": {profile(`"resend_on_unknown": "SAME_KEY", "key_window": "24h",
			"inquiry": {"intervals": ["50ms"], "max": 100, "not_found": "NOT_EXECUTED", "not_found_age": "1s", "not_found_until": "1h"}, ` + quick), func(*railsim.Config) {}, 300, true},
		"same key, one outcome a key": {profile(covering + ", " + quick),
			func(*railsim.Config) {}, 200, false},
		"never": {profile(`"resend_on_unknown": "NEVER", ` + quick), noDedupe, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.profile, c.bank)
			w.faults(badDay()...)
			stop := w.everybody()
			var ids []payment.ID
			for n := range c.n {
				ids = append(ids, w.enqueueAs(fmt.Sprintf("participant-%d", n%7), fmt.Sprintf("instruction-%d", n)))
			}
			w.awaitText("0 0", `SELECT format('%s %s', (SELECT count(*) FROM railhead.payment_outbox_pending), (SELECT count(*)
				FROM railhead.payment_outbox_claims))`)
			stop()
			w.agree(ids, c.parked)
			w.gapless()
		})
	}
}

// everybody starts two relayers, one that will die, and two reapers. The returned function stops
// the living ones.
func (w *world) everybody() (stop func()) {
	w.t.Helper()
	config := func(name string) relayer.Config {
		c := config()
		c.WorkerID = name
		c.HeartbeatEvery = 100 * time.Millisecond
		return c
	}
	w.cell.SetTimeBudget(outbox.TimeBudget{
		ClaimTimeout: 4 * time.Second, StartWithin: 500 * time.Millisecond, RecordWithin: 500 * time.Millisecond,
		Drain:          500 * time.Millisecond,
		HeartbeatStale: 600 * time.Millisecond,
	})
	var ends []func()
	valid := w.runWith(config("valid"), w.store, w.notifier())
	careless := newFaulty(w.executor())
	careless.failNext("Turn", lostAfter, 5)
	careless.failNext("RecordLate", lostAfter, 3)
	other := w.runWith(config("careless"), careless, w.notifier())
	ends = append(ends, func() { valid.stop() }, func() { other.stop() })

	// It dies with claims in flight: nothing that it does from now on arrives.
	dying := newFaulty(w.executor())
	w.runWith(config("dying"), &mortal{faulty: dying}, w.notifier())

	for n := range 2 {
		r, err := reaper.New(reaper.Config{
			WorkerID: fmt.Sprintf("reaper-%d", n), Every: 50 * time.Millisecond, Grace: 10 * time.Millisecond,
		}, w.executor(), nil, w.log)
		if err != nil {
			w.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if err := r.Run(ctx); err != nil {
				w.t.Errorf("reaper: %v", err)
			}
		}()
		end := func() { cancel(); <-ended }
		w.t.Cleanup(end)
		ends = append(ends, end)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// executor is a store of its own, with its own connections.
func (w *world) executor() *executor.Executor {
	w.t.Helper()
	exec, err := executor.Open(w.t.Context(), ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(exec.Close)
	return exec
}

// mortal dies with the turn of its tenth claim.
type mortal struct {
	*faulty
	claimed atomic.Int64
}

func (m *mortal) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	result, err := m.faulty.Turn(ctx, turn)
	if n := len(result.Claims); n > 0 && m.claimed.Add(int64(n)) >= 10 {
		for _, call := range []string{"Turn", "Heartbeat", "RecordLate", "ClaimOnly", "FindClaim", "CloseClaims",
			"CheckServer"} {
			m.fail(call, lostBefore)
		}
	}
	return result, err
}

func (w *world) enqueueAs(participant, instruction string) payment.ID {
	w.t.Helper()
	w.ingesting()
	var id [16]byte
	if err := w.ingest.QueryRow(w.t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox($2, $1, $2, 'bank',
		'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}')`, participant, instruction).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	return payment.ID(id)
}

// agree compares our records with the bank's ledger.
func (w *world) agree(ids []payment.ID, mayPark bool) {
	w.t.Helper()
	records, err := w.bank.Executions()
	if err != nil {
		w.t.Fatal(err)
	}
	paid := map[string]int{}
	for _, record := range records {
		paid[record.Key]++
	}
	ends := map[string]int{}
	for _, id := range ids {
		n := paid[w.cell.RailKey(id)]
		state := w.text(`SELECT coalesce(railhead.payment_outbox_state($1), 'NOTHING')`, [16]byte(id))
		ends[fmt.Sprintf("%s paid %d", state, n)]++
		switch {
		case n > 1:
			w.t.Errorf("%s was paid %d times: %s", id, n, w.states(id))
		case state == "DISPATCHED" && n == 1, state == "FAILED" && n == 0:
		case state == "PARKED" && mayPark && strings.HasPrefix(w.letter(id), "OUTCOME_UNKNOWN pending"):
		default:
			w.t.Errorf("%s is %s and was paid %d times: %s", id, state, n, w.states(id))
		}
	}
	repaired := w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'`)
	w.t.Log("ends:", ends, "repaired:", repaired)
	if repaired == 0 {
		w.t.Error("the reapers had nothing to do")
	}
	if ends["DISPATCHED paid 1"] < len(ids)/2 {
		w.t.Errorf("ends: %v", ends)
	}
}
