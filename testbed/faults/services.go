package faults

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/railhead-pay/railhead/internal/faultpoint"
	"github.com/railhead-pay/railhead/internal/test/child"
)

// StartRelayer starts one more relayer, which reports the points, and waits until it is
// ready.
func (w *World) StartRelayer(ctx context.Context, points ...faultpoint.Point) (*Process, error) {
	p, err := w.newRelayer(ctx, points...)
	if err != nil {
		return p, err
	}
	return p, w.awaitReady(ctx, p)
}

// newRelayer starts one more relayer, and waits until it listens.
func (w *World) newRelayer(ctx context.Context, points ...faultpoint.Point) (*Process, error) {
	var wire *Wire
	if w.Options.ThroughProxy {
		var err error
		if wire, err = NewWire("relayer", AnyPort, w.Lane.Server.TCPAddr()); err != nil {
			return nil, err
		}
	}
	p, err := w.startService(ctx, kindRelayer, w.newName(kindRelayer), w.relayerURL(wire), points)
	if p != nil {
		w.relayers = append(w.relayers, p)
		if wire != nil {
			w.wires[p] = wire
		}
	}
	return p, err
}

// relayerURL returns the URL by which a relayer reaches the database, through its wire if
// it has one.
func (w *World) relayerURL(wire *Wire) string {
	if wire == nil {
		return w.url(loginRelayer)
	}
	return w.Lane.Server.TCPURL(wire.Addr(), w.database, loginRelayer)
}

// StartReaper starts one more reaper, which reports the points, and waits until it is
// ready.
func (w *World) StartReaper(ctx context.Context, points ...faultpoint.Point) (*Process, error) {
	p, err := w.startService(ctx, kindReaper, w.newName(kindReaper), w.url(loginReaper), points)
	if p != nil {
		w.reapers = append(w.reapers, p)
	}
	if err != nil {
		return p, err
	}
	return p, w.awaitReady(ctx, p)
}

// revive starts again the services that have ended, under their names and with their
// state folders, and waits until they listen.
func (w *World) revive(ctx context.Context) error {
	for n, p := range w.relayers {
		if p.Alive() {
			continue
		}
		wire := w.wires[p]
		again, err := w.startService(ctx, kindRelayer, p.Name, w.relayerURL(wire), nil)
		if again != nil {
			w.relayers[n] = again
			if wire != nil {
				w.wires[again] = wire
			}
		}
		if err != nil {
			return err
		}
	}
	for n, p := range w.reapers {
		if p.Alive() {
			continue
		}
		again, err := w.startService(ctx, kindReaper, p.Name, w.url(loginReaper), nil)
		if again != nil {
			w.reapers[n] = again
		}
		if err != nil {
			return err
		}
	}
	if w.api != nil && !w.api.Alive() {
		return w.StartAPI(ctx)
	}
	return nil
}

// These are the services that a run starts.
const (
	kindRelayer = "relayer"
	kindReaper  = "reaper"
	kindAPI     = "api"
	kindEvents  = "events"
)

func (w *World) newName(kind string) string {
	w.started++
	return fmt.Sprintf("%s-%d", kind, w.started)
}

// startService starts a service, and waits until it listens.
func (w *World) startService(ctx context.Context, kind, name, url string, points []faultpoint.Point) (*Process, error) {
	addrFile := w.addrFile(name)
	reach := "RAILHEAD_" + strings.ToUpper(kind) + "_URL=" + url
	names := make([]string, len(points))
	for n, point := range points {
		names[n] = string(point)
	}
	env := append(append(w.Options.environment(), w.env...), reach, "RAILHEAD_CELL="+cell,
		"RAILHEAD_RAILS_FILE="+w.railsFile(),
		"RAILHEAD_WORKER_ID="+name, "RAILHEAD_HTTP_ADDR_FILE="+addrFile,
		"RAILHEAD_STATE_DIR="+filepath.Join(w.dir, "state-"+name),
		faultpoint.EnvSocket+"="+filepath.Join(w.dir, "points"), faultpoint.EnvPoints+"="+strings.Join(names, ","),
		"RAILHEAD_API_ADDR="+w.apiAddr)
	p, _, err := child.In(w.dir, name, w.Lane.built.Railhead, env, kind).Listen(ctx, addrFile)
	if p == nil {
		return nil, err
	}
	return &Process{p}, err
}

// awaitReady waits until a service reports that it is ready.
func (w *World) awaitReady(ctx context.Context, p *Process) error {
	addr, err := p.AwaitFile(ctx, w.addrFile(p.Name))
	if err != nil {
		return err
	}
	return p.AwaitReady(ctx, addr)
}
