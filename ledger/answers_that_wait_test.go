package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestReadsBehindAnswersThatWait: while the synchronous standby is away, answers that a payment has ended unpaid wait
// for it, and those about other payments do not wait for them.
func TestReadsBehindAnswersThatWait(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	cell := celltest.On(t, cluster)
	super := cell.Conn(t, "")
	ingest := openIngest(t, cell, 1)
	var ids []payment.ID
	for _, key := range []string{"live", "ended"} {
		in := order(1)
		in.InstructionID, in.IdempotencyKey = key, key
		receipt, err := ingest.Enqueue(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, receipt.OutboxID)
	}
	op, err := operator.Open(ctx, ledger.Config{URL: cell.URL(celltest.Operator), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	if _, err := op.CancelPayment(ctx, ids[1], "to be tested"); err != nil {
		t.Fatal(err)
	}
	token, _, err := operator.CreateToken(ctx, super, cell.Schema, operator.NewToken{Name: t.Name(), Verbs: everyVerb,
		Participants: []string{order(1).ParticipantID}, ExpiresAt: time.Now().Add(time.Hour), Reason: "to be tested"})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := door.Open(ctx, ledger.Config{URL: cell.URL(celltest.API), Cell: cell.Schema, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Close()
	who := outbox.Bearer{Token: outbox.TokenDigest(token)}
	if _, err := entry.Status(ctx, who, ids[1]); err != nil {
		t.Fatalf("with no standby: %v", err)
	}

	mustExec(t, super, `ALTER SYSTEM SET synchronous_standby_names = 'absent'`)
	mustExec(t, super, `SELECT pg_reload_conf()`)
	defer mustExec(t, super, `SELECT pg_reload_conf()`)
	defer mustExec(t, super, `ALTER SYSTEM RESET synchronous_standby_names`)
	const answers = 16
	waited := make(chan error, answers)
	for range answers {
		go func() {
			for {
				if _, err := entry.Status(ctx, who, ids[1]); err != nil || ctx.Err() != nil {
					waited <- err
					return
				}
			}
		}()
	}
	for waits := 0; waits == 0; { // until the server has heard of it
		cell.QueryRow("SELECT count(*)::int FROM pg_stat_activity WHERE wait_event = 'SyncRep'", nil, &waits)
	}
	bounded, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := entry.Status(bounded, who, ids[0]); err != nil {
		t.Errorf("another payment: %v", err)
	}
	for range answers {
		if err := <-waited; err == nil {
			t.Error("an answer did not wait for the standby")
		}
	}
}
