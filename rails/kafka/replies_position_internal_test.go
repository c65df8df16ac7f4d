package kafka

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/rails/callback"
)

// TestProgress tests the position, and when what is not taken comes again and is given up.
func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var p progress
	p.begin(10)
	p.next = 20
	settle := func(offset int64, fate callback.Fate, age time.Duration) (last bool) {
		_, last = p.tries(offset, now.Add(age))
		p.settle(offset, fate, last, now.Add(age))
		return last
	}
	if p.position() != 20 {
		t.Fatalf("position %d", p.position())
	}
	for n, wait := range []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute, time.Hour, time.Hour} {
		if settle(15, callback.Refused, 0) || p.waiting[15].due.Sub(now) != wait {
			t.Errorf("refused %d times, it comes again after %v, want %v", n+1, p.waiting[15].due.Sub(now), wait)
		}
		if settle(12, callback.Again, 0) || p.waiting[12].due.Sub(now) != min(wait, time.Minute) {
			t.Errorf("not recorded %d times, it comes again after %v", n+1, p.waiting[12].due.Sub(now))
		}
	}
	if due := p.due(now.Add(2 * time.Minute)); p.position() != 12 || len(due) != 1 || due[0] != 12 {
		t.Errorf("position %d, due %v", p.position(), due)
	}
	settle(12, callback.Taken, 0)
	if p.position() != 15 {
		t.Errorf("position %d", p.position())
	}
	for _, other := range []callback.Fate{callback.Again, callback.Later} {
		settle(15, callback.Refused, 0)
		settle(15, other, 23*time.Hour)
		if settle(15, callback.Refused, 24*time.Hour) || settle(15, callback.Refused, 48*time.Hour-time.Second) {
			t.Error("it is given up although it was not refused for a day")
		}
		settle(15, other, 0)
	}
	settle(15, callback.Refused, 0)
	if settle(15, callback.Refused, 24*time.Hour-1) || !settle(15, callback.Refused, 24*time.Hour) || p.position() != 20 {
		t.Errorf("after a day the position is %d", p.position())
	}
	settle(16, callback.Refused, 0)
	if settle(16, callback.Again, 25*time.Hour); p.position() != 16 {
		t.Error("what could not be recorded is given up")
	}
	for n := range int64(30) {
		settle(n+20, callback.Again, 0)
	}
	if got := len(p.due(now.Add(time.Hour))); got != againAtOnce {
		t.Errorf("%d come again at once", got)
	}
}
