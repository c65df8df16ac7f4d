package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/payment"
)

// callerFaults returns the faults of callers that repeat their calls.
func callerFaults() []Fault {
	return []Fault{{
		Name: "one_key_fifty_callers", About: "fifty callers of one key at all isolation levels, at once and with " +
			"snapshots from before it was dispatched",
		Inject: fiftyCallers, Quiet: true,
	}}
}

const fifty = 50

var isolations = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func fiftyCallers(ctx context.Context, w *World) error {
	ingest, err := ingest.Open(ctx, ledger.Config{
		URL: w.Lane.Server.URL(w.database, loginIngest), Cell: cell, Name: "railhead-caller", MaxConns: fifty,
	})
	if err != nil {
		return err
	}
	defer ingest.Close()
	for round := range w.Options.Rounds * len(w.Options.Rails) {
		one, err := w.draw(w.Options.Rails[round%len(w.Options.Rails)])
		if err != nil {
			return err
		}
		w.plans++
		journal, err := openJournal(w.journal(w.plans))
		if err != nil {
			return err
		}
		// In odd rounds the callers take their snapshots before the first one enqueues, and
		// call after it was dispatched. In even rounds all call at once.
		err = w.repeat(ctx, ingest, journal, one, round%2 == 1)
		if err := errors.Join(err, journal.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) repeat(ctx context.Context, ingest *ingest.Ingest, journal *Journal, one order, lookFirst bool) error {
	looked, call := make(chan error, fifty), make(chan struct{})
	results := make(chan error, fifty)
	var callers sync.WaitGroup
	for n := range fifty {
		callers.Go(func() {
			results <- repeatOnce(ctx, ingest, journal, one, isolations[n%len(isolations)], looked, call)
		})
	}
	var all []error
	for range fifty {
		all = append(all, <-looked)
	}
	if lookFirst && errors.Join(all...) == nil {
		all = append(all, w.first(ctx, journal, one))
	}
	close(call)
	callers.Wait()
	for range fifty {
		w.Injected++
		switch err := <-results; {
		case err == nil:
			w.Hit++
		case ledger.SQLState(err) == "40001" || ledger.SQLState(err) == "40P01":
			w.Hit++ // told to try again: no second instruction
		default:
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// first enqueues the instruction apart from the fifty callers and waits until it has been
// dispatched or has ended otherwise.
func (w *World) first(ctx context.Context, journal *Journal, one order) error {
	conn, err := ingest.Open(ctx, ledger.Config{URL: w.Lane.Server.URL(w.database, loginIngest), Cell: cell,
		Name: "railhead-caller", MaxConns: 1})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := journal.Write(Entry{Kind: Attempt, InstructionID: one.InstructionID}); err != nil {
		return err
	}
	receipt, err := conn.Enqueue(ctx, one.instruction())
	if err != nil {
		return err
	}
	if err := acknowledged(journal, one, receipt, ""); err != nil {
		return err
	}
	return await.Until(ctx, 15*time.Second, "the first one to be dispatched", func() (bool, error) {
		var state string
		err := w.admin.QueryRow(ctx, `SELECT `+cell+`.payment_outbox_state($1::uuid)`, receipt.OutboxID.String()).Scan(&state)
		return !slices.Contains([]string{"PENDING", string(payment.Unknown), string(payment.Accepted),
			string(payment.Dispatching)}, state), err
	})
}

func acknowledged(journal *Journal, one order, receipt payment.Receipt, isolation string) error {
	return journal.Write(Entry{
		Kind: Ack, InstructionID: one.InstructionID, OutboxID: receipt.OutboxID.String(), SequenceID: receipt.SequenceID,
		Replayed: receipt.Replayed, Isolation: isolation,
	})
}

// repeatOnce opens a transaction, takes its snapshot, and enqueues when the channel call
// is closed.
func repeatOnce(
	ctx context.Context, ingest *ingest.Ingest, journal *Journal, one order, level pgx.TxIsoLevel,
	looked chan<- error, call <-chan struct{},
) error {
	told := false
	tell := func(err error) {
		if !told {
			looked <- err
			told = true
		}
	}
	var receipt payment.Receipt
	err := pgx.BeginTxFunc(ctx, ingest.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT 1")
		tell(err)
		<-call
		if err != nil {
			return err
		}
		if err := journal.Write(Entry{Kind: Attempt, InstructionID: one.InstructionID,
			Isolation: string(level)}); err != nil {
			return err
		}
		receipt, err = ingest.EnqueueTx(ctx, tx, one.instruction())
		return err
	})
	tell(err)
	if err != nil {
		return fmt.Errorf("at %s: %w", level, err)
	}
	return acknowledged(journal, one, receipt, string(level))
}
