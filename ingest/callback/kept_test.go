package callback_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/test/simrail"
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
	take("no news", w.kept("evt_1", w.says(id, "RECEIVED", "RS1"), earlier, 1), reader.Taken, callback.NoNews)

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
}
