package ledger_test

import (
	"fmt"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func openIngest(t testing.TB, cell *celltest.Cell, maxConns int32) *ingest.Ingest {
	t.Helper()
	ingest, err := ingest.Open(t.Context(), ledger.Config{
		URL: cell.URL(celltest.Ingest), Cell: cell.Schema, Name: "ingest of a test", MaxConns: maxConns,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ingest.Close)
	return ingest
}

// order is a valid instruction of participant p1.
func order(n int) payment.Instruction {
	return payment.Instruction{
		InstructionID: fmt.Sprintf("instruction-%d", n), ParticipantID: "p1", IdempotencyKey: fmt.Sprintf("key-%d", n),
		RailType: celltest.Bank, Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`),
	}
}

func openExecutor(t testing.TB, cell *celltest.Cell) *executor.Executor {
	t.Helper()
	executor, err := executor.Open(t.Context(),
		ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema, Name: "relayer of a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(executor.Close)
	return executor
}

// claimAll claims what is due on the bank's lane, up to a hundred.
func claimAll(t testing.TB, executor *executor.Executor) []payment.Claim {
	t.Helper()
	result, err := executor.Turn(t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "worker-of-a-test",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 100, Oldest: 10, ProfileVersion: 1, RenderVersion: "r1"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return result.Claims
}

// wantStream insists that the numbers of every participant are 1 to n without a
// gap, in keys and as the next number says, and counts all instructions.
func wantStream(t testing.TB, cell *celltest.Cell, total int) {
	t.Helper()
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_keys"); n != total {
		t.Errorf("%d instructions, want %d", n, total)
	}
	bad := cell.Int(`
		SELECT count(*)
		FROM railhead.participant_outbox_sequences s
		LEFT JOIN LATERAL (
		  SELECT count(*) AS n, coalesce(max(k.sequence_id), 0) AS last, coalesce(min(k.sequence_id), 1) AS first
		  FROM railhead.payment_outbox_keys k WHERE k.participant_id = s.participant_id) k ON true
		WHERE k.n <> s.next_sequence_id - 1 OR k.last <> s.next_sequence_id - 1 OR k.first <> 1`)
	if bad != 0 {
		t.Errorf("%d participants have a gap in their numbers", bad)
	}
}
