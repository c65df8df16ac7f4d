package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/relayer"
)

// Relayer counts the work of a relayer. It is a relayer.Observer.
type Relayer struct {
	set                  *Set
	notifications, polls prometheus.Counter
	received, missed     prometheus.Counter
	claims               prometheus.Counter
	claimSize            prometheus.Histogram
	recordSize           prometheus.Histogram
	turns                prometheus.Histogram
	failures             map[relayer.Failure]prometheus.Counter
	rails                *perRail[relayerRail]
}

// relayerRail contains the metrics of one rail.
type relayerRail struct {
	latency   prometheus.ExemplarObserver
	sends     map[payment.Result]prometheus.Counter
	inquiries map[payment.Result]prometheus.Counter
	unmapped  map[string]prometheus.Counter
	late      map[payment.Verdict]prometheus.Counter
}

// Relayer returns the metrics of a relayer, the same at each call.
func (s *Set) Relayer() *Relayer {
	if s.relayer == nil {
		s.relayer = s.newRelayer()
	}
	return s.relayer
}

func (s *Set) newRelayer() *Relayer {
	tests := s.counters("railhead_notifier_tests_total", "Tests of LISTEN by a notification from the relayer to itself.",
		"result")
	r := &Relayer{
		set:           s,
		notifications: s.counter("notify_wakeups_total", "Wake-ups of the relayer by a notification (NOTIFY)."),
		polls:         s.counter("railhead_poll_wakeups_total", "Wake-ups of the relayer by its poll."),
		received:      tests.WithLabelValues("heard"),
		missed:        tests.WithLabelValues("missed"),
		claims:        s.counter("claim_batches_total", "Committed claims that took at least one instruction."),
		claimSize:     s.histogram("railhead_claim_batch_size", "Instructions that one claim took.", batchBuckets),
		recordSize:    s.histogram("railhead_record_batch_size", "Outcomes that one transaction recorded.", batchBuckets),
		turns: s.histogram("railhead_turn_duration_seconds", "Time of one committed turn, record and claim together.",
			turnBuckets),
		failures: make(map[relayer.Failure]prometheus.Counter),
	}
	failures := s.counters("railhead_turn_failures_total", "Failed turns.", "kind")
	for _, kind := range relayer.Failures() {
		r.failures[kind] = failures.WithLabelValues(string(kind))
	}
	latency := s.histograms("dispatch_latency_ms", "Milliseconds from the commit of a claim to the end of its send.",
		latencyBuckets, "rail")
	sends := s.counters("railhead_rail_sends_total", "Claims that were to send, by result.", "rail", "result")
	inquiries := s.counters("railhead_rail_inquiries_total", "Claims that asked the rail, by result.", "rail", "result")
	unmapped := s.counters("railhead_rail_unmapped_codes_total", "Answers with a code that is not in the table.", "rail",
		"table")
	late := s.counters("railhead_late_outcomes_total",
		"Outcomes that lost the fence, or report as executed what the rail has refused in some answer, by verdict.",
		"rail", "verdict")
	r.rails = newPerRail(func(rail string) relayerRail {
		one := relayerRail{
			latency:   latency.WithLabelValues(rail).(prometheus.ExemplarObserver),
			sends:     byWord(sends, rail, append(payment.SendResults(), stopped)),
			inquiries: byWord(inquiries, rail, payment.InquiryResults()),
			unmapped:  byWord(unmapped, rail, append(codes.Names(), otherTable)),
			late:      byWord(late, rail, append(payment.Verdicts(), relayer.Forgotten)),
		}
		return one
	})
	return r
}

const (
	// stopped is the result of sends that one of our own checks stopped.
	stopped payment.Result = "STOPPED"
	// otherTable stands for every code table that is not built in.
	otherTable = "other"
)

// byWord returns a counter for each word of a closed list.
func byWord[W ~string](vec *prometheus.CounterVec, rail string, words []W) map[W]prometheus.Counter {
	all := make(map[W]prometheus.Counter, len(words))
	for _, word := range words {
		all[word] = vec.WithLabelValues(rail, strings.ToLower(string(word)))
	}
	return all
}

// count adds one for the word, or for the word that stands for all others.
func count[W ~string](all map[W]prometheus.Counter, word, other W) {
	c, ok := all[word]
	if !ok {
		c = all[other]
	}
	c.Inc()
}

// Notified implements relayer.Observer, as do the methods that follow.
func (r *Relayer) Notified() { r.notifications.Inc() }

// Poll counts a wake-up by the poll.
func (r *Relayer) Poll() { r.polls.Inc() }

// NotifierTested counts a test of the notifier.
func (r *Relayer) NotifierTested(lost bool) {
	if lost {
		r.missed.Inc()
		return
	}
	r.received.Inc()
}

// Claimed counts the claim rows of one claim.
func (r *Relayer) Claimed(claims []payment.Claim) {
	sends := 0
	for n := range claims {
		if claims[n].Action.ClaimState() == payment.Dispatching {
			sends++
		}
	}
	r.claims.Inc()
	r.claimSize.Observe(float64(len(claims)))
	r.set.rows[payment.Dispatching].Add(float64(sends))
	r.set.rows[payment.Inquiring].Add(float64(len(claims) - sends))
}

// Turn counts a committed turn.
func (r *Relayer) Turn(outcomes int, d time.Duration) {
	r.turns.Observe(d.Seconds())
	if outcomes > 0 {
		r.recordSize.Observe(float64(outcomes))
	}
}

// TurnFailed counts a failed turn.
func (r *Relayer) TurnFailed(kind relayer.Failure) { r.failures[kind].Inc() }

// CommitUnknown counts a commit whose answer was lost.
func (r *Relayer) CommitUnknown() { r.set.commitUnknown.Inc() }

// Recorded counts the rows of an outcome.
func (r *Relayer) Recorded(outcome payment.Outcome) { r.set.appended(outcome) }

// Late counts an outcome that went by the slow path.
func (r *Relayer) Late(outcome payment.Outcome, verdict payment.Verdict) {
	count(r.rails.of(outcome.Claim.RailType).late, verdict, payment.VerdictLate)
	r.set.weighed(outcome, verdict)
}

// Called counts the result of a claim.
func (r *Relayer) Called(call relayer.Call) {
	rail := r.rails.of(call.RailType)
	if call.UnmappedIn != "" {
		table, _, _ := strings.Cut(call.UnmappedIn, "@")
		count(rail.unmapped, table, otherTable)
	}
	if call.Action == payment.ActionInquire {
		count(rail.inquiries, call.Result, payment.ResultUnavailable)
		return
	}
	count(rail.sends, call.Result, stopped)
	if call.Latency <= 0 {
		return
	}
	millis := float64(call.Latency) / float64(time.Millisecond)
	if call.TraceID == "" {
		rail.latency.(prometheus.Observer).Observe(millis)
		return
	}
	rail.latency.ObserveWithExemplar(millis, prometheus.Labels{"trace_id": call.TraceID})
}

// Breaker creates the rail's counters, so that they exist from the start. The state itself is read
// at each scrape.
func (r *Relayer) Breaker(railType string, _ rails.BreakerState) { r.rails.of(railType) }
