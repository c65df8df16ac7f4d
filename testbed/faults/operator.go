package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// suspension describes what has to follow once the data went back: before an operator has
// compared with the banks, no lane moves except those of rails that de-duplicate by key
// and still know every key that may have been forgotten.
type suspension struct {
	since time.Time // claims made later were made on the data that went back
	goOn  []string  // rails whose lanes have to go on by themselves
	mayGo []string  // rails whose lanes may
}

// suspendedUntilAccepted enqueues new payments, checks that no lane moves that must not,
// and then acts as the operator.
func (w *World) suspendedUntilAccepted(ctx context.Context, s suspension) error {
	if err := w.suspended(ctx, s); err != nil {
		return err
	}
	_, err := w.Reconcile(ctx)
	return err
}

func (w *World) suspended(ctx context.Context, s suspension) error {
	if _, err := w.Traffic(w.Options.Wave / 4); err != nil {
		return err
	}
	if err := w.AwaitCallers(ctx); err != nil {
		return err
	}
	begun := time.Now()
	err := await.Until(ctx, 30*time.Second, "the rails that de-duplicate to go on by themselves", func() (bool, error) {
		var left int
		err := w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_outbox_pending
			WHERE rail_type = ANY($1)`, s.goOn).Scan(&left)
		return left == 0, err
	})
	if err != nil {
		w.Broken("after the data went back: %v", err)
	}
	pause(ctx, max(0, 2*time.Second-time.Since(begun)))       // the others had the time to go wrong
	free := append(append([]string{}, s.goOn...), s.mayGo...) // empty, and not null, where none may
	var waiting, claimed int
	if err := w.admin.QueryRow(ctx, `SELECT
	  (SELECT count(*) FROM `+cell+`.payment_outbox_pending WHERE rail_type <> ALL($1)),
	  (SELECT count(*) FROM `+cell+`.payment_outbox_attempts WHERE rail_type <> ALL($1)
	  AND state IN ('DISPATCHING', 'INQUIRING') AND claimed_at > $2)`,
		free, s.since).Scan(&waiting, &claimed); err != nil {
		return err
	}
	if claimed > 0 || waiting == 0 {
		w.Broken("%d claims on rails that have to wait, before an operator has compared with the banks; %d payments wait",
			claimed, waiting)
	}
	return nil
}

// Reconcile acts as the operator: it compares what waits with the banks' ledgers, resolves
// what a bank has executed, and accepts the server. It returns the instructions that a bank
// has executed and of which the cell has no attempt: those that the server forgot.
func (w *World) Reconcile(ctx context.Context) (forgotten []string, err error) {
	type open struct{ Since string }
	compared, err := collect[open](ctx, w, `SELECT to_char(opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
		FROM `+cell+`.payment_outbox_suspensions WHERE accepted_at IS NULL`)
	if err != nil {
		return nil, err
	}
	executed, err := w.executed()
	if err != nil {
		return nil, err
	}
	type row struct {
		OutboxID, InstructionID string
		Unsent                  bool
	}
	const waitingSQL = `SELECT p.outbox_id::text, p.instruction_id,
	  NOT EXISTS (SELECT FROM ` + cell + `.payment_outbox_attempts a WHERE a.outbox_id = p.outbox_id)
	  FROM ` + cell + `.v_outbox_pending p ORDER BY p.outbox_id`
	waiting, err := collect[row](ctx, w, waitingSQL)
	if err != nil {
		return nil, err
	}
	for _, each := range waiting {
		record, ok := executed[each.InstructionID]
		if !ok {
			continue
		}
		if each.Unsent {
			forgotten = append(forgotten, each.InstructionID)
		}
		if err := w.resolveExecuted(ctx, each.OutboxID, record); err != nil {
			return forgotten, err
		}
	}
	accept := []string{"timeline", "accept", "--reason",
		fmt.Sprintf("compared %d payments that wait with the banks' ledgers", len(waiting))}
	for _, suspension := range compared { // one at most
		accept = append(accept, "--since", suspension.Since)
	}
	return forgotten, w.Operate(ctx, accept...)
}

// resolveExecuted resolves a payment that a bank has executed. A lane that goes on by
// itself may have claimed it meanwhile: then the bank's answer ends it.
func (w *World) resolveExecuted(ctx context.Context, outboxID string, record railsim.Record) error {
	var failed error
	// A payment of a rail that goes on may be claimed at the moment, and return to pending.
	err := await.Until(ctx, 10*time.Second, "what waits to be ended", func() (bool, error) {
		var waits bool
		failed = w.resolveOnce(ctx, outboxID, record)
		if failed == nil {
			return true, nil
		}
		err := w.admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+cell+`.payment_outbox_pending WHERE outbox_id = $1::uuid)
		  OR EXISTS (SELECT FROM `+cell+`.payment_outbox_claims WHERE $1::uuid = ANY (outbox_ids))`, outboxID).Scan(&waits)
		return !waits, err
	})
	if errors.Is(err, await.ErrNotInTime) {
		return failed
	}
	return err
}

func (w *World) resolveOnce(ctx context.Context, outboxID string, record railsim.Record) error {
	return w.Operate(ctx, "dead-letter", "resolve", outboxID, "--executed", "--rail-reference", record.ID,
		"--evidence-date", time.Now().UTC().Format(time.DateOnly), "--document", "the bank's ledger", "--reason",
		"forgotten by the database")
}

// executed returns what the banks have executed so far, by instruction.
func (w *World) executed() (map[string]railsim.Record, error) {
	all := make(map[string]railsim.Record)
	for _, bank := range []*Bank{w.Dedupes, w.Bare} {
		moved, err := bank.moved()
		if err != nil {
			return nil, err
		}
		for _, record := range moved {
			if record.Kind == railsim.Executed {
				all[record.Reference] = record
			}
		}
	}
	return all, nil
}
