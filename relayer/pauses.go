package relayer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// pauses are the rails that refuse us and are yet to be paused in the database. The calls that met the refusal do not
// wait for that: one goroutine pauses one rail at a time, on one connection, until it is done.
type pauses struct {
	mu     sync.Mutex
	wanted map[string]wantedPause // by rail
	news   chan struct{}          // size 1: another one is wanted
}

// wantedPause is the refusal that a rail is to be paused for.
type wantedPause struct {
	action payment.Action
	result rails.Result
	since  clock.Moment
}

func newPauses() *pauses {
	return &pauses{wanted: make(map[string]wantedPause), news: make(chan struct{}, 1)}
}

// want has a rail paused, unless it is wanted already.
func (p *pauses) want(railType string, action payment.Action, result rails.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, there := p.wanted[railType]; there {
		return
	}
	p.wanted[railType] = wantedPause{action: action, result: result, since: clock.Now()}
	signal(p.news)
}

// holds reports whether a rail is not to be claimed, because it is about to be paused: for at most within, so that a
// pause that can't be recorded does not stop a rail by itself.
func (p *pauses) holds(railType string, within time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, there := p.wanted[railType]
	return there && one.since.Age() < within
}

// passed forgets a pause that could not be recorded within the given time, if the rail accepts such calls since.
func (p *pauses) passed(railType string, action payment.Action, within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, there := p.wanted[railType]; there && one.action == action && one.since.Age() > within {
		delete(p.wanted, railType)
	}
}

// done forgets the pause of a rail, which is recorded.
func (p *pauses) done(railType string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wanted, railType)
}

// all returns the pauses that are wanted.
func (p *pauses) all() map[string]wantedPause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.wanted)
}

// settle waits until every pause is recorded, and returns the rails of those that are not by the time.
func (p *pauses) settle(until time.Time) []string {
	for len(p.all()) > 0 && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
	}
	return slices.Sorted(maps.Keys(p.all()))
}

// pauseRails records pauses until the context ends. One that fails is tried again: at once, since only its answer may
// be lost, and then after a backoff.
func (r *Relayer) pauseRails(ctx context.Context) {
	for failures := 0; ; {
		var again <-chan time.Time // nil: none is left
		switch failures {
		case 0:
		case 1:
			again = time.After(0)
		default:
			again = time.After(backOff(failures - 2))
		}
		select {
		case <-ctx.Done():
			return
		case <-r.pauses.news:
		case <-again:
		}
		failures++
		all := r.pauses.all()
		for _, railType := range slices.Sorted(maps.Keys(all)) {
			if r.pauseRail(ctx, railType, all[railType].result) {
				r.pauses.done(railType)
			}
		}
		if len(r.pauses.all()) == 0 {
			failures = 0
		}
	}
}

// pauseRail records the pause of a rail, and reports whether it is paused.
func (r *Relayer) pauseRail(ctx context.Context, railType string, result rails.Result) bool {
	one, cancel := context.WithTimeout(ctx, r.config.StoreTimeout)
	defer cancel()
	paused, err := r.store.PauseRail(one, railType,
		"the rail refuses our credentials, route or form: "+result.Code+" "+result.Message)
	switch {
	case ctx.Err() != nil: // the drain says what is left
	case err != nil:
		r.log.ErrorContext(ctx, "rail refuses us and can't be paused: it is tried again", "rail_type", railType,
			"error", err)
	case paused:
		r.log.ErrorContext(ctx, "rail paused until an operator resumes it: it refuses our credentials, route or form",
			"rail_type", railType, "code", result.Code)
	}
	return err == nil
}

// accepts reports whether a result proves that a rail takes our calls.
func accepts(result rails.Result) bool {
	if result.RailRefused {
		return false
	}
	switch result.Result {
	case payment.ResultAccepted, payment.ResultExecuted, payment.ResultRefusedFinal, payment.ResultRefusedTransient,
		payment.ResultRefusedBusiness, payment.ResultRefused, payment.ResultInProgress, payment.ResultNotFound:
		return true
	default:
		return false
	}
}
