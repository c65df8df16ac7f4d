package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// apiFaults returns the faults of the HTTP API, which some callers use while others
// enqueue by SQL.
func apiFaults() []Fault {
	adjust := func(o *Options) { o.ThroughAPI = true }
	return []Fault{
		{
			Name: "kill_api", About: "SIGKILL of the HTTP API under its callers, which repeat what they got no answer to",
			Adjust: adjust, Inject: killAPI,
		},
		{
			Name: "stop_api", About: "SIGTERM of the HTTP API under its callers, which repeat what it does not answer",
			Adjust: adjust, Inject: stopAPI,
		},
		{
			Name: "crash_server_under_api", About: "an immediate stop of PostgreSQL under calls over HTTP",
			Adjust: adjust, Inject: crashUnderAPI,
		},
		{
			Name: "one_key_by_sql_and_api", About: "fifty callers of one instruction and key, half by SQL and half over HTTP",
			Adjust: adjust, Inject: bothDoors, Quiet: true,
		},
	}
}

// admit creates a token that is valid for every participant of the run.
func (w *World) admit(ctx context.Context) error {
	conn, err := w.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	made := operator.NewToken{
		Name: "callers", Verbs: []string{outbox.VerbEnqueue, outbox.VerbRead}, ExpiresAt: time.Now().Add(24 * time.Hour),
		Reason: "fault run",
	}
	for n := range w.Options.Participants {
		made.Participants = append(made.Participants, participantID(n))
	}
	w.token, _, err = operator.CreateToken(ctx, conn.Conn(), cell, made)
	return err
}

// StartAPI starts the HTTP API, each time at the same address, and waits until it is
// ready.
func (w *World) StartAPI(ctx context.Context) error {
	if w.apiAddr == "" {
		var err error
		if w.apiAddr, err = child.FreeAddr(); err != nil {
			return err
		}
	}
	p, err := w.startService(ctx, kindAPI, kindAPI, w.url(loginAPI), nil)
	if p != nil {
		w.api = p
	}
	if err != nil {
		return err
	}
	return w.awaitReady(ctx, p)
}

// client returns a client of the HTTP API that sends the token of the run and makes each
// call once.
func (c Caller) client() (*httpclient.HTTP, error) {
	return httpclient.NewHTTP(httpclient.Config{
		BaseURL: "http://" + c.API, Token: func(context.Context) (string, error) { return c.Token, nil }, Attempts: 1,
		Timeout: c.CallWithin,
	})
}

// underCalls starts callers that enqueue by SQL and over HTTP, and calls round once some
// of the calls over HTTP are recorded and some are not.
func (w *World) underCalls(ctx context.Context, round func() error) error {
	for range w.Options.Rounds {
		var before int
		const count = `SELECT count(*) FROM ` + cell + `.payment_api_calls`
		if err := w.admin.QueryRow(ctx, count).Scan(&before); err != nil {
			return err
		}
		var over *Process
		for range 2 {
			caller, err := w.Traffic(w.Options.Wave)
			if err != nil {
				return err
			}
			if w.overAPI(w.plans) {
				over = caller
			}
		}
		w.Injected++
		enough := before + 1 + w.draws.IntN(w.Options.Wave/2)
		err := await.Until(ctx, reachWithin, "calls over HTTP", func() (bool, error) {
			var now int
			err := w.admin.QueryRow(ctx, count).Scan(&now)
			return now >= enough, err
		})
		if errors.Is(err, await.ErrNotInTime) {
			continue
		}
		if err != nil {
			return err
		}
		calling := over.Alive()
		if err := round(); err != nil {
			return err
		}
		if calling {
			w.Hit++
		}
		if err := w.Snapshot(ctx); err != nil {
			return err
		}
	}
	return nil
}

func killAPI(ctx context.Context, w *World) error {
	return w.underCalls(ctx, func() error {
		if err := w.api.Kill(); err != nil {
			return err
		}
		pause(ctx, time.Duration(w.draws.IntN(300))*time.Millisecond)
		return w.StartAPI(ctx)
	})
}

func stopAPI(ctx context.Context, w *World) error {
	return w.underCalls(ctx, func() error {
		if err := w.api.Stop(20 * time.Second); err != nil {
			w.Broken("%v", err)
		}
		return w.StartAPI(ctx)
	})
}

func crashUnderAPI(ctx context.Context, w *World) error {
	return w.underCalls(ctx, func() error { return w.Lane.crash(ctx, time.Duration(w.draws.IntN(500))*time.Millisecond) })
}

// bothDoors makes fifty callers enqueue one instruction under one key at once, half of
// them by SQL and half over HTTP. The registry holds the same key as two, because it
// stores a digest of one that arrives over HTTP. One of the two ways succeeds, and every
// call by the other is refused.
func bothDoors(ctx context.Context, w *World) error {
	ingest, err := ingest.Open(ctx, ledger.Config{URL: w.url(loginIngest), Cell: cell, Name: "railhead-caller",
		MaxConns: fifty / 2})
	if err != nil {
		return err
	}
	defer ingest.Close()
	over, err := Caller{API: w.apiAddr, Token: w.token, CallWithin: 20 * time.Second}.client()
	if err != nil {
		return err
	}
	for round := range w.Options.Rounds * len(w.Options.Rails) {
		one, err := w.draw(w.Options.Rails[round%len(w.Options.Rails)])
		if err != nil {
			return err
		}
		w.plans++
		journal, err := openJournal(w.journal(w.plans))
		if err != nil {
			return err
		}
		if err := errors.Join(w.byBoth(ctx, one, journal, ingest, over), journal.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) byBoth(ctx context.Context, one order, journal *Journal, doors ...httpclient.Client) error {
	if err := journal.Write(Entry{Kind: Attempt, InstructionID: one.InstructionID}); err != nil {
		return err
	}
	var callers sync.WaitGroup
	results := make(chan error, fifty)
	taken := make([]bool, len(doors))
	var mu sync.Mutex
	for n := range fifty {
		callers.Go(func() {
			receipt, err := doors[n%len(doors)].Enqueue(ctx, one.instruction())
			switch {
			case err == nil:
				mu.Lock()
				taken[n%len(doors)] = true
				mu.Unlock()
				err = acknowledged(journal, one, receipt, "")
			case ledger.SQLState(err) == outbox.StateSecondKey: // refused: no second instruction
				err = nil
			default:
				err = fmt.Errorf("%s at door %d: %w", one.InstructionID, n%len(doors), err)
			}
			results <- err
		})
	}
	callers.Wait()
	close(results)
	var all []error
	for err := range results {
		w.Injected++
		if err == nil {
			w.Hit++
		}
		all = append(all, err)
	}
	if taken[0] == taken[1] {
		w.Broken("%s was taken by SQL: %t, over HTTP: %t", one.InstructionID, taken[0], taken[1])
	}
	return errors.Join(all...)
}

// These blows against the API are part of the nemesis.

func blowKillAPI(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.api.Kill(); err != nil {
		return err
	}
	w.Hit++
	return w.StartAPI(ctx)
}

func blowStopAPI(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.api.Stop(20 * time.Second); err != nil {
		w.Broken("%v", err)
	}
	w.Hit++
	return w.StartAPI(ctx)
}

func blowFreezeAPI(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.api.Freeze(ctx); err != nil {
		return err
	}
	pause(ctx, time.Duration(300+w.draws.IntN(4000))*time.Millisecond)
	w.Hit++
	return w.api.Thaw()
}
