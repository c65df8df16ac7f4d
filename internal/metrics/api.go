package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/ingest/api"
)

// API counts the answers of the HTTP API. It is an api.Observer.
type API struct {
	set     *Set
	answers map[string]map[string]prometheus.Counter // by operation and class of status
	took    map[string]prometheus.Observer
	refused map[string]prometheus.Counter
	waiting prometheus.Gauge
	streams prometheus.Gauge
	cut     prometheus.Counter
}

// classes are the classes of statuses, as in the label.
var classes = []string{"2xx", "4xx", "5xx"}

// tokenRefusals are the reasons for the refusal of a token, as in the label.
var tokenRefusals = []string{"none", "unknown", "not_in_force", "over_quota"}

// API returns the metrics of the API.
func (s *Set) API() *API {
	answers := s.counters("railhead_api_answers_total", "Answers of the HTTP API, by operation and class of status.",
		"operation", "class")
	took := s.histograms("railhead_api_request_duration_seconds", "Time from a request's header to the end of its answer.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, "operation")
	refused := s.counters("railhead_api_tokens_refused_total", "Requests that were refused for their token.", "reason")
	a := &API{set: s, answers: make(map[string]map[string]prometheus.Counter), took: make(map[string]prometheus.Observer),
		refused: byWordOf(refused, tokenRefusals)}
	for _, operation := range api.Operations() {
		a.answers[operation] = make(map[string]prometheus.Counter)
		for _, class := range classes {
			a.answers[operation][class] = answers.WithLabelValues(operation, class)
		}
		a.took[operation] = took.WithLabelValues(operation)
	}
	a.waiting = s.gauge("railhead_api_waiting", "Requests that wait for an outcome.")
	a.streams = s.gauge("railhead_api_streams", "Streams of events that are open.")
	a.cut = s.counter("railhead_api_streams_cut_total",
		"Streams of events that were ended because their caller did not keep up.")
	return a
}

func byWordOf(all *prometheus.CounterVec, words []string) map[string]prometheus.Counter {
	made := make(map[string]prometheus.Counter, len(words))
	for _, word := range words {
		made[word] = all.WithLabelValues(word)
	}
	return made
}

// Answered implements api.Observer, as do the methods that follow.
func (a *API) Answered(operation string, status int, took time.Duration) {
	class := strconv.Itoa(status/100) + "xx"
	if counter := a.answers[operation][class]; counter != nil {
		counter.Inc()
	}
	if observer := a.took[operation]; observer != nil && took >= 0 {
		observer.Observe(took.Seconds())
	}
}

// TokenRefused counts a request that was refused for its token.
func (a *API) TokenRefused(reason string) {
	if counter := a.refused[reason]; counter != nil {
		counter.Inc()
	}
}

// CommitUnknown counts an answer that could not state whether anything was stored.
func (a *API) CommitUnknown() { a.set.commitUnknown.Inc() }

// Waiting counts requests that wait for an outcome.
func (a *API) Waiting(delta int) { a.waiting.Add(float64(delta)) }

// Streaming counts open streams of events.
func (a *API) Streaming(delta int) { a.streams.Add(float64(delta)) }

// StreamCut counts a stream whose caller did not keep up.
func (a *API) StreamCut() { a.cut.Inc() }
