// Package reaper repairs what a dead worker left, ends what has expired, and
// keeps the archive's partitions ahead.
//
// Any number of reapers may run concurrently, and concurrently with a worker
// that only looked dead: the row that a repair appends is the fence, and who
// appends first, owns what follows. A repair never says that a payment failed:
// what the dead worker has sent is not known, so it counts as unknown.
package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Store is what a reaper needs of the ledger.
type Store interface {
	// CheckServer refuses a server that may forget what it has committed.
	CheckServer(ctx context.Context) (outbox.Server, error)
	// Recall asks for what this reaper remembers as committed.
	Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error)
	// Suspend says that the database may have forgotten what was committed.
	Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error
	// Rails reads the rails of the cell with the profiles in force.
	Rails(ctx context.Context) ([]outbox.RailRow, error)
	// Heartbeat says that this reaper is alive, and asks for the cell's time budget.
	Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
	// StaleClaims reads the open claims that are due for repair, oldest first.
	StaleClaims(ctx context.Context, query outbox.StaleQuery) ([]outbox.StaleClaim, error)
	// Turn records; it claims nothing here.
	Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error)
	// RecordLate weighs an outcome against late evidence.
	RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error)
	// CloseClaims removes claims in flight whose every member was answered.
	CloseClaims(ctx context.Context, claimIDs []payment.ID) (int64, error)
	// Expire ends instructions that have expired with nothing unknown.
	Expire(ctx context.Context, workerID string, limit int) ([]payment.ID, error)
	// ExpiredIDs names the instructions that Expire takes first.
	ExpiredIDs(ctx context.Context, limit int) ([]payment.ID, error)
	// ExpireOnly ends one of them.
	ExpireOnly(ctx context.Context, workerID string, id payment.ID) ([]payment.ID, error)
	// Quarantine leaves rows that can't be ended to a person, and names those that it did.
	Quarantine(ctx context.Context, ids []payment.ID, code string) ([]payment.ID, error)
	// ReopenLetters opens the dead letters of rows that are quarantined and have none.
	ReopenLetters(ctx context.Context, limit int) ([]payment.ID, error)
	// EndPauses ends the pauses and opens the gates whose end has come, and names what goes on.
	EndPauses(ctx context.Context) ([]string, error)
	// EnsurePartitions makes the archive's partitions for the months ahead.
	EnsurePartitions(ctx context.Context, monthsAhead int) ([]string, error)
	// ForgetHeartbeats removes components that ended long ago.
	ForgetHeartbeats(ctx context.Context, silent time.Duration) (int64, error)
}

// Observer counts what happens, for metrics.
type Observer interface {
	Repaired(outcome payment.Outcome) // an open claim was answered
	// Weighed is told of a repair that was not needed: late evidence ended the
	// claim (SETTLED), or another process has answered it.
	Weighed(outcome payment.Outcome, verdict payment.Verdict)
	Expired(n int)
	Turn(result Result, d time.Duration) // one turn that worked
	TurnFailed()
	CommitUnknown() // the answer to a commit was lost
}

type silent struct{}

func (silent) Repaired(payment.Outcome)                 {}
func (silent) Weighed(payment.Outcome, payment.Verdict) {}
func (silent) Expired(int)                              {}
func (silent) Turn(Result, time.Duration)               {}
func (silent) TurnFailed()                              {}
func (silent) CommitUnknown()                           {}

// Result is what one turn did.
type Result struct {
	Grace      bool // repairs are put off so that workers can record what they hold
	Suspended  bool // nothing expires: the database may have forgotten sends
	Stale      int  // open claims found due
	Repaired   int  // answered by this reaper
	Superseded int  // answered by another process meanwhile
	Proven     int  // ended by late evidence of execution
	Closed     int  // rows of finished claims removed
	Expired    int
	Quarantine int      // expired, and the archive refuses it
	Reopened   int      // quarantined, without a dead letter that said so
	Resumed    []string // pauses and gates whose end has come
	Partitions []string
}

// Reaper repairs. Make one with New, then call Run once.
type Reaper struct {
	config Config
	store  Store
	watch  Observer
	log    *slog.Logger

	guard      *lineage.Guard
	policies   map[string]rails.Profile
	budget     outbox.TimeBudget // of the last heartbeat
	agreed     bool              // it was compared with what this process was configured with
	graceUntil time.Time
	lastTurn   time.Time
	partsAt    time.Time
	once       service.Once
	ready      service.Readiness
	turnAt     service.Last // of the last turn that worked
}

// New checks the configuration, every fault of it at once.
func New(config Config, store Store, watch Observer, log *slog.Logger) (*Reaper, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if watch == nil {
		watch = silent{}
	}
	guard, err := lineage.New(lineage.Config{Name: config.WorkerID, File: config.StateFile}, store, log)
	if err != nil {
		return nil, err
	}
	return &Reaper{config: config, store: store, guard: guard, watch: watch, log: log}, nil
}

// Run repairs until the context ends. It returns an error only where the server
// may not be trusted with money, or another build has migrated the cell.
func (r *Reaper) Run(ctx context.Context) error {
	if err := r.once.Begin(); err != nil {
		return err
	}
	for failures := 0; ctx.Err() == nil; {
		begun := time.Now()
		result, err := r.RunOnce(ctx)
		switch {
		case outbox.Unfit(err):
			return err
		case err != nil && ctx.Err() == nil:
			failures++
			r.watch.TurnFailed()
			r.ready.Refuse("the last turn did not work: " + err.Error())
			r.log.WarnContext(ctx, "turn did not work", "error", err, "failures", failures)
		case err == nil:
			failures = 0
			r.ready.Accept()
			r.turnAt.Mark()
			r.watch.Turn(result, time.Since(begun))
		}
		wait := r.config.Every
		if err == nil && (result.Stale == r.config.Batch || result.Expired == r.config.Batch) {
			wait = 0 // more is due
		}
		if failures > 0 {
			wait = min(r.config.Every, 100*time.Millisecond<<min(failures, 10))
		}
		service.Sleep(ctx, wait)
	}
	r.reportStopped()
	return nil
}

