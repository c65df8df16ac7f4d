package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
)

// TestInstallation goes the way of a new installation, from an empty database to
// a login that can enqueue.
func TestInstallation(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	who := command{t: t, env: []string{"RAILHEAD_ADMIN_URL=" + db.URL("")}}
	if got := who.want(exitOK, "roles", "apply"); !strings.Contains(got.errors, "railhead migrate up") {
		t.Errorf("roles apply before the schema: %s", got.errors)
	}
	if got := who.want(exitOK, "migrate", "up", "--dry-run"); !strings.Contains(got.out, "00013_baseline.sql") {
		t.Errorf("a dry run shows %s", got.out)
	}
	if got := who.want(exitOK, "migrate", "status"); strings.Count(got.out, "no\n") < 1 {
		t.Errorf("after a dry run: %s", got.out)
	}
	golden(t, "migrate_up", who.want(exitOK, "migrate", "up").out)
	if got := who.want(exitOK, "migrate", "up", "-o", "json"); strings.TrimSpace(got.out) != "[]" {
		t.Errorf("a second migrate up: %s", got.out)
	}
	who.want(exitProof, "roles", "diff")
	who.want(exitOK, "roles", "apply")
	if got := who.want(exitOK, "roles", "diff", "-o", "json"); strings.TrimSpace(got.out) != "[]" {
		t.Errorf("roles diff after apply: %s", got.out)
	}
	if _, err := db.Conn(t, "").Exec(t.Context(),
		"GRANT SELECT ON railhead.participant_outbox_sequences TO railhead_auditor"); err != nil {
		t.Fatal(err)
	}
	golden(t, "roles_diff", who.want(exitProof, "roles", "diff").out)
	golden(t, "roles_diff_json", who.want(exitProof, "roles", "diff", "-o", "json").out)
	who.want(exitOK, "roles", "apply", "--dry-run")
	who.want(exitProof, "roles", "diff")
	who.want(exitOK, "roles", "apply")
	who.want(exitOK, "roles", "diff")
}

func TestPrintedSQL(t *testing.T) {
	t.Parallel()
	who := command{t: t}
	for _, args := range [][]string{{"migrate", "sql"}, {"roles", "sql"}, {"migrate", "sql", "-o", "json"}} {
		got := who.want(exitOK, append(args, "--cell", "west")...).out
		if !strings.Contains(strings.ReplaceAll(got, `"west"`, "west"), "west.payment_outbox_pending") || strings.Contains(got, "{cell}") || strings.Contains(got, "railhead.payment") {
			t.Errorf("%v does not name the cell", args)
		}
		if !strings.Contains(got, "search_path = pg_catalog, pg_temp;\n") && !strings.HasPrefix(got, "[") {
			t.Errorf("%v finds functions wherever its session does", args)
		}
	}
}

// TestRolesLogin makes a login and lets it do what its role may.
func TestRolesLogin(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	const login = "railhead_cli_test_login"
	who.want(exitUsage, "roles", "login", login, "--role", "railhead_readonly")
	who.want(exitUsage, "roles", "login", login, "--no-password")
	who.want(exitFailure, "roles", "login", login, "--role", "railhead_owner", "--no-password")
	who.want(exitUsage, "roles", "login", login, "--role", "railhead_readonly", "--password-env", "NOT_SET")
	who.want(exitNotFound, "roles", "login", login, "--role", "railhead_readonly", "--password-file", "nowhere")
	who.stdin = "correct horse\n"
	if got := who.want(exitOK, "roles", "login", login, "--role", "railhead_readonly", "--password-file",
		"-"); strings.Contains(got.out+got.errors, "horse") {
		t.Errorf("the password is told: %s%s", got.out, got.errors)
	}
	who.want(exitOK, "roles", "login", login, "--role", "railhead_readonly", "--no-password")
	as := command{t: t, env: []string{"DATABASE_URL=" + cell.URL(login)}}
	as.want(exitOK, "status")
	as.want(exitDenied, "timeline", "accept", "--reason", "a test")
	cell.Exec("DROP ROLE " + login)
}

