package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// stale sends a form that a page made before something changed: it is refused, and no act is in the log.
func (s *site) stale(cell *celltest.Cell, client *http.Client, path, seen string) {
	s.Helper()
	before := countActs(cell)
	for _, one := range []string{seen, "", "x", "1.x", "1.2.x"} {
		s.want(s.do(client, "POST", path, url.Values{"reason": {"by what the page showed"}, "seen": {one}}), 409,
			"It is no longer as the page showed it", "Nothing was done")
	}
	if n := countActs(cell); n != before {
		s.Errorf("%s by a page from before: %d acts more in the operator log", path, n-before)
	}
}

// TestStalePageEndsNoOtherPause: the form of a page that shows one pause does not end another one, which was begun
// since, nor one that was extended since, nor one that another operator asked for since, without a later end.
func TestStalePageEndsNoOtherPause(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	s := serve(t, cell, console.Operate, true)
	client, op := s.login(), cell.Conn(t, celltest.Operator)
	for _, c := range []struct{ page, act, paused, pause, resume string }{
		{"/rails/bank", "/rails/bank/resume", `SELECT paused::int FROM railhead.payment_rails WHERE rail_type = 'bank'`,
			`SELECT railhead.pause_rail('bank', $1, $2)`, `SELECT railhead.resume_rail('bank', $1)`},
		{"/rails", "/rails/*/resume", `SELECT paused::int FROM railhead.payment_rails WHERE rail_type = '*'`,
			`SELECT railhead.pause_rail('*', $1, $2)`, `SELECT railhead.resume_rail('*', $1)`},
		{"/participant?id=p1", "/participant/resume?id=p1", `SELECT count(*) FROM railhead.payment_paused_participants`,
			`SELECT railhead.pause_participant('p1', $1, $2)`, `SELECT railhead.resume_participant('p1', $1)`},
	} {
		do := func(sql string, args ...any) {
			t.Helper()
			if _, err := op.Exec(t.Context(), sql, args...); err != nil {
				t.Fatal(err)
			}
		}
		do(c.pause, "maintenance", time.Now().Add(time.Hour))
		first := s.shown(client, c.page, c.act)
		do(c.pause, "maintenance", time.Now().Add(2*time.Hour)) // it takes longer
		s.stale(cell, client, c.act, first)
		extended := s.shown(client, c.page, c.act)
		do(c.resume, "maintenance is over")
		s.stale(cell, client, c.act, extended)
		do(c.pause, "STOP: the bank executes payments twice", nil)
		s.stale(cell, client, c.act, extended)
		if n := cell.Int(c.paused); n != 1 {
			t.Errorf("%s: %d pauses are in force, want that which the page did not show", c.act, n)
		}
		alone := s.shown(client, c.page, c.act)
		do(c.pause, "STOP: their ledger is wrong, too", nil)
		s.stale(cell, client, c.act, alone) // which ends as it did, and is asked for by another operator, too
		s.act(client, c.act, url.Values{}, c.page, "Resumed.")
	}
}

