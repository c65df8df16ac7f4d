package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// shortLived is a component that can't go on after a time.
type shortLived struct{ lasts time.Duration }

func (s shortLived) Run(ctx context.Context) error {
	select {
	case <-time.After(s.lasts):
		return errors.New("the login lacks a right")
	case <-ctx.Done():
		return nil
	}
}

func (s shortLived) Ready() error { return nil }

// TestKeptWaits: a component that can't go on is closed and made anew after 1 s, after twice that each time, to
// 1 min, and after 1 s again once it has run for a minute. A failure to make it counts as one to go on.
func TestKeptWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, open := time.Now(), 1
		var at []int // seconds
		discard := slog.New(slog.DiscardHandler)
		lasting := func(d time.Duration) *made {
			return &made{Service: shortLived{d}, end: func() { open-- }, log: discard}
		}
		k := &kept{one: lasting(0), log: discard}
		k.again = func() (made, error) {
			at = append(at, int(time.Since(begun)/time.Second))
			switch len(at) {
			case 2:
				return made{}, errors.New("a file can't be read")
			case 8:
				open++
				return *lasting(time.Minute), nil
			case 9:
				open++
				return *lasting(time.Hour), nil
			}
			open++
			return *lasting(0), nil
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.Run(ctx) }()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := k.Ready(); err == nil || open != 0 {
			t.Errorf("while it waits it says %v, and %d are open", err, open)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if err := k.Ready(); err != nil || open != 1 {
			t.Errorf("while it runs it says %v, and %d are open", err, open)
		}
		stop()
		if err := <-ended; err != nil || open != 0 {
			t.Errorf("it ended with %v, and %d are open", err, open)
		}
		if want := []int{1, 3, 7, 15, 31, 63, 123, 183, 244}; !slices.Equal(at, want) {
			t.Errorf("it was made anew after %v s, want %v", at, want)
		}
	})
}
