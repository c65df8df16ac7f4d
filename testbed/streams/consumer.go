package streams

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consumerDatabase is that of the consumers.
const consumerDatabase = "consumer"

// consumerSchema has the keys of docs/rails.md; the executions have no unique key, so that they count
// what is done twice.
const consumerSchema = `
CREATE TABLE seen (msg_id text PRIMARY KEY);
CREATE TABLE executed (msg_id text NOT NULL, instruction_id text NOT NULL, at timestamptz NOT NULL DEFAULT now());
CREATE TABLE recognised (msg_id text NOT NULL);`

// errNoKey means that a message can't be recognised when it comes again.
var errNoKey = errors.New("a message without a key")

// Consumer reads a stream and executes each payment once.
type Consumer struct {
	Server, Stream string
	Database       string  // its connection string
	Lost           float64 // share of its own acknowledgements that it does not send
}

// Run consumes until the context ends. It goes on by itself when broker or database return.
func (c Consumer) Run(ctx context.Context) error {
	db, err := pgx.Connect(ctx, c.Database)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	conn, err := natsgo.Connect(c.Server, natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := c.some(ctx, js, db); err != nil {
			return err
		}
	}
	return nil
}

// some consumes what a pull brings. The broker's silence is no error.
func (c Consumer) some(ctx context.Context, js jetstream.JetStream, db *pgx.Conn) error {
	call, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	durable, err := js.CreateOrUpdateConsumer(call, c.Stream, jetstream.ConsumerConfig{
		Durable: group, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second, MaxAckPending: 5000,
	})
	if err != nil {
		rest(ctx)
		return nil
	}
	for ctx.Err() == nil {
		batch, err := durable.Fetch(100, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			rest(ctx)
			return nil
		}
		for message := range batch.Messages() {
			if err := execute(ctx, db, message.Headers().Get(jetstream.MsgIDHeader),
				message.Headers().Get(instructionHeader)); err != nil {
				return err
			}
			if rand.Float64() < c.Lost {
				continue
			}
			// Without an answer the message comes again, and is recognised.
			answered, done := context.WithTimeout(ctx, time.Second)
			_ = message.DoubleAck(answered)
			done()
		}
		if batch.Error() != nil {
			rest(ctx)
			return nil
		}
	}
	return nil
}

// rest waits before the broker is called again.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// execute does the work of a message unless its key is known, in one transaction.
func execute(ctx context.Context, db *pgx.Conn, key, instruction string) error {
	if key == "" {
		return errNoKey
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO seen VALUES ($1) ON CONFLICT DO NOTHING`, key)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			_, err = tx.Exec(ctx, `INSERT INTO recognised VALUES ($1)`, key)
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO executed (msg_id, instruction_id) VALUES ($1, $2)`, key, instruction)
		return err
	})
}
