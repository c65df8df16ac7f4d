package ledger_test

import (
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestAcceptedDuringARepeat: components tell the database again and again of a suspension that is open. When an
// operator accepts the server meanwhile, none of these calls opens it anew.
func TestAcceptedDuringARepeat(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	operator := d.Conn(t, celltest.Operator)
	const rounds, components = 60, 3
	for range rounds {
		d.do(`SELECT railhead.suspend_outbox('w', 'ROWS_MISSING', 'a test', clock_timestamp())`)
		stop := make(chan struct{})
		var all sync.WaitGroup
		for range components {
			worker := d.Conn(t, celltest.Relayer)
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					_, err := worker.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', 'ROWS_MISSING', 'a test',
						(SELECT max(s.opened_at) FROM railhead.latest_suspensions(1) s))`)
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		time.Sleep(5 * time.Millisecond) // they are under way
		_, err := operator.Exec(t.Context(), `SELECT railhead.accept_timeline('compared',
			(SELECT max(s.opened_at) FROM railhead.payment_outbox_suspensions s))`)
		d.must(err)
		time.Sleep(2 * time.Millisecond)
		close(stop)
		all.Wait()
		if n := d.Int(`SELECT count(*) FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`); n > 0 {
			t.Fatal("the suspension that an operator has ended is open again")
		}
	}
}
