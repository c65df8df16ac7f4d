package service_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
)

// TestTogether: an error of one part ends the others, and no error is lost.
func TestTogether(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	err := service.Together(t.Context(),
		func(context.Context) error { return first },
		func(ctx context.Context) error {
			<-ctx.Done()
			if context.Cause(ctx) != first {
				t.Errorf("the cause is %v, want %v", context.Cause(ctx), first)
			}
			return second
		},
		func(ctx context.Context) error { <-ctx.Done(); return nil })
	if !errors.Is(err, first) || !errors.Is(err, second) {
		t.Errorf("got %v, want both errors", err)
	}
}

// TestBounds: every fault comes back, in order, and what is within its bounds is none.
func TestBounds(t *testing.T) {
	t.Parallel()
	every, batch := time.Duration(0), 0
	service.Fill(&every, time.Minute)
	service.Fill(&batch, 7)
	var b service.Bounds
	b.WorkerID("worker")
	service.Within(&b, "every", every, time.Minute, time.Minute)
	service.Within(&b, "batch", batch, 7, 7)
	if err := b.Err(); err != nil {
		t.Errorf("defaults that are within their bounds are refused: %v", err)
	}
	b.WorkerID("")
	b.WorkerID("callback:gw-1")
	service.Within(&b, "every", every, time.Second, 59*time.Second)
	service.Within(&b, "batch", batch, 8, 9)
	want := "the worker id must be 1 to 200 bytes\n" +
		"the worker id begins with \"callback:\", as the rows of heartbeats of that kind do: give another one\n" +
		"every is 1m0s, must be 1s to 59s\nbatch is 7, must be 8 to 9"
	if err := b.Err(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestHeart: a beat has half of heartbeat_stale, or the bound that is less; beats come at least three times in it;
// and Ready refuses once none has gone in for so long.
func TestHeart(t *testing.T) {
	t.Parallel()
	for within, want := range map[time.Duration]time.Duration{0: 3 * time.Second, time.Second: time.Second,
		time.Minute: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			hangs := false
			send := func(ctx context.Context, _ outbox.Heartbeat) (outbox.Pulse, error) {
				if hangs {
					<-ctx.Done()
					return outbox.Pulse{}, ctx.Err()
				}
				budget := outbox.DefaultTimeBudget()
				budget.HeartbeatStale = 6 * time.Second
				return outbox.Pulse{Budget: budget}, nil
			}
			heart := service.NewHeart(service.HeartConfig{Every: time.Minute, Within: within}, send,
				slog.New(slog.DiscardHandler))
			if heart.Ready() == nil {
				t.Error("it is ready before the first heartbeat")
			}
			if err := heart.Beat(t.Context(), "running"); err != nil || heart.Ready() != nil {
				t.Errorf("a heartbeat that goes in: %v, ready: %v", err, heart.Ready())
			}
			if every := heart.Every(); every != 2*time.Second {
				t.Errorf("the next heartbeat comes after %s, want 2s", every)
			}
			hangs = true
			begun := time.Now()
			err := heart.Beat(t.Context(), "running")
			if took := time.Since(begun); took != want || !errors.Is(err, context.DeadlineExceeded) || service.Fatal(err) {
				t.Errorf("a heartbeat without an answer ends after %s with %v, want it after %s", took, err, want)
			}
			time.Sleep(6*time.Second - want)
			if err := heart.Ready(); err != nil {
				t.Errorf("after 6s: %v", err)
			}
			time.Sleep(time.Nanosecond)
			if heart.Ready() == nil {
				t.Error("it is ready longer than heartbeat_stale after the last heartbeat")
			}
		})
	}
}

type denied struct{ error }

func (denied) SQLState() string { return "42501" }

// TestOtherLogin: the error names the login that is required, and ends the service.
func TestOtherLogin(t *testing.T) {
	t.Parallel()
	heart := service.NewHeart(service.HeartConfig{OtherLogin: "it takes a member of railhead_callbacks"},
		func(context.Context, outbox.Heartbeat) (outbox.Pulse, error) {
			return outbox.Pulse{}, denied{errors.New("permission denied")}
		}, slog.New(slog.DiscardHandler))
	err := heart.Beat(t.Context(), "running")
	if !service.Fatal(err) || err.Error() != "it takes a member of railhead_callbacks: permission denied" {
		t.Errorf("got %v", err)
	}
}

// TestEndpoint: a request under way when the context ends gets its answer within the drain time, and is cut off
// after it, or at once where there is none.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drain, takes time.Duration
		answered     bool
		says         string // empty: nil
	}{
		"within the drain time": {drain: 20 * time.Second, takes: 50 * time.Millisecond, answered: true},
		"longer":                {drain: 50 * time.Millisecond, takes: time.Minute, says: "requests were under way after the drain time"},
		"no drain time":         {takes: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				stop()
				service.Sleep(r.Context(), c.takes)
				w.WriteHeader(http.StatusNoContent)
			})}
			ended := make(chan error, 1)
			go func() {
				ended <- service.Endpoint{Name: "it", Server: server, Drain: func() time.Duration { return c.drain }}.Serve(ctx,
					listener)
			}()
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := client.Get("http://" + listener.Addr().String())
			if (err == nil) != c.answered {
				t.Errorf("the request under way: %v, want an answer %v", err, c.answered)
			}
			if err == nil {
				answer.Body.Close()
			}
			err = <-ended
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("Serve returns %v, want %q", err, c.says)
			}
		})
	}
}

// TestEndpointThatCantServe: the error names the endpoint.
func TestEndpointThatCantServe(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	err = service.Endpoint{Name: "callback endpoint", Server: &http.Server{}}.Serve(t.Context(), listener)
	if !errors.Is(err, net.ErrClosed) || !strings.HasPrefix(err.Error(), "callback endpoint: ") {
		t.Errorf("got %v", err)
	}
}

// TestLastBeat: the last heartbeat has 5 s also where the context has ended, and less where a
// deadline is to come sooner.
func TestLastBeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ outbox.Heartbeat) (outbox.Pulse, error) {
			<-ctx.Done()
			return outbox.Pulse{}, ctx.Err()
		}
		heart := service.NewHeart(service.HeartConfig{}, hang, slog.New(slog.DiscardHandler))
		stopped := func(ctx context.Context, want time.Duration) {
			began := time.Now()
			heart.Stopped(ctx)
			if took := time.Since(began); took != want {
				t.Errorf("the last heartbeat was given %v, want %v", took, want)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		stopped(ended, 5*time.Second)
		soon, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		stopped(soon, 2*time.Second)
	})
}
