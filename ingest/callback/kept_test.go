package callback_test

import (
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

// keptSigned is a callback that was signed and that came at these times.
func (w *world) keptSigned(event, body string, signed, came time.Time) reader.Kept {
	w.t.Helper()
	stamp := strconv.FormatInt(signed.Unix(), 10)
	header := make(http.Header)
	header.Set("webhook-id", event)
	header.Set("webhook-timestamp", stamp)
	header.Set("webhook-signature", sign(w.t, simrail.CallbackSecret, event, stamp, body))
	return reader.Kept{Header: header, Body: []byte(body), Came: came}
}

// TestKept tests that a callback which was kept for hours is taken as it would have been when it came, once, and that
// what can't be recorded is asked for again.
func TestKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.enqueue()
	claim := w.claim(id)
	w.record(claim, payment.ResultAccepted, "RS1")
	earlier := time.Now().Add(-3 * time.Hour)
	executed := w.keptSigned("evt_1", w.says(id, "EXECUTED", "RS1"), earlier, earlier.Add(time.Minute))

	unknown := saysKey(payment.RailKey(payment.NewID()), "EXECUTED", "RS1")
	for _, c := range []struct {
		what  string
		kept  reader.Kept
		fate  reader.Fate
		heard string
	}{
		{"signed long before it came", w.keptSigned("evt_1", w.says(id, "EXECUTED", "RS1"), earlier, time.Now()),
			reader.Refused, callback.Unsigned},
		{"signed long after it came", w.keptSigned("evt_1", w.says(id, "EXECUTED", "RS1"), time.Now(), earlier),
			reader.Refused, callback.Unsigned},
		{"too long", w.keptSigned("evt_1", w.says(id, "EXECUTED", strings.Repeat("x", reader.MaxBody)), earlier, earlier),
			reader.Refused, callback.Unreadable},
		{"unknown payment", w.keptSigned("evt_1", unknown, earlier, earlier), reader.Refused, callback.NotOurs},
		{"no news", w.keptSigned("evt_1", w.says(id, "RECEIVED", "RS1"), earlier, earlier), reader.Taken, callback.NoNews},
	} {
		if fate := w.taker.TakeKept(t.Context(), w.rail, c.kept); fate != c.fate {
			t.Errorf("%s: %d, want %d", c.what, fate, c.fate)
		}
		w.hears(c.heard)
	}

	w.store.isAway.Store(true)
	if fate := w.taker.TakeKept(t.Context(), w.rail, executed); fate != reader.Again {
		t.Errorf("without a database: %d, want it again", fate)
	}
	w.hears(callback.Failed)
	w.store.isAway.Store(false)

	w.suspended.Store(true)
	forgotten := w.keptSigned("evt_2", unknown, earlier, earlier)
	if fate := w.taker.TakeKept(t.Context(), w.rail, forgotten); fate != reader.Again {
		t.Errorf("a payment that the database may have forgotten: %d, want it again", fate)
	}
	w.hears(callback.Failed)
	w.suspended.Store(false)

	for _, heard := range []string{"SETTLED", "MINE"} {
		if fate := w.taker.TakeKept(t.Context(), w.rail, executed); fate != reader.Taken {
			t.Errorf("%s: %d, want it taken", heard, fate)
		}
		w.hears(heard)
		w.tells(heard, id, "DISPATCHING ACCEPTED(1) LATE_OUTCOME DISPATCHED")
	}
}
