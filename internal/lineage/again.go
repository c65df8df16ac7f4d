package lineage

import (
	"context"
	"fmt"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// watch is what a guard has read on one start of the server since a suspension is open. What the memory
// misses is known by then: only what was there meanwhile shows that the data went back again.
type watch struct {
	id       payment.ID
	on       outbox.Server
	position int64   // of the write-ahead log
	beats    int64   // of the last heartbeat that was confirmed; 0: none was
	again    finding // not reported yet
}

// watchServer compares the position of the log with that of the look before.
func (g *Guard) watchServer(server outbox.Server, open outbox.Suspension, suspended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &g.watch
	if !suspended || w.id != open.ID || !w.on.Same(server) {
		*w = watch{id: open.ID, on: server}
	}
	if w.position > server.LogPosition {
		w.again = finding{cause: outbox.CauseLogWentBack, detail: fmt.Sprintf(
			"during a suspension the write-ahead log ended at %s and ends at %s", position(w.position),
			position(server.LogPosition))}
	}
	w.position = server.LogPosition
}

// beat compares the count of a confirmed heartbeat with that of the one before. One that is lower by one may have
// been overtaken on its way; if not, the next one is not higher.
func (w *watch) beat(name string, beats int64) {
	if beats == w.beats-1 {
		return
	}
	if beats <= w.beats {
		w.again = finding{cause: outbox.CauseRowsMissing, detail: fmt.Sprintf(
			"%d heartbeats of %s were confirmed during a suspension, and some are missing", w.beats, name)}
	}
	w.beats = beats
}

// repeat tells the database again of the open suspension that this guard has reported. If the data went back
// since, the suspension counts as opened now, because what an operator compared before is not all. Otherwise the
// database may still have to end that the map of cells is confirmed. An acceptance after OpenedAt opens nothing anew.
func (g *Guard) repeat(ctx context.Context, server outbox.Server, open outbox.Suspension) error {
	g.mu.Lock()
	again := g.watch.again
	g.mu.Unlock()
	if again.cause == "" {
		if open.Cause != outbox.CauseLogWentBack && open.Cause != outbox.CauseRowsMissing {
			return nil
		}
		return g.store.Suspend(ctx, g.config.Name, open.Cause, open.Detail, open.OpenedAt)
	}
	if err := g.store.Suspend(ctx, g.config.Name, again.cause, again.detail, server.Now); err != nil {
		return err
	}
	g.log.ErrorContext(ctx, "the database went back again during a suspension: what was compared before is not all",
		"cause", again.cause, "detail", again.detail)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watch.again == again {
		g.watch.again = finding{}
	}
	return nil
}
