package enqueue

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// counting is a sender that tells what was counted while its call was in flight.
type counting struct {
	g       *Gatherer
	first   chan struct{} // closed once a lone call is in flight
	release chan struct{} // ends that call
	single  ledger.Gathering
	several ledger.Gathering
}

func (c *counting) counted() ledger.Gathering {
	c.g.mu.Lock()
	defer c.g.mu.Unlock()
	return c.g.count
}

func (c *counting) EnqueueOne(_ context.Context, _ Item, departs func() bool) (payment.Receipt, error) {
	departs()
	c.single = c.counted()
	close(c.first)
	<-c.release
	return payment.Receipt{}, nil
}

func (c *counting) EnqueueMany(_ context.Context, _ bool, depart func() []Item) ([]outbox.ReceiptOrFault, error) {
	all := depart()
	c.several = c.counted()
	return make([]outbox.ReceiptOrFault, len(all)), nil
}

// TestCountedBeforeItIsAnswered: whatever is answered is in the counts by then, because the call
// was counted before it was made.
func TestCountedBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	c := &counting{first: make(chan struct{}), release: make(chan struct{})}
	c.g = NewGatherer(c, 1)
	var callers sync.WaitGroup
	enqueue := func(participant string) {
		callers.Go(func() {
			if _, err := c.g.Enqueue(t.Context(), Item{In: payment.Instruction{ParticipantID: participant}}); err != nil {
				t.Error(err)
			}
		})
	}
	enqueue("p1")
	<-c.first
	if want := (ledger.Gathering{Single: 1}); c.single != want {
		t.Errorf("while a lone call is on its way: %+v, want %+v", c.single, want)
	}
	for _, participant := range []string{"p2", "p3"} { // they go together, behind the one that is in flight
		enqueue(participant)
	}
	for c.counted().Waiting < 2 {
		runtime.Gosched()
	}
	close(c.release)
	callers.Wait()
	if want := (ledger.Gathering{Single: 1, Batches: 1, Items: 2}); c.several != want {
		t.Errorf("while two are on their way: %+v, want %+v", c.several, want)
	}
}
