package relayer_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// TestUpkeepIsSaid tests that the log has the error of turns that can't begin, once while they follow one another, and
// again when they do so anew.
func TestUpkeepIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	said := new(kept)
	w.log = slog.New(slog.NewTextHandler(said, nil))
	store := newFaulty(w.store)
	w.runWith(oneLoop(), store, w.notifier())
	w.awaitStates(w.enqueue("before"), "DISPATCHING DISPATCHED")
	for n := range 2 {
		store.failNext("Rails", lostBefore, 2)
		w.seen.await(t, func() error {
			if lost := store.count("Rails"); lost != 2*(n+1) {
				return fmt.Errorf("%d turns have failed", lost)
			}
			return nil
		})
		w.awaitStates(w.enqueue(fmt.Sprintf("after-%d", n)), "DISPATCHING DISPATCHED")
		same(t, "lines of the log", strings.Count(said.String(), errLink.Error()), n+1)
	}
}
