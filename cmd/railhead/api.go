package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails/secret"
)

// apiService is the HTTP API as a component.
type apiService struct {
	settings settings
	store    apiStore
	api      *api.API
	cells    []*apiCell
	tls      *service.TLS
	log      *slog.Logger
	draining atomic.Bool
}

// apiStore is the door of one cell, or of several.
type apiStore interface {
	api.Store
	CheckKeys(ctx context.Context) error
	Close()
}

// apiCell is one of the cells that the API serves, with the process's heartbeats there.
type apiCell struct {
	setting string // empty: there is one
	heart   *service.Heart
	setAway func(away bool)
	away    atomic.Bool // its calls are answered with 503 at once
	broken  atomic.Bool // only an operator can mend it
	last    error       // of the last heartbeat; for the goroutine that sends them
}

// awayBeat is how often a heartbeat is tried while the database can't be reached.
const awayBeat = 250 * time.Millisecond

// newAPI creates the API with its own login in each cell.
func newAPI(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (service.Service, func(), error) {
	files := service.TLSFiles{Certificate: s.APICertFile, Key: s.APIKeyFile, ClientCA: s.APIClientCAFile}
	if (files.Certificate == "") != (files.Key == "") || files.ClientCA != "" && files.Key == "" {
		return nil, nil, usage(errors.New("RAILHEAD_API_CERT_FILE and RAILHEAD_API_KEY_FILE go together, and " +
			"RAILHEAD_API_CLIENT_CA_FILE with them"))
	}
	keys, err := eventKeys(s.APIEventKeys)
	if err != nil {
		return nil, nil, usage(err)
	}
	cells, err := s.cells()
	if err != nil {
		return nil, nil, err
	}
	configs := make([]door.Cell, 0, len(cells))
	for _, cell := range cells {
		url, err := cell.url("RAILHEAD_API_URL", cell.APIURL)
		if err != nil {
			return nil, nil, err
		}
		configs = append(configs, door.Cell{Setting: cell.Setting, Config: ledger.Config{URL: url, Cell: cell.Cell,
			Name: "railhead-api", MaxConns: s.APIConns, Tracer: s.traces.Postgres(), Log: log}})
	}
	certificates, err := tlsOf("api", files, set, log)
	if err != nil {
		return nil, nil, usage(err)
	}
	a := &apiService{settings: s, tls: certificates, log: log}
	config := api.Config{
		StoreTimeout: s.StoreTimeout, ConnectionsMax: s.APIConnectionsMax, StreamsMax: s.APIStreamsMax,
		Origins: listOf(s.APIOrigins), EventKeys: keys, TLS: certificates,
	}
	if s.Cells == "" {
		err = a.ofOne(ctx, config, configs[0].Config, set)
	} else {
		err = a.ofSeveral(ctx, config, configs, cells, set)
	}
	if err != nil {
		if a.store != nil {
			a.store.Close()
		}
		return nil, nil, usage(err)
	}
	return a, a.store.Close, nil
}

// ofOne connects to the one cell.
func (a *apiService) ofOne(ctx context.Context, config api.Config, cell ledger.Config, set *metrics.Set) error {
	store, err := door.Open(ctx, cell)
	if err != nil {
		return err
	}
	a.store = store
	if a.api, err = api.New(config, store, set.API(), a.log); err != nil {
		return err
	}
	a.cells = []*apiCell{newAPICell(a.settings, store.Heartbeat, a.api.SetAway, a.log)}
	return nil
}

// ofSeveral connects to several cells.
func (a *apiService) ofSeveral(
	ctx context.Context, config api.Config, configs []door.Cell, cells []settings, set *metrics.Set,
) error {
	store, err := door.OpenRouted(ctx, configs)
	if err != nil {
		return err
	}
	a.store, config.Cells = store, store.Settings()
	if a.api, err = api.New(config, store, set.API(), a.log); err != nil {
		return err
	}
	for _, cell := range cells {
		cell.WorkerID = a.settings.WorkerID
		a.cells = append(a.cells, newAPICell(cell,
			func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
				return store.Heartbeat(ctx, cell.Setting, beat)
			},
			func(away bool) { store.SetAway(cell.Setting, away) }, a.log.With("cell", cell.Setting)))
	}
	return nil
}

func newAPICell(
	s settings, send func(context.Context, outbox.Heartbeat) (outbox.Pulse, error), setAway func(bool), log *slog.Logger,
) *apiCell {
	c := &apiCell{setting: s.Setting}
	c.setAway = func(away bool) {
		c.away.Store(away)
		setAway(away)
	}
	beat := func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
		pulse, err := send(ctx, beat)
		// Until a heartbeat is written again each call is answered at once. A heartbeat that the end of
		// the process cut off shows nothing.
		if !service.Denied(err) && !errors.Is(err, context.Canceled) {
			c.setAway(err != nil)
		}
		return pulse, err
	}
	config := s.heart("ingest", s.variable("RAILHEAD_API_URL")+" takes a member of railhead_api")
	c.heart = service.NewHeart(config, beat, log)
	return c
}

// ready returns an error if the cell can't be written to.
func (c *apiCell) ready() error {
	err := c.heart.Ready()
	switch {
	case c.broken.Load():
		err = errors.New("it needs an operator")
	case err == nil && c.away.Load():
		err = errors.New("the last heartbeat was not recorded, and calls are answered with 503")
	}
	if err != nil && c.setting != "" {
		err = fmt.Errorf("cell %s: %w", c.setting, err)
	}
	return err
}

