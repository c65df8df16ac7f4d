package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
)

// instructionHeader names the instruction of a message.
const instructionHeader = "Railhead-Instruction-Id"

// Count is the result of a run.
type Count struct {
	Payments int
	Doubled  int // executed more than once by the consumer
	False    int // DISPATCHED without a message, or FAILED or CANCELLED with one
	Lost     int // acknowledged to the caller and unknown, or in the stream and not executed
	Repeated int // messages of the stream beyond the first of an instruction
	Parked   int // payments that wait for an operator
	Failed   int // payments that ended as FAILED or CANCELLED

	KilledRelayer, KilledBroker, KilledConsumer int
	LostAcks                                    int // connections that ended in place of an acknowledgement
	Resent                                      int // payments that were claimed again after a send
	// AfterWindow counts payments that the stream had, and that were not DISPATCHED, when it forgot its keys.
	AfterWindow int
	Recognised  int // deliveries that the consumer recognised

	wrong []string // the first of what is wrong
}

// String returns the counts that a run is judged by.
func (c Count) String() string {
	return fmt.Sprintf("rails=1 payments=%d doubled=%d false=%d lost=%d repeated=%d", c.Payments, c.Doubled, c.False,
		c.Lost, c.Repeated)
}

// Faults describes the faults that were made, and what they did.
func (c Count) Faults() string {
	return fmt.Sprintf("kills: relayer=%d broker=%d consumer=%d, acknowledgements lost=%d, sent again=%d, after the "+
		"window=%d, deliveries recognised=%d, parked=%d, failed=%d", c.KilledRelayer, c.KilledBroker, c.KilledConsumer,
		c.LostAcks, c.Resent, c.AfterWindow, c.Recognised, c.Parked, c.Failed)
}

func (c *Count) note(format string, args ...any) {
	if len(c.wrong) < 20 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// judge waits until the consumer has nothing left, stops it, and compares the three witnesses.
func (w *world) judge(ctx context.Context) (Count, error) {
	for _, s := range append(w.relayers, w.reaper) {
		if err := s.stop(); err != nil {
			return w.made, err
		}
	}
	if err := await.Until(ctx, 5*time.Minute, "the consumer to have nothing left", func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		durable, err := w.js.Consumer(try, streamName, "executor")
		if err != nil {
			return false, nil
		}
		info := durable.CachedInfo()
		return info.NumPending == 0 && info.NumAckPending == 0, nil
	}); err != nil {
		return w.made, err
	}
	if err := w.consumer.stop(); err != nil {
		return w.made, err
	}
	c := w.made
	c.Payments, c.LostAcks = len(w.enqueued), w.proxy.Lost()
	stored, err := w.stored(ctx, &c)
	if err != nil {
		return c, err
	}
	executed, err := w.executed(ctx, &c)
	if err != nil {
		return c, err
	}
	states, err := w.states(ctx, &c)
	if err != nil {
		return c, err
	}
	for id := range w.enqueued {
		c.compare(id, states[id], stored[id], executed[id])
	}
	for id, n := range executed {
		if !w.enqueued[id] {
			c.False++
			c.note("%s was executed %d times and never enqueued", id, n)
		}
	}
	if c.Doubled+c.False+c.Lost+c.Repeated > 0 {
		return c, fmt.Errorf("%w: %v", ErrCount, c.wrong)
	}
	return c, nil
}

func (c *Count) compare(id, state string, stored, executed int) {
	said := fmt.Sprintf("%s is %q, the stream has it %d times, and it was executed %d times", id, state, stored, executed)
	switch payment.State(state) {
	case payment.Dispatched:
		if stored == 0 {
			c.False++
			c.note("%s", said)
		}
	case payment.Failed, payment.Cancelled:
		c.Failed++
		if stored > 0 {
			c.False++
			c.note("%s", said)
		}
	default:
		c.Parked++
	}
	if stored > 1 {
		c.Repeated += stored - 1
		c.note("%s", said)
	}
	if executed > 1 {
		c.Doubled++
		c.note("%s", said)
	}
	if state == "" || stored > 0 && executed == 0 {
		c.Lost++
		c.note("%s", said)
	}
}

// stored reads the whole stream, and counts its messages by instruction.
func (w *world) stored(ctx context.Context, c *Count) (map[string]int, error) {
	want, err := w.messages(ctx)
	if err != nil {
		return nil, err
	}
	reader, err := w.js.OrderedConsumer(ctx, streamName, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	counted, keys, read := make(map[string]int), make(map[string]bool), 0
	for read < want {
		batch, err := reader.Fetch(min(want-read, 500), jetstream.FetchMaxWait(10*time.Second))
		if err != nil {
			return nil, err
		}
		before := read
		for message := range batch.Messages() {
			read++
			id := message.Headers().Get(instructionHeader)
			counted[id]++
			key := message.Headers().Get(jetstream.MsgIDHeader)
			if keys[key] && counted[id] == 1 {
				c.Repeated++
				c.note("%s has the key of another payment", id)
			}
			keys[key] = true
		}
		if read == before {
			return nil, errors.Join(fmt.Errorf("%d of %d messages were read", read, want), batch.Error())
		}
	}
	return counted, nil
}

// executed counts the consumer's executions by instruction.
func (w *world) executed(ctx context.Context, c *Count) (map[string]int, error) {
	theirs, err := pgx.Connect(ctx, w.consumerURL())
	if err != nil {
		return nil, err
	}
	defer theirs.Close(context.WithoutCancel(ctx))
	if err := theirs.QueryRow(ctx, `SELECT count(*) FROM recognised`).Scan(&c.Recognised); err != nil {
		return nil, err
	}
	rows, err := theirs.Query(ctx, `SELECT instruction_id, count(*) FROM executed GROUP BY 1`)
	if err != nil {
		return nil, err
	}
	counted := make(map[string]int)
	var id string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		counted[id] = n
		return nil
	})
	return counted, err
}

// states reads the state of each payment.
func (w *world) states(ctx context.Context, c *Count) (map[string]string, error) {
	// A claim has the number of sends before it.
	if err := w.admin.QueryRow(ctx, `SELECT count(DISTINCT outbox_id) FROM railhead.payment_outbox_attempts
		WHERE state = 'DISPATCHING' AND send_count > 0`).Scan(&c.Resent); err != nil {
		return nil, err
	}
	rows, err := w.admin.Query(ctx, `SELECT instruction_id, state FROM railhead.supervisor_outbox_status`)
	if err != nil {
		return nil, err
	}
	states := make(map[string]string)
	var id, state string
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		states[id] = state
		return nil
	})
	return states, err
}
