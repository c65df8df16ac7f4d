package relayer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// drain stops claiming, lets sends finish, and records their outcomes. What was never sent is given
// back as NOT_SENT. A send that is still under way after the drain time is cancelled: its outcome
// is UNKNOWN, and is recorded as that. A call that does not even return then is left: its claim stays open, and
// the reaper records it as UNKNOWN, as that of a worker that died. It takes at most the drain time, then RecordWithin,
// and pauseWithin, whatever the database and the adapters do.
func (r *Relayer) drain(sends context.Context, stopSends context.CancelCauseFunc) {
	r.stopping.Store(true)
	r.ready.Refuse("stopping")
	within := r.budget.finishing().drain
	until := time.Now().Add(within)
	overdue := time.AfterFunc(within, func() {
		if left := r.sending(); left > 0 {
			r.log.Warn("drain time is over: cancelling the remaining sends", "sends", left)
		}
		stopSends(errors.New("the relayer's drain time is over"))
	})
	defer overdue.Stop()
	var all sync.WaitGroup
	for _, each := range r.loops {
		all.Go(func() { each.drain(sends, until) })
	}
	all.Wait()
	// A pause may not be lost: the next process would make as many calls again that are refused.
	for _, railType := range r.pauses.settle(time.Now().Add(pauseWithin)) {
		r.log.Error("rail refuses us, and its pause may not be recorded: look, and pause it by hand", "rail_type", railType)
	}
}

func (l *loop) drain(sends context.Context, until time.Time) {
	done := make(chan struct{})
	go func() {
		l.flight.sending.Wait() // adapters should return as soon as their context ends
		l.flight.close()
		close(done)
	}()
	record := l.budget.finishing().record
	end := until.Add(record)
	stuck := time.NewTimer(time.Until(until.Add(record / 2)))
	defer stuck.Stop()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-stuck.C:
			waiting = false
			l.log.Error("calls have not returned although they were cancelled: the reaper records them as unknown",
				"calls", l.flight.calls.Load())
		case <-l.wake:
			l.recordRest(sends, until)
		}
	}
	// Keep trying to record outcomes until the drain time is over, and for at least RecordWithin.
	until = minTime(maxTime(until, time.Now().Add(record)), end)
	for try := 0; l.unrecorded() > 0 && time.Now().Before(until); try++ {
		l.retryLateNow()
		before := l.unrecorded()
		if l.recordRest(sends, until) != nil || l.unrecorded() >= before {
			// The server may have been started again or promoted, and a refusal is recorded only
			// after a check of it.
			if err := l.checkOnce(sends, until); err != nil {
				l.log.Warn("the server can't be checked", "error", err)
			}
			time.Sleep(min(backOff(try), max(time.Until(until), 0)))
		}
	}
	l.flight.left.Store(true)
	l.nameUnrecorded()
}

// pauseWithin is how long a relayer that ends waits until the pauses of rails are recorded.
const pauseWithin = time.Second

// namedMax bounds the outcomes that are named at the end of a loop.
const namedMax = 1000

// nameUnrecorded logs each outcome that a loop still holds at its end, for an operator who compares with the rail:
// the answer is in no other place if it is not recorded. Whether it is recorded is not known, because the answer to
// a commit may have been lost.
func (l *loop) nameUnrecorded() {
	left := l.flight.rest()
	for _, late := range l.late {
		left = append(left, late.outcome)
	}
	for _, outcome := range left[:min(len(left), namedMax)] {
		l.log.Error("it is not known whether this outcome is recorded: the reaper records the call as unknown if not",
			"outbox_id", outcome.Claim.OutboxID, "claim", outcome.Claim.AttemptNo, "result", outcome.Result,
			"rail_reference", outcome.RailReference)
	}
	if len(left) > 0 {
		l.log.Error("it is not known whether the last outcomes are recorded: "+
			"the reaper records as unknown those that are not", "outcomes", len(left))
	}
	for _, d := range l.doubts {
		if d.asked.IsZero() {
			l.log.Error("the commit of a claim is unknown, and it could not be looked up: nothing of it was sent, and the "+
				"reaper records what it has claimed as unknown", "claim_id", d.claim)
		}
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
