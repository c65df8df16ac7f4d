package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/payment"
)

// Callbacks counts the callbacks of rails. It is a callback.Observer.
type Callbacks struct {
	set   *Set
	rails *perRail[map[string]prometheus.Counter]
}

// Callbacks returns the metrics of the receiver for these rails.
func (s *Set) Callbacks(railTypes []string) *Callbacks {
	words := []string{callback.Unsigned, callback.Unreadable, callback.NoNews, callback.Unmapped,
		callback.NotOurs, callback.Failed, callback.Unread, callback.Missed}
	for _, verdict := range payment.Verdicts() {
		words = append(words, string(verdict))
	}
	all := s.counters("railhead_callbacks_total", "Callbacks of rails, by what was made of them.", "rail", "result")
	c := &Callbacks{set: s, rails: newPerRail(func(rail string) map[string]prometheus.Counter {
		return byWord(all, rail, words)
	})}
	for _, rail := range railTypes {
		c.rails.of(rail)
	}
	return c
}

// Received implements callback.Observer, as do the methods that follow.
func (c *Callbacks) Received(railType, what string) {
	count(c.rails.of(railType), what, callback.Unreadable)
}

// Recorded counts the rows that the evidence made. A repeated callback is the ledger's own row.
func (c *Callbacks) Recorded(outcome payment.Outcome, verdict payment.Verdict) {
	if verdict == payment.VerdictIn {
		c.set.appended(outcome)
		return
	}
	c.set.weighed(outcome, verdict)
}
