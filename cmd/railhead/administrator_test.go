package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

// cloud is a server whose superuser belongs to its provider, and an administrator who has what providers give.
type cloud struct {
	t       *testing.T
	cluster *pgtest.Cluster
	db      *pgtest.DB
	super   *pgx.Conn
	command      // of the administrator
	since16 bool // of PostgreSQL
}

const clouda = "clouda"

func inCloud(t *testing.T) *cloud {
	t.Helper()
	_, cluster := pgtest.Server(t, pgserver.Options{}) // of its own: roles belong to the cluster
	c := &cloud{t: t, cluster: cluster, db: cluster.New(t)}
	c.super = c.db.Conn(t, "")
	c.do("CREATE ROLE " + clouda + " LOGIN CREATEROLE CREATEDB")
	c.do("ALTER DATABASE " + c.db.Name + " OWNER TO " + clouda)
	c.command = c.as(clouda)
	c.since16 = c.number("SELECT current_setting('server_version_num')::int / 10000") >= 16
	return c
}

// as is a command of another login.
func (c *cloud) as(login string) command {
	return command{t: c.t, env: []string{"RAILHEAD_ADMIN_URL=" + c.db.URL(login)}}
}

// do runs a statement as the superuser.
func (c *cloud) do(sql string) {
	c.t.Helper()
	if _, err := c.super.Exec(c.t.Context(), sql); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

func (c *cloud) number(sql string) (n int) {
	c.t.Helper()
	if err := c.super.QueryRow(c.t.Context(), sql).Scan(&n); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// members counts the roles that may become the owner, or make others its members.
func (c *cloud) members() int {
	c.t.Helper()
	return c.number("SELECT count(DISTINCT member) FROM pg_auth_members WHERE roleid = 'railhead_owner'::regrole")
}

// installed goes the way of docs/operations.md to a cell, with a login of each role.
func (c *cloud) installed() {
	c.t.Helper()
	c.want(exitOK, "roles", "apply")
	c.want(exitOK, "migrate", "up")
	c.want(exitOK, "roles", "apply")
	for _, role := range []string{"ingest", "executor", "operator", "readonly", "auditor", "control"} {
		c.want(exitOK, "roles", "login", role+"_1", "--role", "railhead_"+role, "--no-password")
	}
}

// says fails unless a command was refused with these words.
func (c *cloud) says(got ran, words ...string) {
	c.t.Helper()
	for _, word := range words {
		if !strings.Contains(got.errors, word) {
			c.t.Errorf("it does not say %q: %s", word, got.errors)
		}
	}
}

// TestAdministratorInstalls: a login with what managed services give installs a cell, and runs it; its way to the
// owner's rights is a violation unless it is named.
func TestAdministratorInstalls(t *testing.T) {
	t.Parallel()
	c := inCloud(t)
	c.do("ALTER ROLE " + clouda + " SET search_path = public") // a setting of its own changes nothing
	if c.since16 {
		c.do("ALTER ROLE " + clouda + " SET createrole_self_grant = 'set, inherit'")
	}
	c.installed()
	c.says(c.want(exitOK, "roles", "apply"), "clouda is an administrator: it may become railhead_owner")
	if got := c.want(exitOK, "roles", "apply"); strings.Contains(got.errors, "revoked") || c.members() != 1 {
		t.Errorf("a second roles apply: %s", got.errors)
	}
	c.want(exitOK, "roles", "diff")
	c.want(exitOK, "migrate", "up")

	rails := writeFile(t, "rails.yaml", railsFile("24h"))
	works := command{t: t, env: []string{
		"RAILHEAD_INGEST_URL=" + c.db.URL("ingest_1"), "RAILHEAD_OPERATOR_URL=" + c.db.URL("operator_1"),
		"RAILHEAD_READER_URL=" + c.db.URL("readonly_1"), "RAILHEAD_RAILS_FILE=" + rails,
	}}
	works.want(exitOK, "rail", "apply", rails, "--reason", "first installation")
	enqueued(works, "INV-1")
	start(t, "run", c.db.URL("executor_1"), "RAILHEAD_RAILS_FILE="+rails)
	eventually(t, "the payment", func() bool {
		return strings.Contains(works.want(exitOK, "payment", "show", "INV-1").out, "DISPATCHED")
	})
	c.want(exitOK, "token", "create", "--name", "shop", "--participant", "p1", "--reason", "x")
	c.retires()

	audits := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + c.db.URL("auditor_1")}}
	got := audits.want(exitOK, "prove", "--administrator", clouda)
	if !strings.Contains(got.out, "administrators, who may become the owner: clouda\n") ||
		strings.Contains(got.out, "  clouda=") {
		t.Errorf("the administrator is not noted: %s", got.out)
	}
	named := command{t: t, env: append(audits.env, "RAILHEAD_ADMINISTRATORS=ops, clouda")}
	if got := named.want(exitProof, "prove"); !strings.Contains(got.out,
		"ops is named as an administrator, and does not exist") {
		t.Errorf("an administrator that there is not: %s", got.out)
	}
	got = audits.want(exitProof, "prove")
	failed := regexp.MustCompile(`(?m)^(\S+) failed: `).FindAllStringSubmatch(got.out, -1)
	want := []string{"members"}
	if !c.since16 { // a member has the owner's privileges in its own name
		want = append(want, "origin-truncate")
	}
	var names []string
	for _, one := range failed {
		names = append(names, one[1])
	}
	if !slices.Equal(names, want) || !strings.Contains(got.out, "clouda is a member of railhead_owner") {
		t.Errorf("an administrator who is not named: %s", got.out)
	}
	c.as("").want(exitProof, "roles", "diff")
	c.as("").want(exitOK, "roles", "diff", "--administrator", clouda)
	c.as("").want(exitOK, "roles", "apply", "--administrator", clouda)
	if c.members() != 1 {
		t.Error("roles apply of a superuser has revoked the membership of an administrator who is named")
	}
}

