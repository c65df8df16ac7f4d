package relayer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/railhead-pay/railhead/rails"
)

// crowd counts the calls that are under way at once.
type crowd struct {
	*hesitant
	now, most *atomic.Int64
}

func (c *crowd) Send(ctx context.Context, s rails.Send) rails.Result {
	if now := c.now.Add(1); now > c.most.Load() {
		c.most.Store(now)
	}
	defer c.now.Add(-1)
	return c.hesitant.Send(ctx, s)
}

// TestConcurrencyOverProfiles applies further versions of a profile while its one slot is taken: calls of the versions
// before count, and the next call begins when that one has ended.
func TestConcurrencyOverProfiles(t *testing.T) {
	t.Parallel()
	one := func(connect int) string {
		return profile(covering + fmt.Sprintf(`, "concurrency": 1, "timeouts": {"connect": "%ds", "tls": "100ms", "write": "300ms",
			"response_header": "500ms", "body": "300ms"}`, connect))
	}
	w := newWorld(t, one(14))
	slow := newHesitant()
	now, most := new(atomic.Int64), new(atomic.Int64)
	w.wrap = func(rail rails.Rail) rails.Rail {
		one := *slow
		one.Rail = rail
		return &crowd{hesitant: &one, now: now, most: most}
	}
	w.run(config())
	const all = 4
	for n := range all {
		w.enqueue(fmt.Sprintf("instruction-%d", n))
	}
	<-slow.arrived
	for version := 3; version <= 5; version++ { // the cell has two
		w.cell.ApplyProfile("bank", one(14-version))
		w.awaitText(strconv.Itoa(version), `SELECT coalesce(lanes->0->>'profile_version', '') FROM railhead.outbox_heartbeats`)
		w.awaitTurns(2)
	}
	same(t, "calls at once", most.Load(), 1)
	same(t, "calls that the heartbeat tells", w.text(`SELECT lanes->0->>'calls' FROM railhead.outbox_heartbeats`), "1")
	close(slow.goOn)
	w.awaitText(strconv.Itoa(all), `SELECT count(*)::text FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'`)
	same(t, "calls at once in the end", most.Load(), 1)
}
