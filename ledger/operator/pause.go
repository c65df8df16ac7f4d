package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Everything stands for all rails in PauseRail and ResumeRail.
const Everything = "*"

// PauseRail stops claims of a rail, or of Everything. What is in flight goes on,
// and nothing that waits is lost or counted. The reaper ends the pause at until; zero is
// no end. It reports whether it was running before: a pause that is in force keeps its
// login, time and reason, and ends when the later of the two does.
func (o *Operator) PauseRail(ctx context.Context, railType, reason string, until time.Time) (wasRunning bool, err error) {
	err = o.act(ctx, "pause_rail", &wasRunning, railType, reason, store.Timestamp(until))
	if err != nil {
		return false, fmt.Errorf("pausing %s: %w", railName(railType), err)
	}
	return wasRunning, nil
}

// ResumeRail lets a rail, or Everything, be claimed again. It reports whether it
// was paused. A rail that is paused by itself stays so when everything is resumed.
func (o *Operator) ResumeRail(ctx context.Context, railType, reason string) (wasPaused bool, err error) {
	err = o.act(ctx, "resume_rail", &wasPaused, railType, reason)
	if err != nil {
		return false, fmt.Errorf("resuming %s: %w", railName(railType), err)
	}
	return wasPaused, nil
}

// PauseParticipant stops claims of a participant's instructions, until then as PauseRail
// does. It reports whether it was running before.
func (o *Operator) PauseParticipant(ctx context.Context, participantID, reason string, until time.Time) (wasRunning bool, err error) {
	err = o.act(ctx, "pause_participant", &wasRunning, participantID, reason, store.Timestamp(until))
	if err != nil {
		return false, fmt.Errorf("pausing participant %q: %w", store.Bound(participantID, 128), err)
	}
	return wasRunning, nil
}

// ResumeParticipant lets a participant's instructions be claimed again. It
// reports whether it was paused.
func (o *Operator) ResumeParticipant(ctx context.Context, participantID, reason string) (wasPaused bool, err error) {
	err = o.act(ctx, "resume_participant", &wasPaused, participantID, reason)
	if err != nil {
		return false, fmt.Errorf("resuming participant %q: %w", store.Bound(participantID, 128), err)
	}
	return wasPaused, nil
}

// act runs one function of the schema that returns one value, in a transaction
// of its own. A refusal comes back as a *outbox.Fault, a lock that was not had in
// time as a *BlockedError.
func (o *Operator) act(ctx context.Context, statement string, into any, arguments ...any) error {
	err := o.decide(ctx, func(tx pgx.Tx) error {
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
