package httpclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/serving"
	"github.com/railhead-pay/railhead/outbox"
)

// errNotSent is the error if an attempt has ended before anything was sent, so that it has stored nothing.
var errNotSent = errors.New("nothing was sent")

// errOlder is the error if an answer was made before the call: a cache has kept it, although the API forbids that. What
// it says of a payment, such as that there is none, need not be so any more.
var errOlder = errors.New("the answer is older than the call: a cache on the way has kept it")

// errOtherCall is the error if an answer is that to another call: something on the way has mixed them up, such as a
// gateway that answers 504 and passes on what the API answers later.
var errOtherCall = errors.New("the answer is that to another call: something on the way has mixed them up")

// sent is the answer to a request. What it refuses is said of the last connection alone if it was sent over several.
type sent struct {
	*http.Response
	again bool
	conn  *serving.Conn
}

// leave ends the use of the connection, since another answer to the same request may follow.
func (s sent) leave() { s.conn.Close(s.Response) }

// refusal returns the error of an answer that is no success, and whether it is final.
func (s sent) refusal(method string, text []byte) (final bool, err error) {
	final, err = refusal(method, s.Response, text)
	if !problemOf(text).ofAPI() {
		s.leave()
	}
	if s.again && method != http.MethodGet {
		err = later{inDoubt(true, err), askedFor(err)}
	}
	return final, err
}

// send makes one request. Its error is errNotSent if no byte of it was sent.
func (h *HTTP) send(
	ctx context.Context, method, path string, headers http.Header, body io.Reader,
) (answer sent, err error) {
	token, err := h.config.Token(ctx)
	if err != nil {
		return sent{}, fmt.Errorf("%w: getting the token: %w", errNotSent, err)
	}
	if err := ctx.Err(); err != nil {
		return sent{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	// Package net/http sends a request with an idempotency key again by itself if an idle connection breaks under it, and
	// the configured transport may do so, too: neither an error nor a refusal by the second connection means that the
	// request over the first one has done nothing.
	var conn serving.Conn
	request, err := http.NewRequestWithContext(conn.Trace(ctx), method, h.config.BaseURL+path, body)
	if err != nil {
		return sent{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	for name, values := range headers {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	if !inHeader(token) {
		return sent{}, fmt.Errorf("%w: the token contains a character that no header can, such as the end of its line",
			errNotSent)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	mark := rand.Text()
	request.Header.Set(outbox.CallHeader, mark)
	began := time.Now()
	response, err := h.client.Do(request)
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" && conn.Count() == 0 {
		return sent{}, fmt.Errorf("%w: %w", errNotSent, err)
	}
	if err != nil {
		return sent{}, err
	}
	answer = sent{response, conn.Count() > 1, &conn}
	switch {
	case older(response, time.Since(began)):
		err = errOlder
	case isOther(response.Header.Values(outbox.CallHeader), mark):
		err = errOtherCall
	}
	if err != nil {
		answer.leave()
		response.Body.Close()
	}
	return answer, err
}

// isOther reports whether an answer says that it is that to another call than the one with the mark. An API before
// version 1.5.0, and a gateway, say nothing of it.
func isOther(said []string, mark string) bool {
	return len(said) > 0 && !slices.Equal(said, []string{mark})
}

// older reports whether an answer says that it was made before the call, which took so long. Some proxies count the
// time of the call itself, in whole seconds.
func older(response *http.Response, took time.Duration) bool {
	first, _, _ := strings.Cut(response.Header.Get("Age"), ",")
	age, _ := strconv.ParseInt(strings.TrimSpace(first), 10, 64) //nolint:errcheck // what is no number is no age
	return age > int64((took+time.Second-1)/time.Second)
}
