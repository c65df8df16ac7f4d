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

// Outbox is the common interface of [Client] and [HTTPClient]. Each call may be repeated after
// any error.
type Outbox interface {
	// Enqueue stores one instruction, and returns once it is durable.
	Enqueue(ctx context.Context, in Instruction) (Receipt, error)
	// EnqueueBatch stores many instructions, each accepted or refused by itself, and returns
	// one result for each in the same order.
	EnqueueBatch(ctx context.Context, all []Instruction) ([]Result, error)
	// Status returns the status of an instruction, or ErrNotFound if it does not exist or is
	// not the caller's. After an Enqueue that may still be under way, such as one that has returned
	// an error, ErrNotFound decides nothing: repeat that Enqueue, and do not pay in another way.
	Status(ctx context.Context, key Key) (Status, error)
	// Await waits until an instruction has ended or waits for an operator, and returns its status.
	// If its payment is in a cell that the client does not ask, Await returns at once, with
	// ErrOtherCell or ErrNotFound.
	Await(ctx context.Context, key Key) (Status, error)
}

// Config is the connection of a Client to the database.
type Config struct {
	// URL is a connection string of libpq or a URL, for a login that is a member of
	// railhead_ingest. The PG* variables supply the values that it does not have.
	URL string
	// Cell is the schema of the installation; empty is railhead.
	Cell string
	// Cells has the connection strings of all cells over which participants are spread, by the
	// names of their settings (docs/scale.md). Empty: every instruction goes to the cell of URL. With
	// them, a cell without a map takes no instruction: begin the directory before they are set.
	Cells map[string]string
	// ApplicationName is the application_name in pg_stat_activity.
	ApplicationName string
	// MaxConns bounds the connections, 1 to 100; 0 is 4. With fewer than 4, an instruction
	// whose participant another transaction has locked may delay others.
	MaxConns int
	// ConnectTimeout bounds one attempt to connect; 0 is 5 s.
	ConnectTimeout time.Duration
}

// Client enqueues by SQL. It is safe for concurrent use.
//
// With Config.Cells each instruction goes to the cell of its participant. The client reads the
// map of cells with the first call, and again when a cell refuses a participant; the calls of a
// cell that is away fail, and those of others go on. MaxConns is then for each cell.
type Client struct{ ingest *ingest.Routed }

// Open returns a client. It connects with the first call, so it succeeds even if the server is
// down; an error is about config. Close the client when done.
func Open(ctx context.Context, config Config) (*Client, error) {
	if config.MaxConns < 0 || config.MaxConns > 100 {
		return nil, fmt.Errorf("MaxConns is %d: use 1 to 100, or 0 for 4", config.MaxConns)
	}
	ingest, err := ingest.OpenRouted(ctx, ledger.Config{
		URL: config.URL, Cell: cmp.Or(config.Cell, "railhead"), Name: config.ApplicationName,
		MaxConns: int32(config.MaxConns), ConnectTimeout: config.ConnectTimeout,
	}, config.Cells)
	if err != nil {
		return nil, err
	}
	return &Client{ingest}, nil
}

// Close closes every connection. It waits for calls that use one; ending their contexts makes
// it faster. Calls without a connection return an error.
func (c *Client) Close() { c.ingest.Close() }

// Enqueue stores one instruction in a transaction of its own, and returns once it is durable.
// Concurrent calls share transactions of up to 256 instructions or 1 MiB; each gets its answer
// after the commit, and a refusal concerns only its own instruction. While 4,096 instructions
// or 16 MiB wait in this process, it returns [ErrBusy].
func (c *Client) Enqueue(ctx context.Context, in Instruction) (Receipt, error) {
	receipt, err := c.ingest.Enqueue(ctx, payment.Instruction(in))
	return Receipt(receipt), err
}

// EnqueueTx stores one instruction in the caller's transaction, on any connection whose login
// is a member of railhead_ingest: the instruction is stored if and only if the transaction
// commits. EnqueueTx does not retry. After an error the caller must roll back, or roll back to
// a savepoint; after SQLSTATE 40001 or 40P01 it may run the whole transaction again. Until the
// transaction ends, no other one enqueues for the same participant, so it should be short.
//
// With Config.Cells the transaction has to be in the participant's cell, which [Client.Setting]
// names; in another one the error is [ErrOtherCell], after which the caller asks again.
func (c *Client) EnqueueTx(ctx context.Context, tx pgx.Tx, in Instruction) (Receipt, error) {
	receipt, err := c.ingest.EnqueueTx(ctx, tx, payment.Instruction(in))
	return Receipt(receipt), err
}

// EnqueueBatch stores many instructions in one transaction, up to the cell's setting
// batch_items_max (10,000 by default), and returns one result for each in the same order. The
// numbers follow that order within each participant. After an error none was stored or, with
// [ErrCommitUnknown], either all or none.
//
// With Config.Cells there is a transaction in each cell. The instructions of a cell that is away
// have a fault of [ErrOtherCell], those of a cell whose commit is not known one of
// [ErrCommitUnknown], and the others are stored; after ErrCommitUnknown any of them may be. Without a
// deadline it waits for a cell that hangs.
func (c *Client) EnqueueBatch(ctx context.Context, all []Instruction) ([]Result, error) {
	results, err := c.ingest.EnqueueBatch(ctx, instructions(all))
	return resultsOf(results), err
}

// Setting returns the name of the connection setting of a participant's cell, which is a key of
// Config.Cells, by the map that was last read. It is empty without Config.Cells: the cell is
// then that of URL.
func (c *Client) Setting(ctx context.Context, participantID string) (string, error) {
	return c.ingest.Setting(ctx, participantID)
}

// Status returns the status of an instruction that this login has enqueued, or another login
// that shares one of the callers' own roles with it. For any other it returns [ErrNotFound], and for
// one whose transaction has not committed yet: an earlier enqueue may still be under way, so repeat
// that, with the same ids and content, before any payment in another way.
//
// With Config.Cells every cell is asked, because the payments of a participant that was moved stay
// in the cell where they were enqueued. If two cells have a payment of the key, the error is
// [ErrSeveralPayments]; a cell that does not answer within half a second of one that has it is not
// waited for. Without them only the cell of URL is asked: it returns ErrNotFound for a payment of
// which Enqueue has returned [StateElsewhere].
func (c *Client) Status(ctx context.Context, key Key) (Status, error) {
	status, err := c.ingest.Status(ctx, payment.Key(key))
	return Status(status), err
}

// Statuses returns the status of up to 1,000 instructions in the same order; nil for one for which
// [Client.Status] returns [ErrNotFound], which proves no more than that does.
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

// Await waits until an instruction has ended or waits for an operator. While at least one call
// of it runs, the client keeps one more connection, which is notified of outcomes within
// milliseconds. Without it, as behind a transaction pooler, Await polls each second. When ctx
// ends it returns the last status with the error of ctx. It finds the instruction as Status does,
// and waits in the cell that has it.
func (c *Client) Await(ctx context.Context, key Key) (Status, error) {
	status, err := c.ingest.Await(ctx, payment.Key(key))
	return Status(status), err
}
