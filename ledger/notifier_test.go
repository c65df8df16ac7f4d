package ledger_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/payment"
)

// TestNotifiedBeforeItListens: a test that began while the session was connecting is heard as soon as
// it listens. Otherwise it would call the session lost, and close it.
func TestNotifiedBeforeItListens(t *testing.T) {
	t.Parallel()
	c := celltest.New(t)
	notifier := newNotifier(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	heard := make(chan error, 1)
	notified := notifying(t, c)
	go func() { heard <- notifier.Test(ctx) }()
	notified()
	go notifier.Listen(t.Context(), func() {})
	if err := <-heard; err != nil {
		t.Error(err)
	}
}

// TestArmedByAnotherSession: a test that was not heard closes no session that came after it began.
func TestArmedByAnotherSession(t *testing.T) {
	t.Parallel()
	c := celltest.New(t)
	notifier := newNotifier(t, c)
	first, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	notified := notifying(t, c)
	go func() { ended <- notifier.Test(first) }()
	notified()
	notifies := make(chan struct{}, 100)
	go notifier.Listen(t.Context(), func() {
		if first.Err() == nil { // its time is over before the answer comes
			end()
			<-ended
		}
		notifies <- struct{}{}
	})
	<-notifies // at its beginning
	second, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := notifier.Test(second); err != nil {
		t.Error(err)
	}
	if len(notifies) > 0 {
		t.Error("the session was closed, and another one listens")
	}
}

// TestWhyNotNotified: a transaction pooler is not blamed where the session that listens is on another server, as after
// a failover, or where the notification could not be sent.
func TestWhyNotNotified(t *testing.T) {
	t.Parallel()
	c := celltest.New(t)
	_, cluster := pgtest.Server(t, pgserver.Options{})
	other := celltest.On(t, cluster)
	sender, err := executor.Open(t.Context(), ledger.Config{URL: c.URL(celltest.Relayer), Cell: c.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	test := func(listenURL string, listens bool) string {
		t.Helper()
		notifier, err := executor.NewNotifier(ledger.Config{URL: listenURL, Cell: c.Schema}, sender,
			slog.New(slog.NewTextHandler(t.Output(), nil)))
		if err != nil {
			t.Fatal(err)
		}
		if listens {
			begun := make(chan struct{}, 100)
			go notifier.Listen(t.Context(), func() { begun <- struct{}{} })
			<-begun
		}
		one, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err = notifier.Test(one); err == nil {
			t.Fatal("a notification arrived")
		}
		return err.Error()
	}
	if got := test(other.URL(celltest.Relayer), true); !strings.Contains(got, "on another server") {
		t.Errorf("on another server: %s", got)
	}
	if got := test(c.URL(celltest.Relayer), false); !strings.Contains(got, "no session listens") {
		t.Errorf("without a session: %s", got)
	}
	sameServer := strings.Replace(c.URL(celltest.Relayer), c.Name, "postgres", 1)
	if got := test(sameServer, true); !strings.Contains(got, "not a transaction pooler") {
		t.Errorf("in another database: %s", got)
	}
	sender.Close()
	if got := test(c.URL(celltest.Relayer), true); strings.Contains(got, "pooler") {
		t.Errorf("unsent: %s", got)
	}
}

// notifying gives what waits until the notifier is notified.
func notifying(t *testing.T, c *celltest.Cell) (notified func()) {
	t.Helper()
	conn := c.Conn(t, "")
	if _, err := conn.Exec(t.Context(), `LISTEN "`+ledger.NotifyChannel(c.Schema)+`"`); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := conn.WaitForNotification(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func newNotifier(t *testing.T, c *celltest.Cell) *executor.Notifier {
	t.Helper()
	config := ledger.Config{URL: c.URL(celltest.Relayer), Cell: c.Schema}
	sender, err := executor.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	notifier, err := executor.NewNotifier(config, sender, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	return notifier
}

// TestRecordingNotifiesForWhatWaitsAlone: an outcome that ends its instruction notifies no notifier,
// and a retry does.
func TestRecordingNotifiesForWhatWaitsAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`CREATE TABLE public.notified (n serial)`)
	d.do(`CREATE FUNCTION note_ring() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT
		INTO public.notified DEFAULT VALUES; RETURN NULL; END $$`)
	d.do(`CREATE TRIGGER z_note AFTER INSERT ON railhead.payment_outbox_pending FOR EACH STATEMENT EXECUTE FUNCTION note_ring()`)
	d.enqueue()
	d.enqueue()
	claims := d.claim(lane("bank", 2, 0))
	same(t, "notifies of two enqueues", d.text(`SELECT count(*)::text FROM public.notified`), "2")
	var all []payment.Claim
	for _, claim := range claims {
		all = append(all, claim)
	}
	d.record(told(sameKey, all[0], payment.ResultAccepted, "ref"))
	same(t, "after an end", d.text(`SELECT count(*)::text FROM public.notified`), "2")
	d.record(told(sameKey, all[1], payment.ResultRefusedTransient, ""))
	same(t, "after a retry", d.text(`SELECT count(*)::text FROM public.notified`), "3")
}
