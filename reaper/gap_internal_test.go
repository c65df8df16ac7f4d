package reaper

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// resumed is a store that finds a stale claim. Its other calls panic.
type resumed struct {
	Store
	r *Reaper
}

func (s resumed) StaleClaims(context.Context, outbox.StaleQuery) ([]outbox.StaleClaim, error) {
	s.r.lastTurn = s.r.lastTurn.Slept(time.Hour)
	return []outbox.StaleClaim{{Claim: payment.Claim{RailType: "bank"}, WorkerID: "on the same machine"}}, nil
}

// TestGraceAfterTheMachineWasSuspended tests a machine that is suspended with a reaper and its relayer: the monotonic
// clock stands still meanwhile, and the relayer has yet to record the answers that it holds.
func TestGraceAfterTheMachineWasSuspended(t *testing.T) {
	t.Parallel()
	r := &Reaper{config: Config{}.withDefaults(), watch: nopObserver{}, log: slog.New(slog.DiscardHandler)}
	now := time.Now()
	server := outbox.Server{StartedAt: now.Add(-time.Hour), Now: now}
	for _, each := range []struct {
		what string
		last clock.Moment
		want bool
	}{
		{"no turn before", clock.Moment{}, false},
		{"the turn before", clock.Now().Before(r.config.Every), false},
		{"suspended between two turns", clock.Now().Slept(time.Hour), true},
	} {
		r.lastTurn, r.lastMono, r.graceUntil = each.last, time.Now(), time.Time{}
		if got := r.inGrace(server, time.Now()); got != each.want {
			t.Errorf("%s: in grace %t, want %t", each.what, got, each.want)
		}
	}

	r.lastTurn, r.lastMono, r.store = clock.Now(), time.Now(), resumed{r: r}
	var result Result
	if err := r.repair(t.Context(), &result); err != nil || !result.Grace || result.Stale != 0 {
		t.Errorf("suspended within a turn: %+v, %v", result, err)
	}
	if !r.inGrace(server, time.Now()) {
		t.Error("the turn after it repairs")
	}
}
