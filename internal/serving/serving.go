// Package serving knows the connection that serves a request of HTTP/1, so that it can be closed after an answer behind
// which another one to the same request may still come: it would be read as the answer to the next request.
package serving

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// Conn is the connection of one request.
type Conn struct {
	mu   sync.Mutex
	last net.Conn // nil: none yet
	n    int
}

// Trace returns a context for one request, whose connections c notes. A transport may make it over several.
func (c *Conn) Trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.last, c.n = info.Conn, c.n+1
	}})
}

// Count returns how many connections the request has had.
func (c *Conn) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Close closes the connection over which an answer came, so that nothing is sent over it any more. One of HTTP/2 stays:
// it tells answers apart by itself. It returns no error, since the connection may be closed already.
func (c *Conn) Close(response *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if response.ProtoMajor < 2 && c.last != nil {
		c.last.Close()
	}
}
