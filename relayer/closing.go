package relayer

import (
	"fmt"
	"io"
	"time"

	"github.com/railhead-pay/railhead/rails"
)

// closeWithin is how long an adapter may take to close. The end of a relayer waits as long for all of them together.
const closeWithin = time.Second

// closeRail closes an adapter, and returns a channel that is closed once it has closed, or is left because it takes
// longer than closeWithin. It is not awaited while a relayer runs: an adapter that hangs would hold the lanes of all
// rails and the heartbeat.
func (r *Relayer) closeRail(railType string, rail rails.Rail) <-chan struct{} {
	over := make(chan struct{})
	closer, ok := rail.(io.Closer)
	if !ok {
		close(over)
		return over
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		defer func() {
			if fault := recover(); fault != nil {
				r.log.Error("an adapter panicked when it was closed", "rail_type", railType, "panic", fmt.Sprintf("%T", fault))
			}
		}()
		closer.Close() // closes idle connections only
	}()
	go func() {
		defer close(over)
		late := time.NewTimer(closeWithin)
		defer late.Stop()
		select {
		case <-closed:
		case <-late.C:
			r.log.Error("an adapter has not closed in time and is left: what it has open may stay so until the process ends",
				"rail_type", railType, "within", closeWithin)
		}
	}()
	return over
}

// closeLanes closes the adapters. No call is under way, but for those that do not return.
func (r *Relayer) closeLanes() {
	l := &r.lanes
	l.mu.Lock()
	var all []<-chan struct{}
	for name, one := range l.byRail {
		all = append(all, r.closeRail(name, one.rail))
	}
	l.mu.Unlock()
	for _, over := range all {
		<-over
	}
}
