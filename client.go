package railhead

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/payment"
)

// Outbox is what [Client] and [HTTPClient] have in common. Each call may be repeated after any error.
type Outbox interface {
	// Enqueue stores one instruction, and returns once it is durable.
	Enqueue(ctx context.Context, in Instruction) (Receipt, error)
	// EnqueueBatch stores many, each accepted or refused by itself, with one result for each in their order.
	EnqueueBatch(ctx context.Context, all []Instruction) ([]Result, error)
	// Status returns what became of an instruction, or ErrNotFound where it does not exist or is not the caller's.
	Status(ctx context.Context, key Key) (Status, error)
	// Await waits until an instruction has ended or waits for an operator, and returns its status.
	Await(ctx context.Context, key Key) (Status, error)
}

// Config says how a Client reaches the database.
type Config struct {
	// URL is a connection string of libpq or a URL, for a login that is a member of railhead_ingest. What it lacks comes from
	// the PG* variables.
	URL string
	// Cell is the schema of the installation; empty is railhead.
	Cell string
	// ApplicationName shows in pg_stat_activity.
	ApplicationName string
	// MaxConns bounds the connections, 1 to 100; 0 is 4. With fewer than 4 an instruction whose participant another
	// transaction has locked may delay others.
	MaxConns int
	// ConnectTimeout bounds one attempt to connect; 0 is 5 s.
	ConnectTimeout time.Duration
}

// Client enqueues by SQL. It is safe for concurrent use.
type Client struct{ ingest *ingest.Ingest }

// Open returns a client. It connects with the first call, and so succeeds while the server is away; an error is about config.
// Close it when done.
func Open(ctx context.Context, config Config) (*Client, error) {
	if config.MaxConns < 0 || config.MaxConns > 100 {
		return nil, fmt.Errorf("MaxConns is %d: use 1 to 100, or 0 for 4", config.MaxConns)
	}
	ingest, err := ingest.Open(ctx, ledger.Config{
		URL: config.URL, Cell: cmp.Or(config.Cell, "railhead"), Name: config.ApplicationName,
		MaxConns: int32(config.MaxConns), ConnectTimeout: config.ConnectTimeout,
	})
	if err != nil {
		return nil, err
	}
	return &Client{ingest}, nil
}

// Close ends every connection. It waits for calls that have one: end their contexts to hurry it. Calls that have none return
// an error.
func (c *Client) Close() { c.ingest.Close() }

// Enqueue stores one instruction in a transaction of its own, and returns once it is durable. Calls that are made
// concurrently share transactions of up to 256 instructions or 1 MiB; each is answered after the commit, and refused by itself.
// With 4,096 instructions or 16 MiB waiting in this process more are refused with [ErrBusy].
func (c *Client) Enqueue(ctx context.Context, in Instruction) (Receipt, error) {
	receipt, err := c.ingest.Enqueue(ctx, payment.Instruction(in))
	return Receipt(receipt), err
}

// EnqueueTx stores one instruction in the caller's transaction, on any connection whose login is a member of
// railhead_ingest: the instruction exists if and only if whatever else the caller wrote does. Nothing is retried. After an
// error the transaction has to be rolled back, or rolled back to a savepoint; after SQLSTATE 40001 or 40P01 it may be run
// again as a whole. Until it ends, no other transaction enqueues for the same participant, so it should be short.
func (c *Client) EnqueueTx(ctx context.Context, tx pgx.Tx, in Instruction) (Receipt, error) {
	receipt, err := c.ingest.EnqueueTx(ctx, tx, payment.Instruction(in))
	return Receipt(receipt), err
}

// EnqueueBatch stores many in one transaction, at most as many as the cell's setting batch_items_max allows (10,000 by
// default), with one result for each in their order. Numbers follow that order within each participant. An error means that
// none was stored or, with [ErrCommitUnknown], that all or none were.
func (c *Client) EnqueueBatch(ctx context.Context, all []Instruction) ([]Result, error) {
	results, err := c.ingest.EnqueueBatch(ctx, instructions(all))
	return resultsOf(results), err
}

// Status returns what became of an instruction that this login has enqueued, or one that shares a role of the callers' own
// with it. For any other it is [ErrNotFound].
func (c *Client) Status(ctx context.Context, key Key) (Status, error) {
	status, err := c.ingest.Status(ctx, payment.Key(key))
	return Status(status), err
}

// Statuses returns the status of up to 1,000 instructions in their order; nil stands for one that does not exist or is not the
// caller's.
func (c *Client) Statuses(ctx context.Context, keys []Key) ([]*Status, error) {
	asked := make([]payment.Key, len(keys))
	for n, key := range keys {
		asked[n] = payment.Key(key)
	}
	found, err := c.ingest.Statuses(ctx, asked)
	if err != nil {
		return nil, err
	}
	all := make([]*Status, len(found))
	for n, status := range found {
		all[n] = (*Status)(status)
	}
	return all, nil
}

// Await waits until an instruction has ended or waits for an operator. While at least one call of it runs, the client keeps one
// more connection, which is notified of outcomes within milliseconds; without it, as through a transaction pooler, Await asks
// each second. When ctx ends it returns the last status with the error of ctx.
func (c *Client) Await(ctx context.Context, key Key) (Status, error) {
	status, err := c.ingest.Await(ctx, payment.Key(key))
	return Status(status), err
}
