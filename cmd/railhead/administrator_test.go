package main

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

// TestAdministratorWithoutSuperuser: no command of an administrator is done by halves as a login that is not a
// superuser, whatever it was granted: it is refused, says what is needed, and changes no membership.
func TestAdministratorWithoutSuperuser(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{}) // of its own: roles belong to the cluster
	db := cluster.New(t)
	super := db.Conn(t, "")
	do := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	members := func() (n int) {
		t.Helper()
		if err := super.QueryRow(t.Context(), `SELECT count(*) FROM pg_auth_members
			WHERE roleid = 'railhead_owner'::regrole`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	dba := command{t: t, env: []string{"RAILHEAD_ADMIN_URL=" + db.URL("")}}
	do(`CREATE ROLE clouda LOGIN CREATEROLE CREATEDB`)
	clouda := command{t: t, env: []string{"RAILHEAD_ADMIN_URL=" + db.URL("clouda")}}
	refused := func(args ...string) {
		t.Helper()
		got := clouda.want(exitDenied, args...)
		if !strings.Contains(got.errors, "has to lead to a superuser") ||
			strings.Contains(got.errors, "railhead roles apply.") {
			t.Errorf("%v: %s", args, got.errors)
		}
	}
	refused("roles", "apply")
	dba.want(exitOK, "roles", "apply")
	refused("migrate", "up")
	dba.want(exitOK, "migrate", "up")
	dba.want(exitOK, "roles", "apply")
	refused("token", "create", "--name", "shop", "--participant", "p1", "--reason", "x")

	do(`GRANT railhead_owner TO clouda`)
	refused("roles", "apply")
	if n := members(); n != 1 {
		t.Errorf("railhead_owner has %d members after a refused roles apply, want 1", n)
	}
	if got := dba.want(exitOK, "roles", "apply"); !strings.Contains(got.errors,
		"revoked: clouda is a member of railhead_owner\n") || members() != 0 {
		t.Errorf("a superuser's roles apply: %s", got.errors)
	}
}
