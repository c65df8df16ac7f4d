package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bounds of the attempts to connect the session of Arm. Each address of each host of the connection string has
// ConnectTimeout, and so has the look-up of each host (boundLookups).
const (
	firstRedial = 250 * time.Millisecond // after a failed attempt; doubles
	lastRedial  = 5 * time.Second
)

// errConnecting is the error while the session of Arm is being connected, as it is where the first of several hosts is
// silent.
var errConnecting = errors.New("its session is being connected")

// dialing connects the session of Arm. A connection may take seconds, so it goes on behind the calls that ask for it.
// Its methods are for one goroutine.
type dialing struct {
	done     chan dialled // of the attempt under way; nil: none is
	end      context.CancelFunc
	failures int // in a row
	last     error
	next     time.Time // no attempt begins before it
}

type dialled struct {
	conn *pgx.Conn
	err  error
}

// connect returns a session. The call that begins an attempt waits for it until its context ends, and later ones do not
// wait. After a failed attempt they return its error until the next one may begin.
func (d *dialing) connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	if d.done != nil {
		select {
		case made := <-d.done:
			return d.take(made)
		default:
			return nil, cmp.Or(d.last, errConnecting)
		}
	}
	if d.failures > 0 && time.Now().Before(d.next) {
		return nil, d.last
	}
	dial, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan dialled, 1)
	d.done, d.end = done, end
	go func() {
		conn, err := pgx.ConnectConfig(dial, boundLookups(config))
		done <- dialled{conn, err}
	}()
	select {
	case made := <-done:
		return d.take(made)
	case <-ctx.Done():
		return nil, cmp.Or(d.last, errConnecting)
	}
}

// boundLookups returns the configuration with a bound on each look-up of a host, which pgx gives each address alone.
func boundLookups(config *pgx.ConnConfig) *pgx.ConnConfig {
	bound := config.Copy()
	bound.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
		defer cancel()
		return config.LookupFunc(ctx, host)
	}
	return bound
}

func (d *dialing) take(made dialled) (*pgx.Conn, error) {
	d.end()
	d.done, d.end = nil, nil
	if made.err != nil {
		d.last = fmt.Errorf("connecting to arm: %w", made.err)
		d.next = time.Now().Add(min(firstRedial<<min(d.failures, 10), lastRedial))
		d.failures++
		return nil, d.last
	}
	d.failures, d.last = 0, nil
	return made.conn, nil
}

// close ends an attempt that is under way.
func (d *dialing) close(ctx context.Context) {
	if d.done == nil {
		return
	}
	d.end()
	if made := <-d.done; made.conn != nil {
		made.conn.Close(context.WithoutCancel(ctx)) // an error means that it is already closed
	}
	d.done, d.end = nil, nil
}
