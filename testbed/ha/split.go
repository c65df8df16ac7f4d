package ha

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/testbed/faults"
)

// splitName is the name of the rig's own sessions on an old primary.
const splitName = "ha-split"

// splitCalls is how many callers reach an old primary.
const splitCalls = 6

// watchSplit uses an old primary that still serves, as callers and a relayer do that are
// led there: nothing that it commits may be acknowledged, nor sent on. It cancels the
// waits for the standby, which the server then reports as success with a warning.
func watchSplit(ctx context.Context, r *run, old *host) (err error) {
	if !old.writable(ctx) {
		return errors.New("the old primary no longer serves: there is no split brain to see")
	}
	admin, err := pgx.Connect(ctx, old.direct(r.w.Database(), "")+"&application_name="+splitName)
	if err != nil {
		return err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	stray, err := r.w.StartStray(ctx, old.direct(r.w.Database(), r.login("relayer")))
	if stray == nil {
		return err
	}
	defer func() {
		if stray.Alive() {
			err = errors.Join(err, stray.Kill())
		}
	}()
	if err != nil {
		return err
	}
	door, err := ingest.Open(ctx, ledger.Config{
		URL: old.direct(r.w.Database(), r.login("ingest")), Cell: migrations.DefaultCell, Name: splitName,
		MaxConns: splitCalls,
	})
	if err != nil {
		return err
	}
	defer door.Close()
	told := make(chan error, splitCalls)
	for n := range splitCalls {
		in, err := r.w.Order([]string{faults.Keyed, faults.Bare}[n%2])
		if err != nil {
			return err
		}
		go func() {
			within, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			_, err := door.Enqueue(within, in)
			told <- err
		}()
	}
	cancelled, answered := 0, 0
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); {
		if err := r.feedFor(ctx, 300*time.Millisecond); err != nil {
			return err
		}
		var now int
		if err := admin.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
		  WHERE wait_event = 'SyncRep' AND datname = current_database()`).Scan(&now); err != nil {
			return err
		}
		cancelled += now
		for len(told) > 0 {
			answered++
			if err := <-told; !errors.Is(err, outbox.ErrCommitUnknown) {
				r.w.Broken("an old primary was called, and the caller was told %v", err)
			}
		}
	}
	if answered < splitCalls || cancelled == 0 {
		r.w.Broken("%d of %d callers of an old primary were answered, and %d waits were cancelled", answered, splitCalls,
			cancelled)
	}
	r.say("%s: the old primary served for %d cancelled waits; its callers were told that the outcome is unknown", old.name,
		cancelled)
	return nil
}
