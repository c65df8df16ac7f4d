package railhead_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead"
)

// open returns a client for an example; most programs have one from start to end.
func open(ctx context.Context) *railhead.Client {
	client, err := railhead.Open(ctx, railhead.Config{URL: os.Getenv("RAILHEAD_INGEST_URL")})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// invoice is an instruction to pay an invoice.
func invoice(id, amount string) railhead.Instruction {
	return railhead.Instruction{
		InstructionID: id, ParticipantID: "merchant-7", IdempotencyKey: id, RailType: "bank",
		Payload: fmt.Appendf(nil, `{"amount": %q, "currency": "EUR", "creditor": {"iban": "DE02120300000000202051"}}`, amount),
	}
}

func Example() {
	ctx := context.Background()
	client, err := railhead.Open(ctx, railhead.Config{URL: os.Getenv("RAILHEAD_INGEST_URL")})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	_, err = client.Enqueue(ctx, railhead.Instruction{
		InstructionID: "invoice-1", ParticipantID: "merchant-7", IdempotencyKey: "invoice-1", RailType: "bank",
		Payload: []byte(`{"amount": "10.50", "currency": "EUR", "creditor": {"iban": "DE02120300000000202051"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	status, err := client.Await(ctx, railhead.Key{InstructionID: "invoice-1", IdempotencyKey: "invoice-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.State, status.Certainty)
	// Output: DISPATCHED ACCEPTED
}

// The same key with the same content returns the first receipt, so that any call may be repeated after any error.
func ExampleClient_Enqueue() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()

	first, err := client.Enqueue(ctx, invoice("invoice-2", "10.50"))
	if err != nil {
		log.Fatal(err)
	}
	again, err := client.Enqueue(ctx, invoice("invoice-2", "10.50"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first.Replayed, again.Replayed, first.OutboxID == again.OutboxID)
	// Output: false true true
}

// Another amount under the same key is another payment, and refused.
func ExampleClient_Enqueue_conflict() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()

	if _, err := client.Enqueue(ctx, invoice("invoice-3", "10.50")); err != nil {
		log.Fatal(err)
	}
	_, err := client.Enqueue(ctx, invoice("invoice-3", "99.00"))
	fmt.Println(errors.Is(err, railhead.ErrConflict))
	// Output: true
}

// A refusal names the field and the rule that it breaks.
func ExampleFault() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()

	_, err := client.Enqueue(ctx, invoice("invoice-4", "10.505"))
	if fault, ok := errors.AsType[*railhead.Fault](err); ok {
		fmt.Println(fault.Field, fault.Rule)
	}
	fmt.Println(errors.Is(err, railhead.ErrInvalid))
	// Output:
	// payload.amount DECIMALS
	// true
}

// The instruction exists if and only if the order of the same transaction does.
func ExampleClient_EnqueueTx() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()
	conn, err := pgx.Connect(ctx, os.Getenv("RAILHEAD_INGEST_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TEMPORARY TABLE orders (id text PRIMARY KEY, state text NOT NULL)"); err != nil {
		log.Fatal(err)
	}

	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders VALUES ('order-5', 'to be paid')"); err != nil {
			return err
		}
		_, err := client.EnqueueTx(ctx, tx, invoice("order-5", "7.00"))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	status, err := client.Status(ctx, railhead.Key{InstructionID: "order-5", IdempotencyKey: "order-5"})
	fmt.Println(status.SequenceID > 0, err)
	// Output: true <nil>
}

// A transaction that is rolled back leaves no instruction.
func ExampleClient_EnqueueTx_rollback() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()
	conn, err := pgx.Connect(ctx, os.Getenv("RAILHEAD_INGEST_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)

	soldOut := errors.New("sold out")
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := client.EnqueueTx(ctx, tx, invoice("order-6", "7.00")); err != nil {
			return err
		}
		return soldOut
	})
	fmt.Println(err)
	_, err = client.Status(ctx, railhead.Key{InstructionID: "order-6", IdempotencyKey: "order-6"})
	fmt.Println(errors.Is(err, railhead.ErrNotFound))
	// Output:
	// sold out
	// true
}

// Each instruction of a batch is accepted or refused by itself.
func ExampleClient_EnqueueBatch() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()

	results, err := client.EnqueueBatch(ctx, []railhead.Instruction{
		invoice("salary-1", "2100.00"), invoice("salary-2", "-5.00"), invoice("salary-3", "1950.00"),
	})
	if err != nil {
		log.Fatal(err) // nothing was stored
	}
	for _, result := range results {
		if result.Fault != nil {
			fmt.Println("refused:", result.Fault.Field)
			continue
		}
		fmt.Println(result.Receipt.State)
	}
	// Output:
	// PENDING
	// refused: payload.amount
	// PENDING
}

// Await returns the last status with the error of the context where the outcome takes longer.
func ExampleClient_Await() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()

	later := invoice("rent-8", "800.00")
	later.NotBefore = time.Now().Add(24 * time.Hour)
	if _, err := client.Enqueue(ctx, later); err != nil {
		log.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	status, err := client.Await(waiting, railhead.Key{InstructionID: "rent-8", IdempotencyKey: "rent-8"})
	fmt.Println(status.State, status.Certainty, errors.Is(err, context.DeadlineExceeded))
	// Output: PENDING NOT_SENT true
}

// Statuses reads the status of many instructions in one call; nil for one that does not exist.
func ExampleClient_Statuses() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()

	if _, err := client.Enqueue(ctx, invoice("invoice-9", "3.00")); err != nil {
		log.Fatal(err)
	}
	all, err := client.Statuses(ctx, []railhead.Key{
		{InstructionID: "invoice-9", IdempotencyKey: "invoice-9"}, {InstructionID: "invoice-unknown", IdempotencyKey: "invoice-unknown"},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(all[0] != nil, all[1] != nil)
	// Output: true false
}

// Only an instruction that has ended, and that no operator may send again, may be paid in another way.
func ExampleStatus_HasEnded() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()

	key := railhead.Key{InstructionID: "invoice-10", IdempotencyKey: "invoice-10"}
	if _, err := client.Enqueue(ctx, invoice("invoice-10", "3.00")); err != nil {
		log.Fatal(err)
	}
	status, err := client.Await(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	switch {
	case !status.HasEnded() || status.WaitsForPerson:
		fmt.Println("wait")
	case status.Certainty == "NOT_SENT" || status.Certainty == "REFUSED":
		fmt.Println("pay in another way")
	default:
		fmt.Println("done:", status.State)
	}
	// Output: done: DISPATCHED
}

// A caller without a login to the database uses the HTTP API by a token.
func ExampleNewHTTP() {
	ctx := context.Background()
	client, err := railhead.NewHTTP(railhead.HTTPConfig{
		BaseURL: os.Getenv("RAILHEAD_API"), ParticipantID: "merchant-7",
		Token: func(context.Context) (string, error) { return os.Getenv("RAILHEAD_TOKEN"), nil },
	})
	if err != nil {
		log.Fatal(err)
	}

	if _, err := client.Enqueue(ctx, invoice("invoice-11", "10.50")); err != nil {
		log.Fatal(err)
	}
	status, err := client.Await(ctx, railhead.Key{InstructionID: "invoice-11", IdempotencyKey: "invoice-11"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.State, status.Certainty)
	// Output: DISPATCHED ACCEPTED
}

// Code that does not care which way is used takes an Outbox.
func ExampleOutbox() {
	ctx := context.Background()
	client := open(ctx)
	defer client.Close()
	pay := func(outbox railhead.Outbox, id string) error {
		_, err := outbox.Enqueue(ctx, invoice(id, "1.00"))
		return err
	}
	fmt.Println(pay(client, "invoice-12"))
	// Output: <nil>
}
