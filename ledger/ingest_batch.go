package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// EnqueueBatch takes many instructions in one transaction, at most the cell's
// batch_items_max (10,000 unless set otherwise), and returns one result for each
// in the same order. A bad one carries its Fault and the others go in. Numbers
// follow the order of the instructions within each participant. The trace goes
// along as with Enqueue. It waits for other transactions that enqueue for the same
// participants.
//
// An error means that none went in, or, with outbox.ErrCommitUnknown, that all
// or none did. Either way the same call may be repeated.
func (i *Ingest) EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]outbox.ReceiptOrFault, error) {
	b := newBatch(ctx, all)
	err := i.sendBatch(ctx, b)
	if unreadable(err) {
		// Find the items that can't be read, and send the others.
		if err := i.sortOut(ctx, b); err != nil {
			return nil, fmt.Errorf("enqueue of a batch of %d: %w", len(all), err)
		}
		err = i.sendBatch(ctx, b)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue of a batch of %d: %w", len(all), refusal(err))
	}
	return b.results, nil
}

// unreadable reports whether the server refused the text and not an instruction.
func unreadable(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refuses(pgErr.Code) && !strings.HasPrefix(pgErr.Code, "RH")
}

// arriving is an instruction as it is sent. Of in.Payload, which is the caller's, nothing is read after the call.
type arriving struct {
	in      payment.Instruction
	payload *string       // nil: none
	headers string        // as JSON
	bearer  outbox.Bearer // who shows a token, over HTTP
	behalf  string        // the principal behind the bearer; empty: none
}

// arrive checks and renders what the server would read in its own way. The trace of ctx goes along.
func arrive(ctx context.Context, in payment.Instruction) (arriving, error) {
	if err := checkPayload(in); err != nil {
		return arriving{}, err
	}
	a := arriving{in: in, headers: "{}"}
	if in.Payload != nil {
		a.payload, a.in.Payload = new(string(in.Payload)), nil
	}
	headers := tracing.Carry(ctx, in.Headers)
	if len(headers) == 0 {
		return a, nil
	}
	text, err := json.Marshal(headers)
	a.headers = string(text)
	return a, err
}

// batch is a batch on its way: the items that are sent, where each came from,
// and what became of all.
type batch struct {
	items   []arriving
	from    []int // index in results of each of items
	results []outbox.ReceiptOrFault
}

// newBatch renders the items. One that can't be rendered gets its fault here.
func newBatch(ctx context.Context, all []payment.Instruction) *batch {
	b := &batch{results: make([]outbox.ReceiptOrFault, len(all))}
	for n, in := range all {
		item, err := arrive(ctx, in)
		if err != nil {
			b.results[n].Fault = faultOf(err)
			continue
		}
		b.items, b.from = append(b.items, item), append(b.from, n)
	}
	return b
}

func faultOf(err error) *outbox.Fault {
	if fault, ok := errors.AsType[*outbox.Fault](err); ok {
		return fault
	}
	return &outbox.Fault{SQLState: outbox.StateInvalid, Message: err.Error()}
}

func (i *Ingest) sendBatch(ctx context.Context, b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	answers, err := i.enqueueArrays(ctx, true, func() []arriving { return b.items })
	if err == nil {
		for n, answer := range answers {
			b.results[b.from[n]] = answer
		}
	}
	return err
}

// sortOut takes the items out that the server can't read, by halves, each with
// its fault. The reads write nothing, so that the batch itself still locks its
// participants in one order.
func (i *Ingest) sortOut(ctx context.Context, b *batch) error {
	var readable func(items []arriving, from []int) error
	items, from := b.items, b.from
	b.items, b.from = nil, nil
	readable = func(items []arriving, from []int) error {
		_, err := i.pool.Exec(ctx, i.sql["readable"], argumentsOf(items)...)
		fault, refused := errors.AsType[*outbox.Fault](refusal(err))
		switch {
		case err == nil:
			b.items, b.from = append(b.items, items...), append(b.from, from...)
			return nil
		case !refused:
			return err
		case len(items) == 1:
			b.results[from[0]].Fault = fault
			return nil
		}
		half := len(items) / 2
		return errors.Join(readable(items[:half], from[:half]), readable(items[half:], from[half:]))
	}
	return readable(items, from)
}