// TestStalePageDiscardsNoOtherEvents: the form of a page that shows some events that were given up discards no others,
// and one that shows a pause of an endpoint does not end another one.
func TestStalePageDiscardsNoOtherEvents(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	give := func(n string) {
		cell.Exec(`INSERT INTO railhead.payment_event_retries (endpoint_id, outbox_id, attempt_no, attempt_id, event_type, created_at,
			tries, next_at, last_status, failed_at)
			SELECT 'shop', gen_random_uuid(), ` + n + `, gen_random_uuid(), 'payment.dispatched', now(), 3, 'infinity', '500', now()`)
	}
	const act = "/endpoints/shop/discard"
	give("1")
	one := s.shown(client, "/endpoints", act)
	give("2")
	s.stale(cell, client, act, one)
	cell.Exec(`DELETE FROM railhead.payment_event_retries WHERE attempt_no = 1`)
	s.stale(cell, client, act, one) // as many as were shown, and not those
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_event_retries`); n != 1 {
		t.Errorf("%d events are left, want the one that the page did not show", n)
	}
	s.act(client, act, url.Values{}, "/endpoints", "The events that were given up are discarded.")

	const redeliver = "/endpoints/shop/redeliver"
	shown := s.shown(client, "/endpoints", redeliver)
	cell.Exec(`UPDATE railhead.payment_event_endpoints SET paused_at = now() + interval '1 second'`)
	s.stale(cell, client, redeliver, shown)
	s.act(client, redeliver, url.Values{}, "/endpoints", "No event waited")
}

// TestActsOnAnEndpointThatDelivers: an act on an endpoint is done while its deliveries are noted all the time, and
// while it waits for its row it holds no older state for true.
func TestActsOnAnEndpointThatDelivers(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	ctx, stop := context.WithCancel(t.Context())
	courier := cell.Conn(t, "")
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		for ctx.Err() == nil {
			// as a courier: it holds the row for some time, and comes back at once
			courier.Exec(ctx, `UPDATE railhead.payment_event_endpoints SET notes = notes + 1;
				SELECT pg_sleep(0.002)`) //nolint:errcheck // the end of the test cancels it
		}
	}()
	defer func() { stop(); <-noted }()
	for range 5 {
		s.act(client, "/endpoints/shop/redeliver", url.Values{}, "/endpoints", "No event waited")
		s.act(client, "/endpoints/shop/discard", url.Values{}, "/endpoints", "nothing was discarded")
	}
}

// TestPauseDuringTheWait: a pause that is ended and begun anew while the act that names the first one waits for its
// lock is not ended by it.
func TestPauseDuringTheWait(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	config := ledger.Config{URL: cell.URL(celltest.Operator), Cell: cell.Schema}
	op, err := operator.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	if _, err := op.PauseRail(t.Context(), "bank", "maintenance", time.Time{}); err != nil {
		t.Fatal(err)
	}
	pause, err := op.Reader().RailPause(t.Context(), "bank")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := cell.Conn(t, celltest.Operator).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`SELECT railhead.resume_rail('bank', 'over')`, `SELECT railhead.pause_rail('bank', 'STOP')`} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error)
	go func() {
		_, err := op.ResumeRail(operator.IfPauseIs(t.Context(), "bank", "", operator.ShownOf(pause)), "bank", "over")
		ended <- err
	}()
	awaitWaiter(t, cell)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), operator.ErrOther.Error()) {
		t.Errorf("the act that waited: %v, want %v", err, operator.ErrOther)
	}
	pause, err = op.Reader().RailPause(t.Context(), "bank")
	if err != nil || pause == nil || pause.Reason != "STOP" {
		t.Errorf("the pause in force is %v (%v), want the one that began meanwhile", pause, err)
	}
}

// awaitWaiter waits until a session of the cell waits for a lock.
func awaitWaiter(t *testing.T, cell *celltest.Cell) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if cell.Int(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0 {
			return
		}
		cell.Exec(`SELECT pg_sleep(0.01)`)
	}
	t.Fatal("no session waits for a lock")
}

// TestSaidOfActs: what the console says after an act holds while the rail is paused, and where the act does less than
// its name says.
func TestSaidOfActs(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.ApplyProfile("bank", `{"acceptance": "FINAL", "resend_on_unknown": "NEVER", "id_after_refusal": "SAME",
		"inquiry": {"max": 5, "not_before": "10m", "not_found": "INCONCLUSIVE"}}`)
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	id := enqueue(t, cell, "1")
	cell.Exec(`UPDATE railhead.payment_outbox_pending SET next_action = 'INQUIRE', outcome_unknown = true, first_sent_at = now(),
		last_sent_at = now(), send_count = 1`)
	page := "/payments/" + id.String()
	s.want(s.do(client, "POST", page+"/send-now", s.form(client, id, url.Values{"reason": {"x"}})), 303)
	var due time.Time
	cell.QueryRow(`SELECT next_attempt_at FROM railhead.payment_outbox_pending`, nil, &due)
	got := s.want(s.do(client, "GET", page, nil), 200, "It is due at "+explain.Clock(due)+".")
	if strings.Contains(got.text, "due now") {
		t.Errorf("a payment that is due at %s is said to be due now", due)
	}
}
