// Package ingest is the ledger of callers with a login: it takes instructions and says what
// became of them, as a member of railhead_ingest.
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

// Ingest takes instructions, as a member of railhead_ingest, and says what became of
// them. It may execute the functions for that and nothing else: it reads no payload.
type Ingest struct {
	db     *store.DB
	schema store.SchemaCheck // of callers' own transactions

	outcomes *await.Outcomes
	sender   sender
	gatherer *enqueue.Gatherer
}

// sender sends what callers of Enqueue have asked for.
type sender struct{ db *store.DB }

// Open connects lazily: it succeeds while the server is away.
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

// Pool gives the connections to a collector of statistics, and to a caller who
// wants transactions of its own for EnqueueTx.
func (i *Ingest) Pool() *pgxpool.Pool { return i.db.Pool }

// Enqueue takes one instruction in a transaction that the caller has no part in. The same key with
// the same content gives the receipt of the first call, with Replayed set.
//
// Instructions that several goroutines enqueue at once go in one transaction, up to 256 of them or 1 MiB; what comes
// while nothing is on its way goes by itself. A transaction waits at most 5 ms for callers that the last one has answered. Each gets its own answer, after the commit, and is refused for itself
// alone. A participant's go in the order of the calls. One whose participant another
// transaction enqueues for waits for it apart from the others, by one of MaxConns - 2 connections: give the pool
// four or more.
//
// A refusal is a *outbox.Fault, which is outbox.ErrConflict, outbox.ErrInvalid or,
// where an operator has closed enqueue, outbox.ErrEnqueueClosed. With 4,096 instructions or 16 MiB waiting in this
// process more are refused with outbox.ErrBusy. A cell that another build has migrated is refused with
// outbox.ErrOtherSchema, until it was found to be of this build once. Serialization failures and deadlocks are retried here, a
// bounded number of times. After any other error, outbox.ErrCommitUnknown
// included, the same call may be repeated: it never makes a second instruction. A caller
// whose ctx ends before the instruction was sent gets the error of ctx alone: nothing was enqueued.
//
// The trace that ctx belongs to goes along in the headers, unless they have a
// traceparent already.
func (i *Ingest) Enqueue(ctx context.Context, in payment.Instruction) (payment.Receipt, error) {
	a, err := enqueue.NewItem(ctx, in)
	var receipt payment.Receipt
	if err == nil {
		receipt, err = i.gatherer.Enqueue(ctx, a)
	}
	if err != nil {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, err)
	}
	return receipt, nil
}

// Gathering says what Enqueue has sent together, and what waits.
func (i *Ingest) Gathering() ledger.Gathering { return i.gatherer.Stats() }

// EnqueueOne takes one instruction by a call that carries nothing else, unless departs says that its caller left.
func (s sender) EnqueueOne(ctx context.Context, a enqueue.Item, departs func() bool) (payment.Receipt, error) {
	var receipt payment.Receipt
	err := s.db.Autocommit(ctx, func(conn *pgx.Conn) error {
		if !departs() {
			return enqueue.ErrLeft
		}
		var err error
		receipt, err = s.enqueue(ctx, conn, a)
		return err
	})
	return receipt, store.Refusal(err)
}

// EnqueueTx takes one instruction inside the caller's transaction, on any
// connection whose login is a member of railhead_ingest: the instruction exists
// if and only if whatever else the caller wrote does. Nothing is retried: after
// an error the transaction has to be rolled back, and after 40001 or 40P01 (see
// SQLState) it may be run again as a whole. Until it ends, no other transaction
// enqueues for the same participant, so it should be short.
func (i *Ingest) EnqueueTx(ctx context.Context, tx pgx.Tx, in payment.Instruction) (payment.Receipt, error) {
	a, err := enqueue.NewItem(ctx, in)
	if err == nil {
		err = i.schema.On(ctx, tx)
	}
	if err == nil {
		var receipt payment.Receipt
		if receipt, err = i.sender.enqueue(ctx, tx, a); err == nil {
			return receipt, nil
		}
	}
	return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, store.Refusal(err))
}

// querier is a connection, or a transaction on one.
type querier interface {
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

func (s sender) enqueue(ctx context.Context, on querier, a enqueue.Item) (payment.Receipt, error) {
	in := a.In
	var id pgtype.UUID
	var state pgtype.Text
	var receipt payment.Receipt
	err := on.QueryRow(ctx, s.db.SQL["enqueue"],
		in.InstructionID, in.ParticipantID, in.IdempotencyKey, in.RailType, a.Payload,
		store.Timestamp(in.NotBefore), store.Timestamp(in.ExpiresAt), in.Priority.Number(), a.Headers, in.SendOnce).
		Scan(&id, &receipt.SequenceID, &receipt.CreatedAt, &state, &receipt.Replayed, &receipt.Differs)
	receipt.OutboxID, receipt.State = payment.ID(id.Bytes), state.String
	return receipt, err
}
