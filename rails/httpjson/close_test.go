package httpjson_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// TestCallAfterClose tests that a call that begins after Close of its adapter, as when its profile
// was replaced, leaves no connection behind.
func TestCallAfterClose(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	bank := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		if _, err := io.WriteString(w, `{"status": "REFUSED", "code": "AC04"}`); err != nil {
			t.Error(err)
		}
	}))
	bank.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			conns.Add(-1)
		}
	}
	bank.Start()
	t.Cleanup(bank.Close)
	rail := open(t, config(t, bank.URL), profile())
	if err := rail.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := rail.Send(t.Context(), instruction(t)); got.Result != payment.ResultRefusedFinal {
			t.Fatalf("the call is %s: %s", got.Result, got.Message)
		}
	}
	// Sooner than the transport closes idle connections by itself, after 4 s.
	for begun := time.Now(); conns.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 3*time.Second {
			t.Fatalf("%d connections are open", conns.Load())
		}
	}
}
