package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

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
	store    *door.Door
	api      *api.API
	heart    *service.Heart
	log      *slog.Logger
	draining atomic.Bool
}

// awayBeat is how often a heartbeat is tried while the database can't be reached.
const awayBeat = 250 * time.Millisecond

// newAPI creates the API with its own login.
func newAPI(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (service.Service, func(), error) {
	url, err := s.url("RAILHEAD_API_URL", s.APIURL)
	if err != nil {
		return nil, nil, err
	}
	files := service.TLSFiles{Certificate: s.APICertFile, Key: s.APIKeyFile, ClientCA: s.APIClientCAFile}
	if (files.Certificate == "") != (files.Key == "") || files.ClientCA != "" && files.Key == "" {
		return nil, nil, usage(errors.New("RAILHEAD_API_CERT_FILE and RAILHEAD_API_KEY_FILE go together, and " +
			"RAILHEAD_API_CLIENT_CA_FILE with them"))
	}
	store, err := door.Open(ctx, ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-api", MaxConns: s.APIConns,
		Tracer: s.traces.Postgres()})
	if err != nil {
		return nil, nil, usage(err)
	}
	keys, err := eventKeys(s.APIEventKeys)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	door, err := api.New(api.Config{
		StoreTimeout: s.StoreTimeout, ConnectionsMax: s.APIConnectionsMax, StreamsMax: s.APIStreamsMax,
		Origins: listOf(s.APIOrigins), EventKeys: keys, TLS: files,
	}, store, set.API(), log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	beat := func(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
		pulse, err := store.Heartbeat(ctx, beat)
		// Until a heartbeat is written again each call is answered at once. A heartbeat that the end of
		// the process cut off shows nothing.
		if !service.Denied(err) && !errors.Is(err, context.Canceled) {
			door.SetAway(err != nil)
		}
		return pulse, err
	}
	heart := service.NewHeart(s.heart("ingest", "RAILHEAD_API_URL takes a member of railhead_api"), beat, log)
	return &apiService{settings: s, store: store, api: door, heart: heart, log: log}, store.Close, nil
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
	if err := a.beat(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	// If the database can't be asked now, each enqueue asks.
	if err := a.store.CheckKeys(ctx); errors.Is(err, outbox.ErrSecondKeys) {
		return errors.Join(usage(err), listener.Close())
	}
	a.log.InfoContext(ctx, "taking instructions over HTTP", "addr", listener.Addr().String())
	defer context.AfterFunc(ctx, func() { a.draining.Store(true) })()
	err = service.Together(ctx,
		func(ctx context.Context) error { return a.api.Serve(ctx, listener) },
		func(ctx context.Context) error { return service.Repeat(ctx, a.beatEvery, a.beatAndNote) })
	if !service.Fatal(err) {
		a.ended(ctx)
	}
	return err
}

// beatEvery is the time between heartbeats, which is shorter while the database can't be reached.
func (a *apiService) beatEvery() time.Duration {
	if a.Ready() != nil {
		return min(a.heart.Every(), awayBeat)
	}
	return a.heart.Every()
}

// beat returns an error where the API can't work on what it is connected to.
func (a *apiService) beat(ctx context.Context) error {
	if err := a.heart.Beat(ctx, "running"); service.Fatal(err) {
		return err
	}
	return nil // it is logged, and the next one is due soon
}

func (a *apiService) beatAndNote(ctx context.Context) error {
	if err := a.beat(ctx); err != nil {
		return err
	}
	if err := a.api.NoteUses(ctx); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "uses of tokens were not noted", "error", err)
	}
	return nil
}

// ended notes the last uses of tokens, and writes the heartbeat of a stop.
func (a *apiService) ended(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := a.api.NoteUses(last); err != nil {
		a.log.WarnContext(last, "uses of tokens were not noted", "error", err)
	}
	a.heart.Stopped(last)
}

// Ready reports whether the database accepts instructions.
func (a *apiService) Ready() error {
	if a.draining.Load() {
		return errors.New("the process is being stopped")
	}
	return a.heart.Ready()
}
