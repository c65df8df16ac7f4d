package ledger_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/payment"
)

// TestBellRungBeforeItListens: a test that began while the session was connecting is heard as soon as
// it listens. Otherwise it would call the session deaf, and close it.
func TestBellRungBeforeItListens(t *testing.T) {
	t.Parallel()
	c := celltest.New(t)
	bell := newBell(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	heard := make(chan error, 1)
	rung := ringing(t, c)
	go func() { heard <- bell.Test(ctx) }()
	rung()
	go bell.Listen(t.Context(), func() {})
	if err := <-heard; err != nil {
		t.Error(err)
	}
}

// TestBellOfAnotherSession: a test that was not heard closes no session that came after it began.
func TestBellOfAnotherSession(t *testing.T) {
	t.Parallel()
	c := celltest.New(t)
	bell := newBell(t, c)
	first, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	rung := ringing(t, c)
	go func() { ended <- bell.Test(first) }()
	rung()
	rings := make(chan struct{}, 100)
	go bell.Listen(t.Context(), func() {
		if first.Err() == nil { // its time is over before the answer comes
			end()
			<-ended
		}
		rings <- struct{}{}
	})
	<-rings // at its beginning
	second, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := bell.Test(second); err != nil {
		t.Error(err)
	}
	if len(rings) > 0 {
		t.Error("the session was closed, and another one listens")
	}
}

// ringing gives what waits until the bell is rung.
func ringing(t *testing.T, c *celltest.Cell) (rung func()) {
	t.Helper()
	conn := c.Conn(t, "")
	if _, err := conn.Exec(t.Context(), `LISTEN "`+ledger.BellChannel(c.Schema)+`"`); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := conn.WaitForNotification(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func newBell(t *testing.T, c *celltest.Cell) *executor.Bell {
	t.Helper()
	config := ledger.Config{URL: c.URL(celltest.Relayer), Cell: c.Schema}
	ringer, err := executor.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ringer.Close)
	bell, err := executor.NewBell(config, ringer, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return bell
}

// TestRecordingRingsForWhatWaitsAlone: an outcome that ends its instruction rings no bell,
// and a retry does.
func TestRecordingRingsForWhatWaitsAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`CREATE TABLE public.rung (n serial)`)
	d.do(`CREATE FUNCTION note_ring() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO public.rung DEFAULT VALUES; RETURN NULL; END $$`)
	d.do(`CREATE TRIGGER z_note AFTER INSERT ON railhead.payment_outbox_pending FOR EACH STATEMENT EXECUTE FUNCTION note_ring()`)
	d.enqueue()
	d.enqueue()
	claims := d.claim(lane("bank", 2, 0))
	same(t, "rings of two enqueues", d.text(`SELECT count(*)::text FROM public.rung`), "2")
	var all []payment.Claim
	for _, claim := range claims {
		all = append(all, claim)
	}
	d.record(told(sameKey, all[0], payment.ResultAccepted, "ref"))
	same(t, "after an end", d.text(`SELECT count(*)::text FROM public.rung`), "2")
	d.record(told(sameKey, all[1], payment.ResultRefusedTransient, ""))
	same(t, "after a retry", d.text(`SELECT count(*)::text FROM public.rung`), "3")
}
