package alerts

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Rule is one rule of the rules' file.
type Rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// ReadRules reads a file of rules, all groups in order.
func ReadRules(text []byte) ([]Rule, error) {
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []Rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("reading the rules: %w", err)
	}
	var all []Rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
}

// Headings are the sections of every runbook, in this order.
var Headings = []string{"Meaning", "Impact in money", "How to check", "What to do", "How to know it is over"}

// bundle is the set of files that check compares with each other.
type bundle struct {
	rules      []Rule
	tests      map[string][]byte // by file name without its folder
	dashboards map[string]dashboard
	runbooks   map[string]string
	metrics    catalogue
}

// dashboard has the fields of a Grafana dashboard that are checked.
type dashboard struct {
	UID    string  `json:"uid"`
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	ID          int      `json:"id"`
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Datasource  source   `json:"datasource"`
	Targets     []target `json:"targets"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type target struct {
	RefID string `json:"refId"`
	Expr  string `json:"expr"`
	SQL   string `json:"rawSql"`
}

// load reads a bundle; metrics is the text of docs/metrics.md.
func load(files fs.FS, metrics string) (bundle, error) {
	b := bundle{
		tests: make(map[string][]byte), dashboards: make(map[string]dashboard), runbooks: make(map[string]string),
		metrics: readCatalogue(metrics),
	}
	text, err := fs.ReadFile(files, RulesFile)
	if err != nil {
		return b, err
	}
	if b.rules, err = ReadRules(text); err != nil {
		return b, err
	}
	for pattern, keep := range map[string]func(name string, text []byte) error{
		"rules/tests/*": func(name string, text []byte) error { b.tests[name] = text; return nil },
		"runbooks/*":    func(name string, text []byte) error { b.runbooks[name] = string(text); return nil },
		"dashboards/*": func(name string, text []byte) error {
			var one dashboard
			err := json.Unmarshal(text, &one)
			b.dashboards[name] = one
			return err
		},
	} {
		names, err := fs.Glob(files, pattern)
		if err != nil {
			return b, err
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				return b, err
			}
			if err := keep(path.Base(name), text); err != nil {
				return b, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return b, nil
}

// check returns every disagreement between the files of a bundle.
func (b bundle) check() []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	names := make(map[string]bool)
	for _, rule := range b.rules {
		b.checkMetrics(cmpName(rule), rule.Expr, say)
		if rule.Alert != "" {
			names[rule.Alert] = true
			b.checkAlert(rule, say)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b.checkTests(name, say)
		b.checkRunbook(name, say)
	}
	for _, of := range []struct {
		kind, suffix string
		files        []string
	}{
		{"tests", ".yaml", slices.Sorted(maps.Keys(b.tests))}, {"a runbook", ".md", slices.Sorted(maps.Keys(b.runbooks))},
	} {
		for _, file := range of.files {
			if !names[strings.TrimSuffix(file, of.suffix)] {
				say("%s: %s of no alert", file, of.kind)
			}
		}
	}
	b.checkDashboards(say)
	return faults
}

func cmpName(rule Rule) string {
	if rule.Alert != "" {
		return rule.Alert
	}
	return rule.Record
}

func (b bundle) recorded() []string {
	var all []string
	for _, rule := range b.rules {
		if rule.Record != "" {
			all = append(all, rule.Record)
		}
	}
	return all
}

func (b bundle) checkMetrics(where, expr string, say func(string, ...any)) {
	found := selectors(expr)
	if len(found) == 0 {
		say("%s: no metric in %q", where, expr)
	}
	for _, s := range found {
		if fault := b.metrics.fault(s, b.recorded()); fault != "" {
			say("%s: %s", where, fault)
		}
	}
}

func (b bundle) checkAlert(rule Rule, say func(string, ...any)) {
	if severity := rule.Labels["severity"]; severity != "page" && severity != "ticket" {
		say("%s: severity %q; want page or ticket", rule.Alert, severity)
	}
	if !strings.Contains(rule.Annotations["summary"], "$value") {
		say("%s: the summary lacks the value", rule.Alert)
	}
	if rule.Annotations["description"] == "" {
		say("%s: no description", rule.Alert)
	}
	if want := runbooks + rule.Alert + ".md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want {
		say("%s: runbook_url %q; want %q", rule.Alert, rule.Annotations["runbook_url"], want)
	}
	uid, _, _ := strings.Cut(strings.TrimPrefix(rule.Annotations["dashboard"], "/d/"), "?")
	for _, one := range b.dashboards {
		if one.UID == uid {
			return
		}
	}
	say("%s: no dashboard has the uid of %q", rule.Alert, rule.Annotations["dashboard"])
}

func (b bundle) checkRunbook(alert string, say func(string, ...any)) {
	text, ok := b.runbooks[alert+".md"]
	if !ok {
		say("%s: no runbook", alert)
		return
	}
	if !strings.HasPrefix(text, "# "+alert+"\n") {
		say("%s: its runbook does not begin with its heading", alert)
	}
	var found []string
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			found = append(found, strings.TrimSpace(heading))
		}
	}
	if !slices.Equal(found, Headings) {
		say("%s: its runbook has the sections %q; want %q", alert, found, Headings)
	}
	if len(Commands(text, "How to check")) == 0 {
		say("%s: its runbook has no command to check with", alert)
	}
	for _, expr := range queries(text) {
		b.checkMetrics(alert+"'s runbook", expr, say)
	}
}

// query matches a command of a runbook that queries Prometheus.
var query = regexp.MustCompile(`(?m)^promtool query instant "\$PROMETHEUS_URL" '(.*)'$`)

// queries returns the PromQL expressions of a runbook's commands.
func queries(runbook string) []string {
	var all []string
	for _, found := range query.FindAllStringSubmatch(runbook, -1) {
		all = append(all, found[1])
	}
	return all
}

// Commands returns the blocks marked "console" in a section of a runbook, which work
// as written.
func Commands(runbook, section string) []string {
	_, text, _ := strings.Cut(runbook, "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var all []string
	for {
		_, block, ok := strings.Cut(text, "```console\n")
		if !ok {
			return all
		}
		block, text, _ = strings.Cut(block, "```")
		all = append(all, strings.TrimSpace(block))
	}
}

func (b bundle) checkDashboards(say func(string, ...any)) {
	uids := make(map[string]string)
	for _, file := range slices.Sorted(maps.Keys(b.dashboards)) {
		one := b.dashboards[file]
		if other, ok := uids[one.UID]; ok || one.UID == "" {
			say("%s: uid %q is empty, or is that of %s too", file, one.UID, other)
		}
		uids[one.UID] = file
		ids := make(map[int]bool)
		for _, p := range one.Panels {
			where := fmt.Sprintf("%s, panel %d %q", file, p.ID, p.Title)
			if p.ID < 1 || ids[p.ID] || p.Title == "" {
				say("%s: its id is not unique, or it has no title", where)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || len(p.Targets) == 0 {
				say("%s: no description, or no target", where)
			}
			for _, t := range p.Targets {
				if (t.Expr == "") == (t.SQL == "") || (t.SQL != "") != (p.Datasource.Type == sqlSource) {
					say("%s: target %s must have PromQL or SQL, whichever its data source takes", where, t.RefID)
				}
				if t.Expr != "" {
					b.checkMetrics(where, t.Expr, say)
				}
			}
		}
	}
}

// sqlSource is Grafana's name of the PostgreSQL data source.
const sqlSource = "grafana-postgresql-datasource"
