package enqueue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/linger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// server is a sender whose calls take as long as they do on a server: a part for each call, and a
// part for each instruction.
type server struct {
	each  time.Duration // the part for each call
	mu    sync.Mutex
	calls []int // how many instructions each had
	at    []time.Time
}

const (
	callTakes = 400 * time.Microsecond
	itemTakes = 100 * time.Microsecond
)

func (s *server) takes(n int) time.Duration { return s.each + time.Duration(n)*itemTakes }

func (s *server) call(n int) {
	s.mu.Lock()
	s.calls, s.at = append(s.calls, n), append(s.at, time.Now())
	s.mu.Unlock()
	time.Sleep(s.takes(n))
}

func (s *server) EnqueueOne(_ context.Context, _ Item, departs func() bool) (payment.Receipt, error) {
	departs()
	s.call(1)
	return payment.Receipt{}, nil
}

func (s *server) EnqueueMany(_ context.Context, _ bool, depart func() []Item) ([]outbox.ReceiptOrFault, error) {
	all := depart()
	s.call(len(all))
	return make([]outbox.ReceiptOrFault, len(all)), nil
}

func enqueueFor(t *testing.T, g *Gatherer, participant int) {
	t.Helper()
	in := payment.Instruction{ParticipantID: fmt.Sprint("p-", participant)}
	if _, err := g.Enqueue(t.Context(), Item{In: in}); err != nil {
		t.Error(err)
	}
}

// TestCallersWhoComeBackGoTogether: callers that call again soon after each answer go with one
// call, and not with two by turns.
func TestCallersWhoComeBackGoTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 8, 100
		s := &server{each: callTakes}
		g := NewGatherer(s, 8)
		var all sync.WaitGroup
		for n := range callers {
			all.Go(func() {
				draw := rand.New(rand.NewPCG(1, uint64(n)))
				for range rounds {
					enqueueFor(t, g, n)
					time.Sleep(time.Duration(draw.Int64N(int64(300 * time.Microsecond))))
				}
			})
		}
		all.Wait()
		time.Sleep(linger.Most)
		if most := rounds * 5 / 4; len(s.calls) > most {
			t.Errorf("%d calls for %d rounds of %d callers, want at most %d", len(s.calls), rounds, callers, most)
		}
	})
}

// TestOthersAreNotKept: instructions that come whenever they come, by callers who do not call
// again, hardly wait for callers who would: lingering ceases where it is in vain.
func TestOthersAreNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const arrivals, between = 4000, 250 * time.Microsecond
		s := &server{each: callTakes}
		g := NewGatherer(s, 8)
		draw := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		var mu sync.Mutex
		var took []time.Duration
		for n := range arrivals {
			all.Go(func() {
				began := time.Now()
				enqueueFor(t, g, n)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
			})
			time.Sleep(time.Duration(draw.ExpFloat64() * float64(between)))
		}
		all.Wait()
		time.Sleep(linger.Most)
		idle := time.Duration(0) // between the end of a call and the next one, while some waited
		for n := 1; n < len(s.at); n++ {
			idle += s.at[n].Sub(s.at[n-1].Add(s.takes(s.calls[n-1])))
		}
		slices.Sort(took)
		t.Logf("%d calls, %v between them, a caller waits %v, 1 in 100 more than %v", len(s.calls), idle, took[len(took)/2],
			took[len(took)*99/100])
		if most := arrivals * between / 10; idle > most {
			t.Errorf("nothing was on its way for %v, want at most %v", idle, most)
		}
	})
}

// TestLingersForABoundedTime: where the callers of a call do not come back, what waits goes after
// half of what that call took, and after 5 ms at most.
func TestLingersForABoundedTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ takes, lingers time.Duration }{
		{4 * time.Millisecond, 2 * time.Millisecond},
		{10 * time.Millisecond, 5 * time.Millisecond},
		{200 * time.Millisecond, 5 * time.Millisecond},
	} {
		t.Run(c.takes.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{each: c.takes - 2*itemTakes}
				g := NewGatherer(s, 8)
				var all sync.WaitGroup
				for n := range 9 { // one, by itself; two, which is too few to linger before; six, behind them
					switch n {
					case 1:
						synctest.Wait()
					case 3:
						time.Sleep(c.takes + time.Millisecond)
					}
					all.Go(func() { enqueueFor(t, g, n) })
				}
				all.Wait()
				if !slices.Equal(s.calls, []int{1, 2, 6}) {
					t.Fatalf("calls of %v", s.calls)
				}
				if lingered := s.at[2].Sub(s.at[1].Add(c.takes)); lingered != c.lingers {
					t.Errorf("after a call that took %v others waited for %v, want %v", c.takes, lingered, c.lingers)
				}
				time.Sleep(linger.Most) // for callers who do not come back
			})
		})
	}
}

// TestFullCallsDoNotLinger: where what waits fills a call by its bytes, it goes at once.
func TestFullCallsDoNotLinger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{each: 2 * time.Millisecond}
		g := NewGatherer(s, 8)
		large := strings.Repeat("x", gatherBytesMax/2)
		var all sync.WaitGroup
		for n := range 9 { // one, by itself; two, behind it; six, which fill three calls, behind those
			switch n {
			case 1:
				synctest.Wait()
			case 3:
				time.Sleep(s.takes(1) + time.Microsecond)
			}
			all.Go(func() {
				in := payment.Instruction{ParticipantID: fmt.Sprint("p-", n)}
				if _, err := g.Enqueue(t.Context(), Item{In: in, Payload: &large}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(linger.Most)
		if waited := s.at[2].Sub(s.at[1].Add(s.takes(s.calls[1]))); waited > 0 {
			t.Errorf("calls of %v; a full one waited for %v", s.calls, waited)
		}
	})
}
