package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// listedVariables are the variables of railhead help environment, by name.
func listedVariables(t *testing.T) map[string]variable {
	t.Helper()
	listed := make(map[string]variable)
	for _, group := range environment() {
		for _, v := range group.list {
			if _, twice := listed[v.name]; twice {
				t.Errorf("%s is listed twice", v.name)
			}
			listed[v.name] = v
		}
	}
	return listed
}

// notListed are no settings of Railhead: the proof that starts a build with the tag
// faultpoint sets the first two, and the system the third.
var notListed = []string{"RAILHEAD_FAULTPOINT_SOCKET", "RAILHEAD_FAULTPOINT_POINTS", "PATH"}

// TestEnvironmentIsComplete: every variable that the code or a script reads is listed,
// and every one that is listed is read.
func TestEnvironmentIsComplete(t *testing.T) {
	t.Parallel()
	listed, ours := listedVariables(t), make(variablesRead)
	for _, root := range []string{
		"acl", "alerts", "cmd", "console", "ingest", "internal", "ledger", "migrations", "outbox", "payment", "proofs",
		"rails", "railsim", "reaper", "relayer", "schedule", "testbed",
	} {
		ours.addGo(t, filepath.Join("../..", root))
	}
	ours.addText(t, "../../Makefile")
	scripts, err := filepath.Glob("../../scripts/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		ours.addText(t, script)
	}
	pgx := make(variablesRead)
	pgx.addGo(t, filepath.Join(moduleDir(t, "github.com/jackc/pgx/v5"), "pgconn"))
	// The SDK has many more, which are left to its own documentation.
	sdk := make(variablesRead)
	sdk.addGo(t, moduleDir(t, "go.opentelemetry.io/otel/sdk"))
	if len(pgx) < 20 || len(sdk) < 5 || len(ours) < 40 {
		t.Fatalf("only %d variables of pgx, %d of the OpenTelemetry SDK and %d of our own were found", len(pgx), len(sdk),
			len(ours))
	}
	for _, read := range []variablesRead{ours, pgx} {
		for name, where := range read {
			if _, ok := listed[name]; !ok && !slices.Contains(notListed, name) {
				t.Errorf("%s is read in %s, and railhead help environment does not list it", name, where)
			}
		}
	}
	for name := range listed {
		if ours[name] == "" && pgx[name] == "" && sdk[name] == "" {
			t.Errorf("railhead help environment lists %s, which nothing reads", name)
		}
	}
}

// variablesRead are names of variables, with the file where each was found.
type variablesRead map[string]string

var (
	variableName = regexp.MustCompile(`^(RAILHEAD_[A-Z0-9_]+|OTEL_[A-Z0-9_]+|PG[A-Z]{2,}|PGCONNECT_TIMEOUT|[A-Z]+_DATABASE_URL)$`)
	variableText = regexp.MustCompile(`\b(RAILHEAD|OTEL)_[A-Z0-9_]+\b`)
	variableTag  = regexp.MustCompile(`\benv:"([^"]+)"`)
)

// addGo finds the variables of the Go files below a folder, except for tests, files for
// Windows and the list itself: literals that have the form of one, literals in calls of
// Getenv and LookupEnv, and tags of env.
func (v variablesRead) addGo(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		others := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_windows.go") ||
			filepath.Base(path) == "environment_list.go"
		if err != nil || entry.IsDir() || others || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.BasicLit:
				if name, err := strconv.Unquote(node.Value); err == nil && variableName.MatchString(name) {
					v[name] = path
				}
			case *ast.CallExpr:
				if name := lookedUp(node); name != "" {
					v[name] = path
				}
			case *ast.Field:
				if node.Tag != nil {
					if tag := variableTag.FindStringSubmatch(node.Tag.Value); tag != nil {
						v[tag[1]] = path
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lookedUp is the literal that a call asks the environment for; empty: it does not.
func lookedUp(call *ast.CallExpr) string {
	function := ""
	switch called := call.Fun.(type) {
	case *ast.Ident:
		function = called.Name
	case *ast.SelectorExpr:
		function = called.Sel.Name
	}
	if !strings.EqualFold(function, "getenv") && function != "LookupEnv" || len(call.Args) != 1 {
		return ""
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return ""
	}
	name, _ := strconv.Unquote(literal.Value) // what is no string is no name
	return name
}

// addText finds the variables that a script or the Makefile names.
func (v variablesRead) addText(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range variableText.FindAllString(string(text), -1) {
		v[name] = path
	}
}

func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("go list %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// TestEnvironmentDefaults holds the defaults to those of the settings.
func TestEnvironmentDefaults(t *testing.T) {
	t.Parallel()
	listed := listedVariables(t)
	for field := range reflect.TypeFor[settings]().Fields() {
		name, standard := field.Tag.Get("env"), field.Tag.Get("envDefault")
		if standard != "" && listed[name].standard != standard {
			t.Errorf("the default of %s is %q, the list says %q", name, standard, listed[name].standard)
		}
	}
}

// TestEnvironmentHelp: the topic has every variable at the beginning of a line, and
// fits into a terminal.
func TestEnvironmentHelp(t *testing.T) {
	t.Parallel()
	help := command{t: t}.want(exitOK, "help", "environment").out
	for name := range listedVariables(t) {
		if !strings.Contains(help, "\n  "+name+"  ") {
			t.Errorf("help environment lacks %s", name)
		}
	}
	for line := range strings.Lines(help) {
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > helpWidth {
			t.Errorf("%d characters: %s", width, line)
		}
	}
}

// TestEnvironmentPage holds the last section of docs/operations.md to the list; go test
// -update writes it anew.
func TestEnvironmentPage(t *testing.T) {
	t.Parallel()
	const path, heading = "../../docs/operations.md", "\n## Environment variables\n\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, section, found := strings.Cut(string(page), heading)
	if !found || strings.Contains(section, "\n## ") {
		t.Fatal("docs/operations.md does not end with a section Environment variables")
	}
	var want strings.Builder
	want.WriteString("`railhead help environment` prints this list.\n")
	for _, group := range environment() {
		fmt.Fprintf(&want, "\n### %s\n\n%s\n\n| variable | default | meaning |\n|---|---|---|\n", group.title, group.about)
		for _, v := range group.list {
			fmt.Fprintf(&want, "| `%s` | %s | %s |\n", v.name, orNone(v.standard), v.purpose)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+heading+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if section != want.String() {
		t.Errorf("the section Environment variables of docs/operations.md is not the list (go test -update writes it "+
			"anew); want\n%s", want.String())
	}
}
