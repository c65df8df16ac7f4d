package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// These are what a rig of another package needs to break servers of its own under an
// installation of this one.

// Draws returns the source of the random choices of the run.
func (w *World) Draws() *rand.Rand { return w.draws }

// Admin returns the oracle's connections.
func (w *World) Admin() *pgxpool.Pool { return w.admin }

// IngestURL returns the connection string of a caller.
func (w *World) IngestURL() string { return w.url(loginIngest) }

// Database returns the name of the database of the run.
func (w *World) Database() string { return w.database }

// StartStray starts a relayer at a connection string of its own. It is no service of the
// run, and may never become ready: the rig ends it.
func (w *World) StartStray(ctx context.Context, url string) (*Process, error) {
	return w.startService(ctx, kindRelayer, w.newName("stray"), url, nil)
}

// Order draws one instruction, and notes in a journal of its own that a caller tries it.
func (w *World) Order(rail string) (payment.Instruction, error) {
	one, err := w.draw(rail)
	if err != nil {
		return payment.Instruction{}, err
	}
	w.plans++
	journal, err := openJournal(w.journal(w.plans))
	if err != nil {
		return payment.Instruction{}, err
	}
	err = journal.Write(Entry{Kind: Attempt, InstructionID: one.InstructionID})
	return one.instruction(), errors.Join(err, journal.Close())
}

// recentPlans is how many plans, at most, have a caller that may still call.
const recentPlans = 12

// Recent holds what is known of calls that were begun after a moment.
type Recent struct {
	Acknowledged []time.Time     // when a caller was told, by call
	called       map[string]bool // instructions of which no call was begun before
}

// Since returns what became of the calls that were begun after a moment.
func (w *World) Since(moment time.Time) (Recent, error) {
	recent := Recent{called: make(map[string]bool)}
	for plan := max(1, w.plans-recentPlans); plan <= w.plans; plan++ {
		entries, err := readJournal(w.journal(plan))
		if err != nil {
			return recent, err
		}
		begun := make(map[string]time.Time) // the latest call of each instruction
		for _, e := range entries {
			switch e.Kind {
			case Attempt:
				if _, again := begun[e.InstructionID]; !again && e.At.After(moment) {
					recent.called[e.InstructionID] = true
				}
				begun[e.InstructionID] = e.At
			case Ack:
				if begun[e.InstructionID].After(moment) {
					recent.Acknowledged = append(recent.Acknowledged, e.At)
				}
			}
		}
	}
	return recent, nil
}

// FirstExecuted returns when a bank first executed an instruction that was called for only
// after the moment; the zero time if none was.
func (w *World) FirstExecuted(recent Recent) (first time.Time, err error) {
	for _, bank := range []*Bank{w.Dedupes, w.Bare} {
		moved, err := bank.moved()
		if err != nil {
			return first, err
		}
		for _, record := range moved {
			if record.Kind == railsim.Executed && recent.called[record.Reference] &&
				(first.IsZero() || record.Time.Before(first)) {
				first = record.Time
			}
		}
	}
	return first, nil
}
