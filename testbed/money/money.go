// Package money pays a great many instructions through rails of every shape
// while their banks misbehave at random, heals the banks, pays as many again, and
// then counts: by the banks' own ledger files on one side and by the database on
// the other. Nothing may be paid twice, nothing that was paid may be called
// failed, nothing that was not paid may be called dispatched, and everything must
// have ended or wait for an operator.
//
// Every bank is honest about what its profile says: it de-duplicates where it says SAME_KEY and
// nowhere else (and answers a repeated key by the stored answer, or by one of four words for
// "duplicate", as the seed draws it), and where it says that "no such payment" counts from some age
// on, it does not say so of an older payment that it has.
package money

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/rails"
)

// Options says what to run.
type Options struct {
	// Payments of each of the two halves, 1 to 1,000,000.
	Payments int
	// Seed determines payments and faults. The interleaving of the processes depends on the machine,
	// so that a seed repeats a run only nearly.
	Seed uint64
	// Faults is the share of requests, settlements, callbacks and inquiries that a
	// fault hits in the first half; default 0.2.
	Faults float64
	// Shapes of the rails; default all.
	Shapes []simrail.Shape
	Speed  simrail.Speed
	// Bound ends a half that does not end by itself; default 10 min.
	Bound time.Duration
	// Evidence receives the banks' ledger files, the archive's rows, options and
	// the summary.
	Evidence string
	// Wrap wraps each rail for the relayers, in runs that must fail. Nil wraps nothing.
	Wrap func(rails.Rail) rails.Rail
	Out  io.Writer
	Log  *slog.Logger
}

// Database is a prepared cell.
type Database struct {
	URL  func(login string) string
	Cell string
	// The logins by component.
	Ingest, Relayer, Reaper, Callbacks, Operator, Reader string
}

// ErrMoney means that the run did not end as it must.
var ErrMoney = errors.New("the money does not add up")

// DefaultSpeed returns timeouts that give a rail up soon, so that a run of ten thousand takes
// minutes.
func DefaultSpeed() simrail.Speed {
	return simrail.Speed{
		Answer: time.Second, Settle: 50 * time.Millisecond, Callback: 20 * time.Second,
		Ask: 300 * time.Millisecond, Inquiries: 12, NotFoundAge: 200 * time.Millisecond,
		Retry: 300 * time.Millisecond, Sends: 6, Concurrency: 64,
	}
}

func (o Options) complete() (Options, error) {
	if o.Faults == 0 {
		o.Faults = 0.2
	}
	if len(o.Shapes) == 0 {
		o.Shapes = simrail.Shapes()
	}
	if o.Speed == (simrail.Speed{}) {
		o.Speed = DefaultSpeed()
	}
	if o.Bound == 0 {
		o.Bound = 10 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Payments < 1 || o.Payments > 1_000_000 || o.Faults < 0 || o.Faults > 0.9 {
		return o, fmt.Errorf("%d payments with %g faults: use 1 to 1000000 with at most 0.9", o.Payments, o.Faults)
	}
	// A bank continues the ledger that it finds, so a run begins with none.
	if err := os.RemoveAll(o.ledgers()); err != nil {
		return o, err
	}
	return o, os.MkdirAll(o.ledgers(), 0o755)
}

func (o Options) ledgers() string { return filepath.Join(o.Evidence, "ledgers") }

// Run pays twice Options.Payments and counts. The report is complete if the error is ErrMoney or
// nil.
func Run(ctx context.Context, o Options, db Database) (report Report, err error) {
	if o, err = o.complete(); err != nil {
		return Report{}, err
	}
	begun := time.Now()
	o.say("seed=%d payments=%d faults=%g rails=%d", o.Seed, o.Payments, o.Faults, len(o.Shapes))
	w, err := newWorld(ctx, o, db)
	if err != nil {
		return Report{}, errors.Join(err, w.end())
	}
	for half, faults := range []bool{true, false} {
		if err := w.payHalf(ctx, half, faults); err != nil && !errors.Is(err, errUnfinished) {
			return Report{}, errors.Join(err, w.end())
		}
	}
	injected := w.injected()
	// Banks and components stop first, so that nothing changes during the count.
	if err := w.stop(); err != nil {
		return Report{}, errors.Join(err, w.end())
	}
	report, err = w.judge(ctx)
	if err == nil {
		report.Injected, report.Seconds = injected, time.Since(begun).Seconds()
		err = w.keepEvidence(ctx, report)
	}
	if err = errors.Join(err, w.end()); err != nil {
		return report, err
	}
	return report, report.verdict()
}

func (o Options) say(format string, args ...any) {
	fmt.Fprintf(o.Out, "money: "+format+"\n", args...)
}
