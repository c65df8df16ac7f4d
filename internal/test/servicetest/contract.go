// Package servicetest tests the contract of services. Each service passes Contract, on fakes and
// in virtual time.
package servicetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// Subject is a service under test. A new one is made for each clause of the contract.
type Subject struct {
	// New makes the service on the database, with a configuration that asserts a time budget
	// and has defaults otherwise.
	New func(t *testing.T, database *Database, asserted outbox.TimeBudget) (service.Service, error)
	// OutOfBounds makes a service whose configuration has several faults. Faults are texts
	// that the error must contain, one for each fault.
	OutOfBounds func(t *testing.T, database *Database) (service.Service, error)
	Faults      []string
}

// The waits of the clauses, in virtual time.
const (
	soon      = 10 * time.Second // for a stop without calls in flight, and for a refusal
	untilSeen = time.Minute      // until Ready reflects a change
	stale     = 2 * time.Minute  // until Ready reflects that nothing has succeeded for too long
)

// Contract runs every clause, each in a bubble of its own, which fails if a goroutine is left.
func Contract(t *testing.T, subject Subject) {
	t.Helper()
	for name, clause := range map[string]func(*trial){
		"nothing runs before Run": (*trial).nothingRunsBeforeRun,
		"Run ends with its context": func(r *trial) {
			r.run()
			r.awaitReady()
			r.stops()
			if got := r.database.lastStatus(); got != "stopped" {
				r.t.Errorf("the last heartbeat says %q, want stopped", got)
			}
		},
		"Run ends while the database is away":      func(r *trial) { r.stopsWhile(away) },
		"Run ends while the database hangs":        func(r *trial) { r.stopsWhile(hangs) },
		"Run may begin while the database is away": func(r *trial) { r.beginsWithout(away) },
		"Run may begin while the database hangs":   func(r *trial) { r.beginsWithout(hangs) },
		"Run outlives a database that is away":     func(r *trial) { r.outlives(away) },
		"Run outlives a database that hangs":       func(r *trial) { r.outlives(hangs) },
		"Run outlives heartbeats that are refused": func(r *trial) { r.outlives(mute) },
		"Run begins on no unsafe server": func(r *trial) {
			r.database.is(unsafe)
			r.run()
			r.refuses(outbox.ErrUnsafeServer)
			r.saidNothing()
		},
		"Run sends no heartbeat, also not at its end, before it has compared the server": func(r *trial) {
			r.database.is(unchecked)
			r.run()
			time.Sleep(time.Minute)
			r.stops()
			r.saidNothing()
		},
		"Run ends on a server that becomes unsafe": func(r *trial) {
			r.run()
			r.awaitReady()
			r.database.is(unsafe)
			r.refuses(outbox.ErrUnsafeServer)
		},
		"Run refuses another time budget": func(r *trial) {
			r.make(outbox.TimeBudget{HeartbeatStale: 17 * time.Second})
			r.run()
			r.refuses(outbox.ErrOtherBudget)
		},
		"Run is called once": func(r *trial) {
			r.run()
			r.awaitReady()
			r.runsNoMore("while the first one works")
			r.stops()
			r.runsNoMore("after the first one")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &trial{t: t, subject: subject, database: newDatabase(there)}
				r.make(outbox.TimeBudget{})
				clause(r)
			})
		})
	}
	t.Run("New returns every fault at once", func(t *testing.T) {
		one, err := subject.OutOfBounds(t, newDatabase(there))
		if err == nil {
			t.Fatalf("New made %T of a configuration that is out of bounds", one)
		}
		if len(subject.Faults) < 2 {
			t.Error("the configuration has to have several faults")
		}
		for _, want := range subject.Faults {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("New returns %q, without %q", err, want)
			}
		}
	})
}

// trial is one clause on one service.
type trial struct {
	t        *testing.T
	subject  Subject
	database *Database
	service  service.Service
	stop     context.CancelFunc
	ended    chan struct{} // closed
	err      error         // of Run, once it has ended
}

