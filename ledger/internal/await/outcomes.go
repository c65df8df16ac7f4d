// Package await waits for the outcomes of instructions, for each role that may ask for them.
package await

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// How Await looks for what it was not told: a word of an outcome only wakes.
const (
	awaitHearing = 5 * time.Second // while every outcome is told
	awaitDeaf    = time.Second     // while the session is gone, or another's is relied on
	awaitLinger  = 10 * time.Second
)

// Await waits until an instruction rests: it looks again after each word about it, and
// every while.
func (o *Outcomes) Await(ctx context.Context, status payment.Status, look func(context.Context) (payment.Status, error)) (payment.Status, error) {
	told, stop := o.subscribe(status.OutboxID)
	defer stop()
	for {
		// Once more after the subscription: what was written before was not told.
		next, err := look(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return status, ctx.Err()
			}
			return status, err
		}
		if status = next; status.Rests() {
			return status, nil
		}
		wait := awaitDeaf
		if o.hears() {
			wait = awaitHearing
		}
		timer := time.NewTimer(wait)
		select {
		case <-told:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return status, ctx.Err()
		}
		timer.Stop()
	}
}

// Outcomes hears the outcomes of a cell while a caller waits for one, on a session of
// its own.
type Outcomes struct {
	config   *pgx.ConnConfig
	hearSQL  string
	mu       sync.Mutex
	waiting  map[payment.ID]map[chan struct{}]bool
	cancel   context.CancelFunc // of the session; nil: there is none
	done     chan struct{}
	idle     *time.Timer
	holding  bool // every outcome is told as long as this session lives
	finished bool
}

// NewOutcomes hears nothing yet: it connects for the first caller that waits.
func NewOutcomes(db *store.DB) *Outcomes {
	return &Outcomes{
		config: db.Pool.Config().ConnConfig.Copy(), hearSQL: db.SQL["listen_for_outcomes"], waiting: make(map[payment.ID]map[chan struct{}]bool),
	}
}

// subscribe gives a channel that has an element after each word about an instruction,
// and each time the session begins to hear.
func (o *Outcomes) subscribe(id payment.ID) (told chan struct{}, stop func()) {
	told = make(chan struct{}, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.idle != nil {
		o.idle.Stop()
		o.idle = nil
	}
	if o.waiting[id] == nil {
		o.waiting[id] = make(map[chan struct{}]bool)
	}
	o.waiting[id][told] = true
	if o.cancel == nil && !o.finished {
		ctx, cancel := context.WithCancel(context.Background())
		o.cancel, o.done = cancel, make(chan struct{})
		go o.run(ctx, o.done)
	}
	return told, func() { o.unsubscribe(id, told) }
}

// unsubscribe ends the session a while after the last one who waited.
func (o *Outcomes) unsubscribe(id payment.ID, told chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting[id], told)
	if len(o.waiting[id]) == 0 {
		delete(o.waiting, id)
	}
	if len(o.waiting) == 0 && !o.finished {
		o.idle = time.AfterFunc(awaitLinger, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if len(o.waiting) == 0 && o.cancel != nil {
				o.cancel()
				o.cancel = nil
			}
		})
	}
}

func (o *Outcomes) hears() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.holding
}

// Close ends the session, for good. An Await that still runs asks by itself.
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

// run keeps a session that hears until the context ends. What is lost with it is found
// by asking.
func (o *Outcomes) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for ctx.Err() == nil {
		if err := o.hear(ctx); err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(awaitDeaf):
			}
		}
	}
}

// hear takes the lock by which outcomes are told, as soon as no other session has it,
// and passes them on until the session breaks.
func (o *Outcomes) hear(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, o.config)
	if err != nil {
		return fmt.Errorf("connecting to hear outcomes: %w", err)
	}
	defer func() {
		o.hold(false)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		conn.Close(closing) //nolint:errcheck // the session is given up
	}()
	for holding := false; ; {
		if !holding {
			if err := conn.QueryRow(ctx, o.hearSQL).Scan(&holding); err != nil {
				return fmt.Errorf("listening for outcomes: %w", err)
			}
			o.hold(holding)
		}
		wait := awaitHearing
		if !holding {
			wait = awaitDeaf
		}
		word, err := o.next(ctx, conn, wait)
		if err != nil {
			return err
		}
		if word != nil {
			o.tell(word.Payload)
		}
	}
}

// next waits for a word; nil: none came in time.
func (o *Outcomes) next(ctx context.Context, conn *pgx.Conn, wait time.Duration) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	word, err := conn.WaitForNotification(waiting)
	if err == nil {
		return word, nil
	}
	if ctx.Err() == nil && errors.Is(waiting.Err(), context.DeadlineExceeded) && !conn.IsClosed() {
		return nil, conn.Ping(ctx)
	}
	return nil, fmt.Errorf("hearing outcomes: %w", err)
}

// hold notes whether every outcome is told from now on. Then all look once more.
func (o *Outcomes) hold(holding bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holding = holding
	if holding {
		for _, each := range o.waiting {
			wake(each)
		}
	}
}

// tell wakes those who wait for one of the instructions that a word names.
func (o *Outcomes) tell(outboxIDs string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for each := range strings.SplitSeq(outboxIDs, " ") {
		if id, err := payment.ParseID(each); err == nil { // else it is not ours: any login may notify
			wake(o.waiting[id])
		}
	}
}

func wake(all map[chan struct{}]bool) {
	for told := range all {
		select {
		case told <- struct{}{}:
		default: // it is told already
		}
	}
}
