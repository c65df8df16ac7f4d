package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// Recovery measures how long payments stay undecided after their relayer died. The only
// relayer is killed with calls in flight, and started again a second later, as a service
// manager would do.
type Recovery struct {
	Kills int
	Seed  uint64
}

// RecoveryReport gives the time from SIGKILL to the next row of each payment that the
// dead relayer held.
type RecoveryReport struct {
	Kills    int           `json:"kills"`
	Payments int           `json:"payments"`
	P50      time.Duration `json:"p50"`
	P99      time.Duration `json:"p99"`
	Max      time.Duration `json:"max"`
	Settings string        `json:"settings"`
	At       time.Time     `json:"at"`
}

// String returns the figures in one line.
func (r RecoveryReport) String() string {
	return fmt.Sprintf("recovery: kills=%d payments=%d p50=%s p99=%s max=%s", r.Kills, r.Payments,
		r.P50.Round(10*time.Millisecond), r.P99.Round(10*time.Millisecond), r.Max.Round(10*time.Millisecond))
}

// options returns a real installation's defaults, except for a quicker heartbeat, without
// which payments are not recovered in seconds. The rails' timeouts are those of every run.
func (r Recovery) options() Options {
	o := Standard("recovery", r.Seed)
	o.ClaimTimeout, o.StartWithin, o.RecordWithin, o.Drain = 120*time.Second, 2*time.Second, 10*time.Second, 30*time.Second
	o.Poll, o.HeartbeatEvery, o.HeartbeatStale, o.ReapEvery = 500*time.Millisecond, time.Second, 4*time.Second, time.Second
	o.NotifierTestEvery, o.ReapGrace, o.StoreTimeout = time.Minute, 20*time.Second, 10*time.Second
	o.Wave, o.Callers, o.Pace, o.Rounds = 40, 6, 0, r.Kills
	return o
}

// Run makes the measurement on a lane of its own.
func (r Recovery) Run(ctx context.Context, built Binaries, out io.Writer) (report RecoveryReport, err error) {
	lane, err := NewLane(ctx, built)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lane.Close()) }()
	o := r.options()
	report = RecoveryReport{Kills: r.Kills, At: time.Now().UTC(), Settings: fmt.Sprintf(
		"heartbeat every %s, stale after %s; reaper every %s; start within %s, the rails' timeouts together %s; claim "+
			"timeout %s",
		o.HeartbeatEvery, o.HeartbeatStale, o.ReapEvery, o.StartWithin, sendBudget, o.ClaimTimeout)}
	w, err := NewWorld(ctx, lane, o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, w.Close(ctx), w.Discard()) }()
	slow := railsim.Fault{Kind: railsim.DelayAfter, Probability: 1, DelayMS: 500}
	if err := errors.Join(w.Dedupes.Spoil(ctx, slow), w.Bare.Spoil(ctx, slow)); err != nil {
		return report, err
	}
	// A reaper leaves claims alone for a while after the server has started.
	pause(ctx, o.ReapGrace)
	var all []time.Duration
	for round := range r.Kills {
		took, err := w.recovers(ctx)
		if err != nil {
			return report, err
		}
		all = append(all, took...)
		fmt.Fprintf(out, "recovery: kill %d: %d payments, the last decided after %s\n", round+1, len(took),
			slices.Max(append(took, 0)).Round(10*time.Millisecond))
	}
	if len(all) == 0 {
		return report, errors.New("no relayer held a payment when it was killed")
	}
	slices.Sort(all)
	report.Payments, report.Max = len(all), all[len(all)-1]
	report.P50, report.P99 = all[len(all)/2], all[min(len(all)-1, len(all)*99/100)]
	return report, nil
}

// recovers kills the only relayer and waits until all that it held is decided.
func (w *World) recovers(ctx context.Context) ([]time.Duration, error) {
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return nil, err
	}
	pause(ctx, time.Duration(300+w.draws.IntN(500))*time.Millisecond)
	victim := w.living(w.relayers)
	if err := victim.Kill(); err != nil {
		return nil, err
	}
	var killed time.Time
	if err := w.admin.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&killed); err != nil {
		return nil, err
	}
	type claim struct {
		OutboxID string
		No       int
	}
	const heldSQL = `SELECT m.outbox_id::text, m.attempt_no FROM ` + cell + `.payment_outbox_claims f
	  CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) AS m(outbox_id, attempt_no)
	  WHERE NOT EXISTS (SELECT FROM ` + cell + `.payment_outbox_attempts z WHERE z.outbox_id = m.outbox_id
	  AND z.attempt_no > m.attempt_no)`
	held, err := collect[claim](ctx, w, heldSQL)
	if err != nil {
		return nil, err
	}
	pause(ctx, time.Second)
	if _, err := w.StartRelayer(ctx); err != nil {
		return nil, err
	}
	var all []time.Duration
	for _, each := range held {
		var at time.Time
		err := await.Until(ctx, w.Options.ClaimTimeout+time.Minute, "the next decision on "+each.OutboxID,
			func() (bool, error) {
				var decided *time.Time
				err := w.admin.QueryRow(ctx, `SELECT min(a.created_at) FROM `+cell+`.payment_outbox_attempts a
			  WHERE a.outbox_id = $1::uuid AND a.attempt_no > $2
			  AND a.state <> 'LATE_OUTCOME'`, each.OutboxID, each.No).Scan(&decided)
				if decided != nil {
					at = *decided
				}
				return decided != nil, err
			})
		if err != nil {
			return nil, err
		}
		all = append(all, at.Sub(killed))
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return nil, err
	}
	_, err = w.AwaitRest(ctx)
	return all, err
}
