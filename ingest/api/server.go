package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
)

// Serve serves a listener until the context ends. Then it accepts no more connections, ends waits
// with what is known, and answers each request under way, within the drain time.
func (a *API) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: a.handler, ReadHeaderTimeout: min(5*time.Second, a.config.IdleMax), ReadTimeout: a.config.IdleMax,
		WriteTimeout: a.config.WaitMax + a.config.StoreTimeout + a.config.IdleMax, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	listener = service.AtMost(listener, a.config.ConnectionsMax)
	listener, err := a.config.TLS.Listen(listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return service.Endpoint{Name: "the API", Server: server, Drain: func() time.Duration {
		a.drain()
		return a.config.Drain
	}}.Serve(ctx, listener)
}
