package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// courier delivers to one endpoint.
type courier struct {
	endpoint Endpoint
	send     func(context.Context, payment.Event) answer
	close    func()
	store    Store
	watch    Observer
	config   Config
	log      *slog.Logger

	lease outbox.EndpointLease
	place outbox.Place // the last place that was stored under this lease
	taken time.Time    // when the lease was last taken or extended; zero: there is none
	first time.Time    // when this process first asked for the lease; zero: never
	// failures counts first deliveries that failed in a row, of the instruction failing or, if
	// several is set, of several. After downAfter failures of several instructions the endpoint is
	// down, and one delivery at a time tests whether it still is. Retries do not count: events that
	// the endpoint never accepts stop no others.
	failures int
	failing  payment.ID
	several  bool
	// notBefore is the time until which no event is tried, because the endpoint asked for it or is
	// down.
	notBefore time.Time
	faulty    bool // the last call of the store failed
	ready     service.Readiness
	seen      State     // of the last reading
	read      time.Time // of the last reading; before one, when the lease was taken; zero: it is not ours
	oldest    time.Time // of the events that the last reading found; zero: there was none
	refusedAt time.Time // when the refusals that are counted began
	refusals  int       // first tries that failed since then
}

const (
	downAfter  = 5
	duePlaces  = 200             // places of the feed that one read covers
	dueRetries = 100             // instructions whose waiting events one turn tries again
	checkEvery = 5 * time.Second // while nothing is tried
	faultEvery = time.Second
)

// ladder contains the wait after each failed try. After the last one the event is given up.
var ladder = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// downWait returns the wait between two tries at an endpoint that is down: 5 s, doubled with each
// failure, at most 5 min.
func downWait(failures int) time.Duration {
	return min(5*time.Second<<min(max(failures-downAfter, 0), 10), 5*time.Minute)
}

// jittered adds up to 20 % to a wait, so that events that failed together are not tried together.
func jittered(wait time.Duration) time.Duration {
	return wait + time.Duration(rand.Int64N(int64(wait)/5+1))
}

func (c *courier) run(ctx context.Context) {
	defer c.close()
	defer c.watch.Seen(c.endpoint.ID, State{})
	for ctx.Err() == nil {
		service.Sleep(ctx, c.turn(ctx))
	}
	c.release(ctx)
}

// turn delivers what is due, and returns the wait until the next turn.
func (c *courier) turn(ctx context.Context) time.Duration {
	if err := c.acquire(ctx); err != nil {
		c.unread()
		return c.fault(ctx, "the lease of the endpoint can't be taken", err)
	}
	if c.lease.HeldBy != "" {
		c.watch.Seen(c.endpoint.ID, State{})
		c.taken, c.read, c.oldest, c.seen = time.Time{}, time.Time{}, time.Time{}, State{}
		c.works()
		return c.config.Lease / 3
	}
	due, err := c.due(ctx)
	switch {
	case errors.Is(err, outbox.ErrNotHeld):
		c.taken = time.Time{}
		return 0
	case err != nil:
		c.unread()
		return c.fault(ctx, "due events can't be read", err)
	}
	c.observe(due)
	if !c.faulty { // deliveries may take long
		c.ready.Accept()
	}
	if !c.lease.PausedAt.IsZero() {
		return c.paused(ctx, due)
	}
	if wait := time.Until(c.notBefore); wait > 0 {
		c.works()
		return min(wait, checkEvery) // an operator may ask for waiting events meanwhile
	}
	wasDown := c.down()
	round := c.deliver(ctx, due, wasDown)
	noted, err := c.note(ctx, round, due)
	if errors.Is(err, outbox.ErrNotHeld) {
		c.taken = time.Time{}
		return 0
	} else if err != nil {
		c.taken = time.Time{}
		return c.fault(ctx, "deliveries can't be recorded; they will be repeated", err)
	}
	c.works()
	switch {
	case round.gone:
		return c.gone(ctx)
	case c.down() && round.tried:
		c.notBefore = later(c.notBefore, time.Now().Add(jittered(downWait(c.failures))))
		return 0
	case round.tried || due.More && noted:
		return 0
	default:
		return c.config.Poll
	}
}

// fault logs the first of several faults of the store.
func (c *courier) fault(ctx context.Context, what string, err error) time.Duration {
	if ctx.Err() == nil && !c.faulty {
		c.log.WarnContext(ctx, what, "error", err)
	}
	c.faulty = true
	c.ready.Refuse(fmt.Sprintf("endpoint %s: %s: %v", c.endpoint.ID, what, err))
	return faultEvery
}

