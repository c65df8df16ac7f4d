// Package await waits for the outcomes of instructions, for the roles that may read them.
package await

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Await polls too, because a notification of an outcome only wakes it.
const (
	pollListening = 5 * time.Second  // while every outcome notifies this session
	pollUnsure    = time.Second      // while there is no session, or another one makes outcomes notify
	sessionLinger = 10 * time.Second // how long the session outlives the last caller
)

// Await waits until an instruction rests (payment.Status.Rests). It calls read after each
// notification about the instruction, and at intervals.
func (o *Outcomes) Await(
	ctx context.Context, status payment.Status, read func(context.Context) (payment.Status, error),
) (payment.Status, error) {
	woken, stop := o.subscribe(status.OutboxID)
	defer stop()
	for {
		// Read after subscribing: an outcome from before did not wake this caller.
		next, err := read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return status, ctx.Err()
			}
			return status, err
		}
		if status = next; status.Rests() {
			return status, nil
		}
		wait := pollUnsure
		if o.isComplete() {
			wait = pollListening
		}
		timer := time.NewTimer(wait)
		select {
		case <-woken:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return status, ctx.Err()
		}
		timer.Stop()
	}
}

// Outcomes listens for the outcomes of a cell while a caller waits for one, on a session
// of its own.
type Outcomes struct {
	config   *pgx.ConnConfig
	sql      store.Statements
	log      *slog.Logger // nil: none
	pooled   sync.Once    // a pooler was logged
	mu       sync.Mutex
	waiting  map[payment.ID]map[chan struct{}]bool
	cancel   context.CancelFunc // of the session; nil: there is none
	done     chan struct{}
	idle     *time.Timer
	complete bool // every outcome notifies this session
	finished bool
}

// NewOutcomes returns an Outcomes that connects when the first caller waits.
func NewOutcomes(db *store.DB) *Outcomes {
	return &Outcomes{
		config:  db.Pool.Config().ConnConfig.Copy(),
		sql:     db.SQL,
		log:     db.Log,
		waiting: make(map[payment.ID]map[chan struct{}]bool),
	}
}

// subscribe returns a channel that receives after each notification about an instruction,
// and each time all outcomes begin to notify the session.
func (o *Outcomes) subscribe(id payment.ID) (woken chan struct{}, stop func()) {
	woken = make(chan struct{}, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.idle != nil {
		o.idle.Stop()
		o.idle = nil
	}
	if o.waiting[id] == nil {
		o.waiting[id] = make(map[chan struct{}]bool)
	}
	o.waiting[id][woken] = true
	if o.cancel == nil && !o.finished {
		ctx, cancel := context.WithCancel(context.Background())
		o.cancel, o.done = cancel, make(chan struct{})
		go o.run(ctx, o.done)
	}
	return woken, func() { o.unsubscribe(id, woken) }
}

// unsubscribe ends the session sessionLinger after the last caller.
func (o *Outcomes) unsubscribe(id payment.ID, woken chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting[id], woken)
	if len(o.waiting[id]) == 0 {
		delete(o.waiting, id)
	}
	if len(o.waiting) == 0 && !o.finished {
		o.idle = time.AfterFunc(sessionLinger, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if len(o.waiting) == 0 && o.cancel != nil {
				o.cancel()
				o.cancel = nil
			}
		})
	}
}

func (o *Outcomes) isComplete() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.complete
}

// Close ends the session permanently. An Await that still runs only polls.
func (o *Outcomes) Close() {
	o.mu.Lock()
	o.finished = true
	cancel, done := o.cancel, o.done
	o.cancel = nil
	if o.idle != nil {
		o.idle.Stop()
	}
	o.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if done != nil {
		<-done
	}
}

// run keeps a listening session until the context ends. Polling finds the outcomes whose
// notifications are lost with a session.
func (o *Outcomes) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for ctx.Err() == nil {
		if err := o.listen(ctx); err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(pollUnsure):
			}
		}
	}
}

// listen takes the lock that makes outcomes notify, as soon as no other session has it,
// and wakes callers until the session breaks.
func (o *Outcomes) listen(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, o.config)
	if err != nil {
		return fmt.Errorf("connecting to listen for outcomes: %w", err)
	}
	defer func() {
		o.setComplete(false)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(closing) //nolint:errcheck // the session is given up
	}()
	pooled, err := store.FindPooler(ctx, conn, o.sql)
	if err != nil {
		return err
	}
	for complete := false; ; {
		if !complete {
			if err := conn.QueryRow(ctx, o.sql["listen_for_outcomes"]).Scan(&complete); err != nil {
				return fmt.Errorf("listening for outcomes: %w", err)
			}
			o.setComplete(complete && !pooled) // through a pooler in transaction mode none arrives
			if pooled {
				o.logPooler()
			}
		}
		wait := pollListening
		if !complete {
			wait = pollUnsure
		}
		notification, err := o.next(ctx, conn, wait)
		if err != nil {
			return err
		}
		if notification != nil {
			o.wakeFor(notification.Payload)
		}
	}
}

// logPooler logs once that notifications may not arrive.
func (o *Outcomes) logPooler() {
	if o.log == nil {
		return
	}
	o.pooled.Do(func() {
		o.log.Warn("a pooler is in between: outcomes that callers wait for are looked for each second. " +
			"LISTEN needs a direct connection")
	})
}

// next waits for a notification; nil: none arrived in time.
func (o *Outcomes) next(ctx context.Context, conn *pgx.Conn, wait time.Duration) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	notification, err := conn.WaitForNotification(waiting)
	if err == nil {
		return notification, nil
	}
	if ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded) && !conn.IsClosed() {
		return nil, conn.Ping(ctx)
	}
	return nil, fmt.Errorf("waiting for outcomes: %w", err)
}

// setComplete records whether every outcome notifies this session from now on. If so, all
// callers read once more.
func (o *Outcomes) setComplete(complete bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.complete = complete
	if complete {
		for _, each := range o.waiting {
			wake(each)
		}
	}
}

// wakeFor wakes the callers that wait for one of the instructions in a notification.
func (o *Outcomes) wakeFor(outboxIDs string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for each := range strings.SplitSeq(outboxIDs, " ") {
		if id, err := payment.ParseID(each); err == nil { // others are not ours: any login may notify
			wake(o.waiting[id])
		}
	}
}

func wake(all map[chan struct{}]bool) {
	for woken := range all {
		select {
		case woken <- struct{}{}:
		default: // already woken
		}
	}
}
