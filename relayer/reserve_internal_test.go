package relayer

import (
	"testing"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestShare: on rails that order participants a loop that has claimed the heads of all lines leaves half of what
// follows to one that has little, and no more once that has its part.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, each := range []struct {
		name         string
		ordered      bool
		outcomes     int
		mine, theirs int // in flight
		claimMax     int
		want         int
	}{
		{"the other has nothing", true, 200, 900, 0, 500, 100},
		{"the other has little", true, 200, 900, 449, 500, 100},
		{"the other has its part", true, 200, 900, 450, 500, 500},
		{"this one has little", true, 200, 300, 600, 500, 500},
		{"too few for two loops", true, 124, 900, 0, 500, 500},
		{"nothing is ordered", false, 200, 900, 0, 500, 500},
		{"a small claim", true, 200, 900, 0, 80, 80},
		{"claims of one", true, 1, 9, 0, 1, 1},
		{"no outcomes", true, 0, 9, 0, 1, 1},
	} {
		r := &Relayer{config: Config{ClaimMax: each.claimMax}}
		r.lanes.byRail = map[string]*lane{"bank": {order: outbox.Order{Strict: each.ordered}}}
		r.loops = []*loop{newLoop(r, true), newLoop(r, false)}
		claim := payment.NewID()
		r.loops[0].flight.open[claim], r.loops[1].flight.open[claim] = each.mine, each.theirs
		if got := r.loops[0].share(each.outcomes); got != each.want {
			t.Errorf("%s: %d, want %d", each.name, got, each.want)
		}
	}
}
