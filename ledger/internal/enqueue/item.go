package enqueue

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

	"github.com/railhead-pay/railhead/internal/tracing"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Item is an instruction in the form in which it is sent. In has no payload: the caller's
// slice is not read after the call.
type Item struct {
	In      payment.Instruction
	Payload *string       // nil: none
	Headers string        // as JSON
	Bearer  outbox.Bearer // of a call over HTTP
	Behalf  string        // the principal behind the bearer; empty: none
}

// NewItem checks the payload and encodes an instruction. It adds the trace of ctx to the
// headers.
func NewItem(ctx context.Context, in payment.Instruction) (Item, error) {
	if err := checkPayload(in); err != nil {
		return Item{}, err
	}
	a := Item{In: in, Headers: "{}"}
	if in.Payload != nil {
		a.Payload, a.In.Payload = new(string(in.Payload)), nil
	}
	headers := tracing.Carry(ctx, in.Headers)
	if len(headers) == 0 {
		return a, nil
	}
	text, err := json.Marshal(headers)
	a.Headers = string(text)
	return a, err
}

// checkPayload refuses a payload that the server would store with another meaning.
func checkPayload(in payment.Instruction) error {
	if in.Payload == nil {
		return nil // the database returns the error
	}
	err := payment.CheckJSON(in.Payload)
	if errors.Is(err, payment.ErrLongNumbers) {
		return &outbox.Fault{
			SQLState: outbox.StateTooLarge, Message: "payload: " + err.Error(), Field: "payload", Rule: "SIZE",
			Hint: "A number with an exponent is stored with all its digits: write such a value as a string.",
		}
	}
	if err != nil {
		return &outbox.Fault{
			SQLState: outbox.StateInvalid, Message: "payload: " + err.Error(),
			Hint: "Send one JSON object in which no key is given twice.",
		}
	}
	return nil
}

// FaultOf returns the fault of an instruction that was refused before it was sent.
func FaultOf(err error) *outbox.Fault {
	if fault, ok := errors.AsType[*outbox.Fault](err); ok {
		return fault
	}
	return &outbox.Fault{SQLState: outbox.StateInvalid, Message: err.Error()}
}

// Unreadable reports whether the server could not read the arguments. Such an error is not
// about one instruction.
func Unreadable(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && store.Refuses(pgErr.Code) && !strings.HasPrefix(pgErr.Code, "RH")
}

// ArgumentsOf returns instructions as the array arguments of the enqueue statements.
func ArgumentsOf(items []Item) []any {
	n := len(items)
	instructions, participants, keys := make([]string, n), make([]string, n), make([]string, n)
	rails, payloads, headers := make([]string, n), make([]*string, n), make([]string, n)
	notBefore, expiresAt, priorities := make([]pgtype.Timestamptz, n), make([]pgtype.Timestamptz, n), make([]int32, n)
	once := make([]bool, n)
	for at, item := range items {
		in := item.In
		instructions[at], participants[at] = in.InstructionID, in.ParticipantID
		keys[at], rails[at], payloads[at] = in.IdempotencyKey, in.RailType, item.Payload
		notBefore[at], expiresAt[at] = store.Timestamp(in.NotBefore), store.Timestamp(in.ExpiresAt)
		priorities[at], headers[at], once[at] = int32(in.Priority.Number()), item.Headers, in.SendOnce
	}
	return []any{instructions, participants, keys, rails, payloads, notBefore, expiresAt, priorities, headers, once}
}

// PrincipalsOf returns the principals behind the bearers as an array argument.
func PrincipalsOf(items []Item) []pgtype.Text {
	all := make([]pgtype.Text, len(items))
	for n := range items {
		all[n] = store.Text(items[n].Behalf)
	}
	return all
}

// Arrays enqueues several instructions in a transaction of their own, by the statement
// that query sends: see Sender.EnqueueMany.
func Arrays(
	ctx context.Context, db *store.DB, take func() []Item, query func(*pgx.Conn, []Item) (pgx.Rows, error),
) ([]outbox.ReceiptOrFault, error) {
	var answers []outbox.ReceiptOrFault
	err := db.Autocommit(ctx, func(conn *pgx.Conn) error {
		items := take()
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

// readAnswers reads the row of each item to the item's index in into, and returns the
// number of rows.
func readAnswers(rows pgx.Rows, into []outbox.ReceiptOrFault) (int, error) {
	var n, seen int
	var id pgtype.UUID
	var sequence pgtype.Int8
	var created pgtype.Timestamptz
	var state, code, message, hint, field, rule, detail pgtype.Text
	var replayed pgtype.Bool
	var differs []string
	targets := []any{
		&n, &id, &sequence, &created, &state, &replayed, &code, &message, &hint, &differs, &field, &rule, &detail,
	}
	_, err := pgx.ForEachRow(rows, targets, func() error {
		if n < 1 || n > len(into) {
			return fmt.Errorf("an answer to item %d of %d", n, len(into))
		}
		if !code.Valid && !id.Valid {
			return fmt.Errorf("no answer to item %d of %d", n, len(into))
		}
		seen++
		if code.Valid {
			into[n-1] = outbox.ReceiptOrFault{Fault: &outbox.Fault{
				SQLState: code.String, Message: message.String, Detail: detail.String, Hint: hint.String,
				Field: field.String, Rule: rule.String,
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

// ErrLeft is returned if the context of the caller ended before the instruction was sent.
var ErrLeft = errors.New("the caller left")
