package relayer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/rails"
)

// gathered is a rail whose answers come together: each waits for those to the other calls of its batch, for at most a
// fifth of a second.
type gathered struct {
	rails.Rail
	mu      sync.Mutex
	size    int
	waiting int
	full    chan struct{}
}

func (g *gathered) Send(ctx context.Context, s rails.Send) rails.Result {
	result := g.Rail.Send(ctx, s)
	g.mu.Lock()
	full := g.full
	if g.waiting++; g.waiting == g.size {
		close(g.full)
		g.waiting, g.full = 0, make(chan struct{})
	}
	g.mu.Unlock()
	select {
	case <-full:
	case <-time.After(200 * time.Millisecond):
	}
	return result
}

// TestNothingIsSentWhileNothingIsRecorded tests an archive that takes claims and no outcomes, as with a corrupt index
// that only outcomes use: few more payments are sent than may be in flight, the heartbeat says why, and all goes on
// once outcomes are taken again.
func TestNothingIsSentWhileNothingIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "concurrency": 16`))
	const all, most = 200, 64
	w.do(`CREATE FUNCTION railhead.refuse_in_a_test() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION USING ERRCODE = 'XX002', MESSAGE = 'the index is corrupt'; END $$`)
	w.do(`GRANT EXECUTE ON FUNCTION railhead.refuse_in_a_test() TO PUBLIC`)
	w.do(`CREATE TRIGGER refused_by_the_test BEFORE INSERT ON railhead.payment_outbox_attempts
		FOR EACH ROW WHEN (NEW.state = 'DISPATCHED') EXECUTE FUNCTION railhead.refuse_in_a_test()`)
	w.wrap = func(rail rails.Rail) rails.Rail { return &gathered{Rail: rail, size: 16, full: make(chan struct{})} }
	for n := range all {
		w.enqueue(fmt.Sprintf("instruction-%d", n))
	}
	r := w.run(oneLoop())
	sent, since := 0, time.Now()
	w.seen.await(t, func() error {
		if now := len(w.bank.Requests()); now != sent || now == 0 {
			sent, since = now, time.Now()
		}
		if quiet := time.Since(since); quiet < 2*time.Second {
			return fmt.Errorf("%d are sent, the last one %s ago", sent, quiet)
		}
		return nil
	})
	if sent > most {
		t.Errorf("%d of %d payments are sent, and no outcome is recorded; want at most %d", sent, all, most)
	}
	same(t, "outcomes", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts WHERE state <> 'DISPATCHING'`), 0)
	same(t, "held", r.lane("bank").Stopped, true)
	w.awaitText("true", `SELECT bool_and(activity NOT LIKE '0 answers%'
		AND lanes::text LIKE '%can not be recorded%')::text FROM railhead.outbox_heartbeats WHERE kind = 'relayer'`)
	w.do(`DROP TRIGGER refused_by_the_test ON railhead.payment_outbox_attempts`)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	same(t, "outcomes of one that was stopped", w.cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts
		WHERE state = 'DISPATCHED'`), sent)
	w.run(config())
	w.awaitText(strconv.Itoa(all), `SELECT count(*)::text FROM railhead.payment_outbox_attempts WHERE state = 'DISPATCHED'`)
	same(t, "sends", len(w.bank.Requests()), all)
}
