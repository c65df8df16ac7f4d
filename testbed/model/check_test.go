package model

import (
	"context"
	"flag"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// shortChecks is how many histories an ordinary test run draws.
const shortChecks = 40

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", strconv.Itoa(shortChecks)); err != nil {
			panic(err)
		}
	}
	pgtest.Main(m)
}

func TestLedgerAgainstModel(t *testing.T) {
	t.Parallel()
	i := install(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := i.newWorld(rt)
		defer w.clearUp()
		rt.Repeat(w.steps())
	})
}

// TestConflictOfWhatWasCancelled checks a history that random ones seldom reach: a late outcome
// shows that a cancelled payment may have been sent, and an operator finds out that it was not
// executed.
func TestConflictOfWhatWasCancelled(t *testing.T) {
	t.Parallel()
	i := install(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := i.newWorld(rt)
		defer w.clearUp()
		w.enqueue(rt)
		w.cancel(rt)
		one := w.all[0]
		forgotten := payment.Claim{
			OutboxID: one.id, RailType: w.name, AttemptNo: 1, Action: payment.ActionSend,
			ClaimedAt: time.Now().Truncate(time.Microsecond),
		}
		decision := w.profile.Decide(forgotten, payment.Answer{Result: payment.ResultUnknown})
		same(rt, "late", w.slow(rt, w.outcome(forgotten, decision, payment.ResultUnknown, "", "worker")),
			payment.VerdictConflict)
		w.check(rt)
		w.resolve(rt)
		w.check(rt)
		w.enqueueAgain(rt)
	})
}

