package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

// Reaper counts the results of a reaper. It is a reaper.Observer.
type Reaper struct {
	set        *Set
	requeues   prometheus.Counter
	ok, failed prometheus.Counter
	cycles     prometheus.Histogram
	expired    prometheus.Counter
	unread     prometheus.Gauge
	unended    prometheus.Gauge
	within     prometheus.Gauge
	due        atomic.Pointer[time.Time] // when the next turn should have succeeded; nil: no reaper has begun
	repairs    map[string]prometheus.Counter
}

// Results of the open claim of a lost worker.
const (
	requeued   = "requeued" // to be sent again
	inquired   = "inquired" // to be asked about
	parked     = "parked"
	dispatched = "dispatched" // by late evidence
	superseded = "superseded" // answered by another process meanwhile
)

// Reaper returns the metrics of a reaper, the same at each call.
func (s *Set) Reaper() *Reaper {
	if s.reaper == nil {
		s.reaper = s.newReaper()
	}
	return s.reaper
}

func (s *Set) newReaper() *Reaper {
	cycles := s.counters("railhead_reaper_cycles_total", "Turns of the reaper.", "result")
	r := &Reaper{
		set:      s,
		requeues: s.counter("reaper_requeues_total", "Open claims of lost workers that went back to pending."),
		ok:       cycles.WithLabelValues("ok"), failed: cycles.WithLabelValues("failed"),
		cycles: s.histogram("railhead_reaper_cycle_duration_seconds", "Time of one turn of the reaper that worked.",
			turnBuckets),
		expired: s.counter("railhead_reaper_expired_total", "Instructions ended because they had expired."),
		unread: s.gauge("railhead_reaper_unread_profiles",
			"Rails whose profile in force this reaper can't read: it leaves their lost claims to others."),
		unended: s.gauge("railhead_reaper_unended",
			"Expired instructions that could not be ended by themselves in the last turn that worked."),
		within: s.gauge("railhead_reaper_turn_within_seconds",
			"Within which time a turn that works follows another one and ends, by the time between turns and their timeout."),
		repairs: make(map[string]prometheus.Counter),
	}
	repairs := s.counters("railhead_reaper_repairs_total", "Open claims of lost workers, by what became of them.",
		"result")
	s.to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "railhead_reaper_turn_overdue_seconds",
		Help: "For how long a turn that works is overdue, by the time between turns and their timeout; 0: none is.",
	}, r.overdue))
	for _, result := range []string{requeued, inquired, parked, dispatched, superseded} {
		r.repairs[result] = repairs.WithLabelValues(result)
	}
	return r
}

// Repaired implements reaper.Observer, as do the methods that follow.
func (r *Reaper) Repaired(outcome payment.Outcome) {
	r.set.appended(outcome)
	switch {
	case !outcome.Decision.Requeue:
		r.repairs[parked].Inc()
		return
	case outcome.Decision.NextAction == payment.ActionInquire:
		r.repairs[inquired].Inc()
	default:
		r.repairs[requeued].Inc()
	}
	r.requeues.Inc()
}

// NotNeeded counts a repair that was not needed.
func (r *Reaper) NotNeeded(outcome payment.Outcome, verdict payment.Verdict) {
	r.set.weighed(outcome, verdict)
	if verdict == payment.VerdictSettled {
		r.repairs[dispatched].Inc()
		return
	}
	r.repairs[superseded].Inc()
}

// Expired counts expired instructions that were ended, as FAILED and as PARKED.
func (r *Reaper) Expired(failed, parked int) {
	r.expired.Add(float64(failed + parked))
	r.set.rows[payment.Failed].Add(float64(failed))
	r.set.rows[payment.Parked].Add(float64(parked))
}

// Turn counts a successful turn.
func (r *Reaper) Turn(result reaper.Result, d time.Duration) {
	r.ok.Inc()
	r.unread.Set(float64(result.Unread))
	r.unended.Set(float64(result.Unended))
	r.cycles.Observe(d.Seconds())
}

// Due sets when the next turn should have succeeded.
func (r *Reaper) Due(within time.Duration) {
	r.within.Set(within.Seconds())
	r.due.Store(new(time.Now().Add(within)))
}

func (r *Reaper) overdue() float64 {
	if due := r.due.Load(); due != nil {
		return max(time.Since(*due), 0).Seconds()
	}
	return 0
}

// TurnFailed counts a failed turn.
func (r *Reaper) TurnFailed() { r.failed.Inc() }

// CommitUnknown counts a commit whose answer was lost.
func (r *Reaper) CommitUnknown() { r.set.commitUnknown.Inc() }
