// Package ingest is the ledger of callers with a login: it enqueues instructions and reads
// their status, as a member of railhead_ingest.
package ingest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/await"
	"github.com/railhead-pay/railhead/ledger/internal/enqueue"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Ingest enqueues instructions and reads their status, as a member of railhead_ingest. That
// role may execute only the functions for that, and can't read payloads.
type Ingest struct {
	db     *store.DB
	schema store.SchemaCheck // of callers' own transactions

	outcomes *await.Outcomes
	sender   sender
	gatherer *enqueue.Gatherer
}

// sender is the enqueue.Sender of the role.
type sender struct{ db *store.DB }

// Open connects lazily: it succeeds even if the server is down.
func Open(ctx context.Context, config ledger.Config) (*Ingest, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	i := &Ingest{
		db: db, sender: sender{db}, schema: store.SchemaCheck{Cell: config.Cell},
		outcomes: await.NewOutcomes(db),
	}
	i.gatherer = enqueue.NewGatherer(i.sender, int(db.Pool.Config().MaxConns))
	return i, nil
}

// Close ends every connection.
func (i *Ingest) Close() {
	i.outcomes.Close()
	i.db.Pool.Close()
}

// Pool returns the connections, for statistics and for callers' own transactions with
// EnqueueTx.
func (i *Ingest) Pool() *pgxpool.Pool { return i.db.Pool }

// Enqueue enqueues one instruction in a transaction of its own. For the same key with the
// same content it returns the receipt of the first call, with Replayed set.
//
// Instructions of concurrent callers share a transaction, up to 256 of them or 1 MiB. One
// that arrives while no call is in flight is sent by itself. A transaction waits at most 5
// ms for the callers that the previous one has answered. Each caller gets its own answer,
// after the commit, and a refusal concerns only its own instruction. The instructions of a
// participant are enqueued in the order of the calls. If another transaction enqueues for a
// participant, its instructions wait without delaying others, on one of MaxConns - 2
// connections; so the pool should have four or more.
//
// A refusal is a *outbox.Fault. It is outbox.ErrConflict, outbox.ErrInvalid or, if an
// operator has closed enqueue, outbox.ErrEnqueueClosed. While 4,096 instructions or 16 MiB
// wait in this process, the error is outbox.ErrBusy. If another build has migrated the
// cell, it is outbox.ErrOtherSchema, unless this process has already found the cell to be
// of its own build. Enqueue retries serialization failures and deadlocks, a bounded number
// of times. After any other error, including outbox.ErrCommitUnknown, the same call may be
// repeated: it never makes a second instruction. If ctx ends before the instruction is
// sent, the error is only that of ctx, and nothing was enqueued.
//
// The headers get the trace of ctx, unless they already have a traceparent.
func (i *Ingest) Enqueue(ctx context.Context, in payment.Instruction) (payment.Receipt, error) {
	item, err := enqueue.NewItem(ctx, in)
	var receipt payment.Receipt
	if err == nil {
		receipt, err = i.gatherer.Enqueue(ctx, item)
	}
	if err != nil {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, err)
	}
	return receipt, nil
}

// Gathering returns the counts of calls and waiting instructions.
func (i *Ingest) Gathering() ledger.Gathering { return i.gatherer.Stats() }

// EnqueueOne enqueues one instruction: see enqueue.Sender.
func (s sender) EnqueueOne(ctx context.Context, item enqueue.Item, departs func() bool) (payment.Receipt, error) {
	var receipt payment.Receipt
	err := s.db.Autocommit(ctx, func(conn *pgx.Conn) error {
		if !departs() {
			return enqueue.ErrLeft
		}
		var err error
		receipt, err = s.enqueue(ctx, conn, item)
		return err
	})
	return receipt, store.Refusal(err)
}

// EnqueueTx enqueues one instruction inside the caller's transaction, on any
// connection whose login is a member of railhead_ingest: the instruction is stored if
// and only if that transaction commits. EnqueueTx does not retry: after an error the
// caller must roll back, and after 40001 or 40P01 (see SQLState) it may run the whole
// transaction again. Until the transaction ends, no other one enqueues for the same
// participant, so it should be short.
func (i *Ingest) EnqueueTx(ctx context.Context, tx pgx.Tx, in payment.Instruction) (payment.Receipt, error) {
	item, err := enqueue.NewItem(ctx, in)
	if err == nil {
		err = i.schema.On(ctx, tx)
	}
	if err == nil {
		var receipt payment.Receipt
		if receipt, err = i.sender.enqueue(ctx, tx, item); err == nil {
			return receipt, nil
		}
	}
	return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, store.Refusal(err))
}

// querier is a connection, or a transaction on one.
type querier interface {
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

func (s sender) enqueue(ctx context.Context, on querier, item enqueue.Item) (payment.Receipt, error) {
	in := item.In
	var id pgtype.UUID
	var state pgtype.Text
	var receipt payment.Receipt
	err := on.QueryRow(ctx, s.db.SQL["enqueue"],
		in.InstructionID, in.ParticipantID, in.IdempotencyKey, in.RailType, item.Payload,
		store.Timestamp(in.NotBefore), store.Timestamp(in.ExpiresAt), in.Priority.Number(), item.Headers, in.SendOnce).
		Scan(&id, &receipt.SequenceID, &receipt.CreatedAt, &state, &receipt.Replayed, &receipt.Differs)
	receipt.OutboxID, receipt.State = payment.ID(id.Bytes), state.String
	return receipt, err
}
