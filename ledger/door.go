package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Door takes instructions of callers over HTTP and says what became of them, as a member
// of railhead_api. It may execute functions that ask for a digest of a token, and reaches
// no table: each call does what the token that the caller has shown is for, and no more.
//
// A call by a token that is not in force is outbox.ErrToken, and one that is not for the
// act or the participant outbox.ErrForbidden.
type Door struct {
	pool     *pgxpool.Pool
	sql      statements
	outcomes *outcomes
	gatherer *gatherer
}

// OpenDoor connects lazily: it succeeds while the server is away.
func OpenDoor(ctx context.Context, config Config) (*Door, error) {
	pool, loaded, err := open(ctx, config)
	if err != nil {
		return nil, err
	}
	d := &Door{pool: pool, sql: loaded, outcomes: newOutcomes(pool, loaded)}
	d.gatherer = newGatherer(d, int(pool.Config().MaxConns))
	return d, nil
}

// Close ends every connection.
func (d *Door) Close() {
	d.outcomes.close()
	d.pool.Close()
}

// Gathering says what Enqueue has sent together, and what waits.
func (d *Door) Gathering() Gathering { return d.gatherer.stats() }

// Token says what a token is for, whether it is in force or not. None is outbox.ErrToken.
func (d *Door) Token(ctx context.Context, digest [32]byte) (outbox.Token, error) {
	var t outbox.Token
	var quota pgtype.Int4
	err := d.pool.QueryRow(ctx, d.sql["door_token"], digest[:]).
		Scan(&t.ID, &t.Name, &t.Participants, &t.Verbs, &t.ExpiresAt, &quota, &t.Certificate, &t.InForce)
	t.RequestsPerMinute = int(quota.Int32)
	if errors.Is(err, pgx.ErrNoRows) {
		return outbox.Token{}, outbox.ErrToken
	}
	if err != nil {
		return outbox.Token{}, fmt.Errorf("asking what a token is for: %w", err)
	}
	return t, nil
}

// Enqueue is Ingest.Enqueue for an instruction of one of the bearer's participants. The
// registry has a digest of its idempotency key, under its participant; the caller's own is
// kept along with it, and so are the token and the principal that the call is made for.
func (d *Door) Enqueue(ctx context.Context, who outbox.Bearer, in outbox.Entrusted) (payment.Receipt, error) {
	a, err := arrive(ctx, in.Instruction)
	var receipt payment.Receipt
	if err == nil {
		a.bearer, a.behalf = who, in.OnBehalfOf
		receipt, err = d.gatherer.enqueue(ctx, a)
	}
	if err != nil {
		return payment.Receipt{}, fmt.Errorf("enqueue of instruction %q: %w", in.InstructionID, err)
	}
	return receipt, nil
}

// EnqueueBatch takes many instructions of the bearer's participants, at most the cell's
// batch_items_max, and returns one result for each in the same order. Each is refused for
// itself. After an error some may have gone in: the same call may be repeated.
func (d *Door) EnqueueBatch(ctx context.Context, who outbox.Bearer, all []outbox.Entrusted) ([]outbox.ReceiptOrFault, error) {
	b := &batch{results: make([]outbox.ReceiptOrFault, len(all))}
	for n, in := range all {
		item, err := arrive(ctx, in.Instruction)
		if err != nil {
			b.results[n].Fault = faultOf(err)
			continue
		}
		item.bearer, item.behalf = who, in.OnBehalfOf
		b.items, b.from = append(b.items, item), append(b.from, n)
	}
	stored, err := d.send(ctx, b.items, b.from, b.results)
	switch {
	case err == nil:
		return b.results, nil
	case stored && !errors.Is(err, outbox.ErrCommitUnknown):
		// What is said of the part that failed does not hold for all.
		return nil, fmt.Errorf("enqueue of a batch of %d: %w: a part of it is stored, and the rest met: %v", len(all), outbox.ErrCommitUnknown, err) //nolint:errorlint // on purpose
	default:
		return nil, fmt.Errorf("enqueue of a batch of %d: %w", len(all), refusal(err))
	}
}

