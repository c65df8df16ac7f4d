package cells

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/testbed/faults"
)

// world is the installation in which the faults are made.
type world struct {
	Options
	clusters []*pgserver.Server
	cells    []*cell
	joined   int // how many of them are in the directory: a setting that leads to no cell of it stops operators
	banks    []*simrail.Bank
	fan      *fan
	routed   []*railhead.Client                // each with another home
	apis     []*service                        // each serves all cells, beginning with another one
	overHTTP map[string][]*railhead.HTTPClient // by participant, one for each API
	draws    *rand.Rand                        // of the start

	broken [][]string // commands of operators that were broken off, perhaps

	calls // what is called for, and what callers were told

	noting sync.Mutex
	done   map[string]int // how often each act and fault was made, and what else has to happen
	log    *os.File       // of what was done
}

// cell is one cell: a schema on one of the clusters, that all but the judge reach by a wire.
type cell struct {
	name, schema string
	cluster      *pgserver.Server
	wire         *faults.Wire
	addr         string        // of the wire
	admin        *pgxpool.Pool // not by the wire
	adminURL     string
	direct       *railhead.Client    // of callers whose map is old: it knows no other cell
	services     map[string]*service // by kind
}

func (c *cell) setting() string { return strings.ToUpper(c.name) }

// service is a process that is started again as it was after it was killed.
type service struct {
	child.Command
	*child.Process
}

func (s *service) start() (err error) {
	s.Process, err = s.Command.Start()
	return err
}

