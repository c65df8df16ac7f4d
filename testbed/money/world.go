package money

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
	"github.com/railhead-pay/railhead/reaper"
	"github.com/railhead-pay/railhead/relayer"
)

// world is a run under way: the banks, and the components that pay through them.
type world struct {
	Options
	db       Database
	banks    []*simrail.Bank
	rails    map[string]railconfig.RailConfig
	ingest   *ingest.Ingest
	reader   *reader.Reader
	operator *operator.Operator
	enqueued map[payment.ID]enqueued // every instruction of the run

	running []func() error // in the order of their start
	closers []func() error
}

// enqueued is one instruction of the run.
type enqueued struct{ name, rail string }

func newWorld(ctx context.Context, o Options, db Database) (*world, error) {
	w := &world{Options: o, db: db, rails: make(map[string]railconfig.RailConfig), enqueued: make(map[payment.ID]enqueued)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return w, fmt.Errorf("listening for callbacks: %w", err)
	}
	w.closers = append(w.closers, func() error {
		listener.Close() // closed already where the receiver ran
		return nil
	})
	for _, step := range []func() error{
		func() error { return w.openLedgers(ctx) },
		func() error { return w.startBanks(ctx, "http://"+listener.Addr().String()) },
		func() error { return w.startReceiver(ctx, listener) },
		func() error { return w.startWorkers(ctx) },
	} {
		if err := step(); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) config(login, name string, conns int32) ledger.Config {
	return ledger.Config{URL: w.db.URL(login), Cell: w.db.Cell, Name: name, MaxConns: conns}
}

func (w *world) openLedgers(ctx context.Context) (err error) {
	if w.ingest, err = ingest.Open(ctx, w.config(w.db.Ingest, "money-ingest", 2)); err != nil {
		return err
	}
	w.closeLater(w.ingest.Close)
	if w.reader, err = reader.Open(ctx, w.config(w.db.Reader, "money-reader", 2)); err != nil {
		return err
	}
	w.closeLater(w.reader.Close)
	if w.operator, err = operator.Open(ctx, w.config(w.db.Operator, "money-operator", 2)); err != nil {
		return err
	}
	w.closeLater(w.operator.Close)
	return nil
}

func (w *world) executor(ctx context.Context, login, name string, conns int32) (*executor.Executor, error) {
	store, err := executor.Open(ctx, w.config(login, name, conns))
	if err == nil {
		w.closeLater(store.Close)
	}
	return store, err
}

func (w *world) closeLater(closer func()) {
	w.closers = append(w.closers, func() error {
		closer()
		return nil
	})
}

func (w *world) startBanks(ctx context.Context, receiver string) error {
	if _, _, err := w.operator.SetTimeBudget(ctx, timeBudget, "a run of money"); err != nil {
		return err
	}
	for n, shape := range w.Shapes {
		bank, err := simrail.Start(shape, simrail.Options{
			Dir: w.ledgers(), Speed: w.Speed, Seed: w.Seed, CallbackURL: receiver, CallBack: true,
		})
		if err != nil {
			return err
		}
		w.banks = append(w.banks, bank)
		if err := bank.SetOnReplay(w.onReplay(n)); err != nil {
			return err
		}
		profile, err := bank.Profile.JSON()
		if err != nil {
			return err
		}
		if _, _, err := w.operator.ApplyRailProfile(ctx, shape.RailType(), profile, "a run of money"); err != nil {
			return err
		}
	}
	// Banks end last: requests on their way to them may still arrive.
	w.running = append(w.running, w.closeBanks)
	file, err := simrail.Rails(w.banks...)
	if err != nil {
		return err
	}
	for _, rail := range file.Rails {
		w.rails[rail.RailType] = rail
	}
	return nil
}

func (w *world) closeBanks() error {
	var all []error
	for _, bank := range w.banks {
		all = append(all, bank.Close())
	}
	return errors.Join(all...)
}

func (w *world) startReceiver(ctx context.Context, listener net.Listener) error {
	file, err := simrail.Rails(w.banks...)
	if err != nil {
		return err
	}
	readers, err := simrail.Callbacks(file)
	if err != nil || len(readers) == 0 {
		return err
	}
	store, err := callbacks.Open(ctx, w.config(w.db.Callbacks, "money-callbacks", callback.Recordings+2))
	if err != nil {
		return err
	}
	w.closeLater(store.Close)
	receiver, err := callback.NewReceiver(readers, store, "callbacks-"+payment.NewID().String(), 10*time.Second, nil,
		w.Log)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	receiver.Register(mux)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	w.running = append(w.running, func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := server.Shutdown(last)
		<-served
		return err
	})
	return nil
}

