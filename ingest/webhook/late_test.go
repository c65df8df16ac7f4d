package webhook

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestLateAnswer: a gateway refuses a delivery by itself, and passes on over the same connection that the endpoint has
// accepted it. That is no answer to the next event. A connection whose deliveries are accepted is kept.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	getenv, _ := secretsOf(t)
	for status, text := range map[int]string{504: "it takes too long", 503: "", 400: "", 200: "", 204: ""} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		opened := make(chan struct{}, 10)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				opened <- struct{}{}
				go func() {
					defer conn.Close()
					in := bufio.NewReader(conn)
					for _, said := range []string{
						fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s", status, len(text), text),
						"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
					} {
						request, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						io.Copy(io.Discard, request.Body) //nolint:errcheck // a test
						if status == http.StatusNoContent {
							said = "HTTP/1.1 204 x\r\n\r\n"
						}
						io.WriteString(conn, said) //nolint:errcheck // a test
					}
				}()
			}
		}()
		s := senderFor(t, "http://"+listener.Addr().String(), getenv)
		first, second := s.send(t.Context(), told), s.send(t.Context(), told)
		if taken := status < 300; first.taken != taken || second.taken != taken || (len(opened) == 1) != taken {
			t.Errorf("%d: %+v, then %+v, over %d connections", status, first, second, len(opened))
		}
	}
}
