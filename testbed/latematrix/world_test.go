package latematrix_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/twin"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/testbed/calls"
)

// world is the cell that all combinations share, with the connections of its services and
// operators.
type world struct {
	t         *testing.T
	cell      *celltest.Cell
	ingest    *ingest.Ingest
	executor  *executor.Executor
	slow      *twin.Recorder // by the executor
	reports   reporter
	operator  *operator.Operator
	looker    *pgxpool.Pool // reads as the superuser, and makes time pass
	callbacks *calls.Receiver
	rails     []rail
}

// reporter is the ledger of callbacks, whose reports are held to the same rule.
type reporter struct {
	*callbacks.Callbacks
	slow *twin.Recorder
}

func (r reporter) RecordLate(ctx context.Context, o payment.Outcome) (payment.Verdict, error) {
	return r.slow.RecordLate(ctx, o)
}

const lanes = 3 // groups at a time

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cell: celltest.New(t)}
	w.rails = applyShapes(t, w.cell)
	config := func(login string) ledger.Config {
		return ledger.Config{URL: w.cell.URL(login), Cell: w.cell.Schema, MaxConns: lanes + 1}
	}
	var err error
	w.ingest, err = ingest.Open(t.Context(), config(celltest.Ingest))
	w.must(err)
	t.Cleanup(w.ingest.Close)
	w.executor, err = executor.Open(t.Context(), config(celltest.Relayer))
	w.must(err)
	t.Cleanup(w.executor.Close)
	w.reports.Callbacks, err = callbacks.Open(t.Context(), config(celltest.Callbacks))
	w.must(err)
	t.Cleanup(w.reports.Close)
	w.operator, err = operator.Open(t.Context(), config(celltest.Operator))
	w.must(err)
	t.Cleanup(w.operator.Close)
	w.looker = w.cell.Pool(t, "")
	differs := func(difference string) { t.Error(difference) }
	w.slow = &twin.Recorder{Ledger: w.executor, Looker: w.looker, Differs: differs}
	w.reports.slow = &twin.Recorder{Ledger: w.reports.Callbacks, Looker: w.looker, Differs: differs}
	var names []string
	for _, r := range w.rails {
		names = append(names, r.name)
	}
	w.callbacks, err = calls.Open(names, string(executed), string(refused), w.reports, nil)
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// callBack delivers the bank's callback about a payment.
func (w *world) callBack(p *life, e evidence) error {
	err := w.callbacks.Deliver(w.t.Context(), calls.Report{
		Rail: p.rail.name, Event: e.event + "-" + p.id.String(), Key: p.railKey, Status: string(e.word),
		Reference: p.named(e.reference),
	})
	if err != nil {
		return err
	}
	p.facts.reported(e.event, e.word, p.named(e.reference))
	return nil
}

// life is one payment during a combination.
type life struct {
	combination
	id      payment.ID
	railKey string
	facts   *facts
	held    *payment.Claim // in the hands of a worker
	vetoed  bool           // which may not send on it
	lost    []payment.Claim
	aside   bool
	claims  int // that were sends
	view    view
	found   []finding
	dead    bool // an error ended it
	// escalated is set where a contradiction is left to operators.
	escalated bool
}

// finding is one rule that a combination broke.
type finding struct {
	combination
	rule, when, rows string
}

func (p *life) find(when, rule string) {
	p.found = append(p.found, finding{p.combination, rule, when, p.view.rows})
}

// fault notes an error that is no documented refusal.
func (p *life) fault(when string, err error) {
	p.find(when, "error: "+err.Error())
	p.dead = true
}

// errNoState ends a path that the rail can't take.
var errNoState = errors.New(noState)

const batchMax = 500

