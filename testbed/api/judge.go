package api

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// Count is the result of a run.
type Count struct {
	accepted      int // instructions that callers were told to be stored
	lost          int // of those, what is not there, or was not executed
	doubled       int // executions beyond one, and instructions that are there twice
	foreignReads  int // answers that gave one participant anything of another
	commitUnknown int // calls of which it was not known what they had stored

	killedAPI, killedDatabase, killedRelayer, cuts, lostAnswers int
}

func readerOf(text string) io.Reader { return strings.NewReader(text) }

// judge waits until nothing is under way, stops all processes, and counts.
func judge(ctx context.Context, w *world, c *callers) (Count, error) {
	made := w.made
	made.commitUnknown, made.lostAnswers, made.foreignReads = int(c.unknown.Load()), int(c.lost.Load()),
		int(c.foreign.Load())
	conn, err := pgx.Connect(ctx, w.admin)
	if err != nil {
		return made, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	open := -1
	err = await.Until(ctx, w.Bound, "all payments to be at their end", func() (bool, error) {
		err := conn.QueryRow(ctx, `SELECT count(*) FROM railhead.supervisor_outbox_status
			WHERE state IS DISTINCT FROM 'DISPATCHED'`).Scan(&open)
		return err == nil && open == 0, nil
	})
	if err != nil {
		return made, fmt.Errorf("%w (%d are open)", err, open)
	}
	// A request that a killed relayer has sent may still arrive: the bank ends after it has answered.
	for _, s := range append(w.all, w.bank) {
		if err := s.stop(); err != nil {
			return made, err
		}
	}
	return made, made.compare(ctx, conn, w, c)
}

func (made *Count) compare(ctx context.Context, conn *pgx.Conn, w *world, c *callers) error {
	there := make(map[string][]payment.ID)
	rows, err := conn.Query(ctx, `SELECT participant_id || '/' || instruction_id, outbox_id
		FROM railhead.payment_outbox_keys`)
	if err != nil {
		return err
	}
	var name string
	var id [16]byte
	if _, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error {
		there[name] = append(there[name], payment.ID(id))
		return nil
	}); err != nil {
		return err
	}
	moved, err := railsim.ReadLedger(w.ledger())
	if err != nil {
		return err
	}
	executed := make(map[string]int)
	for _, record := range moved {
		if record.Kind == railsim.Executed {
			executed[record.Creditor]++
		}
	}
	made.accepted = len(c.told)
	for name, receipt := range c.told {
		if len(there[name]) == 0 || there[name][0] != receipt.OutboxID || executed[name] == 0 {
			made.lost++
		}
	}
	for name, ids := range there {
		made.doubled += len(ids) - 1
		if strings.HasPrefix(name, "intruder/") {
			made.foreignReads++
		}
	}
	for name, times := range executed {
		made.doubled += times - 1
		if len(there[name]) == 0 {
			made.doubled++
		}
	}
	for _, said := range c.broken {
		fmt.Printf("api: %s\n", said)
		made.doubled++
	}
	wanted := w.Payments / len(c.each) * len(c.each)
	switch {
	case made.accepted != wanted:
		return fmt.Errorf("%w: %d of %d were accepted", ErrCount, made.accepted, wanted)
	case made.lost+made.doubled+made.foreignReads > 0:
		return ErrCount
	case made.killedAPI == 0 || made.killedDatabase == 0 || made.killedRelayer == 0 || made.cuts == 0 ||
		made.lostAnswers == 0:
		return fmt.Errorf("%w: some fault never came: more payments, or another seed", ErrCount)
	default:
		return nil
	}
}
