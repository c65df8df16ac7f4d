package relayer_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/rails"
)

// shutting is a rail whose Close hangs until it is released, and for long, or panics.
type shutting struct {
	rails.Rail
	released <-chan struct{}
	panics   bool
}

func (s shutting) Close() error {
	if s.panics {
		panic("close")
	}
	select {
	case <-s.released:
	case <-time.After(20 * time.Second): // so that a relayer that waits for it ends
	}
	return nil
}

// TestHungClose tests that an adapter whose Close hangs or panics holds neither the payments of a new profile, nor the
// end of a relayer, and is logged.
func TestHungClose(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		panics bool
		log    string
	}{
		"hangs":  {false, "an adapter has not closed in time"},
		"panics": {true, "an adapter panicked when it was closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fastProfile)
			var said logged
			w.log = slog.New(slog.NewTextHandler(&said, nil))
			released := make(chan struct{})
			t.Cleanup(func() { close(released) })
			w.wrap = func(rail rails.Rail) rails.Rail { return shutting{rail, released, c.panics} }
			r := w.run(config())
			w.awaitStates(w.enqueue("before"), "DISPATCHING DISPATCHED")
			w.cell.ApplyProfile("bank", profile(again))
			w.seen.await(t, func() error {
				if said.count(c.log) == 0 {
					return errors.New("the adapter of the profile before is not logged")
				}
				return nil
			})
			w.awaitStates(w.enqueue("by the new profile"), "DISPATCHING DISPATCHED")
			begun := time.Now()
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it ended after %s", took)
			}
			same(t, "lines of the log", said.count(c.log), 2)
		})
	}
}
