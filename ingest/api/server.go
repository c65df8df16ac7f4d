package api

import (
	"context"
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
		MaxHeaderBytes: 16 << 10, ErrorLog: service.HandshakeLog(a.log),
	}
	listener = a.config.TLS.Listen(service.AtMost(listener, a.config.ConnectionsMax))
	endpoint := service.Endpoint{Name: "the API", Server: server, Drain: func() time.Duration {
		a.drain()
		return a.config.Drain
	}}
	return service.Together(ctx, a.config.TLS.Watch, func(ctx context.Context) error {
		return endpoint.Serve(ctx, listener)
	})
}
