package relayer

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// overdueAfter is how long after the end of its context a call has to return.
const overdueAfter = 2 * time.Second

// overdueSaid is the least time between two lines of the log about calls that do not return.
const overdueSaid = 10 * time.Second

// awaitReturn waits for a call whose context has ended. The time counts from that end, as this process has seen it: one
// that was paused may see it late, and the adapter with it. From overdueAfter on the call counts as overdue of its
// lane, until it returns.
func (r *Relayer) awaitReturn(l *lane, claim payment.Claim, returned <-chan struct{}) {
	late := time.NewTimer(overdueAfter)
	defer late.Stop()
	select {
	case <-returned:
	case <-late.C:
		l.overdue.Add(1)
		defer l.overdue.Add(-1)
		r.sayOverdue(claim)
		<-returned
	}
}

// sayOverdue logs that a call has not returned although its context has ended, once in a while. It keeps its slot of
// the lane until it returns: a call can't be ended from outside.
func (r *Relayer) sayOverdue(claim payment.Claim) {
	now := time.Now().UnixNano()
	said := r.overdueSaid.Load()
	if now-said < int64(overdueSaid) || !r.overdueSaid.CompareAndSwap(said, now) {
		return
	}
	r.log.Error("a call has not returned although its context has ended: the adapter ignores its context, and the call "+
		"keeps a slot of the lane until it returns", "rail_type", claim.RailType, "outbox_id", claim.OutboxID)
}

// nameLeft logs the outcome of a call that returned after its loop had ended: it is recorded in no other place.
func (l *loop) nameLeft(outcome payment.Outcome) {
	l.log.Error("a call returned after the relayer had stopped: its outcome is not recorded, and the reaper records the "+
		"call as unknown", "outbox_id", outcome.Claim.OutboxID, "claim", outcome.Claim.AttemptNo, "result", outcome.Result,
		"rail_reference", outcome.RailReference)
}
