package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Endpoint is an HTTP server of a service, with an orderly shutdown.
type Endpoint struct {
	Name   string // in errors
	Server *http.Server
	// Drain is called once no further requests are accepted. It returns how long requests
	// in progress may take to finish; 0: they are aborted.
	Drain func() time.Duration
}

// Serve serves requests on a listener, which it closes, until the context ends. Then it
// accepts no further requests, and those in progress may finish within the drain time.
func (e Endpoint) Serve(ctx context.Context, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- e.Server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("%s: %w", e.Name, err)
	case <-ctx.Done():
	}
	defer func() { <-served }() // it has ended with the listener
	within := e.Drain()
	if within <= 0 {
		return e.Server.Close()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if err := e.Server.Shutdown(last); err != nil {
		return errors.Join(fmt.Errorf("requests were under way after the drain time: %w", err), e.Server.Close())
	}
	return nil
}