// works records that a turn has ended without a fault of the store.
func (c *courier) works() {
	c.faulty = false
	c.ready.Accept()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// acquire takes the lease of the endpoint, or extends it after a third of its time.
func (c *courier) acquire(ctx context.Context) error {
	if !c.taken.IsZero() && time.Since(c.taken) < c.config.Lease/3 {
		return nil
	}
	began := time.Now()
	asking, cancel := context.WithTimeout(ctx, c.config.StoreTimeout)
	defer cancel()
	lease, err := c.store.Take(asking, c.endpoint.ID, c.config.Worker, c.config.Lease, c.since())
	if err != nil {
		return err
	}
	if c.first.IsZero() {
		c.first = began
	}
	if !lease.PausedAt.IsZero() && c.lease.PausedAt.IsZero() {
		c.log.WarnContext(ctx, "the endpoint is paused", "since", lease.PausedAt, "reason", lease.PauseReason)
	}
	if lease.Epoch != c.lease.Epoch { // the lease is new, or an operator asks for waiting events
		c.failures, c.several, c.notBefore, c.place = 0, false, time.Time{}, outbox.Place{}
	}
	c.lease, c.taken = lease, began
	if c.read.IsZero() {
		c.read = began
	}
	return nil
}

// since returns the time from which an endpoint without a place in the database gets events. If a
// failover has forgotten an endpoint that this process served, events since that time are delivered
// again.
func (c *courier) since() time.Time {
	switch {
	case c.endpoint.From == FromBeginning:
		return time.Unix(0, 0)
	case c.first.IsZero():
		return time.Time{}
	default:
		return c.first.Add(-time.Hour)
	}
}

func (c *courier) due(ctx context.Context) (outbox.DueEvents, error) {
	asking, cancel := context.WithTimeout(ctx, c.config.StoreTimeout)
	defer cancel()
	return c.store.Due(asking, c.lease, c.endpoint.Participants, c.endpoint.Types, dueRetries, duePlaces)
}

// down reports whether the endpoint accepts no events.
func (c *courier) down() bool { return c.several && c.failures >= downAfter }

// observe passes the state of the endpoint to the observer.
func (c *courier) observe(due outbox.DueEvents) {
	oldest := due.OldestWaiting
	for _, each := range due.Events {
		if !each.Retry {
			if oldest.IsZero() || each.CreatedAt.Before(oldest) {
				oldest = each.CreatedAt
			}
			break
		}
	}
	state := State{Has: true, Waiting: due.Waiting, GivenUp: due.GivenUp, Down: c.down(),
		Paused: !c.lease.PausedAt.IsZero()}
	if !oldest.IsZero() {
		state.Lag = max(time.Since(oldest), 0)
	}
	c.seen, c.read, c.oldest = state, time.Now(), oldest
	c.watch.Seen(c.endpoint.ID, state)
}

// unread passes what is known of an endpoint whose events can't be read: an event may wait since the last reading. Once
// the lease may have ended, another process may deliver to it.
func (c *courier) unread() {
	if c.taken.IsZero() || time.Since(c.taken) >= c.config.Lease {
		c.watch.Seen(c.endpoint.ID, State{})
		return
	}
	since := c.read
	if !c.oldest.IsZero() && c.oldest.Before(since) {
		since = c.oldest
	}
	state := c.seen
	state.Has, state.Lag = true, max(time.Since(since), 0)
	c.watch.Seen(c.endpoint.ID, state)
}

// paused passes the rows that are not for a paused endpoint, and delivers nothing: the lag is that of the
// first event after them.
func (c *courier) paused(ctx context.Context, due outbox.DueEvents) time.Duration {
	noted, err := c.note(ctx, round{fates: make([]fate, len(due.Events))}, due)
	c.taken = time.Time{} // the next turn checks whether it still is paused
	switch {
	case errors.Is(err, outbox.ErrNotHeld):
		return 0
	case err != nil:
		return c.fault(ctx, "rows that are not for a paused endpoint can't be passed", err)
	}
	c.works()
	if due.More && noted {
		return 0
	}
	return checkEvery
}

// gone pauses an endpoint that answered that it is gone for good.
func (c *courier) gone(ctx context.Context) time.Duration {
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.StoreTimeout)
	defer cancel()
	c.taken = time.Time{}
	if err := c.store.Pause(storing, c.lease, "it answered 410 Gone"); err != nil {
		return c.fault(ctx, "an endpoint that is gone can't be paused", err)
	}
	return 0
}

// release lets another process take the endpoint at once.
func (c *courier) release(ctx context.Context) {
	if c.taken.IsZero() || c.lease.HeldBy != "" {
		return
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(c.config.StoreTimeout, 2*time.Second))
	defer cancel()
	if _, err := c.store.Take(storing, c.endpoint.ID, c.config.Worker, time.Millisecond, c.since()); err != nil {
		c.log.InfoContext(storing, "the endpoint is free once its lease ends", "error", err)
	}
}
