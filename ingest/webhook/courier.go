package webhook

import (
	"context"
	"errors"
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
	place outbox.Place // that was noted last by this lease
	taken time.Time    // when the lease was taken or prolonged last; zero: there is none
	first time.Time    // when this process asked for it first; zero: never
	// failures is how many first deliveries failed one after the other, of the instruction
	// failing or of several. From downAfter on of several the endpoint is down, and one delivery
	// at a time shows whether it still is. What waits to be tried again does not count: events that
	// it never takes stop no other.
	failures int
	failing  payment.ID
	several  bool
	// notBefore is until when nothing is tried, because the endpoint asked for it or is down.
	notBefore time.Time
	faulty    bool // the last look at the store failed
}

const (
	downAfter  = 5
	duePlaces  = 200             // places of the feed that a look reads
	dueRetries = 100             // instructions of which a look tries what waits
	lookEvery  = 5 * time.Second // where nothing is tried
	faultEvery = time.Second
)

// ladder is the wait after each failed try; after the last one the event is given up.
var ladder = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// downWait is the wait between two tries at an endpoint that is down: 5 s, doubled with each
// failure, at most 5 min.
func downWait(failures int) time.Duration {
	return min(5*time.Second<<min(max(failures-downAfter, 0), 10), 5*time.Minute)
}

// jittered adds up to a fifth, so that what failed together is not tried together.
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
	if err := c.hold(ctx); err != nil {
		return c.fault(ctx, "the endpoint can't be taken", err)
	}
	switch {
	case c.lease.HeldBy != "":
		c.watch.Seen(c.endpoint.ID, State{})
		c.taken = time.Time{}
		return c.config.Lease / 3
	case !c.lease.PausedAt.IsZero():
		c.watch.Seen(c.endpoint.ID, State{Has: true, Paused: true})
		c.taken = time.Time{} // the next turn asks whether it still is
		return lookEvery
	}
	due, err := c.due(ctx)
	switch {
	case errors.Is(err, outbox.ErrNotHeld):
		c.taken = time.Time{}
		return 0
	case err != nil:
		return c.fault(ctx, "what is due can't be read", err)
	}
	c.see(due)
	if wait := time.Until(c.notBefore); wait > 0 {
		return min(wait, lookEvery) // an operator may ask for what waits meanwhile
	}
	wasDown := c.down()
	round := c.deliver(ctx, due, wasDown)
	noted, err := c.note(ctx, round, due)
	if errors.Is(err, outbox.ErrNotHeld) {
		c.taken = time.Time{}
		return 0
	} else if err != nil {
		c.taken = time.Time{}
		return c.fault(ctx, "deliveries can't be noted; the endpoint is told of them again", err)
	}
	c.faulty = false
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
	return faultEvery
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hold takes the endpoint, or prolongs the lease where a third of it is over.
func (c *courier) hold(ctx context.Context) error {
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
	if lease.Epoch != c.lease.Epoch { // it is new here, or an operator asks
		c.failures, c.several, c.notBefore, c.place = 0, false, time.Time{}, outbox.Place{}
	}
	c.lease, c.taken = lease, began
	return nil
}

// since is from when on an endpoint is told that the database does not know. Where a failover has
// forgotten one that this process knew, what happened since then is told again.
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

// down reports whether the endpoint takes nothing.
func (c *courier) down() bool { return c.several && c.failures >= downAfter }

// see tells the observer how the endpoint does.
func (c *courier) see(due outbox.DueEvents) {
	oldest := due.OldestWaiting
	for _, each := range due.Events {
		if !each.Retry {
			if oldest.IsZero() || each.CreatedAt.Before(oldest) {
				oldest = each.CreatedAt
			}
			break
		}
	}
	state := State{Has: true, Waiting: due.Waiting, GivenUp: due.GivenUp, Down: c.down()}
	if !oldest.IsZero() {
		state.Lag = max(time.Since(oldest), 0)
	}
	c.watch.Seen(c.endpoint.ID, state)
}

// gone pauses an endpoint that says that it is gone for good.
func (c *courier) gone(ctx context.Context) time.Duration {
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.StoreTimeout)
	defer cancel()
	c.taken = time.Time{}
	if err := c.store.Pause(storing, c.lease, "it answered 410 Gone"); err != nil {
		return c.fault(ctx, "an endpoint that is gone can't be paused", err)
	}
	return 0
}

// release lets another process have the endpoint at once.
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
