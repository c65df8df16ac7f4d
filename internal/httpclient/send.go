package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// errNotSent is the error if an attempt has ended before anything was sent, so that it has stored nothing.
var errNotSent = errors.New("nothing was sent")

// send makes one request. Its error is errNotSent if no byte of it was sent.
func (h *HTTP) send(
	ctx context.Context, method, path string, headers http.Header, body io.Reader,
) (*http.Response, error) {
	token, err := h.config.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: getting the token: %w", errNotSent, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	// Package net/http sends a request with an idempotency key again by itself if an idle connection breaks under it:
	// an error of the second connection does not mean that nothing was sent over the first one.
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	request, err := http.NewRequestWithContext(traced, method, h.config.BaseURL+path, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	for name, values := range headers {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	if !inHeader(token) {
		return nil, fmt.Errorf("%w: the token contains a character that no header can, such as the end of its line",
			errNotSent)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := h.client.Do(request)
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" && !connected.Load() {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return response, err
}
