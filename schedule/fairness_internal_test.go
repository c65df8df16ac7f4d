package schedule

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestManyAlikeAreNotThrottled: no participant is throttled where none stands out, and
// the counts stay few.
func TestManyAlikeAreNotThrottled(t *testing.T) {
	t.Parallel()
	var f fairness
	for n := range 1000 {
		var got taken
		for i := range 10 {
			got.add(&payment.Claim{ParticipantID: string(rune('a' + (n+i)%20)), Priority: 1}, time.Now(), false)
		}
		if f.learn(got, nil) {
			t.Fatalf("throttled %v", f.throttled)
		}
		if len(f.counts) > fairnessWindow {
			t.Fatalf("%d participants are counted", len(f.counts))
		}
	}
}

// TestThrottledShare is a quarter of the slots, over the turns where a turn has fewer.
func TestThrottledShare(t *testing.T) {
	t.Parallel()
	for free := range 40 {
		sum := 0
		for turn := range throttledEvery {
			share := throttledShare(free, turn)
			if share < free/throttledEvery || share > free/throttledEvery+1 {
				t.Errorf("%d of %d slots in turn %d", share, free, turn)
			}
			sum += share
		}
		if sum != free {
			t.Errorf("%d of %d slots in %d turns", sum, free*throttledEvery, throttledEvery)
		}
	}
}
