// Package alerts holds the alerts of Railhead: rules for Prometheus, their tests,
// dashboards for Grafana and a runbook for each alert.
//
// The rules are rendered from one template, so that all their durations share a
// scale: the committed file has scale 1, and the end-to-end run renders its own.
package alerts

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// Files are the committed rules, their tests, dashboards and runbooks.
//
//go:embed rules dashboards runbooks
var Files embed.FS

// RulesFile is the file of the committed rules in Files.
const RulesFile = "rules/railhead.yaml"

const templateFile = "rules/rules.yaml.tmpl"

// Objectives of the budgets. The share of sends that may miss an objective is its budget.
const (
	successObjective = 0.995
	latencyObjective = 0.99
	// latencyBound is the bucket of dispatch_latency_ms within which a send meets the objective.
	latencyBound = 5 * time.Second
	// burnMin is the number of sends that must have missed an objective before an alert
	// fires: one failure among ten sends shows no rate.
	burnMin = 5
)

// Settings are the parameters of the rules; the committed rules have Settings{Scale: 1}.
type Settings struct {
	// Scale divides every duration of the rules; 1 to 600.
	Scale int
}

// ErrSettings reports settings for which no rules can be rendered.
var ErrSettings = errors.New("can't render rules with these settings")

// Render returns the file of rules.
func Render(s Settings) ([]byte, error) {
	if s.Scale < 1 || s.Scale > 600 {
		return nil, fmt.Errorf("%w: scale %d; 1 to 600", ErrSettings, s.Scale)
	}
	parsed, err := template.New("rules.yaml.tmpl").Delims("<<", ">>").Funcs(s.funcs()).ParseFS(Files, templateFile)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("# Rendered from rules.yaml.tmpl by: go test ./alerts -run TestCommitted -update\n")
	if err := parsed.Execute(&out, nil); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (s Settings) funcs() template.FuncMap {
	return template.FuncMap{
		"d": s.duration, "s": s.seconds, "inc": s.increase, "rose": s.rise, "links": links, "burns": burns,
		"senders": senders, "turns": turns,
		"windows": func() []string { return []string{"5m", "30m", "1h", "6h", "3d"} },
		// The bucket's label is "5000" or "5000.0", depending on the format of the scrape.
		"latencyBucket": func() string {
			return fmt.Sprintf(`dispatch_latency_ms_bucket{le=~"%d(\\.0)?"}`, latencyBound.Milliseconds())
		},
		"burnMin":          func() int { return burnMin },
		"successBudget":    func() string { return budget(successObjective) },
		"latencyBudget":    func() string { return budget(latencyObjective) },
		"successObjective": func() string { return percent(successObjective) },
		"latencyObjective": func() string { return percent(latencyObjective) },
		"latencyBound":     func() string { return latencyBound.String() },
	}
}

// Scaled returns a duration of the rules as these settings render it.
func (s Settings) Scaled(d time.Duration) time.Duration { return d / time.Duration(s.Scale) }

// duration converts a Go duration or days ("3d") to a scaled duration of PromQL.
func (s Settings) duration(text string) (string, error) {
	whole, err := parseDuration(text)
	if err != nil {
		return "", err
	}
	switch scaled := s.Scaled(whole); {
	case scaled%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", scaled/(24*time.Hour)), nil
	case scaled%time.Hour == 0:
		return fmt.Sprintf("%dh", scaled/time.Hour), nil
	case scaled%time.Minute == 0:
		return fmt.Sprintf("%dm", scaled/time.Minute), nil
	case scaled%time.Second == 0:
		return fmt.Sprintf("%ds", scaled/time.Second), nil
	default:
		return fmt.Sprintf("%dms", max(scaled.Milliseconds(), 1)), nil
	}
}

func (s Settings) seconds(text string) (string, error) {
	whole, err := parseDuration(text)
	return strconv.FormatFloat(s.Scaled(whole).Seconds(), 'g', 6, 64), err
}

func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// increase is an expression for what a counter gained in a window. PromQL's own
// increase misses everything before a series' first sample: the first event ever, and
// every event of a process that has just started. So the whole value of a series counts
// if its process started within the window.
func (s Settings) increase(selector, window string) (string, error) {
	d, err := s.duration(window)
	if err != nil {
		return "", err
	}
	seconds, err := s.seconds(window)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%[1]s unless %[1]s offset %[2]s and on (job, instance) time() - process_start_time_seconds < "+
		"%[3]s"+
		" or increase(%[1]s[%[2]s])", selector, d, seconds), nil
}

// rise is an expression for a gauge, of each process by itself, that is higher than a minute ago and was not 0 then;
// with a window, for the lowest value that it had in it. A process that was away for some minutes goes on from its last
// value.
func (s Settings) rise(selector, window string) (string, error) {
	short, err := s.duration("1m")
	long, err2 := s.duration("5m")
	if err := errors.Join(err, err2); err != nil {
		return "", err
	}
	if window == "" {
		return fmt.Sprintf("%[1]s > (last_over_time(%[1]s[%[2]s] offset %[3]s) > 0)", selector, long, short), nil
	}
	lowest, err := s.duration(window)
	return fmt.Sprintf("min_over_time(%[1]s[%[2]s]) > (min_over_time(%[1]s[%[2]s] offset %[3]s) > 0)",
		selector, lowest, short), err
}

// turn is how long reapers may be seen to complete no turn.
type turn struct {
	Window  string
	Within  string // where none of the cell takes longer from one turn to the end of the next; empty: as long as it may
	Overdue string // by how much a turn is overdue at least, after the window
}

// turns returns the windows in which some reaper has to complete a turn: a short one where all are to be as fast,
// and one that is longer than the longest time between turns (10 min) and the longest turn (5 min) together.
func turns() []turn {
	return []turn{{"5m", "2m", "3m"}, {"20m", "", "5m"}}
}

// sender is a kind of component that alerts learn of by its own metrics.
type sender struct {
	Kind      string // in the label kind of railhead_components
	Component string // in the label component of railhead_component_info
}

func senders() []sender {
	return []sender{{"relayer", "relayer"}, {"reaper", "reaper"}, {"ingest", "api"}, {"callback", "callbacks"},
		{"events", "events"}}
}

// burn is one severity of a budget's alert.
type burn struct {
	Severity string
	Spends   string // how fast the budget is spent, for the description
	Pairs    []windows
}

// windows are a long and a short window, and the factor by which the budget burns too fast in both.
type windows struct {
	Long, Short string
	Factor      float64
}

func burns() []burn {
	return []burn{
		{"page", "the budget of a month is gone within 5 days, or 2", []windows{{"1h", "5m", 14.4}, {"6h", "30m", 6}}},
		{"ticket", "the budget of a month is spent before its end", []windows{{"3d", "6h", 1}}},
	}
}

func budget(objective float64) string  { return strconv.FormatFloat(1-objective, 'g', 3, 64) }
func percent(objective float64) string { return strconv.FormatFloat(100*objective, 'g', 4, 64) + " %" }

// runbooks is the address of the runbooks.
const runbooks = "https://github.com/railhead-pay/railhead/blob/main/alerts/runbooks/"

// links returns the annotations that link an alert to its runbook and its dashboard.
// With a label, the dashboard opens for the value of that label.
func links(alert, dashboard, label string) string {
	path := "/d/railhead-" + dashboard
	if label != "" {
		path += "?var-" + label + "={{ $labels." + label + " }}"
	}
	return fmt.Sprintf("          runbook_url: '%s%s.md#%s'\n          dashboard: '%s'", runbooks, alert,
		strings.ToLower(alert), path)
}
