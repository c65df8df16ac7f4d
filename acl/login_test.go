package acl_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/acl"
)

func TestEnsureLogin(t *testing.T) {
	t.Parallel()
	conn := admin(t)
	rolledBack(t, conn, func(tx pgx.Tx) {
		const login = `acl "odd" login`
		ensure := func(role, password string) {
			t.Helper()
			if err := acl.EnsureLogin(t.Context(), tx, login, role, password); err != nil {
				t.Fatal(err)
			}
		}
		ensure("railhead_readonly", "correct horse")
		first := loginOf(t, tx, login)
		if want := []string{"railhead_readonly"}; !cmp.Equal(first.Roles, want) || !first.CanLogin || first.Super {
			t.Errorf("got %+v; want a login in %v", first, want)
		}
		ensure("railhead_readonly", "correct horse")
		if again := loginOf(t, tx, login); again != nil && !cmp.Equal(first, again) {
			t.Errorf("a second call has changed %+v to %+v", first, again)
		}

		exec(t, tx, `GRANT railhead_operator, railhead_owner, pg_read_all_data TO "acl ""odd"" login" WITH ADMIN OPTION;
			ALTER ROLE "acl ""odd"" login" CREATEROLE NOLOGIN NOINHERIT`)
		ensure("railhead_operator", "battery staple")
		moved := loginOf(t, tx, login)
		if want := []string{"railhead_operator"}; !cmp.Equal(moved.Roles, want) || !moved.CanLogin || moved.CreateRole ||
			!moved.Inherit || moved.Admin {
			t.Errorf("got %+v; want a plain login in %v", moved, want)
		}
		if first.Idle != "" || moved.Idle != "1min" {
			t.Errorf("as a reader its transactions may be idle for %q, as an operator for %q; want no bound, and 1min",
				first.Idle, moved.Idle)
		}
		exec(t, tx, `ALTER ROLE "acl ""odd"" login" SET idle_in_transaction_session_timeout = '10s'`)
		ensure("railhead_operator", "battery staple")
		if own := loginOf(t, tx, login).Idle; own != "10s" {
			t.Errorf("the bound that an administrator has set became %q", own)
		}
		if moved.Verifier == first.Verifier {
			t.Error("the password has not changed")
		}
		ensure("railhead_operator", "")
		if got := loginOf(t, tx, login); got.Verifier != "" {
			t.Error("the password is still there")
		}
	})
}

type loginRow struct {
	CanLogin, Super, CreateRole, Inherit, Admin bool
	Verifier, Idle                              string
	Roles                                       []string
}

func loginOf(t testing.TB, tx pgx.Tx, login string) *loginRow {
	t.Helper()
	rows, err := tx.Query(t.Context(), `
		SELECT r.rolcanlogin AS can_login, r.rolsuper AS super, r.rolcreaterole AS create_role, r.rolinherit AS inherit,
		  coalesce((SELECT bool_or(m.admin_option) FROM pg_auth_members m WHERE m.member = r.oid), false) AS admin,
		  coalesce(r.rolpassword, '') AS verifier,
		  coalesce((SELECT substring(c.setting FROM '=(.*)') FROM pg_db_role_setting s, unnest(s.setconfig) AS c(setting)
		    WHERE s.setrole = r.oid AND c.setting LIKE 'idle_in_transaction%'), '') AS idle,
		  ARRAY(SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = r.oid ORDER BY 1) AS roles
		FROM pg_authid r WHERE r.rolname = $1`, login)
	if err != nil {
		t.Fatal(err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[loginRow])
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestEnsureLoginRefuses(t *testing.T) {
	t.Parallel()
	conn := admin(t)
	for _, test := range []struct{ name, login, role, password string }{
		{"the owner", "acl_login", "railhead_owner", ""},
		{"a role that is not ours", "acl_login", "pg_write_all_data", ""},
		{"a role as a login", "railhead_readonly", "railhead_auditor", ""},
		{"no name", "", "railhead_auditor", ""},
		{"a superuser", "acl_root", "railhead_auditor", ""},
		{"a password that needs SASLprep", "acl_login", "railhead_auditor", "pässword"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rolledBack(t, conn, func(tx pgx.Tx) {
				exec(t, tx, "CREATE ROLE acl_root SUPERUSER LOGIN")
				if err := acl.EnsureLogin(t.Context(), tx, test.login, test.role, test.password); err == nil {
					t.Error("made")
				}
			})
		})
	}
}
