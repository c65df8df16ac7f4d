package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/railsim"
)

// lingering is how long a session may be inside a transaction, or wait for a
// lock, in a healthy installation of a run.
const lingering = 3 * time.Second

// judgeSessions checks that the fault caused no deadlock, and left no idle transaction
// and no wait for a lock.
func (w *World) judgeSessions(ctx context.Context) error {
	var deadlocks int
	if err := w.admin.QueryRow(ctx, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&deadlocks); err != nil {
		return err
	}
	if deadlocks > 0 {
		w.Broken("the server met %d deadlocks: a statement writes in another order", deadlocks)
	}
	err := await.Until(ctx, lingering+10*time.Second, "transactions and locks to end", func() (bool, error) {
		var open, blocked int
		err := w.admin.QueryRow(ctx, `SELECT
		  (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
		    AND state LIKE 'idle in transaction%' AND clock_timestamp() - xact_start > $1::interval),
		  (SELECT count(*) FROM pg_locks WHERE NOT granted AND clock_timestamp() - waitstart > $1::interval)`,
			lingering).Scan(&open, &blocked)
		return open == 0 && blocked == 0, err
	})
	if err != nil {
		w.Broken("an idle transaction or a lock is left: %v", err)
	}
	return nil
}

// judgeSilence checks that services that have ended left no session and no lock.
func (w *World) judgeSilence(ctx context.Context) error {
	var left []string
	err := await.Until(ctx, 10*time.Second, "sessions to end", func() (bool, error) {
		err := w.admin.QueryRow(ctx, `SELECT coalesce(array_agg(application_name || ' ' || coalesce(state, '')), '{}')
			FROM pg_stat_activity
		  WHERE datname = current_database() AND backend_type = 'client backend'
		  AND application_name <> 'oracle'`).Scan(&left)
		return len(left) == 0, err
	})
	if err != nil {
		w.Broken("sessions outlive their services: %v (%v)", left, err)
	}
	var locks int
	// Autovacuum takes locks of its own.
	if err := w.admin.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity s RIGHT JOIN pg_locks l ON l.pid = s.pid
	  WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	  AND l.pid IS DISTINCT FROM pg_backend_pid()
	    AND s.backend_type IS DISTINCT FROM 'autovacuum worker'`).Scan(&locks); err != nil {
		return err
	}
	if locks > 0 {
		w.Broken("%d locks outlive the services", locks)
	}
	return nil
}

// judgePermits checks that every slot is free again, on one rail of each bank that the
// traffic used: as many calls as the rail allows must be at the bank at once. Where
// several relayers share the traffic, it can't be told whose slot is missing, and nothing
// is checked.
//
// All payments of a round become due by one commit, so that the relayer can fill its
// slots in one turn. If each had a commit of its own, they would come as far apart as the
// machine makes them, and a rail that is fed slowly is never full.
func (w *World) judgePermits(ctx context.Context) error {
	if running(w.relayers) != 1 {
		return nil
	}
	const slow = 600 * time.Millisecond
	for _, rail := range w.Options.judgedRails() {
		bank := w.bank(rail)
		if err := bank.Spoil(ctx, railsim.Fault{Kind: railsim.DelayAfter, Probability: 1,
			DelayMS: slow.Milliseconds()}); err != nil {
			return err
		}
		full := false
		for range 4 { // the machine is shared, and a stall looks like a missing slot
			before, err := bank.heard()
			if err != nil {
				return err
			}
			if err := w.enqueueTogether(ctx, rail, 2*w.Options.Concurrency); err != nil {
				return err
			}
			if _, err := w.AwaitRest(ctx); err != nil {
				return err
			}
			after, err := bank.heard()
			if err != nil {
				return err
			}
			if full = together(after[len(before):], w.Options.Concurrency, slow); full {
				break
			}
		}
		if !full {
			w.Broken("rail %s no longer makes %d calls at once: a slot is lost", rail, w.Options.Concurrency)
		}
		if err := bank.Spoil(ctx); err != nil {
			return err
		}
	}
	return nil
}

// judgedRails returns a rail of each bank, of those that the traffic used. All of them
// are judged by some seed.
func (o Options) judgedRails() []string {
	var all []string
	for _, rails := range [][]string{{Keyed, Asked}, {Bare, BareAsked}} {
		rails = slices.DeleteFunc(rails, func(rail string) bool { return !slices.Contains(o.Rails, rail) })
		if len(rails) > 0 {
			all = append(all, rails[o.Seed%uint64(len(rails))])
		}
	}
	return all
}

// bank returns the bank behind a rail.
func (w *World) bank(rail string) *Bank {
	if rail == Bare || rail == BareAsked {
		return w.Bare
	}
	return w.Dedupes
}

// together reports whether n payments were with the bank at one time, when each stays
// there for lasting.
func together(requests []railsim.Request, n int, lasting time.Duration) bool {
	var at []time.Time
	for _, request := range requests {
		if request.Op == "payment" {
			at = append(at, request.Time)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	for i := n - 1; i < len(at); i++ {
		if at[i].Sub(at[i-n+1]) < lasting {
			return true
		}
	}
	return false
}

// enqueueTogether enqueues n instructions of one rail in one transaction, and waits for
// the caller.
func (w *World) enqueueTogether(ctx context.Context, rail string, n int) error {
	rails := w.Options.Rails
	w.Options.Rails = []string{rail}
	_, err := w.TrafficAtOnce(n)
	w.Options.Rails = rails
	if err != nil {
		return err
	}
	return w.AwaitCallers(ctx)
}

// notePeaks records the most memory that each relayer that is alive ever held.
func (w *World) notePeaks() error {
	for _, p := range w.relayers {
		if !p.Alive() {
			continue
		}
		peak, err := p.peakMemory()
		if err != nil {
			return err
		}
		w.peaks[p.Name] = peak
	}
	return nil
}

// judgeHealth checks that every service that is alive reports that it is ready.
func (w *World) judgeHealth(ctx context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second}
	for _, p := range w.services() {
		if !p.Alive() {
			continue
		}
		addr, err := p.AwaitFile(ctx, w.addrFile(p.Name))
		if err != nil {
			return err
		}
		err = await.Until(ctx, 15*time.Second, p.Name+" to be ready after the heal", func() (bool, error) {
			answer, err := client.Get("http://" + addr + "/readyz")
			if err != nil {
				return false, nil
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK, nil
		})
		if err != nil {
			w.Broken("%v", fmt.Errorf("%s: %w", p.Name, err))
		}
	}
	return nil
}
