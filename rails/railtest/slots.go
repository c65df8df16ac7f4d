package railtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// slotsComeBack tests that as many endless answers as the rail has slots do not keep the next
// payment from being sent.
func slotsComeBack(t *testing.T, s Subject) {
	s = s.Hurried()
	s.Profile.Concurrency = 2
	guard, err := rails.NewGuard(s.profile(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	b := s.Witness.Open(t, func(c Request) {
		if requests.Add(1) > int64(s.Profile.Concurrency) {
			c.Say(s.Sends[payment.ResultAccepted])
			return
		}
		c.Trickle()
	})
	rail := s.Begin(t, b.Address())
	permits := guard.Reserve(s.Profile.Concurrency)
	if len(permits) != s.Profile.Concurrency || len(guard.Reserve(1)) != 0 {
		t.Fatalf("the guard gave %d slots, want %d and no more", len(permits), s.Profile.Concurrency)
	}
	var calls sync.WaitGroup
	for n, permit := range permits {
		calls.Go(func() {
			permit.End(ends(t, b, fmt.Sprintf("send %d", n), s.Budget(), func() rails.Result {
				return rails.SendSafely(t.Context(), rail, s.Next())
			}))
		})
	}
	calls.Wait()
	if free := guard.Reserve(s.Profile.Concurrency + 1); len(free) != s.Profile.Concurrency {
		t.Errorf("%d slots are free after the calls, want %d", len(free), s.Profile.Concurrency)
	}
	Want(t, s.Call(t, rail, s.Next()), payment.ResultAccepted, true)
}

// ends fails the test if a call takes longer than it may. The bank then closes its connections, so
// that the call ends and the test continues.
func ends(t *testing.T, b Bank, name string, within time.Duration, call func() rails.Result) rails.Result {
	t.Helper()
	ended := make(chan rails.Result, 1)
	go func() { ended <- call() }()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case result := <-ended:
		return result
	case <-timer.C:
		t.Errorf("%s: the call has not ended after %s", name, within)
		b.Close()
		return <-ended
	}
}
