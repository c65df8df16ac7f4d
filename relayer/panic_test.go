package relayer_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/railhead-pay/railhead/rails"
)

// loud panics with the payload as its value, in the check or after the first byte.
type loud struct{ inCheck bool }

func (loud) RenderVersion() string { return "loud/1" }

func (p loud) Check(s rails.Send) error {
	if p.inCheck {
		panic(string(s.Payload))
	}
	return nil
}

func (loud) Send(_ context.Context, s rails.Send) rails.Result {
	s.OnPhase(rails.PhaseFirstByte)
	panic(string(s.Payload))
}

// kept is a log that is searched.
type kept struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.Write(p)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text.String()
}

// TestPanicSaysNothing tests that neither the log nor the archive contains the value of a panic.
func TestPanicSaysNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rail loud
		want string
	}{
		"in the check":         {loud{inCheck: true}, "DISPATCHING RETRYABLE/NOT_SENT"},
		"after the first byte": {loud{}, "DISPATCHING UNKNOWN/NO_SAFE_RECOVERY PARKED/NO_SAFE_RECOVERY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER", "retry": {"max_sends": 5, "base": "1h", "cap": "1h"}`))
			log := &kept{}
			untimed := func(_ []string, a slog.Attr) slog.Attr { // ten and a half seconds look like the amount
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}
			w.log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: untimed}))
			w.wrap = func(rails.Rail) rails.Rail { return c.rail }
			run := w.run(config())
			id := w.enqueue("the one")
			w.awaitStates(id, c.want)
			if err := run.stop(); err != nil {
				t.Fatal(err)
			}
			said := log.String() + w.text(`SELECT string_agg(concat_ws(' ', error_message, error_code, rail_code), ' ')
				FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`, [16]byte(id))
			if !strings.Contains(said, "panicked") {
				t.Errorf("nothing says that it panicked: %s", said)
			}
			for _, mark := range []string{"10.50", "creditor", "debtor"} {
				if strings.Contains(said, mark) {
					t.Errorf("%q came out: %s", mark, said)
				}
			}
		})
	}
}
