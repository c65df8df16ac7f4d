package ledger_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestOtherWarningsAreNoDoubt has the server warn of something else in statements and at commits, as it does of each
// statement that gets a transaction id near the end of these. What was committed is answered as such, and
// the log names the warning once, without what a trigger has put into it.
func TestOtherWarningsAreNoDoubt(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	super := cell.Conn(t, "")
	mustExec(t, super, `CREATE FUNCTION public.warns() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN RAISE WARNING 'the payload is secret'; RETURN NULL; END$$`)
	for _, table := range []string{"payment_outbox_pending", "payment_outbox_claims"} {
		mustExec(t, super, `CREATE CONSTRAINT TRIGGER warns AFTER INSERT OR UPDATE ON railhead.`+table+`
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.warns()`)
	}
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	in, err := ingest.Open(t.Context(),
		ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema, Log: log, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	exec, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	for n := range 3 {
		if _, err := in.Enqueue(t.Context(), order(n)); err != nil {
			t.Errorf("an enqueue: %v", err)
		}
	}
	if _, err := in.EnqueueBatch(t.Context(), []payment.Instruction{order(10), order(11)}); err != nil {
		t.Errorf("a batch: %v", err)
	}
	if _, err := exec.Turn(t.Context(), outbox.Turn{Claim: request(lane(celltest.Bank, 10, 0))}); err != nil {
		t.Errorf("a turn that claims: %v", err)
	}
	if got := logged.String(); strings.Count(got, "exec_stmt_raise") != 1 || strings.Contains(got, "secret") {
		t.Errorf("the log: %s", got)
	}
}
