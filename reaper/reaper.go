// Package reaper repairs the claims of dead workers, ends instructions that have expired, and
// creates the archive's partitions ahead of time.
//
// Any number of reapers may run concurrently, and concurrently with a worker that only seemed dead:
// the row that a repair appends is the fence, and the process that appends first owns what follows.
// A repair never reports a payment as failed. What the dead worker has sent is not known, so it
// counts as unknown.
package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/internal/lineage"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Store is the part of the ledger that a reaper uses.
type Store interface {
	// CheckServer returns outbox.ErrUnsafeServer for a server that may lose what it has committed.
	CheckServer(ctx context.Context) (outbox.Server, error)
	// Recall compares what this reaper remembers as committed with the database.
	Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error)
	// Suspend records that the database may have lost committed rows.
	Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error
	// Rails reads the rails of the cell with the profiles in force.
	Rails(ctx context.Context) ([]outbox.RailRow, error)
	// Heartbeat records that this reaper is alive, and returns the cell's time budget.
	Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error)
	// StaleClaims returns the open claims that are due for repair, oldest first.
	StaleClaims(ctx context.Context, query outbox.StaleQuery) ([]outbox.StaleClaim, error)
	// Turn records outcomes. A reaper claims nothing.
	Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error)
	// RecordLate records an outcome against what was appended in the meantime.
	RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error)
	// CloseClaims removes those of the claim rows whose every member has an outcome; of all rows if
	// claimIDs is nil.
	CloseClaims(ctx context.Context, claimIDs []payment.ID) (int64, error)
	// Expire ends instructions that have expired and of which no send has an unknown outcome.
	Expire(ctx context.Context, workerID string, limit int) ([]outbox.Expired, error)
	// ExpiredIDs returns the instructions that Expire takes first.
	ExpiredIDs(ctx context.Context, limit int) ([]payment.ID, error)
	// ExpireOnly ends one of them.
	ExpireOnly(ctx context.Context, workerID string, id payment.ID) ([]outbox.Expired, error)
	// Quarantine leaves rows that can't be ended to an operator, and returns the ids of those it
	// moved.
	Quarantine(ctx context.Context, ids []payment.ID, code string) ([]payment.ID, error)
	// ReopenLetters opens dead letters for quarantined rows that have none.
	ReopenLetters(ctx context.Context, limit int) ([]payment.ID, error)
	// EndPauses ends the pauses and opens the gates whose end has come, and returns their names.
	EndPauses(ctx context.Context) ([]string, error)
	// EnsurePartitions creates the archive's partitions for the months ahead. Before is set if the
	// database's clock is before the oldest month.
	EnsurePartitions(ctx context.Context, monthsAhead int) (made []string, before time.Time, err error)
	// ForgetHeartbeats removes the heartbeats of components that have been silent for unseenFor.
	ForgetHeartbeats(ctx context.Context, unseenFor time.Duration) (int64, error)
}

// Observer counts events for metrics.
type Observer interface {
	Repaired(outcome payment.Outcome) // an open claim got an outcome
	// NotNeeded receives a repair that was not needed: late evidence ended the claim (SETTLED), or
	// another process has answered it.
	NotNeeded(outcome payment.Outcome, verdict payment.Verdict)
	Expired(failed, parked int)          // expired instructions ended, as FAILED and as PARKED
	Turn(result Result, d time.Duration) // a successful turn
	TurnFailed()
	// Due receives at the start and after each successful turn within which time the next one should succeed.
	Due(within time.Duration)
	CommitUnknown() // the answer to a commit was lost
}

type nopObserver struct{}

func (nopObserver) Repaired(payment.Outcome)                   {}
func (nopObserver) NotNeeded(payment.Outcome, payment.Verdict) {}
func (nopObserver) Expired(int, int)                           {}
func (nopObserver) Turn(Result, time.Duration)                 {}
func (nopObserver) TurnFailed()                                {}
func (nopObserver) Due(time.Duration)                          {}
func (nopObserver) CommitUnknown()                             {}