// every is the time between heartbeats, which is shorter while the database can't be reached.
func (c *apiCell) every() time.Duration {
	reached := errors.Is(c.last, door.ErrOtherSetting) || errors.Is(c.last, door.ErrOtherDirectory) ||
		errors.Is(c.last, door.ErrNoDirectory)
	if c.away.Load() && !c.broken.Load() && !reached {
		return min(c.heart.Every(), awayBeat)
	}
	return c.heart.Every()
}

// listOf splits a list at its commas.
func listOf(text string) (all []string) {
	for each := range strings.SplitSeq(text, ",") {
		if each = strings.TrimSpace(each); each != "" {
			all = append(all, each)
		}
	}
	return all
}

// eventKeys resolves the secrets that seal event tokens.
func eventKeys(refs string) (keys [][]byte, err error) {
	for _, text := range listOf(refs) {
		var ref secret.Ref
		if err := ref.UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("RAILHEAD_API_EVENT_KEYS: %w", err)
		}
		value, err := ref.Resolve(os.Getenv)
		if err != nil {
			return nil, fmt.Errorf("RAILHEAD_API_EVENT_KEYS: %w", err)
		}
		keys = append(keys, []byte(value.Reveal()))
	}
	return keys, nil
}

// Run serves until the context ends, and then answers the requests under way.
func (a *apiService) Run(ctx context.Context) error {
	listener, err := listen("RAILHEAD_API_ADDR", a.settings.APIAddr, a.settings.APIFile)
	if err != nil {
		return err
	}
	var first errgroup.Group
	for _, each := range a.cells {
		first.Go(func() error { return a.beat(ctx, each) })
	}
	if err := cmp.Or(first.Wait(), a.check(ctx)); err != nil {
		return errors.Join(err, listener.Close())
	}
	a.log.InfoContext(ctx, "taking instructions over HTTP", "addr", listener.Addr().String())
	defer context.AfterFunc(ctx, func() { a.draining.Store(true) })()
	loops := []func(context.Context) error{func(ctx context.Context) error { return a.api.Serve(ctx, listener) }}
	for _, each := range a.cells {
		loops = append(loops, func(ctx context.Context) error {
			return service.Repeat(ctx, each.every, func(ctx context.Context) error { return a.beat(ctx, each) })
		})
	}
	// A cell that does not answer keeps no heartbeat waiting.
	loops = append(loops, func(ctx context.Context) error {
		return service.Repeat(ctx, a.cells[0].heart.Every, func(ctx context.Context) error {
			a.note(ctx)
			return nil
		})
	})
	if err = service.Together(ctx, loops...); !service.Fatal(err) {
		a.ended(ctx)
	}
	return err
}

// check returns an error if no call may be taken, after the first heartbeats. Where a database can't be asked now, each
// enqueue asks; the log says so. One that is the only one, and answers with an error that stays, ends the process.
func (a *apiService) check(ctx context.Context) error {
	for _, each := range a.cells {
		if errors.Is(each.last, door.ErrOtherSetting) || errors.Is(each.last, door.ErrOtherDirectory) {
			return usage(each.last)
		}
	}
	err := a.store.CheckKeys(ctx)
	switch {
	case errors.Is(err, outbox.ErrSecondKeys), errors.Is(err, door.ErrOtherDirectory):
		return usage(err)
	case service.Denied(err) && a.settings.Cells != "":
		return fmt.Errorf("a cell denies enqueues by a process that serves several: railhead roles apply grants them: %w",
			err)
	case err != nil && a.settings.Cells == "" && answered(err):
		return err
	case err != nil:
		a.log.WarnContext(ctx, "second keys were not looked for, and each enqueue asks", "error", err)
	}
	return nil
}

// answered reports whether the server answered with an error that stays: not one of a lost race, of a lock, of a server
// that is full, starts or ends, of one that only reads now, or of a session that was ended.
func answered(err error) bool {
	state := service.SQLState(err)
	switch {
	case outbox.Unfit(err):
		return true
	case strings.HasPrefix(state, "28"): // a login that is refused
		return true
	case outbox.IsAway(state):
		return false
	}
	return !slices.Contains([]string{"40", "53", "55", "57", "58"}, state[:2])
}

// beat returns an error where the API can't work on what it is connected to: on none of several cells.
func (a *apiService) beat(ctx context.Context, c *apiCell) error {
	err := c.heart.Beat(ctx, "running")
	again := err != nil && c.last != nil && err.Error() == c.last.Error()
	c.last = err
	c.broken.Store(service.Fatal(err))
	if !service.Fatal(err) {
		return nil // it is logged, and the next one is due soon
	}
	c.setAway(true)
	for _, each := range a.cells {
		if each.broken.Load() {
			continue
		}
		if !again {
			a.log.ErrorContext(ctx, "this cell is not served, and the others are", "cell", c.setting, "error", err)
		}
		return nil
	}
	return err
}

func (a *apiService) note(ctx context.Context) {
	if err := a.api.NoteUses(ctx); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "uses of tokens were not noted", "error", err)
	}
}

// ended notes the last uses of tokens, and writes the heartbeats of a stop.
func (a *apiService) ended(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	a.note(last)
	var all sync.WaitGroup
	for _, each := range a.cells {
		all.Go(func() { each.heart.Stopped(last) })
	}
	all.Wait()
}

// Ready reports whether the database accepts instructions, or that of one of several cells.
func (a *apiService) Ready() error {
	if a.draining.Load() {
		return errors.New("the process is being stopped")
	}
	var failed []error
	for _, each := range a.cells {
		if err := each.ready(); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 && len(failed) < len(a.cells) {
		failed = append(failed, errSomeCells)
	}
	return alsoOf(a.tls, errors.Join(failed...))
}
