// Package metrics exports metrics of the components and the database for Prometheus.
// docs/metrics.md is its catalogue, and a test compares the two.
//
// Events of a component are counted where they happen, by counters that are looked up once. The
// state of the database is read in the background and cached: a scrape never waits for the
// database.
package metrics

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/railhead-pay/railhead/payment"
)

// Set contains the metrics of one process, or those of one of its cells.
type Set struct {
	registry *prometheus.Registry
	to       prometheus.Registerer // the registry, by way of the cell's label if the set has one
	// Counters that several components of one process share.
	rows          map[payment.State]prometheus.Counter
	commitUnknown prometheus.Counter
	// What a component that is made anew goes on with.
	relayer *Relayer
	reaper  *Reaper
	lanes   *lanes
	unsaved map[string]*atomic.Pointer[func() time.Duration]
	// The components of the process.
	components []string
}

// New returns the metrics of a process that runs these components: relayer, reaper, callbacks, api,
// events or console.
func New(version string, components ...string) *Set {
	s := NewShared(version, components...)
	s.runs()
	return s
}

// NewShared is New for a process whose components each serve several cells: what they count has no label of a
// cell. Cell returns the set of each of these.
func NewShared(version string, components ...string) *Set {
	s := newSet(version, components)
	s.shared()
	return s
}

// NewOfCells is New for a process that runs these components for each of several cells. Every set has
// the label cell on what it counts and reads; Go, the process and the build have none.
func NewOfCells(version string, cells []string, components ...string) (all []*Set) {
	process := newSet(version, components)
	for _, cell := range cells {
		one := process.Cell(cell)
		one.shared()
		all = append(all, one)
	}
	return all
}

// Cell returns a set of the same process for what is read from one of several cells, with the label
// cell. The counters that components share are the process's.
func (s *Set) Cell(cell string) *Set {
	one := &Set{registry: s.registry, rows: s.rows, commitUnknown: s.commitUnknown, components: s.components,
		to: prometheus.WrapRegistererWith(prometheus.Labels{"cell": cell}, s.registry)}
	one.runs()
	return one
}

func newSet(version string, components []string) *Set {
	s := &Set{registry: prometheus.NewRegistry(), components: components}
	s.to = s.registry
	s.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	info := s.gauges("railhead_build_info", "What runs here.", "version", "go_version", "component")
	for _, component := range components {
		info.WithLabelValues(version, runtime.Version(), component).Set(1)
	}
	return s
}

// runs says which components run here for the cell of the set. It needs no database, and so rules count by it what is
// scraped.
func (s *Set) runs() {
	info := s.gauges("railhead_component_info", "A component that runs here.", "component")
	for _, component := range s.components {
		info.WithLabelValues(component).Set(1)
	}
}

// shared makes the counters that several components of a process share.
func (s *Set) shared() {
	s.rows = make(map[payment.State]prometheus.Counter)
	rows := s.counters("attempts_total", "Rows that this process appended to the archive, by state.", "state")
	for _, state := range payment.States() {
		s.rows[state] = rows.WithLabelValues(string(state))
	}
	s.commitUnknown = s.counter("railhead_commit_unknown_total", "Commits whose answer was lost.")
}

// Bounds of one scrape.
const (
	scrapesMax    = 4
	scrapeTimeout = 5 * time.Second
)

// Handler serves scrapes, in OpenMetrics on request.
func (s *Set) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		Registry: nil, EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesMax, Timeout: scrapeTimeout, ErrorLog: errorLog{log},
	})
}

// errorLog passes the errors of scrapes to the log.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(all ...any) {
	l.log.Error("answering a scrape", "error", fmt.Sprint(all...))
}

func (s *Set) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	s.to.MustRegister(c)
	return c
}

func (s *Set) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	s.to.MustRegister(c)
	return c
}

func (s *Set) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	s.to.MustRegister(g)
	return g
}

func (s *Set) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	s.to.MustRegister(g)
	return g
}

func (s *Set) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(histogramOpts(name, help, buckets))
	s.to.MustRegister(h)
	return h
}

func (s *Set) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(histogramOpts(name, help, buckets), labels)
	s.to.MustRegister(h)
	return h
}

// histogramOpts returns options with classic buckets, for scrapers that ask for them, and native
// ones.
func histogramOpts(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

var (
	latencyBuckets = []float64{5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000}
	turnBuckets    = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
	batchBuckets   = []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 5000}
)