// argumentsOf gives the arguments of the enqueue over arrays.
func argumentsOf(items []arriving) []any {
	n := len(items)
	instructions, participants, keys := make([]string, n), make([]string, n), make([]string, n)
	rails, payloads, headers := make([]string, n), make([]*string, n), make([]string, n)
	notBefore, expiresAt, priorities := make([]pgtype.Timestamptz, n), make([]pgtype.Timestamptz, n), make([]int32, n)
	once := make([]bool, n)
	for at, item := range items {
		in := item.in
		instructions[at], participants[at], keys[at], rails[at] = in.InstructionID, in.ParticipantID, in.IdempotencyKey, in.RailType
		payloads[at], notBefore[at], expiresAt[at] = item.payload, moment(in.NotBefore), moment(in.ExpiresAt)
		priorities[at], headers[at], once[at] = int32(in.Priority.Number()), item.headers, in.SendOnce
	}
	return []any{instructions, participants, keys, rails, payloads, notBefore, expiresAt, priorities, headers, once}
}

// enqueueArrays sends several in a transaction of their own. Which, it asks once it has a connection, and again for a
// repetition. The answers are in the order of the items; an error is of all. Without waits an item whose participant
// another transaction enqueues for is refused as outbox.StateBusy.
func (i *Ingest) enqueueArrays(ctx context.Context, waits bool, depart func() []arriving) ([]outbox.ReceiptOrFault, error) {
	return enqueueArrays(ctx, i.pool, depart, func(conn *pgx.Conn, items []arriving) (pgx.Rows, error) {
		return conn.Query(ctx, i.sql["enqueue_arrays"], append(argumentsOf(items), waits)...)
	})
}

func enqueueArrays(ctx context.Context, pool *pgxpool.Pool, depart func() []arriving,
	query func(*pgx.Conn, []arriving) (pgx.Rows, error)) ([]outbox.ReceiptOrFault, error) {
	var answers []outbox.ReceiptOrFault
	err := alone(ctx, pool, func(conn *pgx.Conn) error {
		items := depart()
		answers = make([]outbox.ReceiptOrFault, len(items))
		if len(items) == 0 {
			return nil
		}
		rows, err := query(conn, items)
		if err != nil {
			return err
		}
		seen, err := readAnswers(rows, answers)
		if err == nil && seen != len(items) {
			err = fmt.Errorf("%d answers to %d instructions", seen, len(items))
		}
		return err
	})
	return answers, err
}

// readAnswers reads a row for each item to its place, and counts them.
func readAnswers(rows pgx.Rows, into []outbox.ReceiptOrFault) (int, error) {
	var n, seen int
	var id pgtype.UUID
	var sequence pgtype.Int8
	var created pgtype.Timestamptz
	var state, code, message, hint, field, rule, detail pgtype.Text
	var replayed pgtype.Bool
	var differs []string
	_, err := pgx.ForEachRow(rows, []any{&n, &id, &sequence, &created, &state, &replayed, &code, &message, &hint, &differs, &field, &rule, &detail}, func() error {
		if n < 1 || n > len(into) {
			return fmt.Errorf("an answer to item %d of %d", n, len(into))
		}
		if !code.Valid && !id.Valid {
			return fmt.Errorf("no answer to item %d of %d", n, len(into))
		}
		seen++
		if code.Valid {
			into[n-1] = outbox.ReceiptOrFault{Fault: &outbox.Fault{
				SQLState: code.String, Message: message.String, Detail: detail.String, Hint: hint.String, Field: field.String, Rule: rule.String,
			}}
			return nil
		}
		into[n-1] = outbox.ReceiptOrFault{Receipt: payment.Receipt{
			OutboxID: payment.ID(id.Bytes), SequenceID: sequence.Int64, CreatedAt: created.Time,
			State: state.String, Replayed: replayed.Bool, Differs: slices.Clone(differs),
		}}
		return nil
	})
	return seen, err
}