// Result is what one turn did.
type Result struct {
	Grace       bool // no repairs, so that workers can record what they hold
	Suspended   bool // nothing expires: the database may have forgotten sends
	Unread      int  // rails whose profile in force can't be read: their claims are left for LeaveUnread
	Stale       int  // open claims found due
	Repaired    int  // claims answered by this reaper
	Superseded  int  // claims answered by another process meanwhile
	Confirmed   int  // claims ended by late evidence of execution
	Closed      int  // removed rows of finished claims
	Expired     int
	Quarantined int      // expired, but rejected by the archive
	Unended     int      // expired, failed by themselves, and tried again in the next turn
	Reopened    int      // quarantined, and without a dead letter until now
	Resumed     []string // pauses and gates whose end has come
	Partitions  []string
}

// Reaper repairs and expires. Make one with New, then call Run once.
type Reaper struct {
	config Config
	store  Store
	watch  Observer
	log    *slog.Logger

	guard      *lineage.Guard
	policies   map[string]rails.Profile
	unread     map[string]string // rails whose profile in force can't be read, with the reason
	budget     outbox.TimeBudget // of the last turn
	agreed     bool              // the budget was compared with this process's configuration
	graceUntil time.Time
	lastTurn   clock.Moment // when the last turn began, by clocks of which one goes on while the machine is suspended
	lastMono   time.Time    // the same by the monotonic clock, which may stand still meanwhile
	partsNext  time.Time    // when partitions are looked at again
	partsHeld  bool         // another session kept them from being created the last time
	suspects   service.Suspects
	unrepaired map[payment.ID]bool // claims whose repair failed by itself
	atOnce     int                 // repairs that are tried together; 0: all
	cutAt      int                 // how many failed together when the time of this turn was used up; 0: none
	once       service.Once
	ready      service.Readiness
	turnAt     service.Last  // of the last successful turn
	turnBegan  service.Last  // of the turn under way; nil: none is
	beating    chan struct{} // full while a heartbeat is sent
	beaten     chan struct{} // closed once one was recorded
	beatAt     service.Last  // of the last heartbeat that was recorded
	staleAfter atomic.Int64  // heartbeat_stale of the cell in nanoseconds, by the last heartbeat; 0: not known
}

// New returns a Reaper, or all faults of its configuration in one error.
func New(config Config, store Store, watch Observer, log *slog.Logger) (*Reaper, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	if watch == nil {
		watch = nopObserver{}
	}
	guard, err := lineage.New(lineage.Config{Name: config.WorkerID, File: config.StateFile}, store, log)
	if err != nil {
		return nil, err
	}
	return &Reaper{
		config: config, store: store, guard: guard, watch: watch, log: log,
		suspects: service.Suspects{After: config.FaultyAfter, Alone: aloneMax},
		beating:  make(chan struct{}, 1), beaten: make(chan struct{}),
	}, nil
}

// Run runs turns until the context ends, and sends heartbeats between them. It returns an error only if the server
// can't be trusted with money, or another build has migrated the cell.
func (r *Reaper) Run(ctx context.Context) error {
	if err := r.once.Begin(); err != nil {
		return err
	}
	err := service.Together(ctx, r.turns, r.beat)
	if err == nil {
		r.reportStopped()
	}
	return err
}

