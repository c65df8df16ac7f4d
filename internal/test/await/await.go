// Package await waits for what is to become true.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotInTime is what [Until] gives up with.
var ErrNotInTime = errors.New("not in time")

// every is how often it is looked.
const every = 20 * time.Millisecond

// Until polls until done, an error, the bound or the context's end; it says for what it has waited.
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
