// Package operator is the ledger of operators: it does what people decide, each act with
// its reason, as a member of railhead_operator.
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

// Operator does what people decide, as a member of railhead_operator. Every act
// goes through a function of the schema that logs the login and the reason, and that
// waits for a lock for at most 5 s: then it did nothing, and the error is a *BlockedError.
type Operator struct {
	db *store.DB
}

// Open connects lazily: it succeeds while the server is away.
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
	return store.ReadRails(ctx, o.db)
}

// ApplyRailProfile puts a profile in force as the rail's next version and makes
// the rail if it is new. The profile in force again changes nothing: then
// changed is false and version the one in force. The caller has validated the
// profile; reason is for the reader of the log, and is required.
func (o *Operator) ApplyRailProfile(ctx context.Context, railType string, profileJSON []byte, reason string) (version int, changed bool, err error) {
	err = o.decide(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["apply_rail_profile"], railType, string(profileJSON), reason).Scan(&version, &changed)
	})
	if err != nil {
		return 0, false, fmt.Errorf("applying the profile of rail %s: %w", railType, store.Refusal(err))
	}
	return version, changed, nil
}

// AcceptTimeline says that sending may go on on this server after a failover or
// a restore; relayers that hold their lanes see it within seconds. It returns
// the identifier and timeline that were accepted; the rest of Server is empty.
// The reason is required: it says what was compared with the rails. Since is when the
// suspension was opened that was compared, to the second; zero: none is open. One that
// was opened or taken over after it is not accepted (RH020).
func (o *Operator) AcceptTimeline(ctx context.Context, since time.Time, reason string) (outbox.Server, error) {
	var server outbox.Server
	err := o.decide(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL["accept_timeline"], reason, store.Timestamp(since)).Scan(&server.SystemIdentifier, &server.Timeline)
	})
	if err != nil {
		return outbox.Server{}, fmt.Errorf("accepting the timeline: %w", store.Refusal(err))
	}
	return server, nil
}
