package relayer

import (
	"context"
	"time"
)

// pacer decides when the next turn starts: at once for a first bell, a free
// slot or a finished call, later for what can wait, and after a pause when the
// database is in trouble.
type pacer struct {
	last     time.Time // start of the last turn
	bellAt   time.Time // the last bell that was acted on
	followUp bool      // the last claim was not empty: look again soon
	failures int
	skipWait bool
}

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
	p.last = time.Now()
}

func (p *pacer) waitForCause(ctx context.Context, r *stream) {
	if !r.primary {
		p.waitForMore(ctx, r)
		return
	}
	limit := r.config.Poll
	if r.bellDeaf() {
		limit = min(limit, 100*time.Millisecond)
	}
	if p.followUp {
		limit = min(limit, followUpWait)
	}
	if wake := r.lanes.wakeIn(); wake > 0 {
		limit = min(limit, max(wake, time.Millisecond))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-r.wake:
	case <-timer.C:
		r.watch.Poll()
	case <-r.rung:
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
