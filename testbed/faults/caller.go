package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Caller is an ingest client that runs as a process. It enqueues a plan of instructions,
// each in a transaction of its own, and writes the results to a journal. After an error
// it repeats the call with the same key, as a client should.
type Caller struct {
	URL, Cell, Plan, Journal string
	Callers, Tries           int
	Pace                     time.Duration
	CallWithin               time.Duration
	// Repeat makes the calls again that the journal shows as acknowledged, as a caller does
	// that has lost the acknowledgements.
	Repeat bool
	// Together enqueues the whole plan in one transaction, so that all of it is due
	// at one moment.
	Together bool
	// API is the address of the HTTP API. Calls are made over HTTP, with Token, unless API
	// is empty or Together is set.
	API, Token string
	// Rails lists the rails whose calls are made, separated by commas. If it is empty, all
	// are.
	Rails string
}

// order is one instruction of a plan.
type order struct {
	InstructionID string          `json:"instruction_id"`
	ParticipantID string          `json:"participant_id"`
	Key           string          `json:"idempotency_key"`
	Rail          string          `json:"rail_type"`
	Priority      int             `json:"priority"`
	Payload       json.RawMessage `json:"payload"`
	ExpiresAt     time.Time       `json:"expires_at,omitzero"`
}

func (o order) instruction() payment.Instruction {
	return payment.Instruction{
		InstructionID: o.InstructionID, ParticipantID: o.ParticipantID, IdempotencyKey: o.Key,
		RailType: o.Rail, Payload: o.Payload, Priority: payment.Priority(o.Priority),
		ExpiresAt: o.ExpiresAt,
	}
}

// Run enqueues the plan. Unless Repeat is set, it leaves out what the journal shows as
// acknowledged, so that a caller that was killed can be started again on the same plan.
func (c Caller) Run(ctx context.Context) error {
	orders, err := readPlan(c.Plan)
	if err != nil {
		return err
	}
	entries, err := readJournal(c.Journal)
	if err != nil {
		return err
	}
	done := make(map[string]bool)
	for _, e := range entries {
		done[e.InstructionID] = done[e.InstructionID] || e.Kind == Ack && !c.Repeat
	}
	for _, o := range orders {
		done[o.InstructionID] = done[o.InstructionID] || c.Rails != "" &&
			!slices.Contains(strings.Split(c.Rails, ","), o.Rail)
	}
	journal, err := openJournal(c.Journal)
	if err != nil {
		return err
	}
	orders = slices.DeleteFunc(orders, func(o order) bool { return done[o.InstructionID] })
	if c.API != "" && !c.Together {
		over, err := c.client()
		if err != nil {
			return err
		}
		return errors.Join(c.carryOut(ctx, orders, journal, func(ctx context.Context, o order) (payment.Receipt, error) {
			return over.Enqueue(ctx, o.instruction())
		}), journal.Close())
	}
	ingest, err := ingest.Open(ctx, ledger.Config{URL: c.URL, Cell: c.Cell, Name: "railhead-caller",
		MaxConns: int32(c.Callers)})
	if err != nil {
		return err
	}
	defer ingest.Close()
	if c.Together {
		return errors.Join(c.enqueueTogether(ctx, ingest, journal, orders), journal.Close())
	}
	return errors.Join(c.carryOut(ctx, orders, journal, func(ctx context.Context, o order) (payment.Receipt, error) {
		return c.call(ctx, ingest, o)
	}), journal.Close())
}

// carryOut makes the calls of a plan, up to c.Callers of them at once.
func (c Caller) carryOut(ctx context.Context, orders []order, journal *Journal, call enqueueCall) (err error) {
	work := make(chan order)
	var callers sync.WaitGroup
	failed := make(chan error, c.Callers)
	for range c.Callers {
		callers.Go(func() {
			for each := range work {
				if err := c.enqueue(ctx, call, journal, each); err != nil {
					failed <- err
					return
				}
				pause(ctx, c.Pace)
			}
		})
	}
	for _, each := range orders {
		select {
		case work <- each:
		case err = <-failed:
		case <-ctx.Done():
		}
		if err != nil || ctx.Err() != nil {
			break
		}
	}
	close(work)
	callers.Wait()
	return err
}

