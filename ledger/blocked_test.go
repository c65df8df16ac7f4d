package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// endedByTheServer ends the open transaction of a test, so that an act without a bound
// fails it and does not hang.
const endedByTheServer = `SET LOCAL idle_in_transaction_session_timeout = '20s'`

// TestOperatorActsWaitABoundedTime: behind a transaction that is left open an act of
// an operator ends soon, having done nothing, and names the session.
func TestOperatorActsWaitABoundedTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		held string // what the open transaction has done
		act  func(d *desk, o *operator.Operator, id payment.ID) error
	}{
		"pause a rail": {`SELECT railhead.resume_rail('bank', 'left open')`, func(d *desk, o *operator.Operator, _ payment.ID) error {
			_, err := o.PauseRail(d.t.Context(), "bank", why, time.Time{})
			return err
		}},
		"resume a rail": {`SELECT railhead.pause_rail('bank', 'left open')`, func(d *desk, o *operator.Operator, _ payment.ID) error {
			_, err := o.ResumeRail(d.t.Context(), "bank", why)
			return err
		}},
		"pause everything": {`SELECT railhead.resume_rail('*', 'left open')`, func(d *desk, o *operator.Operator, _ payment.ID) error {
			_, err := o.PauseRail(d.t.Context(), operator.Everything, why, time.Time{})
			return err
		}},
		"apply a profile": {`SELECT railhead.pause_rail('bank', 'left open')`, func(d *desk, o *operator.Operator, _ payment.ID) error {
			_, _, err := o.ApplyRailProfile(d.t.Context(), "bank", []byte(`{}`), why)
			return err
		}},
		"pause a participant": {`SELECT railhead.pause_participant('participant', 'left open')`, func(d *desk, o *operator.Operator, _ payment.ID) error {
			_, err := o.PauseParticipant(d.t.Context(), "participant", why, time.Time{})
			return err
		}},
		"cancel": {`SELECT railhead.cancel_payment($1, 'left open')`, func(d *desk, o *operator.Operator, id payment.ID) error {
			return hands[0].do(o, d.t, id)
		}},
		"replay": {`SELECT railhead.triage_dead_letter($1, 'acknowledged', 'left open')`, func(d *desk, o *operator.Operator, id payment.ID) error {
			return hands[4].do(o, d.t, id)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			var arguments []any
			id := d.enqueue()
			if strings.Contains(test.held, "$1") {
				if name == "replay" {
					id = plights["FAILED"](d)
				}
				arguments = []any{[16]byte(id)}
			}
			holder := d.Conn(t, celltest.Operator)
			tx, err := holder.Begin(t.Context())
			d.must(err)
			defer tx.Rollback(t.Context())
			_, err = tx.Exec(t.Context(), endedByTheServer)
			d.must(err)
			_, err = tx.Exec(t.Context(), test.held, arguments...)
			d.must(err)
			log := d.Int(`SELECT count(*) FROM railhead.payment_operator_log`)

			begun := time.Now()
			err = test.act(d, d.operatorWhoLooks(), id)
			if took := time.Since(begun); took > 7*time.Second {
				t.Errorf("it took %s", took)
			}
			blocked, ok := errors.AsType[*operator.BlockedError](err)
			if !ok || !errors.Is(err, outbox.ErrLockTimeout) || ledger.SQLState(err) != "55P03" {
				t.Fatalf("got %v, want a lock timeout that names the session", err)
			}
			if len(blocked.Blockers) != 1 || blocked.Blockers[0].PID != int32(holder.PgConn().PID()) {
				t.Fatalf("%v; want pid %d", err, holder.PgConn().PID())
			}
			by := blocked.Blockers[0]
			if by.Login != celltest.Operator || by.State != "idle in transaction" || by.Open < 4*time.Second ||
				!strings.HasPrefix(by.Statement, "SELECT railhead.") {
				t.Errorf("the session is %+v", by)
			}
			if strings.Contains(err.Error(), "left open") {
				t.Errorf("a literal of the other session's statement is shown: %v", err)
			}
			same(t, "acts logged", d.Int(`SELECT count(*) FROM railhead.payment_operator_log`), log)
			d.must(tx.Rollback(t.Context()))
			d.must(test.act(d, d.operatorWhoLooks(), id))
		})
	}
}

// TestBlockerOfAnotherLogin: of another login's session PostgreSQL shows an operator
// who it is, and neither what it does nor since when. A session that only waits in
// between is not named.
func TestBlockerOfAnotherLogin(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	holder := d.Conn(t, "")
	tx, err := holder.Begin(t.Context())
	d.must(err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), endedByTheServer+`; SET LOCAL application_name = 'forgotten';
		SELECT railhead.resume_rail('bank', 'left open')`)
	d.must(err)
	between := d.Conn(t, celltest.Operator)
	waited := make(chan error, 1)
	go func() {
		_, err := between.Exec(t.Context(), `SELECT railhead.resume_rail('bank', 'waits as well')`)
		waited <- err
	}()
	for d.Int(`SELECT count(*) FROM pg_stat_activity WHERE pid = $1
		AND wait_event_type = 'Lock'`, between.PgConn().PID()) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	_, err = d.operatorWhoLooks().PauseRail(t.Context(), "bank", why, time.Time{})
	blocked, ok := errors.AsType[*operator.BlockedError](err)
	if !ok || len(blocked.Blockers) != 1 {
		t.Fatalf("got %v, want one session", err)
	}
	by := blocked.Blockers[0]
	if by.PID != int32(holder.PgConn().PID()) || by.Application != "forgotten" || by.State != "" || by.Statement != "" {
		t.Errorf("the session is %+v", by)
	}
	if err := <-waited; ledger.SQLState(err) != "55P03" {
		t.Errorf("the session in between: %v", err)
	}
}

// TestOperatorFunctionsBoundTheirWaits: each function that an operator may execute.
func TestOperatorFunctionsBoundTheirWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	matrix, err := acl.Load()
	d.must(err)
	n := 0
	for _, grant := range matrix.Grants {
		if grant.Role != "railhead_operator" || grant.Object.Kind != acl.KindFunction {
			continue
		}
		if grant.Object.Name == "cell_bucket(text)" { // it reads no table
			continue
		}
		n++
		settings := d.text(`SELECT coalesce(p.proconfig::text, '') FROM pg_proc p
			WHERE p.oid = ('railhead.' || $1)::regprocedure`, grant.Object.Name)
		if !strings.Contains(settings, "lock_timeout=5s") {
			t.Errorf("%s waits for a lock without end: %s", grant.Object.Name, settings)
		}
	}
	if n < 10 {
		t.Errorf("%d functions of the operator's, want at least 10", n)
	}
}

// operatorWhoLooks has a second connection, by which it sees what it waits for.
func (d *desk) operatorWhoLooks() *operator.Operator {
	d.t.Helper()
	o, err := operator.Open(d.t.Context(), ledger.Config{URL: d.URL(celltest.Operator), Cell: d.Schema, MaxConns: 2})
	d.must(err)
	d.t.Cleanup(o.Close)
	return o
}
