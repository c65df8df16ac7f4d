package reaper_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/internal/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestStuckClaimHoldsUpNoOther: somebody's open transaction holds the place of
// one outcome. All other claims of dead workers are repaired in the same turn,
// and what has expired ends.
func TestStuckClaimHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	store := openStore(t, cell)
	claims := claimed(t, cell, store, 6)
	cell.Exec(`UPDATE railhead.payment_outbox_claims SET claimed_at = claimed_at - interval '1 hour'`)

	// The oldest one, which every turn meets first.
	holder := cell.Conn(t, "")
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `INSERT INTO railhead.payment_outbox_attempts
	  (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state, outcome_unknown, provisional)
	  SELECT railhead.uuidv7(), outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no + 1, 'LATE_OUTCOME', false, false
	  FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, claims[0].OutboxID.String())
	if err != nil {
		t.Fatal(err)
	}
	expiring := enqueue(t, cell, 100, time.Now().Add(50*time.Millisecond))
	r := newReaper(t, store)
	result, err := r.RunOnce(t.Context())
	if err == nil || result.Repaired != len(claims)-1 {
		t.Errorf("repaired %d of %d, %v; want all but the one that is held, and its error", result.Repaired, len(claims), err)
	}
	awaitState(t, cell, r, expiring, "FAILED")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if result, err := r.RunOnce(t.Context()); err != nil || result.Repaired != 1 {
		t.Errorf("once nobody holds it: repaired %d, %v", result.Repaired, err)
	}
}

func openStore(t *testing.T, cell *celltest.Cell) *ledger.Executor {
	t.Helper()
	store, err := ledger.OpenExecutor(t.Context(), ledger.Config{URL: cell.URL(celltest.Reaper), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func newReaper(t *testing.T, store reaper.Store) *reaper.Reaper {
	t.Helper()
	r, err := reaper.New(reaper.Config{WorkerID: "reaper-of-a-test", Grace: 10 * time.Millisecond}, store, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func enqueue(t *testing.T, cell *celltest.Cell, n int, expires time.Time) payment.ID {
	t.Helper()
	ingest, err := ledger.OpenIngest(t.Context(), ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer ingest.Close()
	receipt, err := ingest.Enqueue(t.Context(), payment.Instruction{
		InstructionID: fmt.Sprintf("instruction-%d", n), ParticipantID: "p1", IdempotencyKey: fmt.Sprintf("key-%d", n),
		RailType: celltest.Bank, Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`), ExpiresAt: expires,
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipt.OutboxID
}

// claimed are n instructions in the hands of a worker without a heartbeat.
func claimed(t *testing.T, cell *celltest.Cell, store *ledger.Executor, n int) []payment.Claim {
	t.Helper()
	for i := range n {
		enqueue(t, cell, i, time.Time{})
	}
	result, err := store.Turn(t.Context(), payment.Turn{Claim: payment.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "worker-that-died",
		Lanes: []payment.Lane{{RailType: celltest.Bank, Free: n, ProfileVersion: 1, RenderVersion: "r1"}},
	}})
	if err != nil || len(result.Claims) != n {
		t.Fatalf("claimed %d, %v", len(result.Claims), err)
	}
	return result.Claims
}

// awaitState runs turns until an instruction has come to a state.
func awaitState(t *testing.T, cell *celltest.Cell, r *reaper.Reaper, id payment.ID, want string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	state := ""
	for range 200 {
		cell.QueryRow("SELECT railhead.payment_outbox_state($1::uuid)", []any{id.String()}, &state)
		if state == want {
			return
		}
		_, _ = r.RunOnce(t.Context()) // the one that is held fails every turn
		<-tick.C
	}
	t.Errorf("%s is %s, want %s", id, state, want)
}
