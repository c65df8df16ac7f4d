package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/test/railsfile"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// heir is a rail that records which one it goes on with.
type heir struct {
	rails.Rail
	before rails.Rail
}

func (h *heir) Inherit(earlier rails.Rail) { h.before = earlier }

// TestRailsGoOnInAComponentMadeAnew: a rail of a component that is made anew goes on with what the one of its type
// has seen that was opened before it.
func TestRailsGoOnInAComponentMadeAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var opened []*heir
		maker := func(_ context.Context, s settings, _ *metrics.Set, _ *slog.Logger) (service.Service, func(), error) {
			for _, railType := range []string{"STREAM", "TOPIC"} {
				rail := &heir{}
				s.rails.take(railType, rail)
				opened = append(opened, rail)
			}
			return shortLived{0}, func() {}, nil
		}
		s := settings{Setting: "EAST", LogLevel: "error", logTo: t.Output()}
		one, err := open(t.Context(), s, "relayer", maker, nil, true)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		if err := one.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(opened) != 4 {
			t.Fatalf("%d rails were opened, want those of two components", len(opened))
		}
		for n, rail := range opened[:2] {
			if rail.before != nil {
				t.Errorf("the first rail goes on with %v", rail.before)
			}
			if opened[n+2].before != rail {
				t.Errorf("the rail of the second component goes on with %v, want that of the first", opened[n+2].before)
			}
		}
	})
}

// TestOpenedRailsAreKept: a relayer keeps each rail that it opens for the one in its place.
func TestOpenedRailsAreKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rails.yaml")
	text, err := railsfile.Stream("nats://127.0.0.1:1") // nothing is sent
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := railconfig.Load(path, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	var kept inherited
	open, _, err := railOpener(path, &kept, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	rail, err := open(file.Rails[0].Profile)
	if err != nil {
		t.Fatal(err)
	}
	if kept.last["stream"] != rail {
		t.Errorf("the rail that is kept is %v, want the one that was opened", kept.last["stream"])
	}
}
