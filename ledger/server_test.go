package ledger_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestUnsafeServer: money does not depend on a server that may forget.
func TestUnsafeServer(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{Settings: map[string]string{"fsync": "off",
		"full_page_writes": "off"}})
	cell := celltest.On(t, cluster)
	exec, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	_, err = exec.CheckServer(t.Context())
	exec.Close()
	if !errors.Is(err, outbox.ErrUnsafeServer) || !strings.Contains(err.Error(), "fsync is off") ||
		!strings.Contains(err.Error(), "full_page_writes is off") {
		t.Errorf("got %v, want both settings refused at once", err)
	}
	t.Run("another server", func(t *testing.T) { serverChanges(t, celltest.New(t), cell) })
}

func TestAsynchronousCommitIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if _, err := d.exec.CheckServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.do(`ALTER ROLE ` + celltest.Relayer + ` IN DATABASE ` + d.Name + ` SET synchronous_commit = off`)
	_, err := openExecutor(t, d.Cell).CheckServer(t.Context())
	if !errors.Is(err, outbox.ErrUnsafeServer) || !strings.Contains(err.Error(), "synchronous_commit is off") {
		t.Errorf("got %v", err)
	}
}

// serverChanges moves an executor to another server between two checks, the way
// a failover does: its connections break, and the pool makes new ones. Nothing
// may be claimed there before a check has found which server it is.
func serverChanges(t *testing.T, one, other *celltest.Cell) {
	link := filepath.Join(t.TempDir(), "s")
	leadTo := func(cell *celltest.Cell) {
		t.Helper()
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(parse(t, cell.URL("")).Query().Get("host"), link); err != nil {
			t.Fatal(err)
		}
	}
	through := parse(t, one.URL(celltest.Relayer))
	query := through.Query()
	query.Set("host", link)
	through.RawQuery = query.Encode()
	admin, err := pgx.Connect(t.Context(), other.AdminURL())
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, admin, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1`, other.Name)
	mustExec(t, admin, `ALTER DATABASE `+other.Name+` RENAME TO `+one.Name)
	other.DB.Name = one.Name // to be dropped by
	if err := admin.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	leadTo(one)
	exec, err := executor.Open(t.Context(), ledger.Config{URL: through.String(), Cell: one.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Close)
	first, err := exec.CheckServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim := outbox.Turn{Claim: request(lane("bank", 1, 0))}
	if _, err := exec.Turn(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	leadTo(other)
	exec.Pool().Reset()
	if _, err := exec.Turn(t.Context(), claim); !errors.Is(err, outbox.ErrServerChanged) {
		t.Errorf("a turn there: %v, want %v", err, outbox.ErrServerChanged)
	}
	if _, err := exec.ClaimOnly(t.Context(), claim.Claim, nil); !errors.Is(err, outbox.ErrServerChanged) {
		t.Errorf("a claim there: %v, want %v", err, outbox.ErrServerChanged)
	}
	second, _ := exec.CheckServer(t.Context()) // it is unsafe too; who it is comes all the same
	if second.SystemIdentifier == first.SystemIdentifier {
		t.Fatalf("both are %s", first.SystemIdentifier)
	}
	if _, err := exec.Turn(t.Context(), claim); err != nil {
		t.Errorf("a turn after the look: %v", err)
	}
	// What was decided before the look was decided for the other one.
	claim.Claim.ClaimID, claim.Claim.Server = payment.NewID(), first
	if _, err := exec.Turn(t.Context(), claim); !errors.Is(err, outbox.ErrServerChanged) {
		t.Errorf("a turn that was decided before the look: %v, want %v", err, outbox.ErrServerChanged)
	}
	claim.Claim.Server = second
	if _, err := exec.Turn(t.Context(), claim); err != nil {
		t.Errorf("a turn that was decided after the look: %v", err)
	}
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestLocksElsewhere: a session that holds a row for a coffee break stops only
// those that need that row, and those for a second.
func TestLocksElsewhere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := firstSend(d)
	d.record(lost(never, claim)) // parked, with a letter
	other := d.enqueue()
	idle := d.Conn(t, "")
	mustExec(t, idle, `BEGIN`)
	mustExec(t, idle, `SELECT FROM railhead.payment_outbox_keys FOR UPDATE`)
	mustExec(t, idle, `SELECT FROM railhead.payment_dead_letters FOR UPDATE`)
	began := time.Now()
	if _, err := d.exec.RecordLate(t.Context(), callback(claim.OutboxID, payment.ResultExecuted, "ref")); !errors.Is(err,
		outbox.ErrLockTimeout) {
		t.Errorf("late outcome: %v, want %v", err, outbox.ErrLockTimeout)
	}
	if err := d.quarantine(claim.OutboxID, "x"); err != nil {
		t.Errorf("quarantined: %v", err) // it is not in pending: nothing to wait for
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("waited %s", took)
	}
	if got := d.claimOne(other); got.AttemptNo != 1 {
		t.Errorf("claim %+v", got)
	}
	mustExec(t, idle, `ROLLBACK`)
	same(t, "afterwards", d.late(callback(claim.OutboxID, payment.ResultExecuted, "ref")), payment.VerdictSettled)
}