// enqueue enqueues the payments of combinations.
func (w *world) enqueue(ctx context.Context, name string, all []combination) ([]*life, error) {
	lives := make([]*life, len(all))
	for from := 0; from < len(all); from += batchMax {
		part := all[from:min(from+batchMax, len(all))]
		orders := make([]payment.Instruction, len(part))
		for n := range part {
			id := fmt.Sprintf("%s-%d", name, from+n)
			orders[n] = payment.Instruction{
				InstructionID: id, ParticipantID: "participant-" + name, IdempotencyKey: id, RailType: part[n].rail.name,
				Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`), ExpiresAt: time.Now().Add(24 * time.Hour),
			}
		}
		results, err := w.ingest.EnqueueBatch(ctx, orders)
		if err != nil {
			return nil, err
		}
		for n, result := range results {
			if result.Fault != nil {
				return nil, result.Fault
			}
			lives[from+n] = &life{combination: part[n], id: result.Receipt.OutboxID, facts: newFacts(part[n].rail.bank)}
		}
	}
	return lives, w.readKeys(ctx, lives)
}

func (w *world) readKeys(ctx context.Context, lives []*life) error {
	byID := index(lives)
	rows, err := w.looker.Query(ctx, `SELECT outbox_id, 'rh' || replace(rail_key::text, '-', '')
		FROM railhead.payment_outbox_keys WHERE outbox_id = ANY ($1::uuid[])`, ids(lives))
	if err != nil {
		return err
	}
	var id [16]byte
	var key string
	_, err = pgx.ForEachRow(rows, []any{&id, &key}, func() error {
		byID[payment.ID(id)].railKey = key
		return nil
	})
	return err
}

func ids(lives []*life) []string {
	all := make([]string, len(lives))
	for n, p := range lives {
		all[n] = p.id.String()
	}
	return all
}

func index(lives []*life) map[payment.ID]*life {
	all := make(map[payment.ID]*life, len(lives))
	for _, p := range lives {
		all[p.id] = p
	}
	return all
}

const viewSQL = `
	SELECT k.outbox_id, coalesce(last.state::text, ''), coalesce(last.result, ''),
	  p.outbox_id IS NOT NULL, coalesce(p.next_action, ''), coalesce(p.outcome_unknown, false), coalesce(p.next_attempt_at = 'infinity', false),
	  CASE WHEN d.status NOT IN ('manual_replay', 'resolved') THEN d.reason ELSE '' END, d.outbox_id IS NOT NULL,
	  p.payload IS NOT NULL OR a.payload, a.dispatched, a.cancelled,
	  a.rows || CASE WHEN p.outbox_id IS NULL THEN ''
	  ELSE format(', waits to %s unknown=%s', p.next_action, p.outcome_unknown) END
	    || coalesce(', letter ' || d.reason || ' ' || d.status, '')
	FROM railhead.payment_outbox_keys k
	LEFT JOIN railhead.v_outbox_pending p ON p.outbox_id = k.outbox_id
	LEFT JOIN railhead.payment_dead_letters d ON d.outbox_id = k.outbox_id
	LEFT JOIN LATERAL (
	  SELECT t.state, t.result FROM railhead.payment_outbox_attempts t
	  WHERE t.outbox_id = k.outbox_id AND t.state <> 'LATE_OUTCOME' ORDER BY t.attempt_no DESC LIMIT 1) last ON true
	CROSS JOIN LATERAL (
	  SELECT coalesce(bool_or(t.payload IS NOT NULL), false) AS payload, count(*) FILTER (WHERE t.state = 'DISPATCHED') AS dispatched,
	    coalesce(bool_or(t.state = 'CANCELLED'), false) AS cancelled,
	    coalesce(string_agg(t.attempt_no || ' ' || t.state || coalesce(' ' || t.result, '') || coalesce(' ' || t.error_code, '')
	      || CASE WHEN t.outcome_unknown THEN ' unknown' ELSE '' END, ', ' ORDER BY t.attempt_no), 'no rows') AS rows
	  FROM railhead.v_outbox_attempts t WHERE t.outbox_id = k.outbox_id) a
	WHERE k.outbox_id = ANY ($1::uuid[])`

// look reads the product's view of payments, and judges it by the oracle.
func (w *world) look(ctx context.Context, when string, lives []*life) error {
	byID := index(lives)
	rows, err := w.looker.Query(ctx, viewSQL, ids(lives))
	if err != nil {
		return err
	}
	var id [16]byte
	var v view
	_, err = pgx.ForEachRow(rows, []any{
		&id, &v.state, &v.result, &v.waiting, &v.action, &v.waitsUnknown, &v.aside, &v.letter, &v.hadLetter,
		&v.payload, &v.dispatched, &v.cancelled, &v.rows,
	}, func() error {
		p := byID[payment.ID(id)]
		p.view = v
		for _, rule := range p.facts.judge(v) {
			p.find(when, rule)
		}
		return nil
	})
	return err
}
