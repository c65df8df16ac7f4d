package webhook

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

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

	lease payment.EndpointLease
	place payment.Place // that was noted last by this lease
	taken time.Time     // when the lease was taken or prolonged last; zero: there is none
	first time.Time     // when this process asked for it first; zero: never
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
		pause(ctx, c.turn(ctx))
	}
	c.release(ctx)
}

// pause waits, or until the context ends.
func pause(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
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
	case errors.Is(err, payment.ErrNotHeld):
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
	if errors.Is(err, payment.ErrNotHeld) {
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
		c.failures, c.several, c.notBefore, c.place = 0, false, time.Time{}, payment.Place{}
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

func (c *courier) due(ctx context.Context) (payment.DueEvents, error) {
	asking, cancel := context.WithTimeout(ctx, c.config.StoreTimeout)
	defer cancel()
	return c.store.Due(asking, c.lease, c.endpoint.Participants, c.endpoint.Types, dueRetries, duePlaces)
}

// down reports whether the endpoint takes nothing.
func (c *courier) down() bool { return c.several && c.failures >= downAfter }

// see tells the observer how the endpoint does.
func (c *courier) see(due payment.DueEvents) {
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

// fate is what became of an event in a round.
type fate struct {
	kind   fateKind
	status string
	wait   time.Duration
	// excused is set where the try does not count, because the endpoint is down.
	excused bool
}

type fateKind int

const (
	untried fateKind = iota
	behind           // an earlier event of its instruction waits
	delivered
	failed
)

// round is what a turn has delivered.
type round struct {
	fates []fate
	tried bool // something was sent
	taken bool // something was taken
	gone  bool // the endpoint is gone
	probe bool // one event was tried, because the endpoint is down
	up    bool // it has refused an event by an answer that shows that it is up
	again bool // it was down, and is not
}

// deliver sends what is due: the events of an instruction one after the other, those of
// several at once. It begins none of them after half of the lease, and ends early where
// the endpoint fails again and again; of one that is down, one event is tried.
func (c *courier) deliver(ctx context.Context, due payment.DueEvents, probe bool) round {
	r := round{fates: make([]fate, len(due.Events)), probe: probe}
	order := groupsOf(due.Events)
	if probe {
		order = probed(due.Events, order, c.failures)
	}
	enough := time.Now().Add(c.config.Lease / 2)
	// Deliveries under way at the end may finish.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(c.config.Drain, cancel) })()
	defer c.keep(sending, cancel)()

	var mu sync.Mutex
	stopped := false
	// next reports whether another one may be tried.
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if stopped || ctx.Err() != nil || sending.Err() != nil || time.Now().After(enough) {
			return false
		}
		stopped, r.tried = probe, true
		return true
	}
	heard := func(n int, said answer) (ok bool) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case said.taken:
			r.fates[n], r.taken = fate{kind: delivered}, true
			c.failures, c.several = 0, false
			c.watch.Delivered(c.endpoint.ID)
			return true
		case sending.Err() != nil: // it was broken off; what became of it is not known, and it is sent again
			return false
		}
		c.watch.NotDelivered(c.endpoint.ID, said.status)
		if said.gone {
			r.gone, stopped = true, true
			return false
		}
		if said.refusesOne() {
			// It is up. This one may be taken later, by the ladder.
			c.failures, c.several, r.up = 0, false, true
			r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter}
			return false
		}
		if said.retryAfter > 0 && said.isBusy() {
			c.notBefore, stopped = later(c.notBefore, time.Now().Add(said.retryAfter)), true
		}
		if probe {
			c.failures++ // so that the next one comes later
		}
		if due.Events[n].Retry {
			r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter, excused: probe}
			return false
		}
		if probe { // it stays in the feed: what waits to be tried again does not grow by it
			return false
		}
		c.several = c.several || c.failures > 0 && c.failing != due.Events[n].OutboxID
		c.failures, c.failing = c.failures+1, due.Events[n].OutboxID
		stopped = stopped || c.down()
		r.fates[n] = fate{kind: failed, status: said.status, wait: said.retryAfter}
		return false
	}
	work := make(chan []int)
	var working sync.WaitGroup
	for range min(c.endpoint.Concurrency, len(order)) {
		working.Go(func() {
			for group := range work {
				waits := false // an earlier one of the instruction
				for _, n := range group {
					if waits = waits || due.Events[n].Behind; waits {
						r.fates[n].kind = behind
						continue
					}
					if !next() {
						break
					}
					if heard(n, c.send(sending, due.Events[n].Event)) {
						continue
					}
					if waits = r.fates[n].kind == failed; !waits {
						break // it is tried again first: what follows stays behind it in the feed
					}
				}
			}
		})
	}
	for _, group := range order {
		work <- group
	}
	close(work)
	working.Wait()
	r.again = probe && (r.taken || r.up)
	return r
}

// probed is the group of which one event is tried: each time another one of those with something
// new, so that none which the endpoint never takes stands before all others; or of those that are
// tried again. With it come those that only wait behind others, of which nothing is tried.
func probed(events []payment.DueEvent, order [][]int, turn int) [][]int {
	var fresh, again, waits [][]int
	for _, group := range order {
		switch first := events[group[0]]; {
		case first.Behind:
			waits = append(waits, group)
		case first.Retry:
			again = append(again, group)
		default:
			fresh = append(fresh, group)
		}
	}
	if len(fresh) == 0 {
		fresh = again
	}
	if len(fresh) == 0 {
		return waits
	}
	return append(waits, fresh[turn%len(fresh)])
}