// retires detaches the last month, which is empty, as the owner of the cell does with one that has ended.
func (c *cloud) retires() {
	c.t.Helper()
	conn := c.db.Conn(c.t, clouda)
	var month string
	if err := conn.QueryRow(c.t.Context(), `SELECT max(substr(c.relname, length('payment_outbox_attempts_') + 1))
		FROM pg_class c WHERE c.relname ~ '^payment_outbox_attempts_y\d+m\d+$'`).Scan(&month); err != nil {
		c.t.Fatal(err)
	}
	script := []string{"CREATE SCHEMA railhead_retired AUTHORIZATION railhead_owner; SET ROLE railhead_owner;"}
	for _, table := range []string{"attempts", "instructions"} {
		of := "railhead.payment_outbox_" + table
		script = append(script, fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %[1]s_%s; "+
			"ALTER TABLE %[1]s_%[2]s SET SCHEMA railhead_retired;", of, month))
	}
	if _, err := conn.Exec(c.t.Context(), strings.Join(script, "")); err != nil {
		c.t.Fatalf("%s: %v", script, err)
	}
}

// TestAdministratorLacks: a login that lacks something is refused before anything is done, and is told by which
// statement it is given; with that statement it goes on.
func TestAdministratorLacks(t *testing.T) {
	t.Parallel()
	c := inCloud(t)
	given := regexp.MustCompile(`: ((?:ALTER|GRANT) .*)\n`)
	goesOn := func(got ran) {
		t.Helper()
		all := given.FindAllStringSubmatch(got.errors, -1)
		if len(all) == 0 {
			t.Errorf("no statement: %s", got.errors)
		}
		for _, one := range all {
			c.do(one[1])
		}
		c.want(exitOK, "roles", "apply")
	}
	roles := func() int { return c.number(`SELECT count(*) FROM pg_roles WHERE rolname LIKE 'railhead%'`) }

	c.do("ALTER ROLE clouda NOCREATEROLE")
	c.do("ALTER DATABASE " + c.db.Name + " OWNER TO CURRENT_USER")
	got := c.want(exitDenied, "roles", "apply")
	c.says(got, "roles apply has done nothing", "it may create no roles: ALTER ROLE clouda CREATEROLE\n",
		"it may create no schema in the database: GRANT CREATE ON DATABASE "+c.db.Name+" TO clouda\n")
	if roles() != 0 {
		t.Error("a refused roles apply has created roles")
	}
	goesOn(got)
	c.want(exitOK, "migrate", "up")
	c.want(exitOK, "roles", "apply")

	// Roles that another login has created, and memberships that it has granted.
	c.do("REVOKE railhead_owner FROM clouda CASCADE; DROP OWNED BY railhead_owner; DROP ROLE " + c.names())
	c.as("").want(exitOK, "roles", "apply")
	got = c.as(clouda).run("migrate", "up")
	if got.code != exitDenied {
		t.Errorf("migrate up by a login that is no member of the owner: %d %s", got.code, got.errors)
	}
	c.says(got, "RAILHEAD_ADMIN_URL has to lead to a superuser, or to an administrator")
	c.as("").want(exitOK, "migrate", "up")
	c.as("").want(exitOK, "roles", "apply")
	if c.since16 {
		got = c.want(exitDenied, "roles", "apply")
		c.says(got, "another login has created roles, which it may not grant: GRANT railhead_owner, railhead_ingest, ")
		if c.members() != 0 {
			t.Error("a refused roles apply has granted something")
		}
		goesOn(got)
	} else {
		c.want(exitOK, "roles", "apply")
	}
	if got := c.as("").want(exitOK, "roles", "apply"); strings.Count(got.errors,
		"revoked: clouda is a member of railhead_owner\n") != 1 || c.members() != 0 {
		t.Errorf("a superuser's roles apply: %s", got.errors)
	}
}