// send sends a batch, by halves where the server can't read one of it. It reports whether a
// part was sent that is stored.
func (d *Door) send(ctx context.Context, items []arriving, from []int, results []outbox.ReceiptOrFault) (stored bool, err error) {
	if len(items) == 0 {
		return false, nil
	}
	answers, err := d.enqueueArrays(ctx, true, func() []arriving { return items })
	switch {
	case err == nil:
		for n, answer := range answers {
			results[from[n]] = answer
		}
		return true, nil
	case !unreadable(err):
		return false, err
	case len(items) == 1:
		results[from[0]].Fault = faultOf(refusal(err))
		return false, nil
	}
	half := len(items) / 2
	if stored, err = d.send(ctx, items[:half], from[:half], results); err != nil {
		return stored, err
	}
	also, err := d.send(ctx, items[half:], from[half:], results)
	return stored || also, err
}

// enqueueAlone sends one, waiting for its participant.
func (d *Door) enqueueAlone(ctx context.Context, a arriving, departs func() bool) (payment.Receipt, error) {
	left := false
	answers, err := d.enqueueArrays(ctx, true, func() []arriving {
		if left = !departs(); left {
			return nil
		}
		return []arriving{a}
	})
	switch {
	case err != nil:
		return payment.Receipt{}, refusal(err)
	case left:
		return payment.Receipt{}, errLeft
	case answers[0].Fault != nil:
		return payment.Receipt{}, answers[0].Fault
	default:
		return answers[0].Receipt, nil
	}
}

// enqueueArrays is Ingest.enqueueArrays, each item by the token of its bearer.
func (d *Door) enqueueArrays(ctx context.Context, waits bool, depart func() []arriving) ([]outbox.ReceiptOrFault, error) {
	return enqueueArrays(ctx, d.pool, depart, func(conn *pgx.Conn, items []arriving) (pgx.Rows, error) {
		tokens, certificates, behalf := make([][]byte, len(items)), make([][]byte, len(items)), make([]pgtype.Text, len(items))
		for n := range items {
			tokens[n], certificates[n], behalf[n] = items[n].bearer.Token[:], items[n].bearer.Certificate, text(items[n].behalf)
		}
		arguments := append([]any{tokens, certificates}, argumentsOf(items)...)
		return conn.Query(ctx, d.sql["door_enqueue"], append(arguments, behalf, waits)...)
	})
}

// CheckKeys refuses a cell that allows second keys, with outbox.ErrSecondKeys: there the
// same key by SQL and over HTTP would be two payments.
func (d *Door) CheckKeys(ctx context.Context) error {
	none, texts, moments := [][]byte{}, []string{}, []pgtype.Timestamptz{}
	_, err := d.pool.Exec(ctx, d.sql["door_enqueue"], none, none, texts, texts, texts, texts, texts, moments, moments, []int32{}, texts, []bool{}, texts, false)
	if err != nil {
		return fmt.Errorf("asking whether the cell allows second keys: %w", refusal(err))
	}
	return nil
}

// NoteUses adds to the counters of tokens in the database.
func (d *Door) NoteUses(ctx context.Context, tokens [][32]byte, uses, refused []int64) error {
	digests := make([][]byte, len(tokens))
	for n := range tokens {
		digests[n] = tokens[n][:]
	}
	if _, err := d.pool.Exec(ctx, d.sql["door_note_uses"], digests, uses, refused); err != nil {
		return fmt.Errorf("noting the uses of %d tokens: %w", len(tokens), err)
	}
	return nil
}

// Heartbeat is Executor.Heartbeat, for beats of kind "ingest" alone. It vouches for nothing.
func (d *Door) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	return beatWithoutMemory(ctx, d.pool, d.sql["door_heartbeat"], beat)
}

// beatWithoutMemory is a heartbeat of a service that remembers nothing of the server.
func beatWithoutMemory(ctx context.Context, pool *pgxpool.Pool, statement string, beat outbox.Heartbeat) (outbox.Pulse, error) {
	var pulse outbox.Pulse
	var budget budgetTargets
	err := pool.QueryRow(ctx, statement, beat.Name, beat.Host, beat.Version, beat.Status, bound(beat.Activity, 500),
		beat.Budget.HeartbeatStale.Milliseconds(), time.Now()).Scan(append([]any{&pulse.Beats}, budget.columns()...)...)
	if err != nil {
		return outbox.Pulse{}, fmt.Errorf("heartbeat of %s: %w", beat.Name, err)
	}
	pulse.Budget = budget.value()
	return pulse, nil
}
