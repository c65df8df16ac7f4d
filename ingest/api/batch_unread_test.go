package api_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
)

// answered is an observer that notes the statuses of batches.
type answered struct {
	api.Observer
	batches chan int
}

func (a answered) Answered(operation string, status int, _ time.Duration) {
	if operation == "enqueue_batch" {
		a.batches <- status
	}
}

// smallBuffers is a listener of connections that keep at most some 100 KiB on the way.
type smallBuffers struct{ net.Listener }

func (s smallBuffers) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetReadBuffer(32 << 10)
		tcp.SetWriteBuffer(32 << 10)
	}
	return conn, err
}

// writesFirst begins a batch of many lines as clients do that write the whole body before they read.
func writesFirst(t *testing.T, lines int) (conn *net.TCPConn, statuses chan int) {
	t.Helper()
	watch := answered{batches: make(chan int, 1)}
	made, err := api.New(api.Config{IdleMax: 10 * time.Second}, newFake(), watch,
		slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(made.Handler())
	server.Listener = smallBuffers{server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	dialled, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	conn = dialled.(*net.TCPConn)
	conn.SetReadBuffer(32 << 10)
	conn.SetWriteBuffer(32 << 10)
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	var body strings.Builder
	for n := range lines {
		body.WriteString(lineOf("p1", n))
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/instructions/batch HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n", aToken, body.Len()); err != nil {
		t.Fatal(err)
	}
	// It writes for longer than it may leave an answer untaken afterwards.
	text, third := body.String(), body.Len()/3
	for n, part := range []string{text[:third], text[third : 2*third], text[2*third:]} {
		if n > 0 {
			time.Sleep(6 * time.Second)
		}
		if _, err := io.WriteString(conn, part); err != nil {
			t.Fatalf("writing the body: %v", err)
		}
	}
	return conn, watch.batches
}

// TestBatchOfACallerThatWritesFirst: a caller that writes the whole body before it takes an answer gets all of them.
func TestBatchOfACallerThatWritesFirst(t *testing.T) {
	t.Parallel()
	conn, statuses := writesFirst(t, 10_000)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("after %d bytes: %v", len(text), err)
	}
	all, end := answersTo(t, answer{text: string(text)})
	if len(all) != 10_000 || end.Lines != 10_000 || end.Status != 200 {
		t.Errorf("%d answers, the end %+v", len(all), end)
	}
	if status := <-statuses; status != 200 {
		t.Errorf("counted as %d", status)
	}
}

// TestBatchOfACallerThatNeverReads: a batch that was cut off because its caller takes no answers counts as no success.
func TestBatchOfACallerThatNeverReads(t *testing.T) {
	t.Parallel()
	_, statuses := writesFirst(t, 10_000)
	select {
	case status := <-statuses:
		if status != 408 {
			t.Errorf("counted as %d", status)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it goes on")
	}
}
