package relayer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/relayer"
)

// moved is a store whose server has another timeline, once it failed over.
type moved struct {
	relayer.Store
	over    atomic.Bool
	changed atomic.Bool // a claim through a new connection is the first to notice
	real    atomic.Int64
	guessed atomic.Int64 // claims that do not say for which server they are
}

func (m *moved) CheckServer(ctx context.Context) (payment.Server, error) {
	server, err := m.Store.CheckServer(ctx)
	m.real.Store(server.Timeline)
	if m.over.Load() {
		server.Timeline++
	}
	m.changed.Store(false)
	return server, err
}

func (m *moved) Turn(ctx context.Context, turn payment.Turn) (payment.TurnResult, error) {
	if err := m.leads(&turn.Claim); err != nil {
		return payment.TurnResult{}, err
	}
	return m.Store.Turn(ctx, turn)
}

func (m *moved) ClaimOnly(ctx context.Context, claim payment.ClaimRequest, only []payment.ID) ([]payment.Claim, error) {
	if err := m.leads(&claim); err != nil {
		return nil, err
	}
	return m.Store.ClaimOnly(ctx, claim, only)
}

// leads translates the server that a claim is for, as the ledger would refuse it.
func (m *moved) leads(claim *payment.ClaimRequest) error {
	if len(claim.Lanes) == 0 {
		return nil
	}
	if claim.Server.SystemIdentifier == "" {
		m.guessed.Add(1)
	}
	over := m.over.Load()
	if m.changed.Load() || over != (claim.Server.Timeline > m.real.Load()) {
		return fmt.Errorf("%w: in a test", payment.ErrServerChanged)
	}
	if over {
		claim.Server.Timeline--
	}
	return nil
}

func (m *moved) TimelineAccepted(ctx context.Context, server payment.Server) (bool, error) {
	server.Timeline-- // what accept_timeline accepts is the real one
	return m.Store.TimelineAccepted(ctx, server)
}

// TestFailoverHoldsWhatCantBeRepeated: after a failover a rail that de-duplicates
// goes on by itself, one that does not waits until a person has compared.
func TestFailoverHoldsWhatCantBeRepeated(t *testing.T) {
	t.Parallel()
	for name, noticed := range map[string]string{"by the look": "look", "by a claim": "claim", "by a restart": "restart"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, profile(`"resend_on_unknown": "NEVER"`), noDedupe)
			free := newHesitant()
			close(free.goOn)
			w.second("other", free)
			w.cell.ApplyProfile("other", fastProfile)
			store := &moved{Store: w.store}
			config := config()
			config.StateFile = filepath.Join(t.TempDir(), "state", "server.json")
			if noticed == "claim" {
				config.RefreshEvery = time.Minute
			}
			r := w.runWith(config, store, w.bell())
			first := w.enqueue("before")
			w.awaitStates(first, "DISPATCHING DISPATCHED")

			if noticed == "restart" {
				if err := r.stop(); err != nil {
					t.Fatal(err)
				}
			}
			store.over.Store(true)
			switch noticed {
			case "claim":
				store.changed.Store(true)
			case "restart":
				config.WorkerID = "relayer-" + payment.NewID().String()
				r = w.runWith(config, store, w.bell())
			}
			w.seen.await(t, func() error {
				if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "timeline accept") {
					return fmt.Errorf("ready: %v", err)
				}
				return nil
			})
			held := w.enqueue("never")
			there := w.enqueueOn("other", "same key")
			w.seen.await(t, func() error {
				if w.states(there) == "" {
					return errors.New("the lane that de-duplicates stands still")
				}
				return nil
			})
			w.awaitTurns(5)
			same(t, "rows of the lane that is held", w.states(held), "")
			same(t, "claims for any server", store.guessed.Load(), 0)
			w.awaitText("held", `SELECT status FROM railhead.outbox_heartbeats ORDER BY started_at DESC LIMIT 1`)
			if noticed == "claim" {
				return // the look at the acceptance is a minute away
			}
			operator := w.cell.Conn(t, celltest.Operator)
			if _, err := operator.Exec(t.Context(), `SELECT railhead.accept_timeline('compared with the statement of the bank')`); err != nil {
				t.Fatal(err)
			}
			w.awaitStates(held, "DISPATCHING DISPATCHED")
			same(t, "ready", r.Ready(), nil)
		})
	}
}

// TestHoldKnowsTheWindow: a rail that de-duplicates goes on only while its key
// window covers the time since the old server was last seen.
func TestHoldKnowsTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	config := config()
	config.StateFile = filepath.Join(t.TempDir(), "server.json")
	text, err := json.Marshal(map[string]any{"system_identifier": "another", "timeline": 1, "seen_at": time.Now().Add(-25 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.StateFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(config)
	id := w.enqueue("the one")
	w.awaitTurns(5)
	same(t, "rows", w.states(id), "")
	same(t, "the file", read(t, config.StateFile), string(text))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDamagedStateFile stops the start and says what to do: a guess about who
// the server was could pay twice.
func TestDamagedStateFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	for name, text := range map[string]string{
		"cut off": `{"system_identifier": "71`, "empty": "", "no object": "null", "of nobody": "{}", "noise": "\x00\x01\x02",
	} {
		config := config()
		config.StateFile = filepath.Join(t.TempDir(), "server.json")
		if err := os.WriteFile(config.StateFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := relayer.New(config, w.store, deafBell{}, w.open, w.seen, w.log)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = r.Run(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), config.StateFile+" is damaged") || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%s: run: %v", name, err)
		}
	}
}

// TestUnsafeServerEndsTheRun, at the start and while it works.
func TestUnsafeServerEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	store := &unsafeServer{Store: w.store}
	r := w.runWith(config(), store, w.bell())
	id := w.enqueue("the one")
	w.awaitStates(id, "DISPATCHING DISPATCHED")
	store.is.Store(true)
	<-r.ended
	if !errors.Is(r.err, payment.ErrUnsafeServer) {
		t.Errorf("run: %v", r.err)
	}
	r.err = nil // seen
	again, err := relayer.New(config(), store, deafBell{}, w.open, w.seen, w.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(t.Context()); !errors.Is(err, payment.ErrUnsafeServer) {
		t.Errorf("a new start: %v", err)
	}
}

type unsafeServer struct {
	relayer.Store
	is atomic.Bool
}

func (u *unsafeServer) CheckServer(ctx context.Context) (payment.Server, error) {
	server, err := u.Store.CheckServer(ctx)
	if u.is.Load() {
		return server, fmt.Errorf("%w: in a test", payment.ErrUnsafeServer)
	}
	return server, err
}