// enqueueCall enqueues one instruction, in one call.
type enqueueCall func(context.Context, order) (payment.Receipt, error)

// enqueue tries one instruction until it is acknowledged or refused, or the tries are
// used up. It returns an error only if the journal can't be written.
func (c Caller) enqueue(ctx context.Context, call enqueueCall, journal *Journal, o order) error {
	for try := range c.Tries {
		if err := journal.Write(Entry{Kind: Attempt, InstructionID: o.InstructionID}); err != nil {
			return err
		}
		receipt, err := call(ctx, o)
		switch {
		case err == nil:
			return journal.Write(Entry{
				Kind: Ack, InstructionID: o.InstructionID, OutboxID: receipt.OutboxID.String(),
				SequenceID: receipt.SequenceID, Replayed: receipt.Replayed,
			})
		case errors.Is(err, outbox.ErrInvalid) || errors.Is(err, outbox.ErrConflict):
			return journal.Write(Entry{Kind: Refusal, InstructionID: o.InstructionID, Error: err.Error()})
		}
		if err := journal.Write(Entry{Kind: Trouble, InstructionID: o.InstructionID, Error: err.Error()}); err != nil {
			return err
		}
		pause(ctx, min(50*time.Millisecond<<try, time.Second))
	}
	return nil
}

// enqueueTogether tries a plan as one batch, up to as many times as enqueue tries an
// instruction.
func (c Caller) enqueueTogether(ctx context.Context, ingest *ingest.Ingest, journal *Journal, orders []order) error {
	all := make([]payment.Instruction, len(orders))
	for n, o := range orders {
		all[n] = o.instruction()
	}
	for try := range c.Tries {
		for _, o := range orders {
			if err := journal.Write(Entry{Kind: Attempt, InstructionID: o.InstructionID}); err != nil {
				return err
			}
		}
		results, err := c.callTogether(ctx, ingest, all)
		for n, o := range orders {
			entry := Entry{Kind: Trouble, InstructionID: o.InstructionID}
			switch {
			case err != nil:
				entry.Error = err.Error()
			case results[n].Fault != nil:
				entry.Kind, entry.Error = Refusal, results[n].Fault.Error()
			default:
				receipt := results[n].Receipt
				entry.Kind, entry.OutboxID, entry.SequenceID, entry.Replayed = Ack, receipt.OutboxID.String(), receipt.SequenceID,
					receipt.Replayed
			}
			if err := journal.Write(entry); err != nil {
				return err
			}
		}
		if err == nil {
			return nil
		}
		pause(ctx, min(50*time.Millisecond<<try, time.Second))
	}
	return nil
}

func (c Caller) callTogether(
	ctx context.Context, ingest *ingest.Ingest, all []payment.Instruction,
) ([]outbox.ReceiptOrFault, error) {
	ctx, cancel := context.WithTimeout(ctx, c.CallWithin)
	defer cancel()
	return ingest.EnqueueBatch(ctx, all)
}

// call enqueues in a transaction of the caller's own, as an ingest API does whose own row
// has to commit or roll back with the instruction.
func (c Caller) call(ctx context.Context, ingest *ingest.Ingest, o order) (payment.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, c.CallWithin)
	defer cancel()
	var receipt payment.Receipt
	err := pgx.BeginFunc(ctx, ingest.Pool(), func(tx pgx.Tx) error {
		var err error
		receipt, err = ingest.EnqueueTx(ctx, tx, o.instruction())
		if err == nil {
			faultpoint.Reach(faultpoint.Enqueued)
		}
		return err
	})
	return receipt, err
}

func readPlan(path string) ([]order, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []order
	for in := bufio.NewScanner(file); in.Scan(); {
		var o order
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return nil, fmt.Errorf("reading the plan: %w", err)
		}
		all = append(all, o)
	}
	return all, nil
}
