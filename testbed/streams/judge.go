package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/payment"
)

// instructionHeader names the instruction of a message of NATS.
const instructionHeader = "Railhead-Instruction-Id"

// Count is the result of a run.
type Count struct {
	Payments int
	Doubled  int // executed more than once by a consumer
	False    int // DISPATCHED without a message, or FAILED or CANCELLED with one
	Lost     int // acknowledged to the caller and unknown, or with a message and not executed
	Repeated int // messages beyond the first of an instruction
	// Overtaken counts payments of NATS, whose rail keeps the order of participants, with a first message behind
	// that of a higher number of the participant.
	Overtaken int
	Failed    int // payments of NATS that are not DISPATCHED, and those of Kafka that are neither that nor PARKED
	Parked    int // payments of Kafka whose outcome an operator has to find out
	// ParkedStored are those of them that the topic has: each would be a second payment if it were sent again.
	ParkedStored int
	// Mistaken counts payments that the topic had, and that an operator sent again: each is one of Repeated.
	Mistaken int

	KilledRelayer, KilledConsumer int
	KilledBroker, KilledFake      int // nats-server, and the fake of Kafka
	LostAcks                      int // connections that ended in place of an acknowledgement
	Resent                        int // payments that were claimed again after a send
	// AfterWindow counts payments that the stream had, and that were not DISPATCHED, when it forgot its keys.
	AfterWindow int
	Recognised  int // deliveries that the consumers recognised

	wrong []string // the first of what is wrong
}

// String returns the counts that a run is judged by.
func (c Count) String() string {
	return fmt.Sprintf("rails=2 kafka=fake payments=%d doubled=%d false=%d overtaken=%d repeated=%d", c.Payments,
		c.Doubled, c.False, c.Overtaken, c.Repeated)
}

// Faults describes the faults that were made, and what they did.
func (c Count) Faults() string {
	return fmt.Sprintf("kills: relayer=%d nats-server=%d kafka-fake=%d consumer=%d, acknowledgements lost=%d, sent "+
		"again=%d, after the window=%d, deliveries recognised=%d, on kafka=fake parked=%d, in its topic=%d, sent again by "+
		"mistake=%d, lost=%d, failed=%d", c.KilledRelayer, c.KilledBroker, c.KilledFake, c.KilledConsumer, c.LostAcks,
		c.Resent, c.AfterWindow, c.Recognised, c.Parked, c.ParkedStored, c.Mistaken, c.Lost, c.Failed)
}

func (c *Count) note(format string, args ...any) {
	if len(c.wrong) < 20 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// judge waits until the consumers have nothing left, stops them, and compares the three witnesses.
func (w *world) judge(ctx context.Context) (Count, error) {
	for _, s := range append(w.relayers, w.reaper) {
		if err := s.stop(); err != nil {
			return w.made, err
		}
	}
	c := w.made
	for _, l := range w.lanes {
		if err := await.Until(ctx, 5*time.Minute, "the consumer of "+l.rail+" to have nothing left", func() (bool, error) {
			try, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			done, err := l.log.consumed(try)
			return done && err == nil, nil
		}); err != nil {
			return w.made, err
		}
		if err := l.consumer.stop(); err != nil {
			return w.made, err
		}
		c.LostAcks += l.proxy.Lost()
	}
	c.Payments = len(w.enqueued)
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
	for id, rail := range w.enqueued {
		c.compare(id, rail, states[id], stored[id], executed[id])
	}
	for id, n := range executed {
		if w.enqueued[id] == "" {
			c.False++
			c.note("%s was executed %d times and never enqueued", id, n)
		}
	}
	if err := w.overtaken(ctx, &c); err != nil {
		return c, err
	}
	if c.Doubled+c.False+c.Lost+c.Failed+c.Overtaken > 0 || c.Repeated != c.Mistaken {
		return c, fmt.Errorf("%w: %v", ErrCount, c.wrong)
	}
	return c, nil
}

func (c *Count) compare(id, rail, state string, stored, executed int) {
	said := fmt.Sprintf("%s on %s is %q, the broker has it %d times, and it was executed %d times", id, rail, state,
		stored, executed)
	switch payment.State(state) {
	case payment.Dispatched:
		if stored == 0 {
			c.False++
			c.note("%s", said)
		}
	case payment.Parked:
		if rail != railKafka {
			c.Failed++
			c.note("%s", said)
			break
		}
		c.Parked++
		if stored > 0 {
			c.ParkedStored++
		}
	case payment.Failed, payment.Cancelled:
		c.Failed++
		c.note("%s", said)
		if stored > 0 {
			c.False++
		}
	default:
		c.Failed++
		c.note("%s", said)
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

// stored reads all that the brokers have, and counts the messages by instruction.
func (w *world) stored(ctx context.Context, c *Count) (map[string]int, error) {
	counted, keys := make(map[string]int), make(map[string]bool)
	for _, l := range w.lanes {
		if err := l.log.each(ctx, func(id, key string) {
			counted[id]++
			if keys[key] && counted[id] == 1 {
				c.Repeated++
				c.note("%s has the key of another payment", id)
			}
			keys[key] = true
		}); err != nil {
			return nil, fmt.Errorf("reading what the broker of %s has: %w", l.rail, err)
		}
	}
	return counted, nil
}

// overtaken compares the order of the first messages of NATS with the numbers of each participant.
func (w *world) overtaken(ctx context.Context, c *Count) error {
	rows, err := w.admin.Query(ctx, `SELECT instruction_id, participant_id, sequence_id FROM railhead.payment_outbox_keys`)
	if err != nil {
		return err
	}
	type place struct {
		participant string
		number      int64
	}
	places := make(map[string]place)
	var id string
	var at place
	if _, err := pgx.ForEachRow(rows, []any{&id, &at.participant, &at.number}, func() error {
		places[id] = at
		return nil
	}); err != nil {
		return err
	}
	seen, last := make(map[string]bool), make(map[string]int64)
	return w.stream.each(ctx, func(id, _ string) {
		if seen[id] {
			return
		}
		seen[id] = true
		if at := places[id]; at.number < last[at.participant] {
			c.Overtaken++
			c.note("%s is number %d of %s and came behind number %d", id, at.number, at.participant, last[at.participant])
		} else {
			last[at.participant] = at.number
		}
	})
}

// executed counts the consumers' executions by instruction.
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