// groupsOf has the indexes of what is due by instruction, in their order: those with something
// new and those that are tried again by turns, so that neither waits for all of the others.
func groupsOf(events []payment.DueEvent) [][]int {
	place := make(map[payment.ID]int)
	var all [][]int
	for n, each := range events {
		at, known := place[each.OutboxID]
		if !known {
			at = len(all)
			place[each.OutboxID], all = at, append(all, nil)
		}
		all[at] = append(all[at], n)
	}
	var fresh, again [][]int
	for _, group := range all {
		if first := events[group[0]]; first.Retry || first.Behind {
			again = append(again, group)
		} else {
			fresh = append(fresh, group)
		}
	}
	mixed := make([][]int, 0, len(all))
	for n := range max(len(fresh), len(again)) {
		if n < len(fresh) {
			mixed = append(mixed, fresh[n])
		}
		if n < len(again) {
			mixed = append(mixed, again[n])
		}
	}
	return mixed
}

// keep prolongs the lease while deliveries are under way, and ends them where it is lost.
func (c *courier) keep(ctx context.Context, lost context.CancelFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			pause(ctx, c.config.Lease/3)
			if ctx.Err() != nil {
				return
			}
			asking, end := context.WithTimeout(ctx, min(c.config.StoreTimeout, c.config.Lease/3))
			lease, err := c.store.Take(asking, c.endpoint.ID, c.config.Worker, c.config.Lease, c.since())
			end()
			// Where the database is away the lease may be another's at its end; what both deliver is
			// delivered twice, with the same ids, and in order.
			if err == nil && (lease.HeldBy != "" || lease.Epoch != c.lease.Epoch || !lease.PausedAt.IsZero()) {
				lost()
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// note stores what a round has come to, where there is anything.
func (c *courier) note(ctx context.Context, r round, due payment.DueEvents) (noted bool, err error) {
	note := c.noteOf(r, due)
	if note.IsEmpty() {
		return false, nil
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.config.StoreTimeout)
	defer cancel()
	began := time.Now()
	if err := c.store.Note(storing, c.lease, c.config.Lease, note); err != nil {
		return false, err
	}
	c.taken = began
	if !note.Place.IsZero() {
		c.place = note.Place
	}
	for _, each := range due.Forgotten {
		c.log.WarnContext(ctx, "an event that waited is delivered no more: it is not in the archive any more, or not for this endpoint", "outbox_id", each.OutboxID, "attempt_no", each.AttemptNo)
	}
	if due.WentBack && !note.Place.IsZero() {
		c.log.WarnContext(ctx, "a failover or a restore has forgotten what the endpoint was told last: events of the hour before are delivered again, with the ids that they had")
	}
	for _, each := range note.Waiting {
		if each.GivenUp {
			c.log.WarnContext(ctx, "an event is not tried any more by itself", "event_id", each.Name(), "outbox_id", each.OutboxID, "status", each.Status)
		}
	}
	if r.again {
		c.log.InfoContext(ctx, "the endpoint takes events again")
	} else if r.tried && !r.probe && c.down() {
		c.log.WarnContext(ctx, "the endpoint takes no events: it is tried with one at a time", "failures", c.failures)
	}
	return true, nil
}

// noteOf says what of a round is to be kept. Each event before the place is delivered or
// waits, each behind it is in the feed: nothing is missed, and of an instruction nothing
// overtakes.
func (c *courier) noteOf(r round, due payment.DueEvents) payment.DeliveryNote {
	note := payment.DeliveryNote{Notes: due.Notes, Done: due.Forgotten, Taken: r.taken, Again: r.again}
	var fresh []int // of the feed
	again := make(map[payment.EventKey]bool)
	for n, each := range due.Events {
		again[each.Key()] = again[each.Key()] || each.Retry
		switch {
		case !each.Retry:
			fresh = append(fresh, n)
		case r.fates[n].kind == delivered:
			note.Done = append(note.Done, each.Key())
		case r.fates[n].kind == failed:
			note.Waiting = append(note.Waiting, waitingOf(each, r.fates[n]))
		}
	}
	cut := cutOf(r, due.Events, fresh)
	switch {
	case cut == len(fresh):
		note.Place = due.Place
	case cut > 0:
		note.Place = due.Events[fresh[cut-1]].At
	}
	if len(fresh) == 0 && note.Place == c.place {
		note.Place = payment.Place{} // nothing has happened
	}
	for _, n := range fresh[:cut] {
		// What is in the feed again, and waits, has its fate.
		if r.fates[n].kind != delivered && !again[due.Events[n].Key()] {
			note.Waiting = append(note.Waiting, waitingOf(due.Events[n], r.fates[n]))
		}
	}
	return note
}

// cutOf is how many of the events of the feed are behind the endpoint from now on. Those
// that were not tried stay in the feed, where none after them was: what an endpoint does not
// take while it is down does not pile up. A place of the feed is never cut through.
func cutOf(r round, events []payment.DueEvent, fresh []int) int {
	settled := 0 // up to the first that was not tried
	for settled < len(fresh) && r.fates[fresh[settled]].kind != untried {
		settled++
	}
	for n := settled; n < len(fresh); n++ {
		if kind := r.fates[fresh[n]].kind; kind == delivered || kind == failed {
			settled = n + 1
		}
	}
	for settled > 0 && settled < len(fresh) && !events[fresh[settled-1]].Last {
		settled++
	}
	return settled
}

// waitingOf is an event that waits from now on, and until when.
func waitingOf(e payment.DueEvent, f fate) payment.WaitingEvent {
	w := payment.WaitingEvent{Event: e.Event, Tries: e.Tries, Status: f.status}
	if f.kind != failed {
		return w
	}
	if w.Tries++; f.excused {
		w.Tries = max(e.Tries, 1)
	}
	if w.Tries > len(ladder) {
		w.GivenUp = true
		return w
	}
	w.Wait = max(jittered(ladder[w.Tries-1]), f.wait)
	return w
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
