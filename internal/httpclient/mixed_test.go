package httpclient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// lateGateway answers the first request of each connection for the API, by a text of its own. It answers the next one
// with what the API has said to the first one meanwhile: that it is refused.
func lateGateway(t *testing.T, first string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	late := ofAPI("invalid-instruction", `"title": "no", "code": "RH002"`)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for _, said := range []string{first, page(http.StatusUnprocessableEntity, late)} {
					request, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, request.Body) //nolint:errcheck // a test
					io.WriteString(conn, said)        //nolint:errcheck // a test
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

func page(status int, text string) string {
	return fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status,
		len(text), text)
}

// TestRefusalOfTheCallBefore: a gateway has answered a call by itself, and passes on over the same connection what the
// API has said to it. That is no answer to the next call.
func TestRefusalOfTheCallBefore(t *testing.T) {
	t.Parallel()
	for what, first := range map[string]string{
		"504":                     page(http.StatusGatewayTimeout, "it takes too long"),
		"504 without a body":      page(http.StatusGatewayTimeout, ""),
		"200 of a gateway":        page(http.StatusOK, `{"status": "accepted"}`),
		"an answer from before":   "HTTP/1.1 200 x\r\nAge: 60\r\nContent-Length: 0\r\n\r\n",
		"that to another call":    "HTTP/1.1 200 x\r\nRailhead-Call: other\r\nContent-Length: 0\r\n\r\n",
		"a batch without its end": page(http.StatusOK, lineTwo+"\n"),
	} {
		own := &http.Transport{}
		t.Cleanup(own.CloseIdleConnections)
		client, err := httpclient.NewHTTP(httpclient.Config{BaseURL: lateGateway(t, first), Attempts: 2, Transport: own,
			Backoff: time.Millisecond, Token: func(context.Context) (string, error) { return "token", nil }})
		if err != nil {
			t.Fatal(err)
		}
		for way, err := range ways(client) {
			if err == nil || errors.Is(err, outbox.ErrInvalid) ||
				errors.Is(err, outbox.ErrCommitUnknown) != (way == "enqueue" || way == "batch") {
				t.Errorf("%s, %s: %v", what, way, err)
			}
		}
	}
}

// TestAnswerToAnotherCall: an answer that the API has marked as that to another call says nothing of this one, whatever
// it says. One without a mark, as of an older API, does.
func TestAnswerToAnotherCall(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		mark  func(own string) []string
		taken bool
	}{
		"its own":            {func(own string) []string { return []string{own} }, true},
		"none":               {func(string) []string { return nil }, true},
		"another one":        {func(string) []string { return []string{"other"} }, false},
		"empty":              {func(string) []string { return []string{""} }, false},
		"its own and others": {func(own string) []string { return []string{own, "other"} }, false},
	} {
		for _, status := range []int{http.StatusOK, http.StatusUnprocessableEntity} {
			synctest.Test(t, func(t *testing.T) {
				marks := map[string]bool{}
				client := over(t, func(request *http.Request) (*http.Response, error) {
					own := request.Header.Get(outbox.CallHeader)
					if own == "" || marks[own] {
						t.Errorf("the mark of a call is %q", own)
					}
					marks[own] = true
					text := fmt.Sprintf(`{"outbox_id": %q, "instruction_id": "i", "participant_id": "p1", "idempotency_key": "k"}`,
						payment.NewID())
					if status != http.StatusOK {
						text = ofAPI("invalid-instruction", `"title": "no", "code": "RH002"`)
					}
					response, err := answer(status, text)
					response.Header[outbox.CallHeader] = c.mark(own)
					return response, err
				})
				_, err := client.Enqueue(t.Context(), instruction("i", "k", `{}`))
				switch {
				case !c.taken && !errors.Is(err, outbox.ErrCommitUnknown),
					c.taken && status == http.StatusOK && err != nil,
					c.taken && status != http.StatusOK && !errors.Is(err, outbox.ErrInvalid):
					t.Errorf("%s, %d: %v", what, status, err)
				}
			})
		}
	}
}
