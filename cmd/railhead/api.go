package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/secret"
)

// apiService is the HTTP door to the enqueue, as a component.
type apiService struct {
	settings settings
	store    *ledger.Door
	api      *api.API
	log      *slog.Logger
	beatAt   atomic.Int64
	budget   atomic.Pointer[payment.TimeBudget] // of the last heartbeat
	draining atomic.Bool
}

// awayBeat is how often a database that is away is tried.
const awayBeat = 250 * time.Millisecond

// newAPI wires the API to its own login.
func newAPI(ctx context.Context, s settings, set *metrics.Set, log *slog.Logger) (component, func(), error) {
	url, err := s.url("RAILHEAD_API_URL", s.APIURL)
	if err != nil {
		return nil, nil, err
	}
	files := api.TLSFiles{Certificate: s.APICertFile, Key: s.APIKeyFile, ClientCA: s.APIClientCAFile}
	if (files.Certificate == "") != (files.Key == "") || files.ClientCA != "" && files.Key == "" {
		return nil, nil, usage(errors.New("RAILHEAD_API_CERT_FILE and RAILHEAD_API_KEY_FILE go together, and RAILHEAD_API_CLIENT_CA_FILE with them"))
	}
	store, err := ledger.OpenDoor(ctx, ledger.Config{URL: url, Cell: s.Cell, Name: "railhead-api", MaxConns: s.APIConns, Tracer: s.traces.Postgres()})
	if err != nil {
		return nil, nil, usage(err)
	}
	keys, err := eventKeys(s.APIEventKeys)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	door, err := api.New(api.Config{
		StoreTimeout: s.StoreTimeout, ConnectionsMax: s.APIConnectionsMax, StreamsMax: s.APIStreamsMax, Origins: listOf(s.APIOrigins), EventKeys: keys, TLS: files,
	}, store, set.API(), log)
	if err != nil {
		store.Close()
		return nil, nil, usage(err)
	}
	a := &apiService{settings: s, store: store, api: door, log: log}
	a.budget.Store(new(payment.DefaultTimeBudget()))
	return a, store.Close, nil
}

// listOf reads a list with commas between.
func listOf(text string) (all []string) {
	for each := range strings.SplitSeq(text, ",") {
		if each = strings.TrimSpace(each); each != "" {
			all = append(all, each)
		}
	}
	return all
}

// eventKeys fetches the secrets that tokens for events are sealed by.
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

// Run serves until the context ends, then lets requests under way get their answers.
func (a *apiService) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", a.settings.APIAddr)
	if err != nil {
		return usage(fmt.Errorf("listening on RAILHEAD_API_ADDR %s: %w", a.settings.APIAddr, err))
	}
	if a.settings.APIFile != "" {
		if err := writeWhole(a.settings.APIFile, listener.Addr().String()+"\n"); err != nil {
			return errors.Join(fmt.Errorf("writing RAILHEAD_API_ADDR_FILE: %w", err), listener.Close())
		}
	}
	if err := a.beat(ctx, "running"); unfitAPI(err) {
		return errors.Join(err, listener.Close())
	}
	// Where it can't be asked now, each enqueue asks.
	if err := a.store.CheckKeys(ctx); errors.Is(err, payment.ErrSecondKeys) {
		return errors.Join(usage(err), listener.Close())
	}
	a.log.InfoContext(ctx, "taking instructions over HTTP", "addr", listener.Addr().String())
	serving, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	served := make(chan error, 1)
	go func() { served <- a.api.Serve(serving, listener) }()
	for {
		wait := min(a.settings.HeartbeatEvery, a.budget.Load().HeartbeatStale/3)
		if a.Ready() != nil {
			wait = min(wait, awayBeat)
		}
		select {
		case err := <-served:
			a.ended(ctx)
			return err
		case <-ctx.Done():
			a.draining.Store(true)
			err := <-served
			a.ended(ctx)
			return err
		case <-time.After(wait):
			if err := a.beat(ctx, "running"); unfitAPI(err) {
				stop(err)
				return errors.Join(err, <-served)
			}
			if err := a.api.NoteUses(ctx); err != nil && ctx.Err() == nil {
				a.log.WarnContext(ctx, "uses of tokens were not noted", "error", err)
			}
		}
	}
}

// ended says the last word.
func (a *apiService) ended(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := a.api.NoteUses(last); err != nil {
		a.log.WarnContext(last, "uses of tokens were not noted", "error", err)
	}
	a.beat(last, "stopped") //nolint:errcheck // it is logged; the silence says the same
}

// unfitAPI reports whether the API can't work on what it is connected to.
func unfitAPI(err error) bool { return denied(err) || payment.Unfit(err) }

func (a *apiService) beat(ctx context.Context, status string) error {
	ctx, cancel := context.WithTimeout(ctx, min(a.settings.StoreTimeout, a.budget.Load().HeartbeatStale/2))
	defer cancel()
	pulse, err := a.store.Heartbeat(ctx, payment.Heartbeat{
		Name: a.settings.WorkerID, Kind: "ingest", Host: hostName(), Version: buildVersion(), Status: status, Budget: *a.budget.Load(),
	})
	switch {
	case denied(err):
		return fmt.Errorf("RAILHEAD_API_URL takes a member of railhead_api: %w", err)
	case err != nil:
		// Until one goes in again each call is answered at once.
		a.api.SetAway(true)
		a.log.WarnContext(ctx, "heartbeat did not go in", "error", err)
		return err
	}
	a.api.SetAway(false)
	if a.beatAt.Load() == 0 {
		if err := pulse.Budget.Agrees(a.settings.asserted()); err != nil {
			return err
		}
	}
	a.budget.Store(&pulse.Budget)
	a.beatAt.Store(time.Now().UnixNano())
	return nil
}

// Ready reports whether the database takes instructions.
func (a *apiService) Ready() error {
	switch {
	case a.draining.Load():
		return errors.New("the process is being stopped")
	case time.Since(time.Unix(0, a.beatAt.Load())) > a.budget.Load().HeartbeatStale:
		return errors.New("the last heartbeat did not go in")
	default:
		return nil
	}
}
