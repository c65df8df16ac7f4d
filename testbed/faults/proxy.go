package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Wire is a faulty network between a client and a server, in this process.
type Wire struct {
	server *toxiproxy.ApiServer
	proxy  *toxiproxy.Proxy
}

// AnyPort is the address of a Wire that listens on a free port.
const AnyPort = "127.0.0.1:0"

// NewWire returns a Wire that listens on an address and forwards to upstream.
func NewWire(name, listen, upstream string) (*Wire, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	wire := &Wire{server: server, proxy: toxiproxy.NewProxy(server, name, listen, upstream)}
	if err := wire.proxy.Start(); err != nil {
		return nil, fmt.Errorf("starting the network of %s: %w", name, err)
	}
	return wire, nil
}

// Addr returns the address at which the client connects.
func (w *Wire) Addr() string { return w.proxy.Listen }

// Cut closes every connection and refuses new ones, until Mend.
func (w *Wire) Cut() { w.proxy.Stop() }

// Mend restores the network: fresh connections, no toxics. It starts a new proxy at the
// same address, because taking toxics out of one whose connections are just closing can
// block without a bound.
func (w *Wire) Mend() error {
	w.proxy.Stop()
	w.proxy = toxiproxy.NewProxy(w.server, w.proxy.Name, w.proxy.Listen, w.proxy.Upstream)
	if err := w.proxy.Start(); err != nil {
		return fmt.Errorf("mending the network: %w", err)
	}
	return nil
}

// These are the directions of a Wire.
const (
	toServer   = "upstream"
	fromServer = "downstream"
)

// Isolate lets nothing more through in either direction, and closes no connection.
func (w *Wire) Isolate() error { return errors.Join(w.Silence(toServer), w.Silence(fromServer)) }

// Silence lets nothing more through in one direction, and closes no connection. The other
// direction still works. What was sent before has arrived.
func (w *Wire) Silence(direction string) error {
	return w.toxic("timeout", direction, map[string]int64{"timeout": 0})
}

// Slow adds latency to both directions and limits their bandwidth.
func (w *Wire) Slow(latency, jitter time.Duration, kibPerSecond int64) error {
	for _, direction := range []string{toServer, fromServer} {
		delay := map[string]int64{"latency": latency.Milliseconds(), "jitter": jitter.Milliseconds()}
		if err := w.toxic("latency", direction, delay); err != nil {
			return err
		}
		if err := w.toxic("bandwidth", direction, map[string]int64{"rate": kibPerSecond}); err != nil {
			return err
		}
	}
	return nil
}

func (w *Wire) toxic(kind, direction string, attributes map[string]int64) error {
	text, err := json.Marshal(map[string]any{"type": kind, "stream": direction, "attributes": attributes})
	if err != nil {
		return err
	}
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
		return fmt.Errorf("toxic %s %s: %w", kind, direction, err)
	}
	return nil
}

// Close closes every connection, and listens no more.
func (w *Wire) Close() { w.proxy.Stop() }
