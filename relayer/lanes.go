package relayer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/schedule"
)

// ErrNotServed is the error of an OpenRail for a rail that this process has no configuration for.
// Other relayers may serve it.
var ErrNotServed = errors.New("this process has no configuration for the rail")

// lane is the queue of one rail as this process serves it.
type lane struct {
	profile rails.Profile
	order   outbox.Order
	rail    rails.Rail
	guard   *rails.Guard
	elders  []*rails.Guard // of earlier profiles whose calls are under way: they take slots of this one
	read    []byte         // the profile as read from the database
	paused  bool
	// outdated is set if the database has another profile in force under this number, and it could
	// not be opened.
	outdated bool
	// suspended is set if the row was read while a suspension was open. Then rules holds the key
	// rules of the profiles under which the sends were made that the database may have forgotten.
	suspended bool
	rules     []payment.KeyRules
	// wentBack is set if the database has forgotten a profile that this process has served. It is
	// never cleared: a suspension may be opened after the row was read, and one that is gone may
	// have been forgotten as well.
	wentBack bool
	// denied is until when the lane counts as one that was stopped because the login may not do what a claim needs:
	// deniedFor after the stop, or until a turn with it has committed. A lane that is not tried again proves nothing.
	denied   time.Time
	replaced atomic.Bool   // the rail has another lane since, or none: its calls under way are of before
	calls    *atomic.Int64 // calls under way, including those of earlier profiles
	overdue  *atomic.Int64 // of these, those that have not returned although their context has ended
	queue    schedule.Lane // decides how many slots a turn asks for, and when
	// overfullSaid is when it was last logged that too many outcomes are unrecorded.
	overfullSaid time.Time
}

// lanes contains the rails that this process serves, by name.
type lanes struct {
	mu        sync.Mutex
	byRail    map[string]*lane
	notServed map[string]bool
	unusable  map[string]bool // rails of this process whose profile in force can't be used
	forgotten map[string]bool // rails that were served and of which the database no longer has a row
	refreshed time.Time
}

// refreshTries bounds how often the profiles are read again because the time budget changed
// meanwhile.
const refreshTries = 3

// refreshLanes reads the profiles in force, opens new and changed ones, and puts the time budget of
// the last heartbeat in force. No profile in force breaks the budget of the cell: if one breaks the
// budget that was read here, the database has a newer budget.
func (r *Relayer) refreshLanes(ctx context.Context) error {
	for try := range refreshTries {
		next := r.budget.next()
		rows, err := r.store.Rails(ctx)
		if err != nil {
			return err
		}
		taken, err := r.takeLanes(ctx, rows, next, try == refreshTries-1)
		if taken {
			return err
		}
		if err := r.sendBeat(ctx, r.status()); err != nil {
			return err
		}
	}
	return errors.New("the time budget of the cell changes faster than it can be read")
}

// takeLanes opens the lanes of rows under next, unless a heartbeat has brought another budget
// since; it sends none meanwhile. It returns false if rows and budget were not read of the same
// time. In the last try, a profile that breaks the budget is an error.
func (r *Relayer) takeLanes(
	ctx context.Context, rows []outbox.RailRow, next outbox.TimeBudget, last bool,
) (taken bool, err error) {
	r.beating.Lock()
	defer r.beating.Unlock()
	if next != r.budget.next() || !last && breaksBudget(rows, next) {
		return false, nil
	}
	return true, r.openLanes(ctx, rows, next)
}

func breaksBudget(rows []outbox.RailRow, budget outbox.TimeBudget) bool {
	for _, row := range rows {
		if profile, err := rails.ParseProfile(row.Profile); err == nil && profile.CheckBudget(budget) != nil {
			return true
		}
	}
	return false
}

func (r *Relayer) openLanes(ctx context.Context, rows []outbox.RailRow, next outbox.TimeBudget) error {
	l := &r.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byRail == nil {
		l.byRail, l.notServed, l.forgotten = make(map[string]*lane), make(map[string]bool), make(map[string]bool)
	}
	var all []error
	seen := make(map[string]bool, len(rows))
	l.unusable = make(map[string]bool)
	for _, row := range rows {
		seen[row.RailType] = true
		if err := r.refreshLane(ctx, row, next); err != nil {
			all, l.unusable[row.RailType] = append(all, err), true
		}
	}
	for name, old := range l.byRail {
		if !seen[name] {
			r.closeRail(name, old.rail)
			old.replaced.Store(true)
			delete(l.byRail, name)
			l.forgotten[name] = true
		}
	}
	l.refreshed = time.Now()
	// If the present profile of a lane can't be opened, the calls of the one before must keep the
	// new budget as well.
	for _, one := range l.byRail {
		if err := one.profile.CheckBudget(next); err != nil {
			return errors.Join(append(all, fmt.Errorf("%w: %w", errBadLane, err))...)
		}
	}
	r.budget.putInForce(next)
	return errors.Join(all...)
}

