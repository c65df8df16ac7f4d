package celltest_test

import (
	"testing"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestCell checks that a cell is as an installation leaves it: granted exactly as the matrix says,
// with logins that have no more rights than their role.
func TestCell(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	found, err := acl.Diff(t.Context(), cell.Conn(t, ""), cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range found {
		t.Error(difference)
	}
	for login, role := range celltest.Logins() {
		var super, member bool
		err := cell.Conn(t, login).QueryRow(t.Context(), `
			SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), pg_has_role(current_user, $1, 'USAGE')`, role).
			Scan(&super, &member)
		if err != nil {
			t.Fatal(err)
		}
		if super || !member {
			t.Errorf("%s: superuser %t, member of %s %t", login, super, role, member)
		}
	}
}

func TestCellsAreApart(t *testing.T) {
	t.Parallel()
	one, other := celltest.New(t), celltest.New(t)
	if version := one.ApplyProfile(celltest.Bank, `{"acceptance": "FINAL", "resend_on_unknown": "NEVER"}`); version != 2 {
		t.Errorf("version %d, want 2", version)
	}
	if n := other.Int("SELECT profile_version FROM railhead.payment_rails WHERE rail_type = $1", celltest.Bank); n != 1 {
		t.Errorf("the other cell has version %d, want 1", n)
	}
}
