package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/ingest/webhook"
)

// Webhooks counts the deliveries to callers' endpoints. It is a webhook.Observer.
type Webhooks struct {
	tries                      map[string]map[string]prometheus.Counter // by endpoint and result
	lag, waiting, givenUp, has map[string]prometheus.Gauge
	stopped                    map[string]map[string]prometheus.Gauge // by endpoint and why
}

// Results of deliveries, as in the label.
const (
	resultTaken       = "taken"
	resultRefused     = "refused"     // any answer but 2xx
	resultUnreachable = "unreachable" // no connection
	resultNoAnswer    = "no_answer"   // none in time, or none that is readable
)

// Webhooks returns the metrics of the endpoints of a file.
func (s *Set) Webhooks(file webhook.File) *Webhooks {
	tries := s.counters("railhead_webhook_deliveries_total", "Tries to deliver an event to an endpoint, by result.",
		"endpoint", "result")
	lag := s.gauges("railhead_webhook_lag_seconds",
		"Age of the oldest event that the endpoint has not taken, or of the last reading while events can't be read; "+
			"0: it has taken all.", "endpoint")
	waiting := s.gauges("railhead_webhook_waiting", "Events that wait to be delivered to the endpoint again.", "endpoint")
	givenUp := s.gauges("railhead_webhook_given_up", "Events of those that are not tried by themselves any more.",
		"endpoint")
	has := s.gauges("railhead_webhook_delivering", "1 where this process delivers to the endpoint.", "endpoint")
	stopped := s.gauges("railhead_webhook_stopped", "1 where the endpoint is down, or paused.", "endpoint", "why")
	w := &Webhooks{
		tries: make(map[string]map[string]prometheus.Counter), stopped: make(map[string]map[string]prometheus.Gauge),
		lag: make(map[string]prometheus.Gauge), waiting: make(map[string]prometheus.Gauge),
		givenUp: make(map[string]prometheus.Gauge), has: make(map[string]prometheus.Gauge),
	}
	for _, endpoint := range file.Endpoints {
		w.tries[endpoint.ID] = byWord(tries, endpoint.ID, []string{resultTaken, resultRefused, resultUnreachable,
			resultNoAnswer})
		w.lag[endpoint.ID], w.waiting[endpoint.ID] = lag.WithLabelValues(endpoint.ID), waiting.WithLabelValues(endpoint.ID)
		w.givenUp[endpoint.ID], w.has[endpoint.ID] = givenUp.WithLabelValues(endpoint.ID), has.WithLabelValues(endpoint.ID)
		w.stopped[endpoint.ID] = map[string]prometheus.Gauge{
			"down": stopped.WithLabelValues(endpoint.ID, "down"), "paused": stopped.WithLabelValues(endpoint.ID, "paused"),
		}
	}
	return w
}

// Delivered implements webhook.Observer, as do the methods that follow.
func (w *Webhooks) Delivered(endpoint string) { w.tries[endpoint][resultTaken].Inc() }

// NotDelivered counts a delivery that the endpoint did not accept.
func (w *Webhooks) NotDelivered(endpoint, status string) {
	result := resultUnreachable
	switch {
	case strings.HasPrefix(status, "HTTP_"):
		result = resultRefused
	case status == webhook.StatusTimeout, status == webhook.StatusNoAnswer:
		result = resultNoAnswer
	}
	w.tries[endpoint][result].Inc()
}

// Seen sets the state of an endpoint.
func (w *Webhooks) Seen(endpoint string, state webhook.State) {
	w.lag[endpoint].Set(state.Lag.Seconds())
	w.waiting[endpoint].Set(float64(state.Waiting))
	w.givenUp[endpoint].Set(float64(state.GivenUp))
	w.has[endpoint].Set(flag(state.Has))
	w.stopped[endpoint]["down"].Set(flag(state.Down))
	w.stopped[endpoint]["paused"].Set(flag(state.Paused))
}
