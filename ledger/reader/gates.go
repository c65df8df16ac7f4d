package reader

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// GateScope is the kind of subject that a gate is for.
type GateScope string

// The scopes of gates.
const (
	GateCell        GateScope = "cell"
	GateRail        GateScope = "rail"
	GateParticipant GateScope = "participant"
)

// GateScopes lists every scope.
func GateScopes() []GateScope { return []GateScope{GateCell, GateRail, GateParticipant} }

// Gate is what an operator closes to refuse new instructions. Name is the rail_type, the
// participant_id or, for the cell, Everything.
type Gate struct {
	Scope GateScope `json:"scope"`
	Name  string    `json:"name"`
}

// String returns the gate as the database writes it: everything, rail bank, participant p1.
func (g Gate) String() string {
	if g.Scope == GateCell {
		return "everything"
	}
	return string(g.Scope) + " " + store.Bound(g.Name, 128)
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

// gatesMax is above the maximum of closed gates: every rail, 100 participants and the cell.
const gatesMax = 2_000

// ClosedGates lists the closed gates, the latest first.
func (r *Reader) ClosedGates(ctx context.Context) ([]ClosedGate, error) {
	return r.closedGates(ctx, Gate{})
}

// ClosedGate returns when, why and by whom a gate was closed; nil: it is open.
func (r *Reader) ClosedGate(ctx context.Context, gate Gate) (*ClosedGate, error) {
	found, err := r.closedGates(ctx, gate)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (r *Reader) closedGates(ctx context.Context, gate Gate) ([]ClosedGate, error) {
	var found []ClosedGate
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["closed_gates"], store.Text(string(gate.Scope)), store.Text(gate.Name), gatesMax).
			Query(store.Collect(&found, scanClosedGate))
	})
	if err != nil {
		return nil, fmt.Errorf("reading closed gates: %w", err)
	}
	return found, nil
}

func scanClosedGate(row pgx.CollectableRow) (ClosedGate, error) {
	var g ClosedGate
	var until pgtype.Timestamptz
	err := row.Scan(&g.Scope, &g.Name, &g.By, &g.At, &g.Reason, &until)
	g.Until = store.OrZero(until)
	return g, err
}
