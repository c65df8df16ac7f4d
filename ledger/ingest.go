package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Ingest takes instructions, as a member of railhead_ingest, and says what became of
// them. It may execute the functions for that and nothing else: it reads no payload.
type Ingest struct {
	pool   *pgxpool.Pool
	sql    statements
	schema schemaCheck // of callers' own transactions

	outcomes *outcomes
	gatherer *gatherer
}

// OpenIngest connects lazily: it succeeds while the server is away.
func OpenIngest(ctx context.Context, config Config) (*Ingest, error) {
	pool, loaded, err := open(ctx, config)
	if err != nil {
		return nil, err
	}
	i := &Ingest{
		pool: pool, sql: loaded, schema: schemaCheck{cell: config.Cell},
		outcomes: newOutcomes(pool, loaded),
	}
	i.gatherer = newGatherer(i, int(pool.Config().MaxConns))
	return i, nil
}

// Close ends every connection.
func (i *Ingest) Close() {
	i.outcomes.close()
	i.pool.Close()
}

// Pool gives the connections to a collector of statistics, and to a caller who
// wants transactions of its own for EnqueueTx.
func (i *Ingest) Pool() *pgxpool.Pool { return i.pool }

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
	a, err := arrive(ctx, in)
	var receipt payment.Receipt
	if err == nil {
		receipt, err = i.gatherer.enqueue(ctx, a)
	}
	if err != nil {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, err)
	}
	return receipt, nil
}

// Gathering says what Enqueue has sent together, and what waits.
func (i *Ingest) Gathering() Gathering { return i.gatherer.stats() }

// errLeft is of a caller who left before the instruction was sent.
var errLeft = errors.New("the caller left")

// enqueueAlone takes one instruction by a call that carries nothing else, unless departs says that its caller left.
func (i *Ingest) enqueueAlone(ctx context.Context, a arriving, departs func() bool) (payment.Receipt, error) {
	var receipt payment.Receipt
	err := alone(ctx, i.pool, func(conn *pgx.Conn) error {
		if !departs() {
			return errLeft
		}
		var err error
		receipt, err = i.enqueue(ctx, conn, a)
		return err
	})
	return receipt, refusal(err)
}

// EnqueueTx takes one instruction inside the caller's transaction, on any
// connection whose login is a member of railhead_ingest: the instruction exists
// if and only if whatever else the caller wrote does. Nothing is retried: after
// an error the transaction has to be rolled back, and after 40001 or 40P01 (see
// SQLState) it may be run again as a whole. Until it ends, no other transaction
// enqueues for the same participant, so it should be short.
func (i *Ingest) EnqueueTx(ctx context.Context, tx pgx.Tx, in payment.Instruction) (payment.Receipt, error) {
	a, err := arrive(ctx, in)
	if err == nil {
		err = i.schema.on(ctx, tx)
	}
	if err == nil {
		var receipt payment.Receipt
		if receipt, err = i.enqueue(ctx, tx, a); err == nil {
			return receipt, nil
		}
	}
	return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, refusal(err))
}

// querier is a connection, or a transaction on one.
type querier interface {
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

func (i *Ingest) enqueue(ctx context.Context, on querier, a arriving) (payment.Receipt, error) {
	in := a.in
	var id pgtype.UUID
	var state pgtype.Text
	var receipt payment.Receipt
	err := on.QueryRow(ctx, i.sql["enqueue"],
		in.InstructionID, in.ParticipantID, in.IdempotencyKey, in.RailType, a.payload,
		moment(in.NotBefore), moment(in.ExpiresAt), in.Priority.Number(), a.headers, in.SendOnce).
		Scan(&id, &receipt.SequenceID, &receipt.CreatedAt, &state, &receipt.Replayed, &receipt.Differs)
	receipt.OutboxID, receipt.State = payment.ID(id.Bytes), state.String
	return receipt, err
}

// checkPayload refuses what the server would read in its own way.
func checkPayload(in payment.Instruction) error {
	if in.Payload == nil {
		return nil // the database says what is missing
	}
	if err := payment.CheckJSON(in.Payload); err != nil {
		return &outbox.Fault{
			SQLState: outbox.StateInvalid, Message: "payload: " + err.Error(),
			Hint: "Send one JSON object in which no key is given twice.",
		}
	}
	return nil
}

// refusal turns the server's refusal of what was asked into a *outbox.Fault,
// and leaves every other error as it is.
func refusal(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !refuses(pgErr.Code) {
		return err
	}
	fault := &outbox.Fault{SQLState: pgErr.Code, Message: pgErr.Message}
	if strings.HasPrefix(pgErr.Code, "RH") {
		// The server's own quote the text that they refuse.
		fault.Detail, fault.Hint, fault.Field, fault.Rule = pgErr.Detail, pgErr.Hint, pgErr.ColumnName, pgErr.ConstraintName
	}
	return fault
}

// refuses reports whether a state is about the content of a call: Railhead's
// own, a value that its type can't hold (class 22), or one too deep (54001).
func refuses(state string) bool {
	return len(state) == 5 && (state[:2] == "RH" || state[:2] == "22" || state == "54001")
}

func moment(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}
