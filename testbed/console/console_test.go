package console

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// route is what the console registers, up to the comma that follows its pattern.
var route = regexp.MustCompile(`mux\.HandleFunc\(([^,]+),`)

// computed are patterns that are no plain text in the source, by their expression.
var computed = map[string][]string{
	`"GET "+streamPath`: {"GET /stream"},
}

// routes are the patterns that the console registers.
func routes(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../console/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	found := make(map[string]bool)
	matches := route.FindAllStringSubmatch(all.String(), -1)
	for _, match := range matches {
		patterns := computed[match[1]]
		if text, err := strconv.Unquote(match[1]); err == nil {
			patterns = []string{text}
		}
		if len(patterns) == 0 {
			t.Errorf("the pattern %s is no plain text: name in computed what it is", match[1])
		}
		for _, pattern := range patterns {
			found[pattern] = true
		}
	}
	if calls := strings.Count(all.String(), "mux.Handle"); calls != len(matches) || calls < 15 {
		t.Fatalf("%d of %d routes are read", len(matches), calls)
	}
	return found
}

// TestStepsCoverRoutes holds the steps to the routes of the console: each page and each act is gone through, or it
// is said why not.
func TestStepsCoverRoutes(t *testing.T) {
	t.Parallel()
	all := routes(t)
	covered := make(map[string]bool)
	for _, step := range Steps {
		covered[step.Route] = true
		if !all[step.Route] {
			t.Errorf("the step at %s is of route %q, which the console does not have", step.At, step.Route)
		}
	}
	for pattern := range all {
		if covered[pattern] == (apart[pattern] != "") {
			t.Errorf("route %q: it needs a line of Steps, or a reason in apart, and not both", pattern)
		}
	}
	for pattern := range apart {
		if !all[pattern] {
			t.Errorf("apart has %q, which the console does not have", pattern)
		}
	}
}

// TestPageNamesSettings holds docs/console.md to the list of variables.
func TestPageNamesSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/console.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `RAILHEAD_CONSOLE_.*$").FindAllString(string(list), -1)
	if len(rows) < 10 {
		t.Fatalf("only %d variables are listed", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/console.md lacks the row %s", row)
		}
	}
}

// TestStepsCoverActs holds the steps to the acts on a payment, and to the payments that are made for them.
func TestStepsCoverActs(t *testing.T) {
	t.Parallel()
	done := make(map[string]bool)
	for _, step := range Steps {
		done[step.Act] = true
	}
	acts := explain.Acts(reader.Timeline{})
	for _, act := range acts {
		if !done[act.Name] {
			t.Errorf("no step does %s", act.Name)
		}
	}
	if len(acts) < 8 {
		t.Errorf("only %d acts are known", len(acts))
	}
	made := names{"today": "TODAY", "participant": "WHO"}
	for _, one := range kinds {
		made[one.name], made[one.name+".id"], made[one.name+".amount"] = "ID", "ID", "ID"
	}
	for _, step := range Steps {
		var fields strings.Builder
		for _, field := range step.Fields {
			fields.WriteString(field.Value)
		}
		for _, text := range append([]string{step.At, step.Link, step.Form, step.Leads, fields.String()}, step.Sees...) {
			if text = made.in(text); strings.ContainsAny(text, "{}") {
				t.Errorf("the step at %s names a payment that is not made: %s", step.At, text)
			}
		}
	}
}

// TestByHandCoversActs holds the requests by hand to the routes of acts.
func TestByHandCoversActs(t *testing.T) {
	t.Parallel()
	all := routes(t)
	for pattern := range all {
		of, isAct := strings.CutPrefix(pattern, "POST ")
		if isAct = isAct && of != "/logout" && !strings.HasPrefix(of, "/login/"); isAct != (len(byHand[pattern]) > 0) {
			t.Errorf("route %q: is an act %t, requests by hand %q", pattern, isAct, byHand[pattern])
		}
	}
	for pattern := range byHand {
		if !all[pattern] {
			t.Errorf("byHand has %q, which the console does not have", pattern)
		}
	}
	for _, act := range explain.Acts(reader.Timeline{}) {
		if !slices.ContainsFunc(byHand["POST /payments/{id}/{act}"], func(address string) bool {
			return strings.HasSuffix(address, "/"+act.Name)
		}) {
			t.Errorf("no request by hand does %s", act.Name)
		}
	}
	matrix, err := acl.Load()
	if err != nil {
		t.Fatal(err)
	}
	if calls := operatorCalls(matrix); len(calls) < 15 || !slices.Contains(calls, "resume_rail(NULL::text, NULL::text)") {
		t.Errorf("the functions of operators are %q", calls)
	}
}