// RunOnce is one turn.
func (r *Reaper) RunOnce(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.config.StoreTimeout)
	defer cancel()
	ctx, span := r.beginCycle(ctx)
	result, err := r.runOnce(ctx)
	endCycle(span, result, err)
	return result, err
}

func (r *Reaper) runOnce(ctx context.Context) (Result, error) {
	if err := r.guard.Look(ctx); err != nil {
		return Result{}, err
	}
	if err := r.sendBeat(ctx, r.status()); err != nil {
		return Result{}, err
	}
	if err := r.readPolicies(ctx); err != nil {
		return Result{}, err
	}
	result := Result{Grace: r.inGrace(r.guard.Server(), time.Now()), Suspended: r.guard.Suspended()}
	r.lastTurn = time.Now()
	// None of them waits for another's trouble.
	var faults []error
	if !result.Grace {
		faults = append(faults, r.repair(ctx, &result))
	}
	if !result.Suspended {
		faults = append(faults, r.expire(ctx, &result))
	}
	faults = append(faults, r.reopenLetters(ctx, &result), r.endPauses(ctx, &result), r.keepPartitions(ctx, &result))
	return result, errors.Join(faults...)
}

// inGrace reports whether repairs have to wait: after a server start every
// heartbeat is stale and every worker still holds answers to record; after a
// gap in our own turns (a pause, a lost link) the same may be true.
func (r *Reaper) inGrace(server outbox.Server, now time.Time) bool {
	if gap := now.Sub(r.lastTurn); r.lastTurn.IsZero() || gap > max(3*r.config.Every, r.config.Grace) {
		if server.Up() < r.config.Grace || !r.lastTurn.IsZero() {
			r.graceUntil = now.Add(r.config.Grace)
		}
	}
	if left := r.config.Grace - server.Up(); left > 0 && now.Add(left).After(r.graceUntil) {
		r.graceUntil = now.Add(left)
	}
	return now.Before(r.graceUntil)
}

// endPauses lets go on what was paused, or closed, until now.
func (r *Reaper) endPauses(ctx context.Context, result *Result) error {
	resumed, err := r.store.EndPauses(ctx)
	result.Resumed = resumed
	for _, what := range resumed {
		r.log.InfoContext(ctx, "the end of a pause or of a closing has come", "resumed", what)
	}
	return err
}

func (r *Reaper) readPolicies(ctx context.Context) error {
	rows, err := r.store.Rails(ctx)
	if err != nil {
		return err
	}
	policies := make(map[string]rails.Profile, len(rows))
	for _, row := range rows {
		profile, err := rails.ParseProfile(row.Profile)
		if err != nil {
			// The zero policy parks: nothing is sent again on a guess.
			r.log.ErrorContext(ctx, "a profile in force can't be read; its claims will be parked", "rail_type", row.RailType, "error", err)
			profile = rails.Profile{RailType: row.RailType}.WithDefaults()
		}
		profile.Version = row.ProfileVersion
		policies[row.RailType] = profile
	}
	r.policies = policies
	return nil
}

// lettersMax bounds what one turn opens of them.
const lettersMax = 500

// reopenLetters makes visible what a restore of pending alone brought back as it was
// quarantined, after its dead letter was closed.
func (r *Reaper) reopenLetters(ctx context.Context, result *Result) error {
	ids, err := r.store.ReopenLetters(ctx, lettersMax)
	if err != nil {
		return err
	}
	result.Reopened = len(ids)
	for _, id := range ids {
		r.log.ErrorContext(ctx, "dead letter opened: the instruction is quarantined, and had none", "outbox_id", id)
	}
	return nil
}

func (r *Reaper) keepPartitions(ctx context.Context, result *Result) error {
	if time.Since(r.partsAt) < r.config.PartitionsEvery && !r.partsAt.IsZero() {
		return nil
	}
	made, err := r.store.EnsurePartitions(ctx, r.config.MonthsAhead)
	if err != nil {
		return err
	}
	if _, err := r.store.ForgetHeartbeats(ctx, r.config.ForgetAfter); err != nil {
		return err
	}
	r.partsAt, result.Partitions = time.Now(), made
	for _, name := range made {
		r.log.InfoContext(ctx, "partition made", "partition", name)
	}
	return nil
}

// Ready reports whether the last turn worked and was not long ago.
func (r *Reaper) Ready() error {
	if err := r.ready.Err(); err != nil {
		return err
	}
	if age := r.turnAt.Age(); age > r.config.StoreTimeout+3*r.config.Every {
		return fmt.Errorf("the last turn was %s ago", age.Round(time.Second))
	}
	return nil
}

func (r *Reaper) sendBeat(ctx context.Context, status string) error {
	pulse, err := r.store.Heartbeat(ctx, r.guard.Beat(outbox.Heartbeat{
		Name: r.config.WorkerID, Kind: "reaper", Host: r.config.Host, Version: r.config.Version, Status: status,
	}))
	if err != nil {
		return err
	}
	r.guard.Beaten(pulse.Beats)
	if !r.agreed {
		if err := pulse.Budget.Agrees(r.config.Asserted); err != nil {
			return err
		}
		r.agreed = true
	}
	r.budget = pulse.Budget
	return nil
}

func (r *Reaper) status() string {
	if r.guard.Suspended() {
		return "suspended"
	}
	return "running"
}

func (r *Reaper) reportStopped() { service.ReportStopped(r.sendBeat, r.log) }