// turns runs turns until the context ends, or the server can't be used.
func (r *Reaper) turns(ctx context.Context) error {
	r.watch.Due(r.dueWithin())
	for failures := 0; ctx.Err() == nil; {
		begun := time.Now()
		r.turnBegan.Mark()
		result, err := r.RunOnce(ctx)
		r.turnBegan.Store(nil)
		switch {
		case outbox.Unfit(err):
			return err
		case err != nil && ctx.Err() == nil:
			failures++
			r.watch.TurnFailed()
			r.ready.Refuse("the last turn failed: " + service.Explained(err))
			r.log.WarnContext(ctx, "turn failed", "error", service.Explained(err), "failures", failures)
		case err == nil:
			failures = 0
			r.ready.Accept()
			r.turnAt.Mark()
			r.watch.Turn(result, time.Since(begun))
			r.watch.Due(r.dueWithin())
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
	return nil
}

// dueWithin returns the time within which a turn follows another one and ends.
func (r *Reaper) dueWithin() time.Duration { return r.config.Every + r.config.StoreTimeout }

// RunOnce runs one turn.
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
	if err := r.turnBeat(ctx); err != nil {
		return Result{}, err
	}
	// While another session keeps the profiles locked, repairs wait, and nothing else.
	unread := r.readPolicies(ctx)
	if unread != nil && !errors.Is(unread, outbox.ErrLockTimeout) {
		return Result{}, unread
	}
	result := Result{Grace: r.inGrace(r.guard.Server(), time.Now()), Suspended: r.guard.Suspended(), Unread: len(r.unread)}
	r.lastTurn, r.lastMono = clock.Now(), time.Now()
	// The steps are independent: each runs even if another fails.
	faults := []error{unread}
	if !result.Grace && unread == nil {
		faults = append(faults, r.repair(ctx, &result))
	}
	if !result.Suspended {
		faults = append(faults, r.expire(ctx, &result))
	}
	faults = append(faults, r.reopenLetters(ctx, &result), r.endPauses(ctx, &result), r.keepPartitions(ctx, &result))
	return result, errors.Join(faults...)
}

// endPauses ends the pauses and closings whose end has come.
func (r *Reaper) endPauses(ctx context.Context, result *Result) error {
	resumed, err := r.store.EndPauses(ctx)
	result.Resumed = resumed
	for _, what := range resumed {
		r.log.InfoContext(ctx, "a pause or closing has ended at its time", "resumed", what)
	}
	return err
}

// LeaveUnread is how old a claim becomes before a reaper that can't read the rail's profile parks it.
// Until then it is left to a reaper of a newer build, or to a profile that can be read; older than
// the cell's claim timeout, it is counted as stuck, of which there is an alert.
const LeaveUnread = 24 * time.Hour

func (r *Reaper) readPolicies(ctx context.Context) error {
	rows, err := r.store.Rails(ctx)
	if err != nil {
		return err
	}
	policies, unread := make(map[string]rails.Profile, len(rows)), make(map[string]string)
	for _, row := range rows {
		profile, err := rails.ParseProfile(row.Profile)
		if err != nil {
			unread[row.RailType] = fmt.Sprintf("version %d: %v", row.ProfileVersion, err)
			if unread[row.RailType] != r.unread[row.RailType] {
				r.log.ErrorContext(ctx, "a profile in force can't be read: lost claims of the rail are left to a reaper that can "+
					"read it, and parked if they become old", "rail_type", row.RailType, "profile_version", row.ProfileVersion,
					"error", err, "parked_after", LeaveUnread)
			}
			// The zero policy parks, so that nothing is sent again on a guess.
			profile = rails.Profile{RailType: row.RailType}.WithDefaults()
		} else if _, was := r.unread[row.RailType]; was {
			r.log.InfoContext(ctx, "the profile in force can be read again", "rail_type", row.RailType,
				"profile_version", row.ProfileVersion)
		}
		profile.Version = row.ProfileVersion
		policies[row.RailType] = profile
	}
	r.policies, r.unread = policies, unread
	return nil
}

// lettersMax bounds the dead letters that one turn opens.
const lettersMax = 500

// reopenLetters opens dead letters for instructions that a restore of the pending table alone
// brought back as quarantined after their dead letter was closed.
func (r *Reaper) reopenLetters(ctx context.Context, result *Result) error {
	ids, err := r.store.ReopenLetters(ctx, lettersMax)
	if err != nil {
		return err
	}
	result.Reopened = len(ids)
	for _, id := range ids {
		r.log.ErrorContext(ctx, "dead letter opened: the instruction is quarantined and had none", "outbox_id", id)
	}
	return nil
}

// Ready returns nil if the last turn was recent and successful, and heartbeats are recorded; otherwise the reason why
// not.
func (r *Reaper) Ready() error {
	if err := r.ready.Err(); err != nil {
		return err
	}
	if age := r.turnAt.Age(); age > r.config.StoreTimeout+3*r.config.Every {
		return fmt.Errorf("the last turn was %s ago", age.Round(time.Second))
	}
	return r.beatAt.Recent(r.stale(), "others count this reaper as dead")
}
