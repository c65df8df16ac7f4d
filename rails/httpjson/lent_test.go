package httpjson

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestOnlySpentConnections: a call that is lent nothing but spent connections has one of its own in the end.
func TestOnlySpentConnections(t *testing.T) {
	var requests, lent atomic.Int64
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusUnprocessableEntity)
		if _, err := io.WriteString(w, `{}`); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(bank.Close)
	rail, err := Open(Config{
		BaseURL: bank.URL, AllowPlaintext: true, AllowLoopback: true,
		Send: SendConfig{Path: "/", Body: map[string]any{"a": "rail_key"}, Response: SendResponseConfig{Reference: "id"}},
	}, rails.Profile{RailType: "bank"}.WithDefaults(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := rail.(*Rail)
	defer r.Close()
	dial := r.transport.DialContext
	r.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			lent.Add(1)
			conn.(*wireConn).spent = true
		}
		return conn, err
	}
	asked := 0
	got := r.Send(t.Context(), rails.Send{RailKey: "rh0", SendNo: 1, Payload: []byte(`{}`),
		BeforeFirstByte: func() error { asked++; return nil }})
	if got.Result != payment.ResultRefusedFinal || requests.Load() != 1 || asked != 1 || lent.Load() != maxLent {
		t.Errorf("%+v; %d requests arrived, %d checks before the first byte, %d connections lent, want 1, 1, %d", got,
			requests.Load(), asked, lent.Load(), maxLent)
	}
}
