package await

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		looks := 0
		if err := Until(t.Context(), time.Minute, "the third look",
			func() (bool, error) { looks++; return looks == 3, nil }); err != nil || looks != 3 {
			t.Errorf("%v after %d looks", err, looks)
		}
		if err := Until(t.Context(), time.Minute, "nothing", func() (bool, error) { return false, broken }); !errors.Is(err,
			broken) {
			t.Errorf("an error of the look: %v", err)
		}
		never := func() (bool, error) { return false, nil }
		if err := Until(t.Context(), time.Minute, "rain", never); !errors.Is(err, ErrNotInTime) ||
			err.Error() != "not in time: waited 1m0s for rain" {
			t.Errorf("the bound: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Until(ctx, time.Minute, "rain", never); !errors.Is(err, context.Canceled) {
			t.Errorf("the context's end: %v", err)
		}
	})
}
