package ledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/callbacks"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestAnotherSchemaIsRefused starts each kind of ledger on a cell whose functions
// are those of another build. One that runs already goes on, so that components
// can be restarted one by one.
func TestAnotherSchemaIsRefused(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	running := openExecutor(t, cell)
	if _, err := running.CheckServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	cell.Exec(`DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('railhead.refusal_covers_all_sends'::regproc), 'SELECT', 'SELECT /* as it was */'); END $do$`)
	works := func() map[string]error {
		config := func(login string) ledger.Config { return ledger.Config{URL: cell.URL(login), Cell: cell.Schema} }
		ingest, err := ingest.Open(t.Context(), config(celltest.Ingest))
		if err != nil {
			t.Fatal(err)
		}
		defer ingest.Close()
		operator, err := operator.Open(t.Context(), config(celltest.Operator))
		if err != nil {
			t.Fatal(err)
		}
		defer operator.Close()
		callbacks, err := callbacks.Open(t.Context(), config(celltest.Callbacks))
		if err != nil {
			t.Fatal(err)
		}
		defer callbacks.Close()
		reader, err := reader.Open(t.Context(), config(celltest.Readonly))
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		of := make(map[string]error)
		_, of["ingest"] = ingest.Enqueue(t.Context(), order(1))
		_, of["ingest, a batch"] = ingest.EnqueueBatch(t.Context(), []payment.Instruction{order(2)})
		of["ingest, in a caller's transaction"] = inCallersTx(t, cell, func(tx pgx.Tx) error {
			_, err := ingest.EnqueueTx(t.Context(), tx, order(3))
			return err
		})
		_, of["executor"] = openExecutor(t, cell).CheckServer(t.Context())
		_, of["callbacks"] = callbacks.CheckServer(t.Context())
		_, of["operator"] = operator.AcceptTimeline(t.Context(), time.Time{}, "a test")
		_, of["reader"] = reader.Status(t.Context())
		return of
	}
	for who, err := range works() {
		if !errors.Is(err, outbox.ErrOtherSchema) || !outbox.Unfit(err) ||
			!strings.Contains(err.Error(), "railhead migrate up") {
			t.Errorf("%s: %v; want a refusal that says what to run", who, err)
		}
	}
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_keys"); n != 0 {
		t.Errorf("%d instructions were taken", n)
	}
	if _, err := running.CheckServer(t.Context()); err != nil {
		t.Errorf("one that runs is stopped: %v", err)
	}

	admin, err := pgx.ParseConfig(cell.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrations.Up(t.Context(), admin, cell.Schema); err != nil {
		t.Fatal(err)
	}
	for who, err := range works() {
		if err != nil {
			t.Errorf("%s, after migrate up: %v", who, err)
		}
	}
}

func inCallersTx(t *testing.T, cell *celltest.Cell, do func(pgx.Tx) error) error {
	t.Helper()
	tx, err := cell.Conn(t, celltest.Ingest).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = do(tx)
	if err == nil {
		err = tx.Commit(t.Context())
	} else if tx.Rollback(context.WithoutCancel(t.Context())) != nil {
		t.Error("the transaction can't be rolled back")
	}
	return err
}
