package reaper_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// The rails of the tests. A call takes at most 1.7 s, so that no claim younger than 2.2 s (start
// within half a second) is taken from its worker.
const (
	timeouts     = `"timeouts": {"connect": "500ms", "tls": "100ms", "write": "300ms", "response_header": "500ms", "body": "300ms"}`
	sameKey      = `{"resend_on_unknown": "SAME_KEY", "key_window": "24h", ` + timeouts + `}`
	never        = `{"resend_on_unknown": "NEVER", ` + timeouts + `}`
	asks         = `{"resend_on_unknown": "NEVER", "inquiry": {"max": 3, "not_found": "INCONCLUSIVE"}, ` + timeouts + `}`
	budget       = 2200 * time.Millisecond
	claimTimeout = 30 * time.Second
)

// yard is a cell whose workers die.
type yard struct {
	*celltest.Cell
	t      *testing.T
	exec   *executor.Executor // the workers' and the reaper's: both are executors
	super  *pgx.Conn
	ingest *pgx.Conn
	n      int
}

func newYard(t *testing.T, profile string) *yard {
	t.Helper()
	y := &yard{Cell: celltest.New(t), t: t}
	y.ApplyProfile("bank", profile)
	y.SetTimeBudget(outbox.TimeBudget{
		ClaimTimeout: claimTimeout, StartWithin: 500 * time.Millisecond, RecordWithin: time.Second, Drain: time.Second,
		HeartbeatStale: 10 * time.Second,
	})
	y.super, y.ingest, y.exec = y.Conn(t, ""), y.Conn(t, celltest.Ingest), y.executor()
	return y
}

func (y *yard) executor() *executor.Executor {
	y.t.Helper()
	exec, err := executor.Open(y.t.Context(), ledger.Config{URL: y.URL(celltest.Reaper), Cell: y.Schema})
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(exec.Close)
	return exec
}

// reaper returns a reaper that is past every grace.
func (y *yard) reaper(change ...func(*reaper.Config)) *reaper.Reaper {
	y.t.Helper()
	return y.reaperOn(y.executor(), change...)
}

func (y *yard) reaperOn(store reaper.Store, change ...func(*reaper.Config)) *reaper.Reaper {
	y.t.Helper()
	config := reaper.Config{
		WorkerID: "reaper-" + payment.NewID().String(),
		Grace:    10 * time.Millisecond, Every: time.Minute,
	}
	for _, each := range change {
		each(&config)
	}
	r, err := reaper.New(config, store, nil, testLog(y.t))
	if err != nil {
		y.t.Fatal(err)
	}
	return r
}

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// once runs a turn that succeeds.
func (y *yard) once(r *reaper.Reaper) reaper.Result {
	y.t.Helper()
	result, err := r.RunOnce(y.t.Context())
	if err != nil {
		y.t.Fatal(err)
	}
	return result
}

func (y *yard) do(sql string, args ...any) {
	y.t.Helper()
	if _, err := y.super.Exec(y.t.Context(), sql, args...); err != nil {
		y.t.Fatalf("%s: %v", sql, err)
	}
}

func (y *yard) text(sql string, args ...any) string {
	y.t.Helper()
	var text string
	if err := y.super.QueryRow(y.t.Context(), sql, args...).Scan(&text); err != nil {
		y.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func (y *yard) enqueue(more ...string) payment.ID {
	y.t.Helper()
	y.n++
	var id [16]byte
	sql := `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'participant', $1, 'bank', '{"amount": "10.50", "currency": "EUR"}'` +
		strings.Join(append([]string{""}, more...), ", ") + `)`
	if err := y.ingest.QueryRow(y.t.Context(), sql, fmt.Sprintf("instruction-%d", y.n)).Scan(&id); err != nil {
		y.t.Fatal(err)
	}
	return payment.ID(id)
}

// claim claims all due instructions for the named worker, by the profile in force.
func (y *yard) claim(worker string) []payment.Claim {
	y.t.Helper()
	version := y.ProfileInForce("bank")
	y.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01' WHERE next_attempt_at < 'infinity'`)
	result, err := y.exec.Turn(y.t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: worker,
		Lanes: []outbox.Lane{{RailType: "bank", Free: 1000, ProfileVersion: version, RenderVersion: "render/1"}},
	}})
	if err != nil {
		y.t.Fatal(err)
	}
	return result.Claims
}

// claimOne enqueues one and claims it.
func (y *yard) claimOne(worker string) payment.Claim {
	y.t.Helper()
	y.enqueue()
	claims := y.claim(worker)
	if len(claims) != 1 {
		y.t.Fatalf("claimed %d", len(claims))
	}
	return claims[0]
}

// age sets the age of the claims in flight.
func (y *yard) age(by time.Duration) {
	y.t.Helper()
	y.do(`UPDATE railhead.payment_outbox_claims SET claimed_at = clock_timestamp() - make_interval(secs => $1)`,
		by.Seconds())
}

// beat records a heartbeat of a worker at a time in the past.
func (y *yard) beat(worker, status string, ago time.Duration) {
	y.t.Helper()
	y.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, vouched, stale_after_ms, last_tick_at)
		VALUES ($1, 'relayer', 'host', 'v', $2, true, 10000, clock_timestamp() - make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE
		SET status = excluded.status, last_tick_at = excluded.last_tick_at`, worker, status, ago.Seconds())
}

// fate returns the rows, the pending row, and the letter.
func (y *yard) fate(id payment.ID) string {
	y.t.Helper()
	return y.text(`
		SELECT concat_ws(', ',
			(SELECT string_agg(state || coalesce('/' || error_code, ''), ' ' ORDER BY attempt_no)
			FROM railhead.payment_outbox_attempts WHERE outbox_id = $1),
			(SELECT format('%s sends=%s', next_action, send_count) || CASE WHEN outcome_unknown THEN ' unknown'
			ELSE '' END || CASE WHEN provisional THEN ' provisional' ELSE '' END
				FROM railhead.payment_outbox_pending WHERE outbox_id = $1),
			(SELECT 'letter ' || reason || ' ' || status FROM railhead.payment_dead_letters
			WHERE outbox_id = $1))`, [16]byte(id))
}

func (y *yard) inFlight() int { return y.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`) }

// told returns the outcome that a worker makes of an answer.
func told(claim payment.Claim, result payment.Result, reference string) payment.Outcome {
	policy := payment.Policy{
		ResendOnUnknown: payment.ResendSameKey, KeyWindow: payment.Duration(24 * time.Hour), IDAfterRefusal: payment.IDSame,
		Retry: payment.RetryPolicy{MaxSends: 20},
	}.WithDefaults()
	return payment.Outcome{
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: result, RailReference: reference,
		Decision: policy.Decide(claim, payment.Answer{Result: result}), WorkerID: "worker",
	}
}

func (y *yard) late(o payment.Outcome) payment.Verdict {
	y.t.Helper()
	verdict, err := y.exec.RecordLate(y.t.Context(), o)
	if err != nil {
		y.t.Fatal(err)
	}
	return verdict
}

func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
