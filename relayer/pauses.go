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
// wait for that: one goroutine pauses one rail at a time, on one connection, until it is done, or the refusal is of too
// long ago to pause the rail for it.
type pauses struct {
	mu     sync.Mutex
	wanted map[string]wantedPause // by rail
	news   chan struct{}          // size 1: another one is wanted
	within time.Duration          // for how long a rail is held, and how long after that its pause is recorded
	// served returns the version of the profile by which a rail is served, 0 if it is not, and whether it is paused.
	served func(railType string) (version int, paused bool)
}

// wantedPause is the refusal that a rail is to be paused for.
type wantedPause struct {
	action  payment.Action
	result  rails.Result
	version int  // of the profile
	paused  bool // the rail was seen paused since
	since   clock.Moment
}

func newPauses(within time.Duration, served func(string) (int, bool)) *pauses {
	return &pauses{wanted: make(map[string]wantedPause), news: make(chan struct{}, 1), within: within, served: served}
}

// want has a rail paused, unless it is wanted already and the rail is held for that.
func (p *pauses) want(railType string, action payment.Action, result rails.Result) {
	version, _ := p.served(railType)
	p.mu.Lock()
	defer p.mu.Unlock()
	if one, there := p.wanted[railType]; there && one.since.Age() < p.within {
		return
	}
	p.wanted[railType] = wantedPause{action: action, result: result, version: version, since: clock.Now()}
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

// done forgets the pause of a rail, unless it is wanted anew.
func (p *pauses) done(railType string, since clock.Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted[railType].since == since {
		delete(p.wanted, railType)
	}
}

// left returns for how long a pause may still be recorded. An operator may have resumed the rail since, or given it a
// profile that it accepts, so that is not after twice the time for which the rail is held, nor once the rail was
// seen paused and is no more, nor under another profile. If the rail refuses us still, the next call shows it. A pause
// that is in force gets the refusal too: an operator ends it without knowing otherwise.
func (p *pauses) left(railType string, since clock.Moment) time.Duration {
	version, paused := p.served(railType) // the lanes are locked before the pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	one, there := p.wanted[railType]
	if !there || one.since != since || version != one.version || one.paused && !paused {
		return 0
	}
	one.paused = paused
	p.wanted[railType] = one
	return 2*p.within - one.since.Age()
}

// all returns the pauses that are wanted, and forgets those that may not be recorded any more.
func (p *pauses) all() map[string]wantedPause {
	p.mu.Lock()
	all := maps.Clone(p.wanted)
	p.mu.Unlock()
	maps.DeleteFunc(all, func(railType string, one wantedPause) bool {
		if p.left(railType, one.since) > 0 {
			return false
		}
		p.done(railType, one.since)
		return true
	})
	return all
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
			if one := all[railType]; r.pauseRail(ctx, railType, one) {
				r.pauses.done(railType, one.since)
			}
		}
		if len(r.pauses.all()) == 0 {
			failures = 0
		}
	}
}

// pauseRail records the pause of a rail while it may be recorded, and reports whether it is paused.
func (r *Relayer) pauseRail(ctx context.Context, railType string, want wantedPause) bool {
	one, cancel := context.WithTimeout(ctx, min(r.config.StoreTimeout, r.pauses.left(railType, want.since)))
	defer cancel()
	paused, err := r.store.PauseRail(one, railType,
		"the rail refuses our credentials, route or form: "+want.result.Code+" "+want.result.Message)
	switch {
	case ctx.Err() != nil: // the drain says what is left
	case err != nil:
		r.log.ErrorContext(ctx, "rail refuses us, and can't be paused now", "rail_type", railType,
			"tried_again_for", max(r.pauses.left(railType, want.since), 0), "error", err)
	case paused:
		r.log.ErrorContext(ctx, "rail paused until an operator resumes it: it refuses our credentials, route or form",
			"rail_type", railType, "code", want.result.Code)
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

// served returns the version of the profile by which a rail is served, 0 if it is not, and whether it is paused.
func (l *lanes) served(railType string) (version int, paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.byRail[railType]; one != nil {
		return one.profile.Version, one.paused
	}
	return 0, false
}
