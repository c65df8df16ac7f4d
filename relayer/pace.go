package relayer

import (
	"context"
	"time"
)

// pacer decides when the next turn starts, and whether it looks for due
// instructions or only records: at once for a notifier, a finished call or a free
// slot; after a short rest, so that commits are shared, while instructions
// stream; and after a pause when the database is in trouble.
type pacer struct {
	last     time.Time // start of the last turn
	verify   bool      // the last wait ended by the poll: see that the notifier is still ours
	notified bool      // the last wait ended by a notifier
	look     bool      // the next turn claims
	again    bool      // notified, and nothing was found: look once more soon
	failures int
	skipWait bool
	armed    bool // every enqueue notifies: nothing has to be looked for
	taken    bool // the notifier is another relayer's, which may give it back unheard
}

const (
	// unrungWait is how soon a relayer looks again while something was enqueued
	// silently and is not committed yet.
	unrungWait = 25 * time.Millisecond
	// takenWait is how soon it does while the notifier is another relayer's. That one
	// serves other rails, perhaps, and gives the notifier back when it is busy with them.
	takenWait = 250 * time.Millisecond
	// againWait is how soon it does after a notifier that led to nothing: another
	// relayer was faster, or a long transaction has enqueued with a due time that
	// only a full rescan finds.
	againWait = 100 * time.Millisecond
	// lostWait is the poll of a relayer whose notifier is not heard.
	lostWait = 100 * time.Millisecond
)

// wait returns when there may be something to do, or the context ended.
func (p *pacer) wait(ctx context.Context, r *stream) {
	p.notified, p.look = false, true
	switch {
	case p.failures > 0:
		sleep(ctx, backOff(p.failures-1))
	case p.skipWait, r.primary && r.lanes.left():
	case r.flow.add(0, time.Now()):
		p.rest(ctx, r)
	case r.primary:
		p.waitForCause(ctx, r)
	default:
		p.waitForMore(ctx, r)
	}
	if gap := r.config.Pace - time.Since(p.last); gap > 0 && ctx.Err() == nil && p.failures == 0 {
		sleep(ctx, gap)
	}
	if r.primary && !p.look {
		p.armNotifier(r)
	}
	p.last = time.Now()
}

// armNotifier lets a turn that would only record claim as well, if a notifier has come since it
// was decided on: that would wait for the turn, and for the pause after it.
func (p *pacer) armNotifier(r *stream) {
	select {
	case <-r.notified:
		r.watch.Notified()
		p.notified, p.look = true, true
	default:
	}
}

// rest lets instructions and answers gather while they stream. Where a lane has
// more due than it has slots, a slot that is free is used at once.
func (p *pacer) rest(ctx context.Context, r *stream) {
	if r.primary {
		p.disarm(ctx, r)
	}
	var wake, more chan struct{}
	backlog := r.lanes.backlog()
	if backlog {
		wake = r.wake
	}
	if !r.primary {
		more = r.more
	}
	timer := time.NewTimer(max(r.config.Coalesce-time.Since(p.last), 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-more:
		return
	case <-timer.C:
	}
	p.look = r.primary || backlog
}

func (p *pacer) waitForCause(ctx context.Context, r *stream) {
	limit := r.config.Poll
	asleep, lookAgain := p.arm(ctx, r)
	p.verify = false
	switch {
	case lookAgain:
		return
	case r.notifierLost():
		limit = min(limit, lostWait)
	case !asleep && !p.taken:
		limit = min(limit, unrungWait)
	case p.again:
		limit = min(limit, againWait)
	case p.taken:
		limit = min(limit, takenWait)
	}
	if wake := r.lanes.wakeIn(); wake > 0 {
		limit = min(limit, max(wake, time.Millisecond))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
		// An answer to record. An enqueue meanwhile notifies.
		p.look = !asleep || r.lanes.backlog()
	case <-timer.C:
		p.verify = true
		r.watch.Poll()
	case <-r.notified:
		r.watch.Notified()
		p.notified = true
	}
}

// arm makes enqueues notify before this relayer sleeps. It reports whether they
// do, and whether to look for due rows once more first: whatever was enqueued
// silently is committed by now. A notifier that is always notified is asleep all the time.
// While the notifier is another relayer's it tries again at each poll.
func (p *pacer) arm(ctx context.Context, r *stream) (asleep, lookAgain bool) {
	armer, ok := r.notifier.(Armer)
	if !ok {
		return true, false
	}
	if r.notifierLost() {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if p.armed {
		if !p.verify || armer.CheckArmed(ctx) == nil {
			return true, false
		}
		p.armed = false
	}
	if p.taken && !p.verify {
		return false, false
	}
	was := p.taken
	notifies, others, err := armer.Arm(ctx)
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "can't sleep by the notifier: polling faster", "error", err)
	}
	p.armed, p.taken = notifies, others
	return notifies, notifies || others && !was
}

// disarm lets enqueues be silent: this relayer looks by itself.
func (p *pacer) disarm(ctx context.Context, r *stream) {
	p.taken = false
	armer, ok := r.notifier.(Armer)
	if !ok || !p.armed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := armer.Disarm(ctx); err != nil {
		r.log.WarnContext(ctx, "the notifier was given back with its session", "error", err)
	}
	p.armed = false
}

// waitForMore is how the other streams wait: for answers of their own, or until
// there is more than one stream can take.
func (p *pacer) waitForMore(ctx context.Context, r *stream) {
	timer := time.NewTimer(r.config.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.more:
		return
	case <-r.wake:
	case <-timer.C:
	}
	p.look = r.lanes.backlog()
}

// after notes how the turn went.
func (p *pacer) after(claimed int, err error, r *stream) {
	p.skipWait = false
	if err != nil {
		p.failures++
		return
	}
	p.failures = 0
	p.again = p.notified && claimed == 0
	if p.again {
		claimed = 1 // enqueues notify, whichever relayer claims them
	}
	r.flow.add(claimed, time.Now())
	// More outcomes than one turn records: go on.
	p.skipWait = r.flight.waiting() >= r.config.RecordMax
}