// kill ends the process by SIGKILL, if it has not ended.
func (s *service) kill() error {
	if err := s.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// layout are the cells, by their names, each with its cluster and schema.
var layout = []struct {
	name    string
	cluster int
	schema  string
}{{"east", 0, "railhead"}, {"west", 1, "railhead"}, {"north", 0, "railhead_north"}, {"south", 1, "railhead_south"}}

const clusters = 2

// count notes that something happened.
func (w *world) count(what string) {
	w.noting.Lock()
	defer w.noting.Unlock()
	w.done[what]++
}

// note writes a line to the log of the run.
func (w *world) note(format string, args ...any) {
	w.noting.Lock()
	defer w.noting.Unlock()
	fmt.Fprintf(w.log, "%s "+format+"\n", append([]any{time.Now().UTC().Format(time.RFC3339Nano)}, args...)...)
}

func (w *world) start(ctx context.Context) (err error) {
	if w.log, err = os.Create(filepath.Join(w.Evidence, "acts.log")); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		w.startClusters, w.startCells, w.startBanks, w.startServices, w.beginDirectory, w.openClients,
		w.startAPIs,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) startClusters(ctx context.Context) error {
	for n := range clusters {
		server, err := pgserver.Start(ctx, pgserver.Options{
			LogFile: filepath.Join(w.Evidence, fmt.Sprintf("postgres-%d.log", n+1)), TCP: "127.0.0.1:0",
			Settings: map[string]string{"max_connections": "200", "shared_buffers": "64MB",
				"recovery_init_sync_method": "syncfs"},
		})
		if err != nil {
			return fmt.Errorf("starting a private PostgreSQL: %w", err)
		}
		w.clusters = append(w.clusters, server)
	}
	return nil
}

func (w *world) startCells(ctx context.Context) error {
	for _, each := range layout {
		w.cells = append(w.cells, &cell{name: each.name, schema: each.schema, cluster: w.clusters[each.cluster],
			services: map[string]*service{}})
	}
	var work errgroup.Group
	for n := range clusters {
		work.Go(func() error {
			for _, c := range w.cells {
				if c.cluster != w.clusters[n] {
					continue
				}
				if err := c.install(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return work.Wait()
}

// install makes the cell on its cluster, and a wire that leads there.
func (c *cell) install(ctx context.Context) error {
	admin, err := install.On(ctx, c.cluster, c.schema, outbox.TimeBudget{
		ClaimTimeout: 15 * time.Second, StartWithin: time.Second, RecordWithin: 2 * time.Second, Drain: 2 * time.Second,
		HeartbeatStale: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	if err := c.cluster.AllowTCP(ctx, slices.Collect(maps.Keys(install.Logins()))...); err != nil {
		return err
	}
	c.adminURL = admin
	if c.admin, err = pgxpool.New(ctx, admin+"&search_path="+c.schema); err != nil {
		return err
	}
	if c.wire, err = faults.NewWire(c.name, faults.AnyPort, c.cluster.TCPAddr()); err == nil {
		c.addr = c.wire.Addr()
	}
	return err
}

func (c *cell) url(login string) string { return c.cluster.TCPURL(c.addr, install.Database, login) }

func (w *world) railsFile() string { return filepath.Join(w.Evidence, "rails.yaml") }

// kinds are the services of a cell, each with the variable of its connection string and its login.
var kinds = map[string]struct{ variable, login string }{
	"relayer": {"RAILHEAD_RELAYER_URL", install.Relayer}, "reaper": {"RAILHEAD_REAPER_URL", install.Reaper},
	"callbacks": {"RAILHEAD_CALLBACKS_URL", install.Callbacks},
}

// shared are the cells, one on each cluster, that have their relayers in one process, and their reapers.
var shared = []int{2, 3}

func (w *world) startServices(ctx context.Context) error {
	var work errgroup.Group
	for n, c := range w.cells {
		receiver := filepath.Join(w.Evidence, c.name+"-callbacks.addr")
		w.fan.to = append(w.fan.to, receiver)
		work.Go(func() error {
			if said, code := w.operate(ctx, c, 0, "rail", "apply", w.railsFile(), "--reason", "a run of make cells"); code != 0 {
				return fmt.Errorf("railhead rail apply: exit code %d: %s", code, said)
			}
			for kind, as := range kinds {
				if kind != "callbacks" && slices.Contains(shared, n) {
					continue
				}
				s, err := w.startService(ctx, c.name, kind, []string{
					"RAILHEAD_CELL=" + c.schema, as.variable + "=" + c.url(as.login), "RAILHEAD_CALLBACKS_ADDR_FILE=" + receiver,
				})
				if err != nil {
					return err
				}
				c.services[kind] = s
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return errors.Join(w.startShared(ctx, "relayer"), w.startShared(ctx, "reaper"))
}

// startShared starts one process for the cells that share theirs.
func (w *world) startShared(ctx context.Context, kind string) error {
	var settings, names, env []string
	for _, n := range shared {
		c := w.cells[n]
		names, settings = append(names, c.name), append(settings, c.setting())
		env = append(env, "RAILHEAD_CELL"+"_"+c.setting()+"="+c.schema,
			kinds[kind].variable+"_"+c.setting()+"="+c.url(kinds[kind].login))
	}
	s, err := w.startService(ctx, strings.Join(names, "-"), kind,
		append(env, "RAILHEAD_CELLS="+strings.Join(settings, ",")))
	for _, n := range shared {
		w.cells[n].services[kind] = s
	}
	return err
}

// startService starts a service of cells, and waits until it is ready.
func (w *world) startService(ctx context.Context, cells, kind string, env []string) (*service, error) {
	name := cells + "-" + kind
	health := filepath.Join(w.Evidence, name+".health")
	s := &service{Command: child.In(w.Evidence, name, filepath.Join(w.Binaries, "railhead"), append([]string{
		"RAILHEAD_RAILS_FILE=" + w.railsFile(),
		simrail.SecretVariable + "=" + simrail.CallbackSecret, "RAILHEAD_LOG_FORMAT=json",
		"RAILHEAD_HTTP_ADDR_FILE=" + health, "RAILHEAD_STATE_DIR=" + filepath.Join(w.Evidence, "state-"+name),
		"RAILHEAD_HEARTBEAT_EVERY=300ms", "RAILHEAD_REAP_EVERY=1s", "RAILHEAD_REAP_GRACE=1s", "RAILHEAD_POLL=500ms",
		"RAILHEAD_STORE_TIMEOUT=5s",
	}, env...), kind)}
	if err := s.start(); err != nil {
		return nil, err
	}
	addr, err := s.AwaitFile(ctx, health)
	if err != nil {
		return s, err
	}
	return s, s.AwaitReady(ctx, addr)
}

func (w *world) openClients(ctx context.Context) error {
	settings := make(map[string]string)
	for _, c := range w.cells {
		settings[c.setting()] = c.url(install.Ingest)
	}
	for n, c := range w.cells {
		config := railhead.Config{URL: c.url(install.Ingest), Cell: c.schema, ApplicationName: "cells-" + c.name}
		var err error
		if c.direct, err = railhead.Open(ctx, config); err != nil {
			return err
		}
		if n < clusters {
			config.Cells = settings
			one, err := railhead.Open(ctx, config)
			if err != nil {
				return err
			}
			w.routed = append(w.routed, one)
		}
	}
	w.begin()
	return nil
}

// services are those of all cells, each once.
func (w *world) services() (all []*service) {
	for _, c := range w.cells {
		for _, s := range c.services {
			if s != nil && s.Process != nil && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// stopAll ends services in order.
func stopAll(services []*service) error {
	var all []error
	for _, s := range services {
		if s.Process != nil {
			all = append(all, s.Stop(30*time.Second))
		}
	}
	return errors.Join(all...)
}

// end stops everything.
func (w *world) end(ctx context.Context) error {
	all := []error{stopAll(w.services()), stopAll(w.apis)}
	for _, client := range w.routed {
		client.Close()
	}
	for _, c := range w.cells {
		if c.direct != nil {
			c.direct.Close()
		}
		c.admin.Close()
		c.wire.Close()
	}
	for _, bank := range w.banks {
		all = append(all, bank.Close())
	}
	if w.log != nil {
		all = append(all, w.log.Close())
	}
	if w.fan != nil {
		w.fan.close()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, server := range w.clusters {
		all = append(all, server.Stop(last))
	}
	return errors.Join(all...)
}
