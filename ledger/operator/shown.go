package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// ErrOther is the error of an act on a rail, a participant or an endpoint that is no longer as the person saw it.
// Nothing was done.
var ErrOther = errors.New("it is no longer as it was shown")

// ShownPause is what a person saw of a pause. The zero value: there was none.
type ShownPause struct {
	At, Until time.Time // Until: zero: an operator ends it
	Mark      string    // of its reason: see ShownOf
}

// ShownOf is what a person is shown of a pause; nil: there is none. Its mark is 16 hexadecimal digits.
func ShownOf(pause *reader.Pause) ShownPause {
	if pause == nil {
		return ShownPause{}
	}
	sum := sha256.Sum256([]byte(pause.Reason))
	return ShownPause{At: pause.At, Until: pause.Until, Mark: hex.EncodeToString(sum[:8])}
}

func (s ShownPause) same(now ShownPause) bool {
	return s.At.Equal(now.At) && s.Until.Equal(now.Until) && s.Mark == now.Mark
}

// IfPauseIs returns a context whose ResumeRail or ResumeParticipant is done only if the pause is the one that was
// shown; otherwise the error is ErrOther. One that was begun since has another time, and one that another operator
// has asked for since has another reason, which the person has not read. The act's transaction sees one snapshot: it
// changes the row that it has compared, or loses the race.
func IfPauseIs(ctx context.Context, railType, participantID string, shown ShownPause) context.Context {
	return guarding(ctx, guard{snapshot: true, run: func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
		pause, err := o.pauseInForce(ctx, tx, railType, participantID)
		if err != nil {
			return err
		}
		if !shown.same(ShownOf(pause)) {
			return fmt.Errorf("%w: nothing was done", ErrOther)
		}
		return call(ctx, tx)
	}})
}

// TellPause returns a context whose ResumeRail or ResumeParticipant stores the pause that it ends; nil: there was none.
func TellPause(ctx context.Context, railType, participantID string, ended **reader.Pause) context.Context {
	return guarding(ctx, guard{snapshot: true, run: func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
		pause, err := o.pauseInForce(ctx, tx, railType, participantID)
		if err != nil {
			return err
		}
		*ended = pause
		return call(ctx, tx)
	}})
}

// TellGate returns a context whose OpenEnqueue stores the closing that it ends; nil: the gate was open.
func TellGate(ctx context.Context, gate reader.Gate, ended **reader.ClosedGate) context.Context {
	return guarding(ctx, guard{snapshot: true, run: func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
		closed := reader.ClosedGate{Gate: gate}
		var until pgtype.Timestamptz
		err := tx.QueryRow(ctx, o.db.SQL["closed_gates"], string(gate.Scope), gate.Name, 1).
			Scan(nil, nil, &closed.By, &closed.At, &closed.Reason, &until)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			*ended = nil
		case err != nil:
			return fmt.Errorf("reading the closed gate: %w", err)
		default:
			closed.Until = store.OrZero(until)
			*ended = &closed
		}
		return call(ctx, tx)
	}})
}

// pauseInForce reads a pause in the transaction of an act; nil: there is none.
func (o *Operator) pauseInForce(ctx context.Context, tx pgx.Tx, railType, participantID string) (*reader.Pause, error) {
	var pause reader.Pause
	var until pgtype.Timestamptz
	err := tx.QueryRow(ctx, o.db.SQL["pause_in_force"], store.Text(railType), store.Text(participantID)).
		Scan(&pause.What, &pause.By, &pause.At, &pause.Reason, &until)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the pause: %w", err)
	}
	pause.Until = store.OrZero(until)
	return &pause, nil
}

// ShownEndpoint is what a person saw of an endpoint.
type ShownEndpoint struct {
	PausedAt time.Time // zero: it was not paused
	GivenUp  int       // events that were given up
	Mark     int64     // of these events: outbox.ListedEndpoint.GivenUpMark
}

// IfGivenUpIs returns a context whose Discard is done only if the events of the endpoint that were given up are those
// that were shown; otherwise the error is ErrOther. It compares while it has the endpoint's row locked.
func IfGivenUpIs(ctx context.Context, endpoint string, shown ShownEndpoint) context.Context {
	return ifEndpoint(ctx, endpoint, func(now ShownEndpoint) bool {
		return now.GivenUp == shown.GivenUp && now.Mark == shown.Mark
	})
}

// IfEndpointPauseIs returns a context whose Redeliver, which ends the pause of an endpoint, is done only if the pause
// is the one that was shown; otherwise the error is ErrOther.
func IfEndpointPauseIs(ctx context.Context, endpoint string, shown ShownEndpoint) context.Context {
	return ifEndpoint(ctx, endpoint, func(now ShownEndpoint) bool { return now.PausedAt.Equal(shown.PausedAt) })
}

// ifEndpoint compares under the lock of the endpoint's row, and not on one snapshot: deliveries that are noted change
// that row many times a second, and each would lose the race for the act.
func ifEndpoint(ctx context.Context, endpoint string, same func(now ShownEndpoint) bool) context.Context {
	return guarding(ctx, guard{run: func(ctx context.Context, o *Operator, tx pgx.Tx, call step) error {
		var now ShownEndpoint
		var paused pgtype.Timestamptz
		if err := tx.QueryRow(ctx, o.db.SQL["hold_endpoint"], endpoint).Scan(&paused); err != nil {
			return fmt.Errorf("locking the endpoint: %w", err)
		}
		if err := tx.QueryRow(ctx, o.db.SQL["given_up"], endpoint).Scan(&now.GivenUp, &now.Mark); err != nil {
			return fmt.Errorf("reading what waits for the endpoint: %w", err)
		}
		if now.PausedAt = store.OrZero(paused); !same(now) {
			return fmt.Errorf("%w: nothing was done", ErrOther)
		}
		return call(ctx, tx)
	}})
}
