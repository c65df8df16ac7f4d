package relayer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/relayer"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a cell, a bank with its own ledger, and what a relayer needs.
type world struct {
	t      *testing.T
	cell   *celltest.Cell
	bank   *railsim.Bank
	url    string
	store  *executor.Executor
	super  *pgx.Conn
	ingest *pgx.Conn
	seen   *witness
	log    *slog.Logger
	// asks is the path of inquiries, if it is not the one by rail key.
	asks string
	// wrap, if set, wraps the rail of the relayer.
	wrap    func(rails.Rail) rails.Rail
	others  map[string]rails.Rail // rails other than the bank
	keys    sync.Map              // rail keys by outbox id
	profile string
}

// covering is a rail that keeps one outcome per key.
const covering = `"resend_on_unknown": "SAME_KEY", "key_window": "24h", "answer_covers_key": true, "id_after_refusal": "NEW"`

// again is a rail that accepts a key that it has refused.
const again = `"resend_on_unknown": "SAME_KEY", "key_window": "24h", "id_after_refusal": "SAME"`

// fastProfile is a rail that de-duplicates by key and has no inquiry.
var fastProfile = profile(covering)

// profile returns a profile with short timeouts and the facts under test. Later fields take
// precedence.
func profile(facts string) string {
	return `{"acceptance": "FINAL", "id_after_refusal": "SAME", "codes": {"table": "iso20022"},
		"retry": {"max_sends": 5, "base": "20ms", "cap": "100ms"},
		"timeouts": {"connect": "500ms", "tls": "100ms", "write": "300ms", "response_header": "500ms", "body": "300ms"}, ` + facts + `}`
}

