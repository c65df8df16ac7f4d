package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestStoppedTwice: the operator who ends a pause is told of each operator who wanted it. The second one's reason is
// part of the pause, so that a page from before it ends nothing.
func TestStoppedTwice(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enqueue()
	o := d.operator()
	const stop = "STOP: the bank executes payments twice"
	both := fmt.Sprintf("maintenance; and %s: %s", celltest.Operator, stop)
	anew := both + fmt.Sprintf("; and %s: maintenance", celltest.Operator)
	for name, of := range map[string]struct {
		rail, participant string
		pause             func(reason string, until time.Time) (bool, error)
		read              func() (*reader.Pause, error)
		resume            func(shown operator.ShownPause) (bool, error)
	}{
		"a rail": {rail: "bank",
			pause: func(reason string, until time.Time) (bool, error) {
				return o.PauseRail(t.Context(), "bank", reason, until)
			},
			read: func() (*reader.Pause, error) { return o.Reader().RailPause(t.Context(), "bank") },
			resume: func(shown operator.ShownPause) (bool, error) {
				return o.ResumeRail(operator.IfPauseIs(t.Context(), "bank", "", shown), "bank", "maintenance is over")
			}},
		"a participant": {participant: "participant",
			pause: func(reason string, until time.Time) (bool, error) {
				return o.PauseParticipant(t.Context(), "participant", reason, until)
			},
			read: func() (*reader.Pause, error) { return o.Reader().ParticipantPause(t.Context(), "participant") },
			resume: func(shown operator.ShownPause) (bool, error) {
				return o.ResumeParticipant(operator.IfPauseIs(t.Context(), "", "participant", shown), "participant",
					"maintenance is over")
			}},
	} {
		for kind, ends := range map[string][2]time.Duration{
			"without an end": {0, 0}, "with an end, which is not later": {2 * time.Hour, time.Hour},
		} {
			at := func(span time.Duration) time.Time {
				if span == 0 {
					return time.Time{}
				}
				return time.Now().Add(span)
			}
			_, err := of.pause("maintenance", at(ends[0]))
			d.must(err)
			first, err := of.read()
			d.must(err)
			changed, err := of.pause(stop, at(ends[1]))
			d.must(err)
			same(t, "was running at the second pause", changed, false)
			if _, err := of.resume(operator.ShownOf(first)); !errors.Is(err, operator.ErrOther) {
				t.Errorf("%s %s, resumed by a page from before the second pause: %v", name, kind, err)
			}
			now, err := of.read()
			d.must(err)
			if now == nil || now.Reason != both || !now.At.Equal(first.At) || now.By != first.By ||
				!now.Until.Equal(first.Until) {
				t.Fatalf("%s %s, paused by two, is %+v", name, kind, now)
			}
			// The newest word again is the same call; an older one is said anew, once.
			for _, again := range []struct{ said, want string }{
				{stop, both}, {"maintenance", anew}, {"maintenance", anew},
			} {
				_, err = of.pause(again.said, at(ends[1]))
				d.must(err)
				now, err = of.read()
				d.must(err)
				same(t, "the reason after "+again.said+" was said again", now.Reason, again.want)
			}
			if resumed, err := of.resume(operator.ShownOf(now)); err != nil || !resumed {
				t.Errorf("%s %s, resumed by a page that shows both: %t, %v", name, kind, resumed, err)
			}
		}
	}

	gate := reader.Gate{Scope: reader.GateRail, Name: "bank"}
	for _, each := range []struct{ said, want string }{
		{"maintenance", "maintenance"}, {"maintenance", "maintenance"}, {stop, both}, {stop, both}, {"maintenance", anew},
	} {
		_, err := o.CloseEnqueue(t.Context(), gate, each.said, time.Time{})
		d.must(err)
		closed, err := o.Reader().ClosedGate(t.Context(), gate)
		d.must(err)
		same(t, "the reason of a gate that two have closed", closed.Reason, each.want)
	}
}
