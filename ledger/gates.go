package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// GateScope says what a gate is of.
type GateScope string

// Scopes.
const (
	GateCell        GateScope = "cell"
	GateRail        GateScope = "rail"
	GateParticipant GateScope = "participant"
)

// GateScopes lists them.
func GateScopes() []GateScope { return []GateScope{GateCell, GateRail, GateParticipant} }

// Gate is what an operator closes to refuse new instructions. Name is the rail_type, the
// participant_id or, of the cell, Everything.
type Gate struct {
	Scope GateScope `json:"scope"`
	Name  string    `json:"name"`
}

// String is the gate as the database says it: everything, rail bank, participant p1.
func (g Gate) String() string {
	if g.Scope == GateCell {
		return "everything"
	}
	return string(g.Scope) + " " + bound(g.Name, 128)
}

// ClosedGate is a gate that is closed: new instructions are refused with
// outbox.ErrEnqueueClosed.
type ClosedGate struct {
	Gate
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until,omitzero"` // when the reaper opens it; zero: an operator does
}

// CloseEnqueue refuses new instructions; what is enqueued stays, and is dispatched. The
// reaper opens the gate at until; zero is no end. It reports whether it was open before: a
// gate that is closed keeps its login, time and reason, and opens when the later of the two
// ends comes.
func (o *Operator) CloseEnqueue(ctx context.Context, gate Gate, reason string, until time.Time) (wasOpen bool, err error) {
	err = o.act(ctx, "close_enqueue", &wasOpen, string(gate.Scope), gate.Name, reason, moment(until))
	if err != nil {
		return false, fmt.Errorf("closing enqueue for %s: %w", gate, err)
	}
	return wasOpen, nil
}

// OpenEnqueue takes new instructions again. It reports whether the gate was closed. Others
// may still be: a rail's own gate stays closed when everything is opened.
func (o *Operator) OpenEnqueue(ctx context.Context, gate Gate, reason string) (wasClosed bool, err error) {
	err = o.act(ctx, "open_enqueue", &wasClosed, string(gate.Scope), gate.Name, reason)
	if err != nil {
		return false, fmt.Errorf("opening enqueue for %s: %w", gate, err)
	}
	return wasClosed, nil
}

// gatesMax is more than there can be: every rail, 100 participants and the cell.
const gatesMax = 2_000

// ClosedGates lists the gates that are closed, those closed last first.
func (r *Reader) ClosedGates(ctx context.Context) ([]ClosedGate, error) {
	return r.closedGates(ctx, Gate{})
}

// ClosedGate is how a gate is closed; nil: it is open.
func (r *Reader) ClosedGate(ctx context.Context, gate Gate) (*ClosedGate, error) {
	found, err := r.closedGates(ctx, gate)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (r *Reader) closedGates(ctx context.Context, gate Gate) ([]ClosedGate, error) {
	var found []ClosedGate
	err := r.look(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.sql["closed_gates"], text(string(gate.Scope)), text(gate.Name), gatesMax).Query(collect(&found, scanClosedGate))
	})
	if err != nil {
		return nil, fmt.Errorf("looking at closed gates: %w", err)
	}
	return found, nil
}

func scanClosedGate(row pgx.CollectableRow) (ClosedGate, error) {
	var g ClosedGate
	var until pgtype.Timestamptz
	err := row.Scan(&g.Scope, &g.Name, &g.By, &g.At, &g.Reason, &until)
	g.Until = orZero(until)
	return g, err
}
