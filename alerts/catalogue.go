package alerts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// catalogue is the content of docs/metrics.md: the labels of each metric, with their
// values where the page lists them.
type catalogue map[string]map[string][]string

var backticked = regexp.MustCompile("`([^`]*)`")

// readCatalogue reads the tables of docs/metrics.md. A histogram has three series. The
// metrics that the rules use of Prometheus itself and of every process are added.
func readCatalogue(text string) catalogue {
	all := catalogue{"process_start_time_seconds": {}, "up": {}}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		name := strings.Trim(cells[1], " `")
		labels := readLabels(cells[3])
		if strings.TrimSpace(cells[2]) != "histogram" {
			all[name] = labels
			continue
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			all[name+suffix] = labels
		}
	}
	return all
}

// readLabels reads a cell such as: `rail`, `state` = `open`, `closed`; `by` = ...
func readLabels(cell string) map[string][]string {
	labels := make(map[string][]string)
	for part := range strings.SplitSeq(cell, ";") {
		left, right, _ := strings.Cut(part, "=")
		last := ""
		for _, found := range backticked.FindAllStringSubmatch(left, -1) {
			last = found[1]
			labels[last] = nil
		}
		for _, found := range backticked.FindAllStringSubmatch(right, -1) {
			labels[last] = append(labels[last], found[1])
		}
		if strings.Contains(right, " as `") {
			labels[last] = nil // those of another metric, or of the database
		}
	}
	return labels
}

// added are the labels that the scrape or the kind of the series adds.
var added = []string{"job", "instance", "cell", "le"}

// fault describes what is wrong with a selector, or returns an empty string. recorded
// are the names of recording rules.
func (c catalogue) fault(s selector, recorded []string) string {
	if slices.Contains(recorded, s.metric) {
		return ""
	}
	labels, ok := c[s.metric]
	if !ok {
		return fmt.Sprintf("metric %s is not in docs/metrics.md", s.metric)
	}
	for _, m := range s.matchers {
		values, ok := labels[m.label]
		if !ok && !slices.Contains(added, m.label) {
			return fmt.Sprintf("metric %s has no label %s", s.metric, m.label)
		}
		if len(values) == 0 || strings.Contains(m.value, "$") {
			continue
		}
		for value := range strings.SplitSeq(m.value, "|") {
			if !slices.Contains(values, value) {
				return fmt.Sprintf("label %s of metric %s is never %q", m.label, s.metric, value)
			}
		}
	}
	return ""
}
