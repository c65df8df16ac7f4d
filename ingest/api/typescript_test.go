package api_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// TestTypeScriptClient builds clients/typescript, compares its types with the committed
// description, and runs its tests against an API over a real ledger.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	testPackage(t, "typescript")
}

// TestGeneratedClient has a generator make a client of the description that the running
// API gives, and uses it.
func TestGeneratedClient(t *testing.T) {
	t.Parallel()
	testPackage(t, "generated")
}

// testPackage runs npm test in a folder of clients, against an API over a real ledger.
func testPackage(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("RAILHEAD_WITHOUT_CLIENTS") != "" {
		t.Skip("RAILHEAD_WITHOUT_CLIENTS is set: clients in other languages are not tested")
	}
	folder := filepath.Join("..", "..", "clients", name)
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		t.Skipf("%v: run scripts/install-clients.sh", err)
	}
	cell := celltest.New(t)
	store, err := door.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.API), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	made, err := api.New(api.Config{}, store, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(made.Handler())
	t.Cleanup(server.Close)
	token, _, err := operator.CreateToken(t.Context(), cell.Conn(t, ""), cell.Schema, operator.NewToken{
		Name: name, Participants: []string{"p1"}, Verbs: []string{"ENQUEUE", "READ", "CANCEL"},
		ExpiresAt: time.Now().Add(time.Hour), Reason: "a test",
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "test", "--silent")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "RAILHEAD_API="+server.URL, "RAILHEAD_TOKEN="+token)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	if doubled := cell.Int(`SELECT count(*) - count(DISTINCT instruction_id)
		FROM railhead.payment_outbox_keys`); doubled != 0 {
		t.Errorf("%d instructions are there twice", doubled)
	}
}
