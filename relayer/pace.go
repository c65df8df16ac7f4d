package relayer

import (
	"context"
	"time"
)

// pacer decides when the next turn starts: at once for a first bell, a free
// slot or a finished call, later for what can wait, and after a pause when the
// database is in trouble.
type pacer struct {
	last     time.Time     // start of the last turn
	gap      time.Duration // between the starts of the last two
	polled   bool          // the last wait ended by the poll
	bellAt   time.Time     // the last bell that was acted on
	followUp bool          // the last claim was not empty: look again soon
	failures int
	skipWait bool
	dozing   bool // every enqueue rings: nothing has to be looked for
	busy     int  // turns in a row that came soon and found something
}

// When a relayer stays awake instead of being rung for each enqueue, and how
// soon it looks again while something was enqueued silently.
const (
	busyGap    = 5 * time.Millisecond
	busyTurns  = 4
	unrungWait = 25 * time.Millisecond
)

// followUpWait is how soon a relayer looks again after a claim that found
// something: whatever committed in between has no bell left to ring.
const followUpWait = 20 * time.Millisecond

// wait returns when there may be something to do, or the context ended.
func (p *pacer) wait(ctx context.Context, r *stream) {
	if p.failures > 0 {
		sleep(ctx, backOff(p.failures-1))
		p.last = time.Now()
		return
	}
	if !p.skipWait {
		p.waitForCause(ctx, r)
	}
	if gap := r.config.Pace - time.Since(p.last); gap > 0 && ctx.Err() == nil {
		sleep(ctx, gap)
	}
	p.gap = time.Since(p.last)
	p.last = time.Now()
}

func (p *pacer) waitForCause(ctx context.Context, r *stream) {
	if !r.primary {
		p.waitForMore(ctx, r)
		return
	}
	limit := r.config.Poll
	switch asleep, lookAgain := p.doze(ctx, r); {
	case lookAgain:
		return
	case asleep:
	case r.bellDeaf():
		limit = min(limit, 100*time.Millisecond)
	default:
		limit = min(limit, unrungWait)
	}
	if p.followUp && !p.dozing {
		limit = min(limit, followUpWait)
	}
	if wake := r.lanes.wakeIn(); wake > 0 {
		limit = min(limit, max(wake, time.Millisecond))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	p.polled = false
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-timer.C:
		p.polled = true
		r.watch.Poll()
	case <-r.rung:
		r.watch.Bell()
		// The first bell acts at once; more of them soon after are gathered.
		if gap := r.config.Coalesce - time.Since(p.bellAt); gap > 0 {
			sleep(ctx, gap)
			select {
			case <-r.rung:
			default:
			}
		}
		p.bellAt = time.Now()
	}
}

// doze makes enqueues ring before this relayer sleeps. It reports whether they
// do, and whether to look for due rows once more first: whatever was enqueued
// silently is committed by now. A bell that is always rung is asleep all the time.
func (p *pacer) doze(ctx context.Context, r *stream) (asleep, lookAgain bool) {
	dozer, ok := r.bell.(Dozer)
	if !ok {
		return true, false
	}
	if r.bellDeaf() || p.followUp && !p.dozing {
		return false, false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if p.dozing {
		if !p.polled || dozer.Dozing(ctx) == nil {
			return true, false
		}
		p.dozing = false
	}
	rings, err := dozer.Doze(ctx)
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "can't sleep by the bell: polling faster", "error", err)
	}
	p.dozing = rings
	return rings, rings
}

// rouse lets enqueues be silent while turns follow each other anyway.
func (p *pacer) rouse(ctx context.Context, r *stream, claimed int) {
	if claimed == 0 || p.gap > busyGap+r.config.Pace {
		p.busy = 0
		return
	}
	if p.busy++; p.busy < busyTurns || !p.dozing {
		return
	}
	dozer, ok := r.bell.(Dozer)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := dozer.Rouse(ctx); err != nil {
		r.log.WarnContext(ctx, "the bell was given back with its session", "error", err)
	}
	p.dozing = false
}

// waitForMore is how the other streams wait: for answers of their own, or until
// there is more than one stream can take.
func (p *pacer) waitForMore(ctx context.Context, r *stream) {
	timer := time.NewTimer(r.config.Poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-r.more:
	case <-timer.C:
	}
}

// after notes how the turn went.
func (p *pacer) after(claimed int, err error, r *stream) {
	p.followUp = claimed > 0
	p.skipWait = false
	if err != nil {
		p.failures++
		return
	}
	p.failures = 0
	// More outcomes than one turn records: go on.
	p.skipWait = r.flight.waiting() >= r.config.RecordMax
}
