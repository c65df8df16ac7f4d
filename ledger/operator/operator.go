// Package operator is the ledger of operators: it has their acts, each with its reason, as a
// member of railhead_operator.
package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// Operator has the acts of operators, as a member of railhead_operator. Every act is a
// function of the schema, which logs the login and the reason. An act waits for a lock for
// at most 5 s; after that it has done nothing, and the error is a *BlockedError. It waits for a server that
// does not answer for at most 15 s, and where its work grows with the cell for half an hour; see ErrNoAnswer.
type Operator struct {
	db *store.DB
}

// Open connects lazily: it succeeds even if the server is down.
func Open(ctx context.Context, config ledger.Config) (*Operator, error) {
	db, err := store.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Operator{db: db}, nil
}

// Close ends every connection.
func (o *Operator) Close() { o.db.Pool.Close() }

// Rails reads the profiles in force.
func (o *Operator) Rails(ctx context.Context) ([]outbox.RailRow, error) {
	var rails []outbox.RailRow
	err := o.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, o.db.SQL["rails"])
		if err != nil {
			return fmt.Errorf("reading rails: %w", err)
		}
		rails, err = store.RailsOf(rows)
		return err
	})
	return rails, err
}

// ApplyRailProfile puts a profile in force as the rail's next version, and registers the
// rail if it is new. If the profile is already in force, nothing changes: changed is false,
// and version is the one in force. The caller must validate the profile. The reason is
// required and logged.
func (o *Operator) ApplyRailProfile(
	ctx context.Context, railType string, profileJSON []byte, reason string,
) (version int, changed bool, err error) {
	err = o.decide(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["apply_rail_profile"], railType, string(profileJSON), reason).
			Scan(&version, &changed)
	})
	if err != nil {
		return 0, false, fmt.Errorf("applying the profile of rail %s: %w", railType, store.Refusal(err))
	}
	return version, changed, nil
}

// AcceptTimeline accepts this server after a failover or a restore, so that sending may
// continue; relayers with suspended lanes notice it within seconds. It returns the accepted
// identifier and timeline; the rest of Server is empty. The reason is required: it describes
// what was compared with the rails. Since is when the suspension was opened, to the second;
// zero: none is open. A suspension that was opened or taken over later is not accepted
// (RH020).
func (o *Operator) AcceptTimeline(ctx context.Context, since time.Time, reason string) (outbox.Server, error) {
	var server outbox.Server
	err := o.decideWithin(ctx, bulkWithin, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["accept_timeline"], reason, store.Timestamp(since)).
			Scan(&server.SystemIdentifier, &server.Timeline)
	})
	if err != nil {
		return outbox.Server{}, fmt.Errorf("accepting the timeline: %w", store.Refusal(err))
	}
	return server, nil
}
