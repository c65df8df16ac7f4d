package relayer_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// TestSaidAtTheEnd tests what a relayer logs of an answer that it can't record before it ends: the answer itself, and
// nothing about the rows that is not so. Sends are cancelled, and said to be, only if one remains.
func TestSaidAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how  way
		rows string
	}{
		"the answer to the commit is lost": {lostAfter, "DISPATCHING DISPATCHED"},
		"the server is away":               {lostBefore, "DISPATCHING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(neverAgain))
			said := new(kept)
			w.log = slog.New(slog.NewTextHandler(said, nil))
			slow := newHesitant()
			w.wrap = slow.around
			store := newFaulty(w.store)
			w.setBudget(func(b *outbox.TimeBudget) { b.Drain, b.RecordWithin = 100*time.Millisecond, 500*time.Millisecond })
			r := w.runWith(oneLoop(), store, w.notifier())
			id := w.enqueue("the one")
			<-slow.arrived
			store.fail("Turn", c.how)
			store.fail("RecordLate", lostBefore)
			close(slow.goOn)
			w.seen.await(t, func() error { return wantOne(w.executions(id)) })
			w.seen.awaitCount(t, "called ACCEPTED", 1)
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			same(t, "rows", w.states(id), c.rows)
			same(t, "the last heartbeat tells of it", w.text(`SELECT (status = 'stopped' AND activity LIKE '1 answers%')::text
				FROM railhead.outbox_heartbeats`), "true")
			records, err := w.bank.Executions()
			if err != nil {
				t.Fatal(err)
			}
			named := false
			for line := range strings.Lines(said.String()) {
				named = named || strings.Contains(line, "it is not known whether this outcome is recorded") &&
					strings.Contains(line, "outbox_id="+id.String()) && strings.Contains(line, "claim=1 result=ACCEPTED") &&
					strings.Contains(line, "rail_reference="+records[0].ID)
			}
			if !named {
				t.Errorf("the outcome %s is not named", records[0].ID)
			}
			for _, untrue := range []string{"could not be recorded", "will record them", "cancelling the remaining sends"} {
				if strings.Contains(said.String(), untrue) {
					t.Errorf("it says %q", untrue)
				}
			}
		})
	}
	t.Run("a send remains", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, profile(neverAgain))
		said := new(kept)
		w.log = slog.New(slog.NewTextHandler(said, nil))
		slow := newHesitant()
		w.wrap = slow.around
		w.setBudget(func(b *outbox.TimeBudget) { b.Drain = 100 * time.Millisecond })
		r := w.run(oneLoop())
		w.enqueue("the one")
		<-slow.arrived
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if !strings.Contains(said.String(), "cancelling the remaining sends\" sends=1") {
			t.Error("it does not say that it cancels a send")
		}
		if strings.Contains(said.String(), "it is not known whether") {
			t.Error("it doubts what it has recorded")
		}
	})
}
