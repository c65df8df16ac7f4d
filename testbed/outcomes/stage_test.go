package outcomes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/reaper"
	"github.com/railhead-pay/railhead/relayer"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// speed is short enough for a test and long enough for a busy machine: an answer that is late for
// another reason would be another cell.
var speed = simrail.Speed{
	Answer: 2500 * time.Millisecond, Settle: 10 * time.Millisecond, Callback: time.Minute,
	Ask: 300 * time.Millisecond, Inquiries: 6, NotFoundAge: 100 * time.Millisecond,
	Retry: 400 * time.Millisecond, Sends: 5, Concurrency: 64,
}

var timeBudget = outbox.TimeBudget{
	ClaimTimeout: time.Minute, StartWithin: time.Second, RecordWithin: 2 * time.Second, Drain: 3 * time.Second,
	HeartbeatStale: 3 * time.Second,
}

// stage is a cell with the banks of some shapes, and a receiver of callbacks.
type stage struct {
	t       *testing.T
	cell    *celltest.Cell
	banks   map[simrail.Shape]*simrail.Bank
	rails   map[string]railconfig.RailConfig
	meddler *meddler
	store   *executor.Executor
	reader  *reader.Reader
	log     *slog.Logger
}

func newStage(t *testing.T, all []cell, speed simrail.Speed) *stage {
	t.Helper()
	s := &stage{
		t: t, cell: celltest.New(t), banks: make(map[simrail.Shape]*simrail.Bank),
		rails:   make(map[string]railconfig.RailConfig),
		meddler: newMeddler(len(all)), log: slog.New(slog.NewTextHandler(t.Output(),
			&slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	s.cell.SetTimeBudget(timeBudget)
	mux := http.NewServeMux()
	receiver := httptest.NewServer(mux)
	t.Cleanup(receiver.Close)
	var banks []*simrail.Bank
	for shape, replay := range replaysOf(all) {
		bank, err := simrail.Start(shape, simrail.Options{Dir: t.TempDir(), Speed: speed, CallbackURL: receiver.URL})
		s.must(err)
		t.Cleanup(func() { bank.Close() })
		s.must(bank.SetOnReplay(replay))
		s.banks[shape] = bank
		banks = append(banks, bank)
		profile, err := bank.Profile.JSON()
		s.must(err)
		s.cell.ApplyProfile(shape.RailType(), string(profile))
	}
	file, err := simrail.Rails(banks...)
	s.must(err)
	for _, rail := range file.Rails {
		s.rails[rail.RailType] = rail
	}
	s.store, err = executor.Open(t.Context(),
		ledger.Config{URL: s.cell.URL(celltest.Relayer), Cell: s.cell.Schema, MaxConns: 10})
	s.must(err)
	t.Cleanup(s.store.Close)
	s.reader, err = reader.Open(t.Context(), ledger.Config{URL: s.cell.URL(celltest.Readonly), Cell: s.cell.Schema})
	s.must(err)
	t.Cleanup(s.reader.Close)
	readers, err := simrail.Callbacks(file)
	s.must(err)
	if len(readers) > 0 {
		reports, err := callbacks.Open(t.Context(), ledger.Config{URL: s.cell.URL(celltest.Callbacks), Cell: s.cell.Schema})
		s.must(err)
		t.Cleanup(reports.Close)
		taker, err := callback.NewReceiver(readers, reports, "callbacks-1", 5*time.Second, nil, s.log)
		s.must(err)
		taker.Register(mux)
	}
	return s
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// faults sets the rules by which every bank plays its cells.
func (s *stage) faults(all []cell) {
	s.t.Helper()
	for shape, bank := range s.banks {
		s.must(bank.SetFaults(cellRules(all, shape)...))
	}
}

// enqueue enqueues an instruction for each cell and returns the ids by name.
func (s *stage) enqueue(all []cell) map[string]payment.ID {
	s.t.Helper()
	ingest, err := ingest.Open(s.t.Context(), ledger.Config{URL: s.cell.URL(celltest.Ingest), Cell: s.cell.Schema})
	s.must(err)
	defer ingest.Close()
	batch := make([]payment.Instruction, 0, len(all))
	for _, c := range all {
		batch = append(batch, payment.Instruction{
			InstructionID: c.name(), ParticipantID: "participant", IdempotencyKey: c.name(), RailType: c.shape.RailType(),
			Payload: fmt.Appendf(nil, `{"amount": "10.50", "currency": "EUR", "debtor": {"account": "a"}, "creditor": {"account": %q}}`, c.name()),
		})
	}
	results, err := ingest.EnqueueBatch(s.t.Context(), batch)
	s.must(err)
	ids := make(map[string]payment.ID, len(all))
	for n, result := range results {
		if result.Fault != nil {
			s.t.Fatalf("%s: %v", batch[n].InstructionID, result.Fault)
		}
		ids[batch[n].InstructionID] = result.Receipt.OutboxID
	}
	return ids
}

func (s *stage) open(profile rails.Profile) (rails.Rail, error) {
	config, ok := s.rails[profile.RailType]
	if !ok {
		return nil, relayer.ErrNotServed
	}
	rail, err := railconfig.Open(config, profile)
	if err != nil {
		return nil, err
	}
	return s.meddler.between(rail), nil
}

// relay runs a relayer until stop is called or the test ends.
func (s *stage) relay(store relayer.Store) (stop func()) {
	s.t.Helper()
	notifier, err := executor.NewNotifier(ledger.Config{URL: s.cell.URL(celltest.Relayer), Cell: s.cell.Schema}, s.store,
		s.log)
	s.must(err)
	config := relayer.Config{
		WorkerID: "relayer-" + payment.NewID().String(), Poll: 50 * time.Millisecond,
		HeartbeatEvery: 200 * time.Millisecond, RefreshEvery: 100 * time.Millisecond,
	}
	one, err := relayer.New(config, store, notifier, s.open, nil, s.log)
	s.must(err)
	return s.background("relayer", one.Run)
}

func (s *stage) reap() {
	s.t.Helper()
	one, err := reaper.New(reaper.Config{
		WorkerID: "reaper-" + payment.NewID().String(), Every: 100 * time.Millisecond, Grace: 100 * time.Millisecond,
	}, s.store, nil, s.log)
	s.must(err)
	s.background("reaper", one.Run)
}

func (s *stage) background(what string, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("%s: %v", what, err)
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// resume resumes, as an operator does, a rail that was paused because it refused us as a whole,
// as soon as it is paused.
func (s *stage) resume() {
	operator, err := operator.Open(s.t.Context(), ledger.Config{URL: s.cell.URL(celltest.Operator), Cell: s.cell.Schema})
	s.must(err)
	s.t.Cleanup(operator.Close)
	s.background("operator", func(ctx context.Context) error {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			found, err := operator.Rails(ctx)
			for _, rail := range found {
				if rail.Paused && err == nil {
					_, err = operator.ResumeRail(ctx, rail.RailType, "the credentials were put right")
				}
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	})
}

// patient is the store of a worker that sends some instructions again only long after
// the bank's report of the first send, whose outcome is unknown.
type patient struct {
	relayer.Store
	instructions map[string]bool
}

// longAfter is longer than a report takes on any machine. Nothing waits for it: the
// report ends the instruction.
const longAfter = time.Minute

func (p patient) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	turn.Outcomes = slices.Clone(turn.Outcomes)
	for n, o := range turn.Outcomes {
		if p.instructions[o.Claim.InstructionID] && o.Decision.Requeue {
			turn.Outcomes[n].Decision.Delay = longAfter
		}
	}
	return p.Store.Turn(ctx, turn)
}

// doomed is the store of a worker that will be killed: it claims, and none of its answers is ever
// recorded. Once it is dead, no call succeeds.
type doomed struct {
	relayer.Store
	dead atomic.Bool
}

var errCutOff = errors.New("the worker is cut off from its store")

func (d *doomed) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	if d.dead.Load() || len(turn.Outcomes) > 0 {
		return outbox.TurnResult{}, errCutOff
	}
	return d.Store.Turn(ctx, turn)
}

func (d *doomed) RecordLate(context.Context, payment.Outcome) (payment.Verdict, error) {
	return "", errCutOff
}

func (d *doomed) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	if d.dead.Load() {
		return outbox.Pulse{}, errCutOff
	}
	return d.Store.Heartbeat(ctx, beat)
}
