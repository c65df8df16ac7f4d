package relayer

import (
	"context"
	"time"
)

// pacer decides when the next turn starts, and whether it scans for due instructions or only
// records. A turn starts at once after a notification, a finished call or a freed slot; after a
// short rest under load, so that turns share a commit; and after a backoff while turns fail.
type pacer struct {
	last     time.Time // start of the last turn
	verify   bool      // the last wait ended by the poll: check that the notifier is still armed
	notified bool      // the last wait ended by a notification
	scan     bool      // the next turn scans and claims
	again    bool      // a notification led to no claim: scan again soon
	failures int
	skipWait bool
	armed    bool      // every enqueue notifies: no scan is needed
	taken    bool      // another relayer has armed the notifier, and may disarm it unseen
	unarmed  bool      // the last attempt to arm it failed
	said     time.Time // when that was logged last
}

const (
	// silentWait is the poll while an enqueue that did not notify has yet to commit.
	silentWait = 25 * time.Millisecond
	// takenWait is the poll while another relayer has armed the notifier. That relayer may serve
	// other rails, and disarms the notifier when it is busy with them.
	takenWait = 250 * time.Millisecond
	// againWait is the poll after a notification that led to no claim: another relayer was faster,
	// or a long transaction has enqueued with a due time that only a full rescan finds.
	againWait = 100 * time.Millisecond
	// lostWait is the poll of a relayer that receives no notifications.
	lostWait = 100 * time.Millisecond
	// unarmedSaid is the time between two lines of the log that the notifier can't be armed. It is tried at each poll.
	unarmedSaid = time.Minute
)

// wait returns when there may be something to do, or when the context has ended.
func (p *pacer) wait(ctx context.Context, l *loop) {
	p.notified, p.scan = false, true
	switch {
	case p.failures > 0:
		sleep(ctx, backOff(p.failures-1))
	case p.skipWait, l.primary && l.lanes.left():
	case l.load.add(0, time.Now()):
		p.rest(ctx, l)
	case l.primary:
		p.waitForCause(ctx, l)
	default:
		p.waitForMore(ctx, l)
	}
	if gap := l.config.Pace - time.Since(p.last); gap > 0 && ctx.Err() == nil && p.failures == 0 {
		sleep(ctx, gap)
	}
	if l.primary && !p.scan {
		p.takeNotification(l)
	}
	p.last = time.Now()
}

// takeNotification makes a turn that would only record claim as well, if a notification has arrived
// since that was decided. Otherwise the notification would wait for the turn and for the pause
// after it.
func (p *pacer) takeNotification(l *loop) {
	select {
	case <-l.notified:
		l.watch.Notified()
		p.notified, p.scan = true, true
	default:
	}
}

// rest lets instructions and outcomes gather under load. If a lane has more due than it has slots,
// it returns as soon as a slot is free.
func (p *pacer) rest(ctx context.Context, l *loop) {
	if l.primary {
		p.disarm(ctx, l)
	}
	var wake, more chan struct{}
	backlog := l.lanes.backlog()
	if backlog {
		wake = l.wake
	}
	if !l.primary {
		more = l.more
	}
	timer := time.NewTimer(max(l.config.Coalesce-time.Since(p.last), 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-more:
		return
	case <-timer.C:
	}
	p.scan = l.primary || backlog || len(l.lanes.ordered()) > 0
}

func (p *pacer) waitForCause(ctx context.Context, l *loop) {
	limit := l.config.Poll
	asleep, scanNow := p.arm(ctx, l)
	p.verify = false
	switch {
	case scanNow:
		return
	case l.notifierLost(), p.unarmed:
		limit = min(limit, lostWait)
	case !asleep && !p.taken:
		limit = min(limit, silentWait)
	case p.again:
		limit = min(limit, againWait)
	case p.taken:
		limit = min(limit, takenWait)
	}
	if wake := l.lanes.wakeIn(); wake > 0 {
		limit = min(limit, max(wake, time.Millisecond))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.wake:
		// There is an outcome to record. Enqueues that come now notify. On a lane that orders
		// participants the next instruction may wait behind the outcome.
		p.scan = !asleep || l.lanes.backlog() || len(l.lanes.ordered()) > 0
	case <-timer.C:
		p.verify = true
		l.watch.Poll()
	case <-l.notified:
		l.watch.Notified()
		p.notified = true
	}
}

// arm makes enqueues notify before this relayer waits. It reports whether they do, and whether to
// scan once more first: what was enqueued without a notification is committed by now. A notifier
// that can't be disarmed counts as armed. While another relayer has armed the notifier, arm tries
// again at each poll.
func (p *pacer) arm(ctx context.Context, l *loop) (asleep, scanNow bool) {
	armer, ok := l.notifier.(Armer)
	if !ok {
		return true, false
	}
	if l.notifierLost() {
		return false, false
	}
	trying, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if p.armed {
		if !p.verify || armer.CheckArmed(trying) == nil {
			return true, false
		}
		p.armed = false
	}
	if p.taken && !p.verify {
		return false, false
	}
	notifies, others, err := armer.Arm(trying)
	was, again := p.taken, p.unarmed
	p.unarmed = err != nil
	if err != nil && ctx.Err() == nil && (!again || time.Since(p.said) >= unarmedSaid) {
		p.said = time.Now()
		l.log.WarnContext(ctx, "can't arm the notifier: polling faster", "error", err)
	}
	p.armed, p.taken = notifies, others
	return notifies, notifies || others && !was
}

// disarm lets enqueues stop notifying: this relayer scans without being woken.
func (p *pacer) disarm(ctx context.Context, l *loop) {
	p.taken = false
	armer, ok := l.notifier.(Armer)
	if !ok || !p.armed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := armer.Disarm(ctx); err != nil {
		l.log.WarnContext(ctx, "disarming the notifier failed: its session was closed", "error", err)
	}
	p.armed = false
}

// waitForMore is the wait of the other loops: for outcomes of their own, or until more is due than
// one loop can take.
func (p *pacer) waitForMore(ctx context.Context, l *loop) {
	timer := time.NewTimer(l.config.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.more:
		return
	case <-l.wake:
	case <-timer.C:
	}
	p.scan = l.lanes.backlog() || len(l.lanes.ordered()) > 0
}

// after takes the result of a turn into account.
func (p *pacer) after(claimed int, err error, l *loop) {
	p.skipWait = false
	if err != nil {
		p.failures++
		return
	}
	p.failures = 0
	p.again = p.notified && claimed == 0
	if p.again {
		claimed = 1 // enqueues notify whichever relayer claims
	}
	l.load.add(claimed, time.Now())
	// There are more outcomes than one turn records: start the next turn at once.
	p.skipWait = l.flight.waiting() >= l.config.RecordMax
}
