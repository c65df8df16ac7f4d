package relayer_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/internal/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/railsim"
	"github.com/railhead-pay/railhead/relayer"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a cell, a bank with its own ledger, and what a relayer needs.
type world struct {
	t     *testing.T
	cell  *celltest.Cell
	bank  *railsim.Bank
	url   string
	store *ledger.Executor
	seen  *witness
	log   *slog.Logger
}

// fastProfile is a rail that de-duplicates by key and is asked nothing.
const fastProfile = `{"acceptance": "FINAL", "answer_covers_key": true, "resend_on_unknown": "SAME_KEY", "key_window": "24h",
	"id_after_refusal": "SAME", "codes": {"table": "iso20022"},
	"retry": {"max_sends": 5, "base": "20ms", "cap": "100ms"},
	"timeouts": {"connect": "500ms", "tls": "500ms", "write": "500ms", "response_header": "500ms", "body": "500ms"}}`

func newWorld(t *testing.T, profile string) *world {
	t.Helper()
	w := &world{t: t, cell: celltest.New(t), seen: newWitness(), log: testLog(t)}
	bank, err := railsim.New(railsim.Config{LedgerPath: filepath.Join(t.TempDir(), "bank.jsonl")})
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
	w.store, err = ledger.OpenExecutor(t.Context(), ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema, Name: "test-relayer"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	return w
}

// open makes the HTTP rail to the bank with the profile in force.
func (w *world) open(profile rails.Profile) (rails.Rail, error) {
	inquiry := ""
	if profile.Inquiry.Max > 0 {
		inquiry = `
      inquiry:
        path: /payments/by-key/{rail_key}
        response: {status: status, reference: id, code: code, echo: reference,
          statuses: {EXECUTED: EXECUTED, REFUSED: REFUSED, IN_PROGRESS: IN_PROGRESS, NOT_FOUND: NOT_FOUND}}`
	}
	file, err := railconfig.Parse([]byte(`
rails:
  - rail_type: bank
    adapter: http
    profile: {acceptance: FINAL}
    http:
      base_url: `+w.url+`
      allow_plaintext: true
      allow_loopback: true
      send:
        path: /payments
        idempotency_header: Idempotency-Key
        body: {reference: rail_key, amount: amount.decimal, currency: currency, debtor: payload.debtor, creditor: payload.creditor}
        response: {status: status, statuses: {EXECUTED: OK, ACCEPTED: P, REFUSED: CODE}, reference: id, code: code, message: message, echo: reference}`), os.Getenv)
	if err != nil {
		return nil, err
	}
	if inquiry != "" {
		return nil, fmt.Errorf("inquiry is not part of this harness")
	}
	return railconfig.Open(file.Rails[0], profile)
}

func config() relayer.Config {
	return relayer.Config{
		WorkerID: "relayer-" + payment.NewID().String(), Poll: 50 * time.Millisecond, Zombie: 30 * time.Second,
		StartWithin: 2 * time.Second, RecordWithin: 2 * time.Second, Drain: 3 * time.Second,
		HeartbeatEvery: 200 * time.Millisecond, HeartbeatStale: 2 * time.Second, RefreshEvery: 100 * time.Millisecond,
	}
}

// run runs a relayer until the test ends or stop is called.
func (w *world) run(config relayer.Config, store relayer.Store) (stop func()) {
	w.t.Helper()
	bell, err := ledger.NewBell(ledger.Config{URL: w.cell.URL(celltest.Relayer), Cell: w.cell.Schema}, w.store, w.log)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.runWith(config, store, bell)
}

func (w *world) runWith(config relayer.Config, store relayer.Store, bell relayer.Bell) (stop func()) {
	w.t.Helper()
	r, err := relayer.New(config, store, bell, w.open, w.seen, w.log)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("relayer: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// enqueue enqueues as the ingest login and returns the outbox id.
func (w *world) enqueue(instruction string, more ...string) payment.ID {
	w.t.Helper()
	conn := w.cell.Conn(w.t, celltest.Ingest)
	return enqueue(w.t, conn, instruction, more...)
}

func enqueue(t *testing.T, conn *pgx.Conn, instruction string, more ...string) payment.ID {
	t.Helper()
	extra := ""
	for _, each := range more {
		extra += ", " + each
	}
	var id [16]byte
	err := conn.QueryRow(t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'participant', $1, 'bank',
		'{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": "b"}}'`+extra+`)`, instruction).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return payment.ID(id)
}

// states are the states of an instruction's rows, in order.
func (w *world) states(id payment.ID) string {
	var states string
	w.cell.QueryRow(`SELECT coalesce(string_agg(state::text, ' ' ORDER BY attempt_no), '') FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`,
		[]any{[16]byte(id)}, &states)
	return states
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

// executions counts what the bank's ledger says of an instruction.
func (w *world) executions(id payment.ID) int {
	w.t.Helper()
	records, err := w.bank.Executions()
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, record := range records {
		if record.Key == payment.RailKey(id) {
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

// witness hears what a relayer does, so that tests wait for events.
type witness struct {
	mu    sync.Mutex
	heard chan struct{}
	n     map[string]int
}

func newWitness() *witness { return &witness{heard: make(chan struct{}, 1), n: map[string]int{}} }

func (s *witness) note(what string) {
	s.mu.Lock()
	s.n[what]++
	s.mu.Unlock()
	select {
	case s.heard <- struct{}{}:
	default:
	}
}

func (s *witness) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[what]
}

// await checks after every event, and now and then for what makes none.
func (s *witness) await(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-s.heard:
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

func (s *witness) Bell()                              { s.note("bell") }
func (s *witness) Poll()                              { s.note("poll") }
func (s *witness) BellDeaf(deaf bool)                 { s.note(fmt.Sprintf("deaf %v", deaf)) }
func (s *witness) Claimed(string, int)                { s.note("claimed") }
func (s *witness) Turn(int, int, time.Duration)       { s.note("turn") }
func (s *witness) Recorded(payment.Outcome)           { s.note("recorded") }
func (s *witness) Late(_ string, v payment.Verdict)   { s.note("late " + string(v)) }
func (s *witness) Unlisted(string, string)            { s.note("unlisted") }
func (s *witness) Breaker(string, rails.BreakerState) { s.note("breaker") }
func (s *witness) InFlight(string, int, int)          {}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}
