package install_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/migrations"
)

// TestTwice installs a cell on a private server twice: the second time finds everything in place.
func TestTwice(t *testing.T) {
	t.Parallel()
	server, err := pgserver.Start(t.Context(), pgserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.StopImmediate(t.Context())
	for _, again := range []bool{false, true} {
		admin, err := install.Create(t.Context(), server)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := install.Prepare(t.Context(), admin, migrations.DefaultCell, install.Logins(), install.NoPassword)
		if err != nil || (len(steps) == 0) != again {
			t.Fatalf("again %t: %d migrations, %v", again, len(steps), err)
		}
	}
	for login := range install.Logins() {
		conn, err := pgx.Connect(t.Context(), server.URL(install.Database, login))
		if err != nil {
			t.Errorf("%s: %v", login, err)
			continue
		}
		conn.Close(t.Context())
	}
}
