package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// desk is a cell with an executor at work: what the tests of claim, record,
// repair and the late path have in common. Everything under test runs as the
// executor's login; looking and planting is the superuser's.
type desk struct {
	*celltest.Cell
	t      *testing.T
	exec   *executor.Executor
	ingest *pgx.Conn
	super  *pgx.Conn
	person *operator.Operator // once there is one: see operator
	n      int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{Cell: celltest.New(t), t: t}
	var err error
	d.exec, err = executor.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Relayer), Cell: d.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.exec.Close)
	d.ingest, d.super = d.Conn(t, celltest.Ingest), d.Superuser()
	return d
}

// do runs a statement as the superuser.
func (d *desk) do(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.super.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// text reads one text as the superuser.
func (d *desk) text(sql string, args ...any) string {
	d.t.Helper()
	var text string
	if err := d.super.QueryRow(d.t.Context(), sql, args...).Scan(&text); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// enqueue takes an instruction of a fresh name; more are named arguments of the
// enqueue function.
func (d *desk) enqueue(more ...string) payment.ID { d.t.Helper(); return d.enqueueOn("bank", more...) }

func (d *desk) enqueueOn(rail string, more ...string) payment.ID {
	d.t.Helper()
	d.n++
	sql := `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'participant', $1, $2,
		'{"amount": "10.50", "currency": "EUR"}'` + strings.Join(append([]string{""}, more...), ", ") + `)`
	var id [16]byte
	if err := d.ingest.QueryRow(d.t.Context(), sql, fmt.Sprintf("instruction-%d", d.n), rail).Scan(&id); err != nil {
		d.t.Fatal(err)
	}
	return payment.ID(id)
}

// lane asks for the rows of a rail.
func lane(rail string, free, oldest int) outbox.Lane {
	return outbox.Lane{RailType: rail, Free: free, Oldest: oldest, ProfileVersion: 1, RenderVersion: "render/1"}
}

// inForce is the lane under the profile in force.
func (d *desk) inForce(l outbox.Lane) outbox.Lane {
	d.t.Helper()
	l.ProfileVersion = d.ProfileInForce(l.RailType)
	return l
}

// claim claims and returns what it got, by outbox_id.
func (d *desk) claim(lanes ...outbox.Lane) map[payment.ID]payment.Claim {
	d.t.Helper()
	return d.turn(outbox.Turn{Claim: request(lanes...)})
}

func request(lanes ...outbox.Lane) outbox.ClaimRequest {
	return outbox.ClaimRequest{ClaimID: payment.NewID(), WorkerID: "worker", Lanes: lanes}
}

func (d *desk) turn(turn outbox.Turn) map[payment.ID]payment.Claim {
	d.t.Helper()
	result, err := d.exec.Turn(d.t.Context(), turn)
	if err != nil {
		d.t.Fatal(err)
	}
	claims := make(map[payment.ID]payment.Claim)
	for _, claim := range result.Claims {
		if _, twice := claims[claim.OutboxID]; twice {
			d.t.Errorf("%s was claimed twice by one statement", claim.OutboxID)
		}
		claims[claim.OutboxID] = claim
	}
	return claims
}

// claimOne makes an instruction due and claims it alone, by the profile in force.
func (d *desk) claimOne(id payment.ID) payment.Claim {
	d.t.Helper()
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = '2000-01-01' WHERE outbox_id = $1`, [16]byte(id))
	claims := d.claim(d.inForce(lane("bank", 1, 1)))
	claim, ok := claims[id]
	if !ok {
		d.t.Fatalf("claimed %d others instead of %s", len(claims), id)
	}
	return claim
}

// told is the outcome that a worker makes of an answer under a policy.
func told(policy payment.Policy, claim payment.Claim, result payment.Result, reference string) payment.Outcome {
	decision := policy.WithDefaults().Decide(claim, payment.Answer{Result: result, Elapsed: time.Second})
	return outcome(claim, decision, result, reference)
}

// lost is the reaper's.
func lost(policy payment.Policy, claim payment.Claim) payment.Outcome {
	return outcome(claim, policy.WithDefaults().DecideLost(claim, time.Second, 0), "", "")
}

func outcome(claim payment.Claim, decision payment.Decision, result payment.Result, reference string) payment.Outcome {
	return payment.Outcome{
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Decision: decision, Result: result,
		RailReference: reference, WorkerID: "worker", ProfileVersion: 1, RenderVersion: "render/1",
	}
}

// record records by the fast path, all of a claim's answers at once, and insists
// that nothing was late.
func (d *desk) record(outcomes ...payment.Outcome) {
	d.t.Helper()
	turn := outbox.Turn{Outcomes: outcomes}
	for _, o := range outcomes {
		turn.Finished = append(turn.Finished, o.Claim.ClaimID)
	}
	result, err := d.exec.Turn(d.t.Context(), turn)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(result.Late) > 0 {
		d.t.Fatalf("%d outcomes were late", len(result.Late))
	}
}

func (d *desk) late(o payment.Outcome) payment.Verdict {
	d.t.Helper()
	verdict, err := d.exec.RecordLate(d.t.Context(), o)
	if err != nil {
		d.t.Fatal(err)
	}
	return verdict
}

// quarantine quarantines one row, as a relayer does.
func (d *desk) quarantine(id payment.ID, code string) error {
	_, err := d.exec.Quarantine(d.t.Context(), []payment.ID{id}, code)
	return err
}

// rows are the states of an instruction's rows in order, a row that answers a
// claim with its number: "DISPATCHING RETRYABLE(1)".
func (d *desk) rows(id payment.ID) string {
	d.t.Helper()
	return d.text(`
		SELECT coalesce(string_agg(state || coalesce('(' || answers_attempt_no || ')', ''), ' ' ORDER BY attempt_no), '')
		FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, [16]byte(id))
}

// waiting tells the pending row: "SEND sends=1 asked=0 count=2" with the flags
// that are set, or nothing.
func (d *desk) waiting(id payment.ID) string {
	d.t.Helper()
	return d.text(`
		SELECT coalesce((
			SELECT format('%s sends=%s asked=%s count=%s', next_action, send_count, inquiry_count, attempt_count)
				|| CASE WHEN outcome_unknown THEN ' unknown' ELSE '' END || CASE WHEN provisional THEN ' provisional' ELSE '' END
			FROM railhead.payment_outbox_pending WHERE outbox_id = $1), '')`, [16]byte(id))
}

// letter tells the dead letter: "FAILED pending", or nothing.
func (d *desk) letter(id payment.ID) string {
	d.t.Helper()
	return d.text(`SELECT coalesce((SELECT reason || ' ' || status FROM railhead.payment_dead_letters
		WHERE outbox_id = $1), '')`, [16]byte(id))
}

// same reports a difference.
func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// gapless insists that the rows of every instruction are numbered 1, 2, 3, ...,
// and that no instruction is recorded as executed twice.
func (d *desk) gapless() {
	d.t.Helper()
	bad := d.text(`
		SELECT coalesce(string_agg(x.outbox_id::text, ', '), '')
		FROM (
			SELECT outbox_id FROM railhead.payment_outbox_attempts GROUP BY outbox_id
			HAVING max(attempt_no) <> count(*) OR min(attempt_no) <> 1 OR count(*) FILTER (WHERE state = 'DISPATCHED') > 1) x`)
	if bad != "" {
		d.t.Errorf("attempt numbers have gaps, or there are two DISPATCHED rows, in %s", bad)
	}
}
