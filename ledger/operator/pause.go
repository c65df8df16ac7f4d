package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Everything means all rails in PauseRail and ResumeRail.
const Everything = "*"

// PauseRail stops claims of a rail, or of Everything. Calls in flight finish, and waiting
// instructions stay unchanged. The reaper ends the pause at until; zero: it stays. PauseRail
// reports whether the rail was running. A pause that was already in force keeps its login,
// time and reason, and ends at the later of the two ends.
func (o *Operator) PauseRail(
	ctx context.Context, railType, reason string, until time.Time,
) (wasRunning bool, err error) {
	err = o.act(ctx, "pause_rail", &wasRunning, railType, reason, store.Timestamp(until))
	if err != nil {
		return false, fmt.Errorf("pausing %s: %w", railName(railType), err)
	}
	return wasRunning, nil
}

// ResumeRail ends the pause of a rail, or of Everything, and reports whether it was paused.
// A rail's own pause stays in force when everything is resumed.
func (o *Operator) ResumeRail(ctx context.Context, railType, reason string) (wasPaused bool, err error) {
	err = o.act(ctx, "resume_rail", &wasPaused, railType, reason)
	if err != nil {
		return false, fmt.Errorf("resuming %s: %w", railName(railType), err)
	}
	return wasPaused, nil
}

// PauseParticipant stops claims of a participant's instructions, like PauseRail. It reports
// whether the participant was running.
func (o *Operator) PauseParticipant(
	ctx context.Context, participantID, reason string, until time.Time,
) (wasRunning bool, err error) {
	err = o.act(ctx, "pause_participant", &wasRunning, participantID, reason, store.Timestamp(until))
	if err != nil {
		return false, fmt.Errorf("pausing participant %q: %w", store.Bound(participantID, 128), err)
	}
	return wasRunning, nil
}

// ResumeParticipant ends the pause of a participant and reports whether it was paused.
func (o *Operator) ResumeParticipant(ctx context.Context, participantID, reason string) (wasPaused bool, err error) {
	err = o.act(ctx, "resume_participant", &wasPaused, participantID, reason)
	if err != nil {
		return false, fmt.Errorf("resuming participant %q: %w", store.Bound(participantID, 128), err)
	}
	return wasPaused, nil
}

// act runs a function of the schema that returns one value, in a transaction of its own. A
// refusal is a *outbox.Fault, and a lock timeout a *BlockedError.
func (o *Operator) act(ctx context.Context, statement string, into any, arguments ...any) error {
	err := o.decide(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL[statement], arguments...).Scan(into)
	})
	return store.Refusal(err)
}

// bulk is act for a function whose work grows with the cell.
func (o *Operator) bulk(ctx context.Context, statement string, into any, arguments ...any) error {
	return o.doWithin(ctx, bulkWithin, statement, into, arguments...)
}

func (o *Operator) doWithin(
	ctx context.Context, within time.Duration, statement string, into any, arguments ...any,
) error {
	err := o.decideWithin(ctx, within, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, o.db.SQL[statement], arguments...).Scan(into)
	})
	return store.Refusal(err)
}

func railName(railType string) string {
	if railType == Everything {
		return "everything"
	}
	return "rail " + store.Bound(railType, 64)
}