func newWorld(t *testing.T, profile string, banks ...func(*railsim.Config)) *world {
	t.Helper()
	w := &world{t: t, cell: celltest.New(t), seen: newWitness(), log: testLog(t), profile: profile}
	w.super = w.cell.Conn(t, "")
	config := railsim.Config{LedgerPath: filepath.Join(t.TempDir(), "bank.jsonl")}
	for _, change := range banks {
		change(&config)
	}
	bank, err := railsim.New(config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go bank.Serve(listener)
	t.Cleanup(func() { bank.Close() })
	w.bank, w.url = bank, "http://"+listener.Addr().String()
	w.cell.ApplyProfile("bank", profile)
	w.cell.SetTimeBudget(budget())
	w.store, err = executor.Open(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema,
		Name: "test-relayer"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	return w
}

func config() relayer.Config {
	return relayer.Config{
		WorkerID: "relayer-" + payment.NewID().String(), Poll: 50 * time.Millisecond,
		HeartbeatEvery: 200 * time.Millisecond, RefreshEvery: 100 * time.Millisecond,
	}
}

// budget is the time budget of a world that sets no other.
func budget() outbox.TimeBudget {
	return outbox.TimeBudget{
		ClaimTimeout: 40 * time.Second, StartWithin: 2 * time.Second, RecordWithin: 2 * time.Second, Drain: 3 * time.Second,
		HeartbeatStale: 2 * time.Second,
	}
}

// setBudget changes the time budget, before any relayer runs.
func (w *world) setBudget(change func(*outbox.TimeBudget)) {
	w.t.Helper()
	b := budget()
	change(&b)
	w.cell.SetTimeBudget(b)
}

// oneLoop configures a relayer that can do nothing while a turn is stuck.
func oneLoop() relayer.Config {
	c := config()
	c.Loops = 1
	return c
}

// run runs a relayer on the world's own store until the test ends.
func (w *world) run(config relayer.Config) *running {
	w.t.Helper()
	return w.runWith(config, w.store, w.notifier())
}

func (w *world) notifier() relayer.Notifier {
	w.t.Helper()
	notifier, err := executor.NewNotifier(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store,
		w.log)
	if err != nil {
		w.t.Fatal(err)
	}
	return notifier
}

func (w *world) runWith(config relayer.Config, store relayer.Store, notifier relayer.Notifier) *running {
	w.t.Helper()
	r, err := relayer.New(config, store, notifier, w.open, w.seen, w.log)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	run := &running{Relayer: r, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(run.ended)
		run.err = r.Run(ctx)
	}()
	w.t.Cleanup(func() {
		if err := run.stop(); err != nil {
			w.t.Errorf("relayer: %v", err)
		}
	})
	return run
}

// running is a running relayer.
type running struct {
	*relayer.Relayer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// stop stops it and returns the error of Run.
func (r *running) stop() error {
	r.cancel()
	<-r.ended
	return r.err
}

// lostNotifier never notifies.
type lostNotifier struct{}

func (lostNotifier) Listen(ctx context.Context, _ func()) { <-ctx.Done() }
func (lostNotifier) Test(context.Context) error           { return nil }

// enqueue enqueues as the ingest login and returns the outbox id.
func (w *world) enqueue(instruction string, more ...string) payment.ID {
	w.t.Helper()
	return w.enqueueOn("bank", instruction, more...)
}

func (w *world) enqueueOn(rail, instruction string, more ...string) payment.ID {
	w.t.Helper()
	w.ingesting()
	sql := `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'participant', $1, $2,
		'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}'` +
		strings.Join(append([]string{""}, more...), ", ") + `)`
	var id [16]byte
	if err := w.ingest.QueryRow(w.t.Context(), sql, instruction, rail).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	return payment.ID(id)
}

// ingesting opens the ingest login's connection.
func (w *world) ingesting() {
	if w.ingest == nil {
		w.ingest = w.cell.Conn(w.t, celltest.Ingest)
	}
}

// do runs a statement as the superuser.
func (w *world) do(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.super.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// text runs a query for one text as the superuser.
func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var text string
	if err := w.super.QueryRow(w.t.Context(), sql, args...).Scan(&text); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// states returns the states of an instruction's rows in order, with Railhead's reason code if there
// is one: "DISPATCHING RETRYABLE/NOT_SENT".
func (w *world) states(id payment.ID) string {
	w.t.Helper()
	return w.text(`
		SELECT coalesce(string_agg(state || coalesce('/' || error_code, ''), ' ' ORDER BY attempt_no), '')
		FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, [16]byte(id))
}

// awaitStates waits until the rows of an instruction are exactly these.
func (w *world) awaitStates(id payment.ID, want string) {
	w.t.Helper()
	w.seen.await(w.t, func() error {
		if got := w.states(id); got != want {
			return fmt.Errorf("states of %s: got %q, want %q", id, got, want)
		}
		return nil
	})
}

// awaitText waits until a query returns this text; it may return no row before.
func (w *world) awaitText(want, sql string, args ...any) {
	w.t.Helper()
	w.seen.await(w.t, func() error {
		var got string
		err := w.super.QueryRow(w.t.Context(), sql, args...).Scan(&got)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			w.t.Fatalf("%s: %v", sql, err)
		}
		if got != want {
			return fmt.Errorf("%s: got %q, want %q", sql, got, want)
		}
		return nil
	})
}

// waiting returns the pending row as "SEND sends=1 asked=0" and the flags that are set, or the
// empty string.
func (w *world) waiting(id payment.ID) string {
	w.t.Helper()
	return w.text(`
		SELECT coalesce((
			SELECT format('%s sends=%s asked=%s', next_action, send_count, inquiry_count)
				|| CASE WHEN outcome_unknown THEN ' unknown' ELSE '' END || CASE WHEN provisional THEN ' provisional' ELSE '' END
			FROM railhead.payment_outbox_pending WHERE outbox_id = $1), '')`, [16]byte(id))
}

// letter returns the dead letter as "FAILED pending", or the empty string.
func (w *world) letter(id payment.ID) string {
	w.t.Helper()
	return w.text(`SELECT coalesce((SELECT reason || ' ' || status FROM railhead.payment_dead_letters
		WHERE outbox_id = $1), '')`, [16]byte(id))
}

// nothingLeft waits until no instruction waits and no claim is in flight.
func (w *world) nothingLeft() {
	w.t.Helper()
	w.awaitText("0 0", `SELECT format('%s %s', (SELECT count(*) FROM railhead.payment_outbox_pending), (SELECT count(*)
		FROM railhead.payment_outbox_claims))`)
}

// same reports a difference.
func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// executions counts the executions of an instruction in the bank's ledger.
func (w *world) executions(id payment.ID) int {
	w.t.Helper()
	records, err := w.bank.Executions()
	if err != nil {
		w.t.Fatal(err)
	}
	n, key := 0, w.railKey(id)
	for _, record := range records {
		if record.Key == key {
			n++
		}
	}
	return n
}

// railKey asks the database once.
func (w *world) railKey(id payment.ID) string {
	w.t.Helper()
	if key, ok := w.keys.Load(id); ok {
		return key.(string)
	}
	key := w.cell.RailKey(id)
	w.keys.Store(id, key)
	return key
}

// sends counts the requests that the bank received for an instruction.
func (w *world) sends(id payment.ID) int {
	n, key := 0, w.railKey(id)
	for _, request := range w.bank.Requests() {
		if request.Key == key && request.Op == "payment" {
			n++
		}
	}
	return n
}

// faults sets the bank's faults.
func (w *world) faults(faults ...railsim.Fault) {
	w.t.Helper()
	for i := range faults {
		if faults[i].Probability == 0 {
			faults[i].Probability = 1
		}
	}
	if err := w.bank.SetFaults(faults...); err != nil {
		w.t.Fatal(err)
	}
}
