package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/payment"
)

// EnqueueBatch takes many instructions in one transaction, at most the cell's
// batch_items_max (10,000 unless set otherwise), and returns one result for each
// in the same order. A bad one carries its Fault and the others go in. Numbers
// follow the order of the instructions within each participant. The trace goes
// along as with Enqueue.
//
// An error means that none went in, or, with payment.ErrCommitUnknown, that all
// or none did. Either way the same call may be repeated.
func (i *Ingest) EnqueueBatch(ctx context.Context, all []payment.Instruction) ([]payment.ReceiptOrFault, error) {
	b := newBatch(ctx, all)
	if len(b.items) == 0 {
		return b.results, nil
	}
	err := i.sendBatch(ctx, b)
	if unreadable(err) {
		// The array as a whole can't be read. Find the items that are to blame, and
		// send the others.
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

// batch is a batch on its way: the items that are sent, where each came from,
// and what became of all.
type batch struct {
	items   []json.RawMessage
	from    []int // index in results of each of items
	results []payment.ReceiptOrFault
}

// newBatch renders the items. One that can't be rendered gets its fault here.
func newBatch(ctx context.Context, all []payment.Instruction) *batch {
	b := &batch{results: make([]payment.ReceiptOrFault, len(all))}
	for n, in := range all {
		item, err := itemJSON(ctx, in)
		if err != nil {
			b.results[n].Fault = faultOf(err)
			continue
		}
		b.items, b.from = append(b.items, item), append(b.from, n)
	}
	return b
}

func faultOf(err error) *payment.Fault {
	if fault, ok := errors.AsType[*payment.Fault](err); ok {
		return fault
	}
	return &payment.Fault{SQLState: payment.StateInvalid, Message: err.Error()}
}

// item has the names of the SQL function's arguments.
type item struct {
	InstructionID  string            `json:"instruction_id"`
	ParticipantID  string            `json:"participant_id"`
	IdempotencyKey string            `json:"idempotency_key"`
	RailType       string            `json:"rail_type"`
	Payload        json.RawMessage   `json:"payload"`
	NotBefore      time.Time         `json:"not_before,omitzero"`
	ExpiresAt      time.Time         `json:"expires_at,omitzero"`
	Priority       int               `json:"priority"`
	Headers        map[string]string `json:"headers,omitempty"`
}

func itemJSON(ctx context.Context, in payment.Instruction) (json.RawMessage, error) {
	if err := checkPayload(in); err != nil {
		return nil, err
	}
	return json.Marshal(item{
		InstructionID: in.InstructionID, ParticipantID: in.ParticipantID, IdempotencyKey: in.IdempotencyKey,
		RailType: in.RailType, Payload: in.Payload, NotBefore: in.NotBefore, ExpiresAt: in.ExpiresAt,
		Priority: in.Priority.Number(), Headers: tracing.Carry(ctx, in.Headers),
	})
}

func headersJSON(headers map[string]string) (string, error) {
	if len(headers) == 0 {
		return "{}", nil
	}
	text, err := json.Marshal(headers)
	return string(text), err
}

// array is the items as the text of one JSON array. Each was rendered by
// json.Marshal, so that none can end the array or begin another item.
func array(items []json.RawMessage) string {
	var text strings.Builder
	for n, item := range items {
		text.WriteByte("[,"[min(n, 1)])
		text.Write(item)
	}
	text.WriteByte(']')
	return text.String()
}

func (i *Ingest) sendBatch(ctx context.Context, b *batch) error {
	if len(b.items) == 0 {
		return nil
	}
	return transact(ctx, i.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, i.sql["enqueue_batch"], array(b.items))
		if err != nil {
			return err
		}
		answers := make([]payment.ReceiptOrFault, len(b.items))
		if _, err = readAnswers(rows, answers); err != nil {
			return err
		}
		for n, answer := range answers {
			b.results[b.from[n]] = answer
		}
		return nil
	})
}

// sortOut takes the items out that the server can't read, by halves, each with
// its fault. The reads write nothing, so that the batch itself still locks its
// participants in one statement and in one order.
func (i *Ingest) sortOut(ctx context.Context, b *batch) error {
	var readable func(items []json.RawMessage, from []int) error
	items, from := b.items, b.from
	b.items, b.from = nil, nil
	readable = func(items []json.RawMessage, from []int) error {
		var ok bool
		err := i.pool.QueryRow(ctx, i.sql["readable"], array(items)).Scan(&ok)
		fault, refused := errors.AsType[*payment.Fault](refusal(err))
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