func (r *trial) make(asserted outbox.TimeBudget) {
	r.t.Helper()
	one, err := r.subject.New(r.t, r.database, asserted)
	if err != nil {
		r.t.Fatal(err)
	}
	r.service = one
}

func (r *trial) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.ended = cancel, make(chan struct{})
	go func() {
		defer close(r.ended)
		r.err = r.service.Run(ctx)
	}()
	r.t.Cleanup(func() { // whatever else has failed
		cancel()
		select {
		case <-r.ended:
		case <-time.After(stale):
			r.t.Errorf("Run does not end")
		}
	})
}

func (r *trial) runsNoMore(when string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), soon)
	defer cancel()
	if err := r.service.Run(ctx); !errors.Is(err, service.ErrRanBefore) {
		r.t.Errorf("a second Run %s returns %v, want %v", when, err, service.ErrRanBefore)
	}
}

// nothingRunsBeforeRun checks that New starts nothing: a goroutine would be left at the end of
// the bubble.
func (r *trial) nothingRunsBeforeRun() {
	time.Sleep(time.Hour)
	if n := r.database.called(); n != 0 {
		r.t.Errorf("the service has called the database %d times before Run", n)
	}
	r.refusesToBeReady("before Run")
}

func (r *trial) beginsWithout(s state) {
	r.database.is(s)
	r.run()
	for range 30 {
		time.Sleep(time.Second)
		r.refusesToBeReady("before the database was reached once")
		r.stillRuns()
	}
	r.database.is(there)
	r.awaitReady()
	r.stops()
}

func (r *trial) outlives(s state) {
	r.run()
	r.awaitReady()
	r.database.is(s)
	r.await(stale, "Ready refuses", func() bool { return r.service.Ready() != nil })
	r.refusesToBeReady("after nothing has worked for a while")
	time.Sleep(time.Hour)
	r.refusesToBeReady("after nothing has worked for an hour")
	r.stillRuns()
	r.database.is(there)
	r.awaitReady()
	r.stops()
}

func (r *trial) stopsWhile(s state) {
	r.run()
	r.awaitReady()
	r.database.is(s)
	time.Sleep(time.Minute)
	r.stops()
}

// stops ends the context and expects Run to return nil soon.
func (r *trial) stops() {
	r.t.Helper()
	r.stillRuns()
	r.stop()
	if err := r.end(); err != nil {
		r.t.Errorf("Run returns %v after its context has ended, want nil", err)
	}
}

// saidNothing expects that no heartbeat was recorded.
func (r *trial) saidNothing() {
	r.t.Helper()
	if got := r.database.lastStatus(); got != "" {
		r.t.Errorf("the last heartbeat says %q, and the server was never compared", got)
	}
}

// refuses expects Run to end by itself with an error.
func (r *trial) refuses(want error) {
	r.t.Helper()
	if err := r.end(); !errors.Is(err, want) {
		r.t.Errorf("Run returns %v, want %v", err, want)
	}
}

func (r *trial) end() error {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(soon):
		r.t.Fatalf("Run has not ended after %s", soon)
	}
	return r.err
}

func (r *trial) stillRuns() {
	r.t.Helper()
	synctest.Wait()
	select {
	case <-r.ended:
		r.t.Fatalf("Run has ended: %v", r.err)
	default:
	}
}

func (r *trial) awaitReady() {
	r.t.Helper()
	r.await(untilSeen, "the service is ready", func() bool { return r.service.Ready() == nil })
}

func (r *trial) refusesToBeReady(when string) {
	r.t.Helper()
	if err := r.service.Ready(); err == nil {
		r.t.Errorf("the service is ready %s", when)
	} else if strings.TrimSpace(err.Error()) == "" {
		r.t.Errorf("the error of Ready is empty %s", when)
	}
}

// await polls until is returns true.
func (r *trial) await(within time.Duration, what string, is func() bool) {
	r.t.Helper()
	for begun := time.Now(); !is(); time.Sleep(100 * time.Millisecond) {
		r.stillRuns()
		if time.Since(begun) > within {
			r.t.Fatalf("not after %s: %s; Ready returns %v", within, what, r.service.Ready())
		}
	}
}
