// Package await waits until a condition is true.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotInTime is the error that [Until] wraps when its bound has passed.
var ErrNotInTime = errors.New("not in time")

// every is the time between two polls.
const every = 20 * time.Millisecond

// Until polls until done returns true or an error, within has passed, or the context ends. When
// within has passed, its error wraps [ErrNotInTime] and names what it waited for.
func Until(ctx context.Context, within time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("%w: waited %s for %s", ErrNotInTime, within, what))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
