package alerts

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func metricsDoc(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestEverythingFits holds rules, tests, dashboards, runbooks and docs/metrics.md
// against each other.
func TestEverythingFits(t *testing.T) {
	t.Parallel()
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range b.check() {
		t.Error(fault)
	}
}

// TestWhatDoesNotFitIsNoticed breaks one thing at a time.
func TestWhatDoesNotFitIsNoticed(t *testing.T) {
	t.Parallel()
	const notifier = "RailheadNotifierLost"
	for name, c := range map[string]struct {
		file, old, new string
		want           string
	}{
		"a metric that is not exported":      {RulesFile, "max by (cell) (stuck_dispatching_count)", "max by (cell) (stuck_dispatches)", "stuck_dispatches is not in docs/metrics.md"},
		"a metric misspelt in a window":      {RulesFile, "min_over_time(dlq_depth[15m])", "min_over_time(dlq_depths[15m])", "dlq_depths is not in docs/metrics.md"},
		"a label that is not there":          {RulesFile, `railhead_rail_paused{by="itself"}`, `railhead_rail_paused{who="itself"}`, "has no label who"},
		"a value that never comes":           {RulesFile, `status="stale"`, `status="dead"`, `never "dead"`},
		"a value of several that never come": {RulesFile, `lost|disconnected`, `lost|unplugged`, `never "unplugged"`},
		"a recorded name misspelt":           {RulesFile, "cell_rail:railhead_sends_slow:ratio_1h > 14.4", "cell_rail:railhead_sends_slow:ratio_2h > 14.4", "ratio_2h is not in docs/metrics.md"},
		"a metric of a dashboard":            {"dashboards/overview.json", "notify_wakeups_total", "notify_wakeups", "notify_wakeups is not in docs/metrics.md"},
		"no severity":                        {RulesFile, "labels: {severity: page}", "labels: {team: payments}", `severity ""`},
		"a summary without the value":        {RulesFile, "{{ $value }} payments are parked", "payments are parked", "the summary lacks the value"},
		"no description":                     {RulesFile, "          description:", "          words:", "no description"},
		"another alert's runbook":            {RulesFile, "runbooks/" + notifier + ".md#", "runbooks/Railhead.md#", "runbook_url"},
		"a dashboard that is not there":      {RulesFile, "'/d/railhead-rail?", "'/d/railhead-rails?", "no dashboard has the uid"},
		"a runbook without its heading":      {"runbooks/" + notifier + ".md", "# " + notifier, "# Notifier", "does not begin with its heading"},
		"a runbook without a section":        {"runbooks/" + notifier + ".md", "## Impact in money", "## Impact", "has the sections"},
		"a runbook without a command":        {"runbooks/" + notifier + ".md", "```console", "```text", "no command to check with"},
		"a metric of a runbook's command":    {"runbooks/" + notifier + ".md", "(railhead_notifier_state)", "(railhead_notifier)", "railhead_notifier is not in docs/metrics.md"},
		"no runbook":                         {"runbooks/" + notifier + ".md", "", "", notifier + ": no runbook"},
		"no tests":                           {"rules/tests/" + notifier + ".yaml", "", "", notifier + ": no tests"},
		"no test that fires":                 {"rules/tests/" + notifier + ".yaml", "name: fires", "name: burns", `no test "fires"`},
		"a test that expects nothing":        {"rules/tests/" + notifier + ".yaml", "exp_alerts:\n", "exp_alerts: []\n        other:\n", `no test "fires"`},
		"no test that stays silent":          {"rules/tests/" + notifier + ".yaml", "name: stays silent", "name: silent", `no test "stays silent"`},
		"no test for the first event":        {"rules/tests/" + notifier + ".yaml", "name: first event ever", "name: first", `no test "first event ever"`},
		"a first event after a zero":         {"rules/tests/" + notifier + ".yaml", "'_x3 1x10'", "'0 0 0 1x10'", `no test "first event ever"`},
		"a panel without a title":            {"dashboards/rail.json", `"title": "In flight`, `"titles": "In flight`, "has no title"},
		"a panel of two ids":                 {"dashboards/rail.json", `"id": 2,`, `"id": 1,`, "its id is not unique"},
		"one uid twice":                      {"dashboards/rail.json", `"uid": "railhead-rail"`, `"uid": "railhead-overview"`, "that of overview.json too"},
		"SQL where PromQL is asked":          {"dashboards/rail.json", `"expr":`, `"rawSql":`, "whichever its data source takes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := load(broken(t, c.file, c.old, c.new), metricsDoc(t))
			if err != nil {
				t.Fatal(err)
			}
			faults := strings.Join(b.check(), "\n")
			if !strings.Contains(faults, c.want) {
				t.Errorf("found:\n%s\nwant %q", faults, c.want)
			}
		})
	}
}

// TestOrphansAreNoticed adds what belongs to no alert.
func TestOrphansAreNoticed(t *testing.T) {
	t.Parallel()
	files := copied(t)
	files["runbooks/RailheadGone.md"] = &fstest.MapFile{Data: []byte("# RailheadGone\n")}
	files["rules/tests/RailheadGone.yaml"] = &fstest.MapFile{Data: []byte("tests: []\n")}
	b, err := load(files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	faults := strings.Join(b.check(), "\n")
	for _, want := range []string{"RailheadGone.md: a runbook of no alert", "RailheadGone.yaml: tests of no alert"} {
		if !strings.Contains(faults, want) {
			t.Errorf("found:\n%s\nwant %q", faults, want)
		}
	}
}

// broken is the committed files with old replaced by new in one; both empty: without the file.
func broken(t *testing.T, file, old, new string) fs.FS {
	t.Helper()
	files := copied(t)
	if old == "" {
		delete(files, file)
		return files
	}
	text := string(files[file].Data)
	if !strings.Contains(text, old) {
		t.Fatalf("%s holds no %q: nothing was broken", file, old)
	}
	files[file] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, old, new))}
	return files
}