// TestRailApply shows what a file changes before it changes it, and only then.
func TestRailApply(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	same, longer := writeFile(t, "same.yaml", railsFile("24h")), writeFile(t, "longer.yaml", railsFile("48h"))
	other := writeFile(t, "other.yaml", strings.ReplaceAll(railsFile("24h"), "rail_type: bank", "rail_type: other"))
	version := func(want int) {
		t.Helper()
		if n := cell.Int("SELECT profile_version FROM railhead.payment_rails WHERE rail_type = 'bank'"); n != want {
			t.Errorf("version %d is in force, want %d", n, want)
		}
	}
	golden(t, "rail_apply_same", who.want(exitOK, "rail", "apply", same).out)
	golden(t, "rail_apply_dry", who.want(exitOK, "rail", "apply", longer, "--dry-run").out)
	if got := who.want(exitUsage, "rail", "apply", longer); !strings.Contains(got.errors, "--reason") {
		t.Errorf("without a reason: %s", got.errors)
	}
	version(1)
	golden(t, "rail_apply", who.want(exitOK, "rail", "apply", longer, "--reason", "the bank said so").out)
	version(2)
	golden(t, "rail_apply_json", who.want(exitOK, "rail", "apply", same, "--reason", "it was wrong", "-o", "json").out)
	version(3)
	golden(t, "rail_apply_new", who.want(exitOK, "rail", "apply", other, "--reason", "a new rail").out)
	golden(t, "rail_list", who.want(exitOK, "rail", "list").out)
	golden(t, "rail_list_json", who.want(exitOK, "rail", "list", "-o", "json").out)
	if got := who.want(exitOK, "rail", "codes", "bank").out; !strings.Contains(got, "table http") ||
		!strings.Contains(got, "table none") {
		t.Errorf("codes: %s", got)
	}
	if got := who.want(exitOK, "rail", "codes", "bank", "-o", "json").out; !strings.Contains(got, `"later_send"`) {
		t.Errorf("codes: %s", got)
	}
	slow := writeFile(t, "slow.yaml", railsFile("24h")+"      timeouts: {body: 2m}\n")
	if got := who.want(exitUsage, "rail", "apply", slow, "--dry-run"); !strings.Contains(got.errors,
		"= 3m10s, must be less than claim_timeout 2m") {
		t.Errorf("a budget that can't be kept: %s", got.errors)
	}
	who.want(exitUsage, "rail", "apply", slow, "--reason", "the bank is slow")
	version(3)
	who.env = append(who.env, "RAILHEAD_CLAIM_TIMEOUT=10s")
	if got := who.want(exitUsage, "rail", "apply", same, "--dry-run"); !strings.Contains(got.errors,
		"claim_timeout is 10s here and 2m in the cell") {
		t.Errorf("an environment with another budget: %s", got.errors)
	}
}

// TestSettings shows and changes the time budget, and names a component that uses an
// older version.
func TestSettings(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	golden(t, "settings_show", who.want(exitOK, "settings", "show").out)
	for _, arguments := range [][]string{
		{"claim_timeout", "1m"}, {"claim_timeout", "--reason", "why"}, {"claim_timeout", "soon", "--reason", "why"}, {"tempo", "1m", "--reason", "why"},
		{"claim_timeout", "1m", "claim_timeout", "2m", "--reason", "why"}, {"claim_timeout", "1m", "--reason", "no call of the bank fits"},
	} {
		if got := who.want(exitUsage, append([]string{"settings", "set"}, arguments...)...); got.out != "" {
			t.Errorf("%v: %s", arguments, got.out)
		}
	}
	executor, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer executor.Close()
	pulse, err := executor.Heartbeat(t.Context(),
		outbox.Heartbeat{Name: "relayer-1", Kind: "relayer", Host: "h", Version: "v", Status: "running"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "settings_set", who.want(exitOK, "settings", "set", "claim_timeout", "90s", "drain", "10s", "--reason",
		"one rack").out)
	golden(t, "settings_same", who.want(exitOK, "settings", "set", "claim_timeout", "90s", "--reason", "again", "-o",
		"json").out)
	// It has taken the new one, and may have claims of the old one open.
	if _, err := executor.Heartbeat(t.Context(),
		outbox.Heartbeat{Name: "relayer-1", Kind: "relayer", Host: "h", Version: "v", Status: "running",
			Budget: pulse.Budget}); err != nil {
		t.Fatal(err)
	}
	golden(t, "settings_behind", who.want(exitOK, "settings", "show").out)
	var shown struct {
		Version int
		Behind  []struct {
			Name          string
			BudgetVersion int `json:"budget_version"`
		}
	}
	if err := json.Unmarshal([]byte(who.want(exitOK, "settings", "show", "-o", "json").out), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Version != 2 || len(shown.Behind) != 1 || shown.Behind[0].Name != "relayer-1" ||
		shown.Behind[0].BudgetVersion != 1 {
		t.Errorf("%+v", shown)
	}
}

func TestTimelineAccept(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	got := at(t, cell).want(exitOK, "timeline", "accept", "--reason", "compared with the bank")
	if !strings.HasPrefix(got.out, "accepted: system ") {
		t.Error(got.out)
	}
	executor, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer executor.Close()
	if server, err := executor.CheckServer(t.Context()); err != nil || server.AcceptedAt.IsZero() {
		t.Errorf("a relayer sees %+v, %v", server, err)
	}
}

// TestAdminRunsNoFunctionOfOthers: in a database where every login may create functions in schema public, as in one
// that was upgraded from PostgreSQL 14, a superuser's commands run none of them. quote_ident takes text, and a
// function of the same name that takes name would be preferred for a role's name.
func TestAdminRunsNoFunctionOfOthers(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("GRANT CREATE ON SCHEMA public TO PUBLIC")
	if _, err := cell.Conn(t, celltest.Ingest).Exec(t.Context(), `
		CREATE FUNCTION public.quote_ident(name) RETURNS text LANGUAGE plpgsql AS $$
		BEGIN RAISE EXCEPTION 'the code of a login runs as %', current_user; END $$`); err != nil {
		t.Fatal(err)
	}
	who := at(t, cell)
	who.want(exitOK, "roles", "diff")
	who.want(exitOK, "roles", "apply")
	who.want(exitOK, "migrate", "up")
	who.want(exitOK, "roles", "login", "railhead_trap_test_login", "--role", "railhead_readonly", "--no-password")
}
