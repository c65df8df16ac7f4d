// Package door is the ledger of the HTTP API: it has for the bearer of a token what package
// ingest has for a login, as a member of railhead_api.
package door

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"golang.org/x/sync/semaphore"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/await"
	"github.com/railhead-pay/railhead/ledger/internal/enqueue"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Door enqueues instructions of callers over HTTP and reads their status, as a member of
// railhead_api. That role may execute functions that require the digest of a token, and has
// no rights on tables: each call does only what its token allows.
//
// The error of a call is outbox.ErrToken if its token is not in force, and
// outbox.ErrForbidden if it is not for the act or the participant.
type Door struct {
	db       *store.DB
	outcomes *await.Outcomes
	sender   sender
	gatherer *enqueue.Gatherer
	// settling bounds the reads that wait for the standby: half of the pool stays for those that need not.
	settling *semaphore.Weighted
}

// sender is the enqueue.Sender of the API's role.
type sender struct{ db *store.DB }

// Open connects lazily: it succeeds even if the server is down.
func Open(ctx context.Context, config ledger.Config) (*Door, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	db.ReadCommitted()
	d := &Door{db: db, sender: sender{db}, outcomes: await.NewOutcomes(db)}
	connections := db.Pool.Config().MaxConns
	d.gatherer = enqueue.NewGatherer(d.sender, int(connections))
	d.settling = semaphore.NewWeighted(int64(max(connections/2, 1)))
	return d, nil
}

// Close ends every connection.
func (d *Door) Close() {
	d.outcomes.Close()
	d.db.Pool.Close()
}

// Gathering returns the counts of calls and waiting instructions.
func (d *Door) Gathering() ledger.Gathering { return d.gatherer.Stats() }

// Token returns a token with what it allows, even if it is not in force. If there is none,
// the error is outbox.ErrToken.
func (d *Door) Token(ctx context.Context, digest [32]byte) (outbox.Token, error) {
	var t outbox.Token
	var quota pgtype.Int4
	err := d.db.Pool.QueryRow(ctx, d.db.SQL["door_token"], digest[:]).
		Scan(&t.ID, &t.Name, &t.Participants, &t.Verbs, &t.ExpiresAt, &quota, &t.Certificate, &t.InForce)
	t.RequestsPerMinute = int(quota.Int32)
	if errors.Is(err, pgx.ErrNoRows) {
		return outbox.Token{}, outbox.ErrToken
	}
	if err != nil {
		return outbox.Token{}, fmt.Errorf("reading a token: %w", err)
	}
	return t, nil
}

// Enqueue is Ingest.Enqueue for an instruction of one of the bearer's participants. The
// registry has a digest of participant and idempotency key. It also stores the caller's own
// key, the token, and the principal of the call.
func (d *Door) Enqueue(ctx context.Context, who outbox.Bearer, in outbox.Entrusted) (payment.Receipt, error) {
	item, err := enqueue.NewItem(ctx, in.Instruction)
	var receipt payment.Receipt
	if err == nil {
		item.Bearer, item.Behalf = who, in.OnBehalfOf
		receipt, err = d.gatherer.Enqueue(ctx, item)
	}
	if err != nil {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, err)
	}
	return receipt, nil
}

// EnqueueBatch is Ingest.EnqueueBatch for instructions of the bearer's participants.
func (d *Door) EnqueueBatch(
	ctx context.Context, who outbox.Bearer, all []outbox.Entrusted,
) ([]outbox.ReceiptOrFault, error) {
	b := enqueue.NewBatch(len(all), func(n int) (enqueue.Item, error) {
		item, err := enqueue.NewItem(ctx, all[n].Instruction)
		item.Bearer, item.Behalf = who, all[n].OnBehalfOf
		return item, err
	})
	if err := b.Send(ctx, d.db, d.sender); err != nil {
		return nil, fmt.Errorf("enqueue of a batch of %d: %w", len(all), err)
	}
	return b.Results, nil
}

// EnqueueOne enqueues one instruction: see enqueue.Sender.
func (s sender) EnqueueOne(ctx context.Context, item enqueue.Item, departs func() bool) (payment.Receipt, error) {
	left := false
	answers, err := s.EnqueueMany(ctx, true, func() []enqueue.Item {
		if left = !departs(); left {
			return nil
		}
		return []enqueue.Item{item}
	})
	switch {
	case err != nil:
		return payment.Receipt{}, store.Refusal(err)
	case left:
		return payment.Receipt{}, enqueue.ErrLeft
	case answers[0].Fault != nil:
		return payment.Receipt{}, answers[0].Fault
	default:
		return answers[0].Receipt, nil
	}
}

// EnqueueMany enqueues several instructions, each with the token of its bearer: see
// enqueue.Sender.
func (s sender) EnqueueMany(
	ctx context.Context, waits bool, take func() []enqueue.Item,
) ([]outbox.ReceiptOrFault, error) {
	return enqueue.Arrays(ctx, s.db, take, func(conn *pgx.Conn, items []enqueue.Item) (pgx.Rows, error) {
		tokens, certificates := make([][]byte, len(items)), make([][]byte, len(items))
		for n := range items {
			tokens[n], certificates[n] = items[n].Bearer.Token[:], items[n].Bearer.Certificate
		}
		arguments := append([]any{tokens, certificates}, enqueue.ArgumentsOf(items)...)
		return conn.Query(ctx, s.db.SQL["door_enqueue"], append(arguments, enqueue.PrincipalsOf(items), waits)...)
	})
}

// CheckKeys returns outbox.ErrSecondKeys if the cell allows second keys: there the same key
// by SQL and over HTTP would make two payments.
func (d *Door) CheckKeys(ctx context.Context) error {
	none, texts, moments := [][]byte{}, []string{}, []pgtype.Timestamptz{}
	_, err := d.db.Pool.Exec(ctx, d.db.SQL["door_enqueue"], none, none, texts, texts, texts, texts, texts,
		moments, moments, []int32{}, texts, []bool{}, texts, false)
	if err != nil {
		return fmt.Errorf("checking whether the cell allows second keys: %w", store.Refusal(err))
	}
	return nil
}

// NoteUses adds to the counters of tokens in the database.
func (d *Door) NoteUses(ctx context.Context, tokens [][32]byte, uses, refused []int64) error {
	digests := make([][]byte, len(tokens))
	for n := range tokens {
		digests[n] = tokens[n][:]
	}
	if _, err := d.db.Pool.Exec(ctx, d.db.SQL["door_note_uses"], digests, uses, refused); err != nil {
		return fmt.Errorf("counting the uses of %d tokens: %w", len(tokens), err)
	}
	return nil
}

// Heartbeat is Executor.Heartbeat, for heartbeats of kind "ingest" only, without a memory of
// the server.
func (d *Door) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	return d.db.BeatWithoutMemory(ctx, "door_heartbeat", beat)
}
