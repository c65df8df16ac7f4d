package metrics

import (
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/relayer"
)

// Serving is a relayer that reports the state of its lanes.
type Serving interface {
	Lanes() []relayer.LaneState
	NotifierState() relayer.NotifierState
}

// Watch exports the state of a relayer's lanes, read at each scrape, in place of those of one that
// was watched before.
func (s *Set) Watch(serving Serving) {
	if s.lanes == nil {
		s.lanes = &lanes{}
		s.lanes.serving.Store(&serving)
		s.to.MustRegister(s.lanes)
	}
	s.lanes.serving.Store(&serving)
}

type lanes struct{ serving atomic.Pointer[Serving] }

var (
	inFlight     = desc("railhead_rail_in_flight", "Calls under way in this process.", "rail")
	overdueCalls = desc("railhead_rail_calls_overdue", "Calls that have not returned although their context has ended.",
		"rail")
	laneLimit = desc("railhead_rail_concurrency_limit", "The most calls that this process has under way at once.",
		"rail")
	freeSlots     = desc("railhead_rail_free_slots", "Calls that this process could begin now.", "rail")
	laneRate      = desc("railhead_rail_rate_limit", "Calls a second that this process may begin now.", "rail")
	breaker       = desc("railhead_rail_breaker_state", "State of the circuit breaker of this process.", "rail", "state")
	laneStopped   = desc("railhead_lane_held", "Whether this process does not claim the rail.", "rail")
	notifierState = desc("railhead_notifier_state", "State of the listening session.", "state")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (l *lanes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		inFlight, overdueCalls, laneLimit, freeSlots, laneRate, breaker, laneStopped, notifierState,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *lanes) Collect(ch chan<- prometheus.Metric) {
	serving := *l.serving.Load()
	for _, lane := range boundLanes(serving.Lanes()) {
		gauge(ch, laneStopped, flag(lane.Stopped), lane.RailType)
		if lane.Limit == 0 {
			continue // it was never opened: what follows is of calls
		}
		gauge(ch, inFlight, float64(lane.Calls), lane.RailType)
		gauge(ch, overdueCalls, float64(lane.Overdue), lane.RailType)
		gauge(ch, laneLimit, float64(lane.Limit), lane.RailType)
		gauge(ch, freeSlots, float64(max(lane.Limit-lane.Calls, 0)), lane.RailType)
		gauge(ch, laneRate, rateLimit(lane.Rate), lane.RailType)
		for _, state := range rails.BreakerStates() {
			gauge(ch, breaker, flag(lane.Breaker == state), lane.RailType, strings.ToLower(string(state)))
		}
	}
	now := serving.NotifierState()
	for _, state := range relayer.NotifierStates() {
		gauge(ch, notifierState, flag(now == state), string(state))
	}
}

// rateLimit returns infinity if there is no bound.
func rateLimit(rate float64) float64 {
	if rate == 0 {
		return math.Inf(1)
	}
	return rate
}

// boundLanes adds up the lanes beyond the bound of rails. Their breaker is the worst one.
func boundLanes(all []relayer.LaneState) []relayer.LaneState {
	slices.SortFunc(all, func(a, b relayer.LaneState) int { return strings.Compare(a.RailType, b.RailType) })
	var bounded []relayer.LaneState
	var rest *relayer.LaneState
	for _, lane := range all {
		if railShape.MatchString(lane.RailType) && lane.RailType != otherRail && len(bounded) < railsMax {
			bounded = append(bounded, lane)
			continue
		}
		switch {
		case rest == nil:
			rest = &relayer.LaneState{RailType: otherRail, Breaker: rails.BreakerClosed, Rate: lane.Rate}
		case lane.Limit == 0: // never opened: it begins no call
		case rest.Limit == 0:
			rest.Rate = lane.Rate
		case rest.Rate == 0 || lane.Rate == 0:
			rest.Rate = 0 // one of them has no bound, so the sum has none
		default:
			rest.Rate += lane.Rate
		}
		rest.Calls += lane.Calls
		rest.Overdue += lane.Overdue
		rest.Limit += lane.Limit
		rest.Stopped = rest.Stopped || lane.Stopped
		if worse(lane.Breaker, rest.Breaker) {
			rest.Breaker = lane.Breaker
		}
	}
	if rest != nil {
		bounded = append(bounded, *rest)
	}
	return bounded
}

func worse(a, b rails.BreakerState) bool {
	order := []rails.BreakerState{rails.BreakerClosed, rails.BreakerHalfOpen, rails.BreakerOpen}
	return slices.Index(order, a) > slices.Index(order, b)
}