// names are those of the roles of the cell.
func (c *cloud) names() (names string) {
	c.t.Helper()
	if err := c.super.QueryRow(c.t.Context(), `SELECT string_agg(rolname, ', ') FROM pg_roles
		WHERE rolname LIKE 'railhead\_%'`).Scan(&names); err != nil {
		c.t.Fatal(err)
	}
	return names
}

// TestAdministratorsOfOneServer: what one administrator does takes nothing from another who is named, nor lets a
// service's login become the owner.
func TestAdministratorsOfOneServer(t *testing.T) {
	t.Parallel()
	c := inCloud(t)
	c.do("ALTER ROLE clouda NOINHERIT") // before PostgreSQL 16 a property of the member
	c.installed()
	if got := c.run("roles", "login", clouda, "--role", "railhead_executor", "--no-password"); got.code == exitOK {
		t.Error("an administrator has made itself the login of a service")
	}
	// A second one, in a database of its own.
	c.do("CREATE ROLE cloudb LOGIN CREATEROLE CREATEDB")
	other := c.cluster.New(t)
	c.do("ALTER DATABASE " + other.Name + " OWNER TO cloudb")
	b := command{t: t, env: []string{"RAILHEAD_ADMIN_URL=" + other.URL("cloudb"), "RAILHEAD_ADMINISTRATORS=clouda"}}
	if c.since16 {
		got := b.want(exitDenied, "roles", "apply")
		given := regexp.MustCompile(`: (GRANT .*)\n`).FindStringSubmatch(got.errors)
		if given == nil {
			t.Fatalf("no statement: %s", got.errors)
		}
		if _, err := c.db.Conn(t, clouda).Exec(t.Context(), given[1]); err != nil {
			t.Fatalf("%s, as the first administrator: %v", given[1], err)
		}
	}
	b.want(exitOK, "roles", "apply")
	b.want(exitOK, "migrate", "up")
	b.want(exitOK, "roles", "apply")
	if c.members() != 2 {
		t.Errorf("%d roles may become the owner, want the two administrators", c.members())
	}
	c.want(exitProof, "roles", "diff")
	c.want(exitOK, "roles", "diff", "--administrator", "cloudb")

	// A login of a service, or one that acts through an administrator, is no administrator.
	c.do(`CREATE ROLE helper LOGIN; GRANT clouda TO helper;
		GRANT railhead_owner TO executor_1; GRANT executor_1 TO clouda`)
	got := c.want(exitProof, "roles", "diff", "--administrator", "cloudb")
	if !strings.Contains(got.out, "executor_1 is a member of railhead_owner") {
		t.Errorf("a service that is a member of the owner: %s", got.out)
	}
	audits := command{t: t, env: []string{"RAILHEAD_AUDITOR_URL=" + c.db.URL("auditor_1")}}
	got = audits.want(exitProof, "prove", "run", "members", "--administrator", "clouda,cloudb")
	for _, login := range []string{"executor_1", "helper"} {
		line := login + " reaches the owner role railhead_owner"
		if !strings.Contains(got.out, line) {
			t.Errorf("not found: %s\n%s", line, got.out)
		}
	}
	c.do("DROP ROLE helper; REVOKE executor_1 FROM clouda")
	if c.since16 { // an administrator can't take back what a superuser has granted
		c.says(c.want(exitDenied, "roles", "apply", "--administrator", "cloudb"),
			"Another login has granted that: it, or a superuser, has to revoke it.")
		c.do("REVOKE railhead_owner FROM executor_1")
	} else {
		c.says(c.want(exitOK, "roles", "apply", "--administrator", "cloudb"),
			"revoked: executor_1 is a member of railhead_owner\n")
	}
	audits.want(exitOK, "prove", "run", "members", "--administrator", "clouda,cloudb")
}

// TestGroupOfAnAdministrator: a group that an administrator is in is no way of its own to the owner, because it is one
// for all of its members: its membership is told, and revoked unless it is named.
func TestGroupOfAnAdministrator(t *testing.T) {
	t.Parallel()
	c := inCloud(t)
	c.installed()
	c.do("CREATE ROLE team NOLOGIN; GRANT team TO clouda; GRANT team TO executor_1; GRANT railhead_owner TO team")
	if got := c.want(exitProof, "roles", "diff"); !strings.Contains(got.out, "team is a member of railhead_owner") {
		t.Errorf("a group that may become the owner: %s", got.out)
	}
	if !c.since16 { // since then who has granted it has to revoke it
		c.says(c.want(exitOK, "roles", "apply"), "revoked: team is a member of railhead_owner\n")
	}
}