func copied(t *testing.T) fstest.MapFS {
	t.Helper()
	files := make(fstest.MapFS)
	err := fs.WalkDir(Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(Files, name)
		files[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	shellVariable = regexp.MustCompile(`\$\{?([A-Z][A-Z_]*)`)
	listItem      = regexp.MustCompile(`(?m)^(?:[0-9]+\.|-|\|) `)
	endsProcess   = regexp.MustCompile(`\bSIGKILL\b|\b[Rr]estart (it|them)\b|\bend (its|the) process\b`)
	undoes        = regexp.MustCompile(`\b([Cc]ancel|[Cc]lose)`)
)

// TestVariablesOfRunbooksAreExplained tests that README.md has each variable that a command of a runbook uses.
func TestVariablesOfRunbooksAreExplained(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	for name, text := range b.runbooks {
		for _, found := range shellVariable.FindAllStringSubmatch(text, -1) {
			used++
			if !strings.Contains(string(readme), "`"+found[1]+"`") {
				t.Errorf("%s uses $%s, which README.md does not explain", name, found[1])
			}
		}
	}
	if used < 100 {
		t.Errorf("%d uses of variables were found", used)
	}
}

// TestFirstTheActThenAnotherWay tests that no step lets a participant pay in another way before the payment is
// cancelled or closed, and that each says that the act has to succeed first: until then it may still be sent.
func TestFirstTheActThenAnotherWay(t *testing.T) {
	t.Parallel()
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"unknown-outcomes.md", "ingest.md", "operations.md"} {
		text, err := os.ReadFile("../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		b.runbooks[page] = string(text)
	}
	steps := 0
	for name, text := range b.runbooks {
		for _, step := range listItem.Split(text, -1) {
			step, _, _ = strings.Cut(strings.Join(strings.Fields(step), " "), "```")
			first := undoes.FindStringIndex(step)
			at := strings.Index(step, "may pay in another way")
			if wish := strings.Index(step, "so that they can pay"); wish >= 0 {
				at = wish
			}
			if strings.Contains(step, `--reason "paid in another way"`) {
				t.Errorf("%s: it is to be paid after the act, and not before: %s", name, step)
			}
			if first == nil || at < 0 {
				continue
			}
			steps++
			if at < first[0] || !strings.Contains(step, "nly once it ") {
				t.Errorf("%s: first the act, and \"only once it has succeeded\" the other way: %s", name, step)
			}
		}
	}
	if steps < 3 {
		t.Errorf("%d such steps were found", steps)
	}
}

// TestFirstTheOrderlyEnd tests that each step which ends a process lets it record what it has sent: one SIGTERM
// first, and SIGKILL only after the time that this may take.
func TestFirstTheOrderlyEnd(t *testing.T) {
	t.Parallel()
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	const waited = "only after `RAILHEAD_STORE_TIMEOUT`, the settings `drain` and `record_within`, and 5 s together"
	steps := 0
	for name, text := range b.runbooks {
		for _, step := range listItem.Split(text, -1) {
			step = strings.Join(strings.Fields(step), " ")
			if !endsProcess.MatchString(step) {
				continue
			}
			steps++
			term, kill := strings.Index(step, "SIGTERM"), strings.Index(step, "SIGKILL")
			if term < 0 || kill >= 0 && (kill < term || !strings.Contains(step, waited)) {
				t.Errorf("%s: first one SIGTERM, and SIGKILL %s: %s", name, waited, step)
			}
		}
	}
	if steps < 5 {
		t.Errorf("%d such steps were found", steps)
	}
}

// TestTryOfARefusedRailHasItsPrice: the runbook says before the command that resumes a rail what a try that is refused
// again leaves, how to check without a payment, and how to try with one.
func TestTryOfARefusedRailHasItsPrice(t *testing.T) {
	t.Parallel()
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(b.runbooks["RailheadRailPausedItself.md"], "railhead rail resume")
	_, before, _ = strings.Cut(before, "## What to do")
	for _, want := range []string{
		"without a payment", "UNKNOWN", "`concurrency: 1`", "after: 1, instructions: 1", "evidence",
	} {
		if !found || !strings.Contains(before, want) {
			t.Errorf("before the rail is resumed the runbook lacks %q", want)
		}
	}
}

// TestClientCAOfTheAPIIsNotDropped: the runbook withdraws all client certificates of the API without ending the check
// by a CA, which a process without the variable does not make.
func TestClientCAOfTheAPIIsNotDropped(t *testing.T) {
	t.Parallel()
	b, err := load(Files, metricsDoc(t))
	if err != nil {
		t.Fatal(err)
	}
	_, step, _ := strings.Cut(b.runbooks["RailheadCertificateExpires.md"], "\n4. `client_ca`")
	step, _, found := strings.Cut(step, "\n5. ")
	for _, want := range []string{
		"keep `RAILHEAD_API_CLIENT_CA_FILE`", "openssl req -x509", "railhead token revoke",
		"start it without `RAILHEAD_CONSOLE_CLIENT_CA_FILE`",
	} {
		if !found || !strings.Contains(step, want) {
			t.Errorf("step 4 lacks %q", want)
		}
	}
	if strings.Contains(step, "start the process without the variable") {
		t.Errorf("it has the API started without a CA:\n%s", step)
	}
}