func (r *Relayer) refreshLane(ctx context.Context, row outbox.RailRow, next outbox.TimeBudget) error {
	l := &r.lanes
	current := l.byRail[row.RailType]
	if current != nil {
		current.note(row)
		if current.profile.Version == row.ProfileVersion && !current.outdated {
			return nil
		}
	}
	if r.config.Serves != nil && !r.config.Serves(row.RailType) {
		r.leave(ctx, row.RailType) // whatever its profile, which may be of a later build
		return nil
	}
	profile, err := rails.ParseProfile(row.Profile)
	if err != nil {
		return fmt.Errorf("%w: version %d of rail %s in the database: %w", errBadLane, row.ProfileVersion, row.RailType, err)
	}
	profile.Version = row.ProfileVersion
	rail, err := r.open(profile)
	if errors.Is(err, ErrNotServed) {
		r.leave(ctx, row.RailType)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: opening rail %s: %w", errBadLane, row.RailType, err)
	}
	// This comes after opening: the budget of a rail that other processes serve is theirs to check.
	if err := profile.CheckBudget(next); err != nil {
		r.closeRail(row.RailType, rail)
		return fmt.Errorf("%w: %w", errBadLane, err)
	}
	opened := new(lane)
	guard, err := rails.NewGuard(profile, func(from, to rails.BreakerState) {
		if opened.replaced.Load() {
			return // it stops no call any more
		}
		r.log.Warn("breaker changed", "rail_type", row.RailType, "profile_version", profile.Version, "from", from, "to", to)
		r.watch.Breaker(row.RailType, to)
		r.wakeAll()
	})
	if err != nil {
		r.closeRail(row.RailType, rail)
		return fmt.Errorf("%w: %w", errBadLane, err)
	}
	if heir, ok := rail.(rails.Heir); ok && current != nil {
		heir.Inherit(current.rail)
	}
	// A call that is under way keeps the adapter and the guard that it began with.
	calls, overdue := new(atomic.Int64), new(atomic.Int64)
	if current != nil {
		r.closeRail(row.RailType, current.rail)
		current.replaced.Store(true)
		calls, overdue = current.calls, current.overdue
	}
	var elders []*rails.Guard
	if current != nil {
		elders = append(slices.Clone(current.elders), current.guard)
	}
	opened.elders, opened.profile, opened.order = elders, profile, profile.Ordering.Lane()
	opened.rail, opened.guard, opened.read = rail, guard, row.Profile
	opened.calls, opened.overdue = calls, overdue
	opened.wentBack = l.forgotten[row.RailType] || current != nil && current.wentBack
	if current != nil {
		opened.denied = current.denied
	}
	opened.note(row)
	l.byRail[row.RailType] = opened
	delete(l.forgotten, row.RailType)
	r.watch.Breaker(row.RailType, guard.State())
	r.log.InfoContext(ctx, "serving rail", "rail_type", row.RailType, "profile_version", row.ProfileVersion,
		"concurrency", guard.Limit(), "render_version", rail.RenderVersion())
	return nil
}

// leave leaves a rail that is not configured here to other relayers, and logs that once. The caller holds the lock of
// the lanes.
func (r *Relayer) leave(ctx context.Context, railType string) {
	if r.lanes.notServed[railType] {
		return
	}
	r.log.InfoContext(ctx, "rail is not configured here: left to other relayers", "rail_type", railType)
	r.lanes.notServed[railType] = true
}

// inFlight counts the slots that are taken, those of earlier profiles included. The caller holds the lock of the lanes.
func (l *lane) inFlight() int {
	n := l.guard.InFlight()
	l.elders = slices.DeleteFunc(l.elders, func(elder *rails.Guard) bool {
		n += elder.InFlight()
		return elder.InFlight() == 0 // none of its permits is reserved any more
	})
	return n
}

// note takes from a row what may change without a new profile. A restore may have given the number
// of the profile to another.
func (l *lane) note(row outbox.RailRow) {
	if l.paused && !row.Paused {
		l.guard.Resumed()
	}
	l.paused, l.suspended, l.rules = row.Paused, row.Suspended, row.DoubtedUnder
	l.outdated = row.ProfileVersion == l.profile.Version && !bytes.Equal(row.Profile, l.read)
	l.wentBack = l.wentBack || l.outdated || row.ProfileVersion < l.profile.Version
}

// recheck makes the next turn check the server and the profiles first.
func (l *lanes) recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refreshed = time.Time{}
}

// find returns the lane of a rail, or nil if this process does not serve it.
func (l *lanes) find(railType string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byRail[railType]
}

// due reports whether the profiles should be read again.
func (l *lanes) due(every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.refreshed) >= every
}

// wakeIn returns when a rate or a breaker allows the next call; 0 if no lane waits for either.
func (l *lanes) wakeIn() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var soonest time.Duration
	for _, one := range l.byRail {
		if wake := one.guard.WakeIn(); wake > 0 && (soonest == 0 || wake < soonest) {
			soonest = wake
		}
	}
	return soonest
}

// stop keeps a lane from being claimed for a while because of an error of the server, and returns for how long.
func (l *lanes) stop(railType string, now time.Time, cause error) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byRail[railType]; one != nil {
		wait := one.queue.Stop(now)
		one.denied = time.Time{}
		if service.Denied(cause) {
			one.denied = now.Add(wait + deniedFor)
		}
		return wait
	}
	return 0
}

// ordered returns the rails that order some participant.
func (l *lanes) ordered() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, one := range l.byRail {
		if one.order.Any() {
			names = append(names, name)
		}
	}
	return names
}

// works records that a row of the lane could be claimed: the lane itself is not at fault.
func (l *lanes) works(railType string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byRail[railType]; one != nil {
		one.queue.Works()
		one.denied = time.Time{}
	}
}