// timeBudget is the time budget of the cell.
var timeBudget = map[string]time.Duration{
	"claim_timeout": time.Minute, "start_within": 2 * time.Second, "record_within": 5 * time.Second,
	"drain":           10 * time.Second,
	"heartbeat_stale": 5 * time.Second,
}

func (w *world) startWorkers(ctx context.Context) error {
	for range 2 {
		store, err := w.executor(ctx, w.db.Relayer, "money-relayer", 6)
		if err != nil {
			return err
		}
		notifier, err := executor.NewNotifier(w.config(w.db.Relayer, "money-notifier", 1), store, w.Log)
		if err != nil {
			return err
		}
		one, err := relayer.New(relayer.Config{
			WorkerID: "relayer-" + payment.NewID().String(), Poll: 100 * time.Millisecond,
			HeartbeatEvery: 500 * time.Millisecond, RefreshEvery: 200 * time.Millisecond,
		}, store, notifier, w.open, nil, w.Log)
		if err != nil {
			return err
		}
		w.run(ctx, one.Run)
	}
	for range 2 {
		store, err := w.executor(ctx, w.db.Reaper, "money-reaper", 2)
		if err != nil {
			return err
		}
		one, err := reaper.New(reaper.Config{
			WorkerID: "reaper-" + payment.NewID().String(), Every: 500 * time.Millisecond, Grace: time.Second,
		}, store, nil, w.Log)
		if err != nil {
			return err
		}
		w.run(ctx, one.Run)
	}
	w.run(ctx, w.resumeRails)
	return nil
}

// run starts a component and registers it to be stopped with the others.
func (w *world) run(ctx context.Context, component func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- component(ctx) }()
	w.running = append(w.running, func() error {
		cancel()
		return <-ended
	})
}

// open makes the rail of a profile in force.
func (w *world) open(profile rails.Profile) (rails.Rail, error) {
	config, ok := w.rails[profile.RailType]
	if !ok {
		return nil, relayer.ErrNotServed
	}
	rail, err := railconfig.Open(config, profile)
	if err != nil || w.Wrap == nil {
		return rail, err
	}
	return w.Wrap(rail), nil
}

// resumeRails does what an operator does about a rail that refused us as a whole.
func (w *world) resumeRails(ctx context.Context) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		found, err := w.operator.Rails(ctx)
		for _, rail := range found {
			if rail.Paused && err == nil {
				_, err = w.operator.ResumeRail(ctx, rail.RailType, "the credentials were put right")
			}
		}
		if err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "rails not resumed", "error", err)
		}
	}
}

// stop ends what runs, the latest first.
func (w *world) stop() error {
	var all []error
	for n := len(w.running) - 1; n >= 0; n-- {
		all = append(all, w.running[n]())
	}
	w.running = nil
	return errors.Join(all...)
}

// end stops what still runs and closes what is open.
func (w *world) end() error {
	all := []error{w.stop()}
	for n := len(w.closers) - 1; n >= 0; n-- {
		all = append(all, w.closers[n]())
	}
	w.closers = nil
	return errors.Join(all...)
}
