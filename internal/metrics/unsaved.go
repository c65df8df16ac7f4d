package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Unsaved exports for how long a component, relayer, reaper or callbacks, could not write its memory of the server, in
// place of that of one before.
func (s *Set) Unsaved(component string, since func() time.Duration) {
	if s.unsaved == nil {
		s.unsaved = make(map[string]*atomic.Pointer[func() time.Duration])
	}
	if s.unsaved[component] == nil {
		now := &atomic.Pointer[func() time.Duration]{}
		now.Store(&since)
		s.unsaved[component] = now
		s.to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "railhead_state_unsaved_seconds", Help: "For how long the file in RAILHEAD_STATE_DIR could not be written.",
			ConstLabels: prometheus.Labels{"component": component},
		}, func() float64 { return (*now.Load())().Seconds() }))
	}
	s.unsaved[component].Store(&since)
}
