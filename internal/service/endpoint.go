package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Endpoint is HTTP that a service answers, and that is stopped in order.
type Endpoint struct {
	Name   string // in errors
	Server *http.Server
	// Drain is called once no more is to be accepted. It says how long requests under way may go on; 0: they are
	// cut off.
	Drain func() time.Duration
}

// Serve answers on a listener, which it closes, until the context ends. Then no more is accepted, and each request
// under way gets its answer within the drain time.
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
