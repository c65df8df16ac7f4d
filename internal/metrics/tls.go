package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/internal/service"
)

// TLS exports the times of the files of TLS of a listener, api or console. They are the process's, for all its cells.
func (s *Set) TLS(listener string, files func() []service.TLSFile) {
	made := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"file"}, prometheus.Labels{"listener": listener})
	}
	s.registry.MustRegister(&tlsTimes{
		files: files,
		begins: made("railhead_tls_certificate_begins_timestamp_seconds",
			"When the certificate begins to be valid whose end is in the next metric."),
		expires: made("railhead_tls_certificate_expires_timestamp_seconds",
			"When the server's certificate ends, or the first of those that signed it; of client CAs the last and the first."),
		unread: made("railhead_tls_files_unread_seconds",
			"Since when the files of TLS can't be read, or hold nothing that is valid; 0: they are read."),
	})
}

type tlsTimes struct {
	files                   func() []service.TLSFile
	begins, expires, unread *prometheus.Desc
}

// Describe implements prometheus.Collector, as Collect does.
func (c *tlsTimes) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.begins
	ch <- c.expires
	ch <- c.unread
}

// Collect reads no file.
func (c *tlsTimes) Collect(ch chan<- prometheus.Metric) {
	for _, each := range c.files() {
		gauge(ch, c.begins, float64(each.Begins.Unix()), each.File)
		gauge(ch, c.expires, float64(each.Ends.Unix()), each.File)
		if !each.FirstEnds.IsZero() {
			gauge(ch, c.begins, float64(each.FirstBegins.Unix()), each.File+"_first")
			gauge(ch, c.expires, float64(each.FirstEnds.Unix()), each.File+"_first")
		}
		gauge(ch, c.unread, each.Unread.Seconds(), each.File)
	}
}
