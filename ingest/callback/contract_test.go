package callback_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/callback"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/test/servicetest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	railcallback "github.com/railhead-pay/railhead/rails/callback"
)

// idle is a ledger without callbacks, on a database that a test makes unavailable.
type idle struct{ *servicetest.Database }

func (i idle) ByRailKey(ctx context.Context, _ payment.ID) (payment.ID, error) {
	return payment.ID{}, i.Reach(ctx)
}

func (i idle) RecordLate(ctx context.Context, _ payment.Outcome) (payment.Verdict, error) {
	return "", i.Reach(ctx)
}

func TestContract(t *testing.T) {
	t.Parallel()
	readers := map[string]*railcallback.Reader{"bank": {}}
	listen := func() (net.Listener, error) { return servicetest.NewListener(), nil }
	servicetest.Contract(t, servicetest.Subject{
		New: func(_ *testing.T, database *servicetest.Database, asserted outbox.TimeBudget) (service.Service, error) {
			config := callback.Config{WorkerID: "callbacks", Asserted: asserted}
			return callback.New(config, readers, idle{database}, listen, nil, slog.New(slog.DiscardHandler))
		},
		OutOfBounds: func(*testing.T, *servicetest.Database) (service.Service, error) {
			return callback.New(callback.Config{HeartbeatEvery: time.Hour, StoreTimeout: time.Millisecond, ConnectionsMax: -1},
				readers, nil, listen, nil, nil)
		},
		Faults: []string{"worker id", "heartbeat every is 1h0m0s", "store timeout is 1ms", "connections is -1"},
	})
}

// TestConnectionsAtMost tests that connections without a signature are taken up to a bound, and that one more is
// taken once another has ended.
func TestConnectionsAtMost(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 3
	one, err := callback.New(callback.Config{WorkerID: "callbacks", ConnectionsMax: most},
		map[string]*railcallback.Reader{"bank": {}}, idle{&servicetest.Database{}},
		func() (net.Listener, error) { return listener, nil }, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	defer func() { stop(); <-ended }()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	// answers reports whether a whole request of a connection is answered within a time.
	answers := func(conn net.Conn, within time.Duration) bool {
		conn.SetReadDeadline(time.Now().Add(within))
		_, err := conn.Read(make([]byte, 1))
		return err == nil
	}
	const request = "POST /callbacks/none HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	var all [most]net.Conn
	for n := range all {
		all[n] = dial()
		io.WriteString(all[n], request)
		if !answers(all[n], 10*time.Second) {
			t.Fatalf("connection %d of %d is not answered", n+1, most)
		}
	}
	more := dial()
	io.WriteString(more, request)
	if answers(more, 300*time.Millisecond) {
		t.Errorf("%d connections are open, and one more is taken", most)
	}
	all[0].Close()
	if !answers(more, 10*time.Second) {
		t.Error("it is not taken once another has ended")
	}
}

// TestSourceOfAnotherRail tests that what is kept for a rail which has no callback section is refused at the start.
func TestSourceOfAnotherRail(t *testing.T) {
	t.Parallel()
	_, err := callback.New(callback.Config{WorkerID: "callbacks", Sources: map[string]railcallback.Source{"stream": nil}},
		map[string]*railcallback.Reader{"bank": {}}, idle{}, nil, nil, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "rail stream") {
		t.Errorf("%v, want it to name the rail", err)
	}
}

// TestManyUnsigned: callbacks without a signature, which any client may send, put so many lines a minute into the log.
func TestManyUnsigned(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	receiver, err := callback.NewReceiver(map[string]*railcallback.Reader{"bank": {}, "other": {}}, idle{}, "callbacks-1",
		time.Second, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	receiver.Register(mux)
	post := func(rail string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/callbacks/"+rail,
			strings.NewReader(`{}`)))
		if w.Code != http.StatusUnauthorized {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	}
	for range 100 {
		post("bank")
	}
	post("other") // those of one rail hide none of another
	if n := strings.Count(log.String(), "rail_type=bank"); n != 10 || strings.Count(log.String(), "rail_type=other") != 1 {
		t.Errorf("%d lines of 100 callbacks: %s", n, log.String())
	}
}
