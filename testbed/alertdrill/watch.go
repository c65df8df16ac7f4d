package alertdrill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/test/promrun"
)

// episode is one alert with its labels, from when it was first seen until it was gone.
type episode struct {
	labels   string
	key      string // alert/severity
	summary  string
	seenAt   time.Time
	firedAt  time.Time // zero: pending
	resolved time.Time // zero: not yet
}

// watcher polls Prometheus for its alerts and records them.
type watcher struct {
	prom *promrun.Server

	mu   sync.Mutex
	open map[string]*episode
	all  []*episode
}

// watchEvery is the time between two polls.
const watchEvery = 100 * time.Millisecond

func newWatcher(prom *promrun.Server) *watcher {
	return &watcher{prom: prom, open: make(map[string]*episode)}
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		found, err := w.prom.Alerts(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("asking Prometheus for its alerts: %w", err)
		}
		w.note(found, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *watcher) note(found []promrun.Alert, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	there := make(map[string]bool)
	for _, alert := range found {
		labels := render(alert.Labels)
		there[labels] = true
		one, ok := w.open[labels]
		if !ok {
			one = &episode{labels: labels, key: alert.Labels["alertname"] + "/" + alert.Labels["severity"], seenAt: now}
			w.open[labels] = one
			w.all = append(w.all, one)
		}
		if alert.State == "firing" {
			one.summary = alert.Annotations["summary"]
			if one.firedAt.IsZero() {
				one.firedAt = now
			}
		}
	}
	for labels, one := range w.open {
		if !there[labels] {
			one.resolved = now
			delete(w.open, labels)
		}
	}
}

func render(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, " ")
}

// firing reports whether an alert fires now.
func (w *watcher) firing(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.open {
		if one.key == key && !one.firedAt.IsZero() {
			return true
		}
	}
	return false
}

// quiet reports whether nothing is pending or firing, and returns the labels of what is.
func (w *watcher) quiet() (bool, []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var left []string
	for labels := range w.open {
		left = append(left, labels)
	}
	return len(left) == 0, left
}

// firedSince returns the alerts that began to fire at or after a moment, by key.
func (w *watcher) firedSince(moment time.Time) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := make(map[string]string)
	for _, one := range w.all {
		if !one.firedAt.IsZero() && !one.firedAt.Before(moment) {
			found[one.key] = one.labels
		}
	}
	return found
}