func install(t *testing.T) *installation {
	t.Helper()
	cell := celltest.New(t)
	i := &installation{cell: cell}
	var err error
	if i.ingest, err = ingest.Open(t.Context(),
		ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.ingest.Close)
	if i.executor, err = executor.Open(t.Context(),
		ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.executor.Close)
	if i.reports, err = callbacks.Open(t.Context(),
		ledger.Config{URL: cell.URL(celltest.Callbacks), Cell: cell.Schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.reports.Close)
	if i.operator, err = operator.Open(t.Context(),
		ledger.Config{URL: cell.URL(celltest.Operator), Cell: cell.Schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.operator.Close)
	i.looker = cell.Conn(t, "")
	return i
}

// seen is an instruction as the database shows it.
type seen struct {
	ID           string
	States       []string
	Unknown      []bool
	LastUnknown  bool
	Waiting      bool
	Action       *string
	WaitsUnknown *bool
	WaitsTaken   *bool
	Count        *int
	Letter       *string
	InFlight     bool
}

const seenSQL = `
	SELECT k.outbox_id::text,
	  coalesce(array_agg(a.state::text ORDER BY a.attempt_no) FILTER (WHERE a.attempt_no IS NOT NULL), '{}'),
	  coalesce(array_agg(a.attempt_no = a.place ORDER BY a.attempt_no) FILTER (WHERE a.attempt_no IS NOT NULL), '{}'),
	  coalesce((array_agg(a.outcome_unknown
	  ORDER BY a.attempt_no DESC) FILTER (WHERE a.state <> 'LATE_OUTCOME'))[1], false),
	  p.outbox_id IS NOT NULL, p.next_action, p.outcome_unknown, p.provisional, p.attempt_count,
	  (SELECT d.reason FROM railhead.payment_dead_letters d WHERE d.outbox_id = k.outbox_id
	  AND d.status NOT IN ('manual_replay', 'resolved')),
	  EXISTS (SELECT FROM railhead.payment_outbox_claims f WHERE k.outbox_id = ANY (f.outbox_ids))
	FROM railhead.payment_outbox_keys k
	LEFT JOIN LATERAL (
	  SELECT t.*, row_number() OVER (ORDER BY t.attempt_no) AS place FROM railhead.payment_outbox_attempts t
	  WHERE t.outbox_id = k.outbox_id) a ON true
	LEFT JOIN railhead.payment_outbox_pending p ON p.outbox_id = k.outbox_id
	WHERE k.outbox_id = ANY ($1::uuid[])
	GROUP BY k.outbox_id, p.outbox_id, p.next_action, p.outcome_unknown, p.provisional, p.attempt_count`

// check compares the database with the model, and both with the truth.
func (w *world) check(t *rapid.T) {
	ids := make([]string, len(w.all))
	for n, one := range w.all {
		ids[n] = one.id.String()
	}
	rows, err := w.looker.Query(w.ctx(), seenSQL, ids)
	must(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[seen])
	must(t, err)
	same(t, "instructions", len(all), len(w.all))
	for _, s := range all {
		id, err := payment.ParseID(s.ID)
		must(t, err)
		w.compare(t, w.byID(id), s)
	}
}

func (w *world) compare(t *rapid.T, one *instruction, s seen) {
	bad := func(what string, got, want any) {
		t.Fatalf("%s of %s is %v, want %v\nrows %v\nmodel %+v\ntruth %+v", what, one.order.InstructionID, got, want,
			s.States, one.model, one.rail)
	}
	if len(s.States) != one.rows || slices.Contains(s.Unknown, false) {
		bad("the numbering", len(s.States), one.rows)
	}
	var last payment.State
	dispatched := 0
	for _, name := range s.States {
		state := payment.State(name)
		if !payment.MayFollow(last, state) && !payment.MayResolve(last, state) {
			bad("the row after "+string(last), state, "a legal one")
		}
		if state != payment.LateOutcome {
			last = state
		}
		if state == payment.Dispatched {
			dispatched++
		}
	}
	switch letter := payment.DeadReason(orEmpty(s.Letter)); {
	case last != one.state:
		bad("the last state", last, one.state)
	case s.LastUnknown != one.unknown:
		bad("the unknown outcome", s.LastUnknown, one.unknown)
	case s.Waiting != one.waiting:
		bad("being in pending", s.Waiting, one.waiting)
	case letter != one.letter:
		bad("the open dead letter", letter, one.letter)
	case s.Waiting && (*s.Action != string(one.action) || *s.WaitsUnknown != one.waitsUnknown ||
		*s.WaitsTaken != one.waitsTaken):
		bad("how it waits", []any{*s.Action, *s.WaitsUnknown, *s.WaitsTaken},
			[]any{one.action, one.waitsUnknown, one.waitsTaken})
	case s.Waiting && *s.Count != one.rows:
		bad("attempt_count", *s.Count, one.rows)
	case one.open > 0 && !s.InFlight:
		bad("its claim", "forgotten", "in flight")
	case dispatched > 1:
		bad("the number of DISPATCHED rows", dispatched, 1)
	}
	// These are wrong even if the model and the database agree.
	switch conflict := one.letter == payment.DeadConflict; {
	case one.rail.executed > 1:
		bad("the number of executions", one.rail.executed, "at most 1")
	case one.state == payment.Dispatched && one.rail.executed == 0:
		bad("DISPATCHED", "said", "false")
	case (one.state == payment.Failed || one.state == payment.Cancelled) && one.rail.executed > 0 && !conflict &&
		!one.unaware():
		bad(string(one.state), "said", "false")
	case !one.waiting && one.open == 0 && one.letter == "" && one.state != payment.Dispatched &&
		one.state != payment.Cancelled && one.state != payment.Failed:
		bad("it", "lost", "somewhere that an operator sees")
	}
}

// unaware reports whether a restore has removed what the cell knew about an execution: its rows
// are from before it, or its caller has repeated the call and nothing was sent since.
func (i *instruction) unaware() bool {
	sent := false
	for _, left := range i.sends {
		sent = sent || left
	}
	return i.rewound == i.rows || i.repeated && !sent
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (w *world) ctx() context.Context { return context.Background() }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func must(t *rapid.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatalf("%v", err)
	}
}

func same[T comparable](t *rapid.T, what string, got, want T) {
	if got != want {
		t.Helper()
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}
