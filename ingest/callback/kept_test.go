package callback_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/servicetest"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	reader "github.com/railhead-pay/railhead/rails/callback"
)

// kept is a callback that was signed at a time and comes for the nth time.
func (w *world) kept(event, body string, signed time.Time, n int) reader.Kept {
	w.t.Helper()
	stamp := strconv.FormatInt(signed.Unix(), 10)
	header := make(http.Header)
	header.Set("webhook-id", event)
	header.Set("webhook-timestamp", stamp)
	header.Set("webhook-signature", sign(w.t, simrail.CallbackSecret, event, stamp, body))
	return reader.Kept{Header: header, Body: []byte(body), Deliveries: n, From: "a test"}
}

// TestKept tests that a callback which was kept for days is taken, once, and that what can't be recorded, or is
// refused, is asked for again.
func TestKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	w.record(w.claim(id), payment.ResultAccepted, "RS1")
	earlier := time.Now().Add(-50 * time.Hour)
	executed := w.kept("evt_1", w.says(id, "EXECUTED", "RS1"), earlier, 1)
	unknown := w.kept("evt_2", saysKey(payment.RailKey(payment.NewID()), "EXECUTED", "RS1"), earlier, 2)
	tampered := executed
	tampered.Body = []byte(w.says(id, "REFUSED", "RS1"))
	long := executed
	long.Body, long.TooLong = nil, true

	take := func(what string, kept reader.Kept, want reader.Fate, heard string) {
		t.Helper()
		if fate := w.taker.Kept(w.rail).Take(t.Context(), kept); fate != want {
			t.Errorf("%s: %d, want %d", what, fate, want)
		}
		w.hears(heard)
	}
	take("tampered", tampered, reader.Refused, callback.Unsigned)
	take("without a header", reader.Kept{Header: http.Header{}, Deliveries: 1}, reader.Refused, callback.Unsigned)
	take("left out", long, reader.Refused, callback.Unreadable)
	take("too long", w.kept("evt_1", w.says(id, "EXECUTED", strings.Repeat("x", reader.MaxBody)), earlier, 1),
		reader.Refused, callback.Unreadable)
	take("unknown payment", unknown, reader.Refused, callback.NotOurs)
	take("no news", w.kept("evt_1", w.says(id, "IN_PROGRESS", "RS1"), earlier, 1), reader.Taken, callback.NoNews)
	take("no known word", w.kept("evt_1", w.says(id, "RECEIVED", "RS1"), earlier, 1), reader.Taken, callback.Unmapped)

	w.store.isAway.Store(true)
	take("without a database", executed, reader.Again, callback.Failed)
	w.store.isAway.Store(false)
	w.suspended.Store(true)
	take("a payment that the database may have forgotten", unknown, reader.Later, callback.Failed)
	w.suspended.Store(false)
	w.taker.Checked = func() bool { return false }
	if fate := w.taker.Kept(w.rail).Take(t.Context(), executed); fate != reader.Again {
		t.Errorf("before the server was checked: %d, want it again", fate)
	}
	w.taker.Checked = nil
	w.tells("before it is taken", id, "DISPATCHING ACCEPTED(1), INQUIRE")

	for _, heard := range []string{"SETTLED", "MINE"} {
		take(heard, executed, reader.Taken, heard)
		w.tells(heard, id, "DISPATCHING ACCEPTED(1) LATE_OUTCOME DISPATCHED")
	}
	w.taker.Kept(w.rail).Unread(t.Context(), errors.New("the server is away"))
	w.hears(callback.Unread)
	w.taker.Kept(w.rail).Missed(t.Context(), errors.New("offsets 1 to 2 were removed"))
	w.hears(callback.Missed)
}

// TestIDOfAnEventIsForeignText: in a stream it may have what no header of HTTP can have.
func TestIDOfAnEventIsForeignText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	w.record(w.claim(id), payment.ResultAccepted, "RS1")
	kept := w.kept("evt\x1b[31m\n4111 1111 1111 1111", w.says(id, "EXECUTED", "RS1"), time.Now(), 1)
	if fate := w.taker.Kept(w.rail).Take(t.Context(), kept); fate != reader.Taken {
		t.Errorf("%d, want it taken", fate)
	}
	w.hears("SETTLED")
	var message string
	w.cell.QueryRow(`SELECT string_agg(DISTINCT error_message, '|') FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
		AND error_message LIKE 'by callback%'`, []any{[16]byte(id)}, &message)
	if want := "by callback evt [31m [digits masked]"; message != want {
		t.Errorf("stored is %q, want %q", message, want)
	}
}

// unchecked is a ledger whose server can't be looked at while it is away, and which takes everything else.
type unchecked struct {
	idle
	away atomic.Bool
}

func (u *unchecked) CheckServer(ctx context.Context) (outbox.Server, error) {
	if u.away.Load() {
		return outbox.Server{}, errors.New("the database is away")
	}
	return u.idle.CheckServer(ctx)
}

// asking is a source that brings a callback whenever it is asked to.
type asking struct {
	ask   chan struct{}
	fates chan reader.Fate
}

func (a asking) Run(ctx context.Context, into reader.Taker) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.ask:
			a.fates <- into.Take(ctx, reader.Kept{Header: http.Header{}, Deliveries: 1})
		}
	}
}

// TestKeptWaitsForTheServer tests that a service takes nothing that is kept before it has looked at the server, nor
// after a look that failed.
func TestKeptWaitsForTheServer(t *testing.T) {
	t.Parallel()
	ledger := &unchecked{idle: idle{&servicetest.Database{}}}
	source := asking{make(chan struct{}), make(chan reader.Fate)}
	ledger.away.Store(true)
	one, err := callback.New(callback.Config{
		WorkerID: "callbacks", HeartbeatEvery: 10 * time.Millisecond, Sources: map[string]reader.Source{"bank": source},
	}, map[string]*reader.Reader{"bank": {}}, ledger,
		func() (net.Listener, error) { return servicetest.NewListener(), nil }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	fate := func() reader.Fate {
		source.ask <- struct{}{}
		return <-source.fates
	}
	becomes := func(what string, want reader.Fate) {
		t.Helper()
		err := await.Until(t.Context(), 10*time.Second, what, func() (bool, error) { return fate() == want, nil })
		if err != nil {
			t.Error(err)
		}
	}
	if got := fate(); got != reader.Again {
		t.Errorf("before the first look: %d, want it again", got)
	}
	ledger.away.Store(false)
	becomes("what is unsigned to be refused", reader.Refused)
	ready := func() (bool, error) { return one.Ready() == nil, nil }
	if err := await.Until(t.Context(), 10*time.Second, "it to be ready", ready); err != nil {
		t.Error(err)
	}
	ledger.away.Store(true)
	becomes("it to be asked for again", reader.Again)
	if err := one.Ready(); err == nil || !strings.Contains(err.Error(), "callbacks of streams and topics wait") {
		t.Errorf("it takes nothing, and its readiness is %v", err)
	}
}
