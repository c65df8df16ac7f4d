// Package alerts holds what wakes on-call and what they then look at: the rules
// of Prometheus, their tests, the dashboards and a runbook for each alert.
//
// The rules are rendered from one template, so that all their durations share a
// scale: the committed files are scale 1, the end-to-end run renders its own.
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

// RulesFile are the committed rules, below Files.
const RulesFile = "rules/railhead.yaml"

const templateFile = "rules/rules.yaml.tmpl"

// Objectives of the budgets: the share of sends that may miss them is what burns.
const (
	successObjective = 0.995
	latencyObjective = 0.99
	// latencyBound is the bucket of dispatch_latency_ms that an answer must be in.
	latencyBound = 5 * time.Second
	// burnMin is how many sends must have missed an objective before it counts: one of ten is no rate.
	burnMin = 5
)

// Settings say how the rules are rendered; the committed ones are Settings{Scale: 1}.
type Settings struct {
	// Scale divides every duration of the rules; 1 to 600.
	Scale int
}

// ErrSettings refuses settings that make no rules.
var ErrSettings = errors.New("can't render rules with these settings")

// Render makes the file of rules.
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
		"d": s.duration, "s": s.seconds, "inc": s.increase, "links": links, "burns": burns,
		"windows": func() []string { return []string{"5m", "30m", "1h", "6h", "3d"} },
		// The bucket's label is "5000" or "5000.0", as the format of the scrape has it.
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

// Scaled is a duration of the rules as these settings render it.
func (s Settings) Scaled(d time.Duration) time.Duration { return d / time.Duration(s.Scale) }

// duration writes a Go duration or days ("3d") as PromQL has it.
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

// increase is what a counter gained in a window. PromQL's own increase sees
// nothing of what happened before a series' first sample, which is the first
// event ever and every event of a process that had just started. So a series
// whose process started within the window counts whole.
func (s Settings) increase(selector, window string) (string, error) {
	d, err := s.duration(window)
	if err != nil {
		return "", err
	}
	seconds, err := s.seconds(window)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%[1]s unless %[1]s offset %[2]s and on (job, instance) time() - process_start_time_seconds < %[3]s"+
		" or increase(%[1]s[%[2]s])", selector, d, seconds), nil
}

// burn is one severity of a budget's alert.
type burn struct {
	Severity string
	Spends   string // what of the budget it spends, for the description
	Pairs    []windows
}

// windows are a long and a short one, and how many times too fast the budget burns in both.
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

// runbooks is where readers find the runbooks.
const runbooks = "https://github.com/railhead-pay/railhead/blob/main/alerts/runbooks/"

// links are the annotations that lead from an alert to its runbook and its
// dashboard, which opens for the value of a label if one is named.
func links(alert, dashboard, label string) string {
	path := "/d/railhead-" + dashboard
	if label != "" {
		path += "?var-" + label + "={{ $labels." + label + " }}"
	}
	return fmt.Sprintf("          runbook_url: '%s%s.md#%s'\n          dashboard: '%s'", runbooks, alert, strings.ToLower(alert), path)
}
