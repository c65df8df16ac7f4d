package servicetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// Database is a fake of the server of a service. Each call of a service's own fakes must call
// Reach first.
type Database struct {
	mu     sync.Mutex
	state  state
	begun  time.Time
	calls  int
	status string // of the last heartbeat
	beats  int64
}

type state int

const (
	there     state = iota
	away            // every call is refused
	hangs           // no call is answered
	mute            // heartbeats are refused, and all else works
	unchecked       // what is compared can't be read, and all else works
	unsafe          // it may lose committed transactions
)

var errAway = errors.New("the database is away")

func newDatabase(s state) *Database { return &Database{state: s, begun: time.Now().Add(-time.Hour)} }

// Reach counts a call, and fails according to the state of the database.
func (d *Database) Reach(ctx context.Context) error {
	d.mu.Lock()
	now := d.state
	d.calls++
	d.mu.Unlock()
	switch now {
	case away:
		return errAway
	case hangs:
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func (d *Database) is(s state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s
}

func (d *Database) called() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

func (d *Database) lastStatus() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

// CheckServer returns a server that was accepted and has run for an hour.
func (d *Database) CheckServer(ctx context.Context) (outbox.Server, error) {
	if err := d.Reach(ctx); err != nil {
		return outbox.Server{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.state {
	case unsafe:
		return outbox.Server{}, fmt.Errorf("%w: in a test", outbox.ErrUnsafeServer)
	case unchecked:
		return outbox.Server{}, errAway
	}
	return outbox.Server{
		SystemIdentifier: "server", Timeline: 1, StartedAt: d.begun, AcceptedAt: d.begun, Now: time.Now(),
	}, nil
}

// Recall finds nothing missing.
func (d *Database) Recall(ctx context.Context, _ string, _ outbox.Remembered) (outbox.Recall, error) {
	return outbox.Recall{}, d.Reach(ctx)
}

// Suspend does nothing.
func (d *Database) Suspend(ctx context.Context, _ string, _ outbox.SuspensionCause, _ string, _ time.Time) error {
	return d.Reach(ctx)
}

// Heartbeat counts heartbeats and returns the default time budget.
func (d *Database) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (outbox.Pulse, error) {
	if err := d.Reach(ctx); err != nil {
		return outbox.Pulse{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == mute {
		return outbox.Pulse{}, errAway
	}
	d.beats++
	d.status = beat.Status
	return outbox.Pulse{Beats: d.beats, Budget: outbox.DefaultTimeBudget()}, nil
}
