package cells

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// mend ends what operators have begun, once nothing breaks any more, and waits until every bucket is taken by exactly
// one cell.
func (w *world) mend(ctx context.Context) error {
	for _, bank := range w.banks {
		if err := bank.SetFaults(); err != nil {
			return err
		}
	}
	for _, command := range w.broken {
		if err := await.Until(ctx, time.Minute, strings.Join(command, " "), func() (bool, error) {
			w.sync(ctx, w.draws)
			_, code := w.operate(ctx, w.cells[0], 0, command...)
			return code == 0 || code == 9, nil
		}); err != nil {
			return err
		}
	}
	return await.Until(ctx, time.Minute, "every bucket to be taken by exactly one cell", func() (bool, error) {
		return w.sync(ctx, w.draws) == 0, nil
	})
}

// restWithin bounds the time until nothing is under way any more.
const restWithin = 2 * time.Minute

// rest waits until every payment has ended, as operators do who send refused ones again and resolve others
// by the banks' ledgers.
func (w *world) rest(ctx context.Context) error {
	left := ""
	err := await.Until(ctx, restWithin, "every payment to have ended", func() (bool, error) {
		left = ""
		for _, c := range w.cells {
			var open int
			err := c.admin.QueryRow(ctx, `SELECT count(*) FROM supervisor_outbox_status WHERE state <> 'DISPATCHED'`).Scan(&open)
			if err == nil && open > 0 {
				left += fmt.Sprintf(" %s %d", c.name, open)
				err = w.reconcile(ctx, c)
			}
			if err != nil {
				return false, err
			}
		}
		return left == "", nil
	})
	if err != nil {
		return fmt.Errorf("%w; open:%s", err, left)
	}
	return nil
}

// reconcile sends refused payments again, and resolves those whose outcome is not known by the banks' ledgers.
func (w *world) reconcile(ctx context.Context, c *cell) error {
	failed, err := c.ids(ctx, payment.Failed)
	if err != nil {
		return err
	}
	for _, id := range failed { // one by one: some were replayed before
		row, err := c.lastRow(ctx, id)
		if err != nil {
			return err
		}
		w.operate(ctx, c, 0, "dead-letter", "replay", id, "--row", row, "--reason", "once more")
	}
	parked, err := c.ids(ctx, payment.Parked)
	if err != nil || len(parked) == 0 {
		return err
	}
	moved, err := w.moved()
	if err != nil {
		return err
	}
	for _, id := range parked {
		var name string
		if err := c.admin.QueryRow(ctx, `SELECT instruction_id FROM payment_outbox_keys WHERE outbox_id = $1::uuid`,
			id).Scan(&name); err != nil {
			return err
		}
		proof := []string{"--not-executed", "--rail-silent"}
		if n := slices.IndexFunc(moved, func(r railsim.Record) bool {
			return r.Kind == railsim.Executed && r.Reference == name
		}); n >= 0 {
			proof = []string{"--executed", "--rail-reference", moved[n].ID}
		}
		row, err := c.lastRow(ctx, id)
		if err != nil {
			return err
		}
		act := slices.Concat([]string{"dead-letter", "resolve", id, "--row", row}, proof)
		w.operate(ctx, c, 0, append(act, "--evidence-date", time.Now().UTC().Format(time.DateOnly), "--document",
			"the bank's ledger", "--reason", "compared")...)
	}
	return nil
}

// lastRow is the number of the last row of a payment.
func (c *cell) lastRow(ctx context.Context, id string) (row string, err error) {
	err = c.admin.QueryRow(ctx, `SELECT max(attempt_no)::text FROM payment_outbox_attempts WHERE outbox_id = $1::uuid`,
		id).Scan(&row)
	return row, err
}

// ids are some payments of a state whose dead letter is open.
func (c *cell) ids(ctx context.Context, state payment.State) (ids []string, err error) {
	err = c.admin.QueryRow(ctx, `SELECT coalesce(array_agg(outbox_id::text), '{}') FROM (
		SELECT outbox_id FROM supervisor_outbox_status WHERE state = $1 LIMIT 50) s`, string(state)).Scan(&ids)
	return ids, err
}

// stop ends the services of the cells. None of all services may have ended by itself.
func (w *world) stop(context.Context) error {
	for _, s := range slices.Concat(w.services(), w.apis) {
		if err := s.Died(); err != nil {
			return err
		}
	}
	return stopAll(w.services())
}

// prove runs the proofs in every cell.
func (w *world) prove(ctx context.Context) error {
	for _, c := range w.cells {
		if said, code := w.operate(ctx, c, 0, "prove"); code != 0 {
			return fmt.Errorf("%w: railhead prove of cell %s: exit code %d: %s", ErrCount, c.name, code,
				said[max(0, len(said)-4000):])
		}
	}
	return nil
}

// batch is how many instructions the last calls have.
const batch = 500

// repeatAll repeats every key once more, and asks for every status, when all is at rest.
func (w *world) repeatAll(ctx context.Context) error {
	var bySQL []*order
	for _, o := range w.orders {
		if !o.HTTP {
			bySQL = append(bySQL, o)
			continue
		}
		from := time.Now()
		status, err := w.doorOf(o, w.draws).Status(ctx,
			railhead.Key{InstructionID: o.InstructionID, IdempotencyKey: o.IdempotencyKey})
		w.atRest(o, &status, from, err)
		_ = w.try(ctx, w.doorOf(o, w.draws), o, patience)
	}
	for some := range slices.Chunk(bySQL, batch) {
		again, keys := make([]railhead.Instruction, len(some)), make([]railhead.Key, len(some))
		for i, o := range some {
			again[i], keys[i] = o.Instruction, railhead.Key{InstructionID: o.InstructionID, IdempotencyKey: o.IdempotencyKey}
		}
		from := time.Now()
		statuses, err := w.routed[0].Statuses(ctx, keys)
		if err != nil {
			return err
		}
		results, err := w.routed[1].EnqueueBatch(ctx, again)
		if err != nil {
			return err
		}
		for i, o := range some {
			if results[i].Fault != nil {
				w.wrong(o, "its repetition was refused: %v", results[i].Fault)
			} else {
				w.told(o, results[i].Receipt, from)
			}
			w.atRest(o, statuses[i], from, nil)
		}
	}
	return nil
}

// atRest notes a status that was asked for when all is at rest: every cell can be reached.
func (w *world) atRest(o *order, status *railhead.Status, from time.Time, err error) {
	switch {
	case err != nil:
		w.wrong(o, "its status: %v", err)
	case status == nil:
		w.wrong(o, "no cell has it")
	case status.State == railhead.StateElsewhere:
		w.wrong(o, "every cell says that it is elsewhere")
	default:
		w.saw(o, *status, from)
	}
}
