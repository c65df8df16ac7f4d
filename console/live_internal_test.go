package console

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// liveConsole is a console whose state was read once.
func liveConsole(t *testing.T, config Config) *Console {
	t.Helper()
	quiet := hostileReader{func(*reader.Timeline) {}}
	c, err := New(config, []Login{NewLink(Read)}, quiet, nil, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// follower takes a stream without a connection.
type follower struct {
	mu     sync.Mutex
	header http.Header
	text   strings.Builder
	writes []time.Time // the deadlines that were set
}

func (f *follower) Header() http.Header { return f.header }
func (f *follower) WriteHeader(int)     {}
func (f *follower) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.Write(text)
}
func (f *follower) FlushError() error               { return nil }
func (f *follower) SetReadDeadline(time.Time) error { return nil }
func (f *follower) SetWriteDeadline(at time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, at)
	return nil
}

func (f *follower) events(kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Count(f.text.String(), "event: "+kind+"\n")
}

// follow begins a stream; the channel is closed when it has ended.
func follow(ctx context.Context, c *Console, secret string) (*follower, <-chan struct{}) {
	f, over := &follower{header: http.Header{}}, make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, c.base+streamPath, nil)
	r.AddCookie(c.cookie(secret))
	go func() {
		defer close(over)
		c.handler.ServeHTTP(f, r)
	}()
	return f, over
}

// TestStreamIsNoUse: a stream is never silent for longer than its beat, extends its deadline with each
// event, and does not keep its session in force; nor do the requests that a page makes by itself.
func TestStreamIsNoUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := liveConsole(t, Config{SessionIdle: time.Minute})
		secret := c.sessions.begin(Person{Name: "a", Role: Read})
		f, over := follow(t.Context(), c, secret)
		for range 5 {
			time.Sleep(10 * time.Second)
			for _, path := range []string{"/", "/state.json", "/live.json"} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
				r.Header.Set(backgroundHeader, "1")
				r.AddCookie(c.cookie(secret))
				w := httptest.NewRecorder()
				if c.handler.ServeHTTP(w, r); w.Code != http.StatusOK {
					t.Errorf("%s: status %d", path, w.Code)
				}
			}
		}
		select {
		case <-over:
			t.Fatal("the stream ended before its session")
		default:
		}
		time.Sleep(10*time.Second + streamBeat)
		synctest.Wait()
		select {
		case <-over:
		default:
			t.Fatal("the stream goes on after its session has idled")
		}
		want := int(time.Minute / streamBeat)
		if states := f.events("state"); states < want || states > want+1 || f.events("ended") != 1 {
			t.Errorf("%d states and %d ends in a minute", states, f.events("ended"))
		}
		if last := f.writes[len(f.writes)-1]; last.Sub(f.writes[0]) < 50*time.Second {
			t.Errorf("the deadline of the last event is %s after that of the first", last.Sub(f.writes[0]))
		}
	})
}

// TestStreamEnds: a stream ends with a logout, with the age of its session, and with the console.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end   func(c *Console, secret string)
		after time.Duration
		says  int
	}{
		"logout":      {func(c *Console, secret string) { c.sessions.end(secret) }, 0, 1},
		"age":         {func(c *Console, secret string) {}, 2*time.Minute + streamBeat, 1},
		"the console": {func(c *Console, _ string) { c.streams.end() }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := liveConsole(t, Config{SessionMax: 2 * time.Minute})
				secret := c.sessions.begin(Person{Role: Read})
				f, over := follow(t.Context(), c, secret)
				synctest.Wait()
				test.end(c, secret)
				time.Sleep(test.after)
				synctest.Wait()
				select {
				case <-over:
				default:
					t.Fatal("the stream goes on")
				}
				if got := f.events("ended"); got != test.says {
					t.Errorf("the stream said %d times that the session has ended, want %d", got, test.says)
				}
				if c.streams.all != 0 || len(c.streams.of) != 0 {
					t.Errorf("%d streams are counted, of %d sessions", c.streams.all, len(c.streams.of))
				}
			})
		})
	}
}

// TestStreamsAreBounded: one stream more than a session or the console may have is turned away, and the
// place is free again afterwards.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := liveConsole(t, Config{StreamsMax: streamsEach + 1})
		first, second := c.sessions.begin(Person{Role: Read}), c.sessions.begin(Person{Role: Read})
		ctx, leave := context.WithCancel(t.Context())
		for range streamsEach {
			follow(ctx, c, first)
		}
		synctest.Wait()
		turnedAway := func(secret string) bool {
			f, over := follow(ctx, c, secret)
			synctest.Wait()
			select {
			case <-over:
				return f.header.Get("Retry-After") == "60"
			default:
				return false
			}
		}
		if !turnedAway(first) {
			t.Error("a session has more streams than it may")
		}
		if turnedAway(second) {
			t.Error("another session has none")
		}
		if !turnedAway(second) {
			t.Error("the console has more streams than it may")
		}
		leave()
		synctest.Wait()
		if c.streams.all != 0 {
			t.Errorf("%d streams are counted when all have gone", c.streams.all)
		}
	})
}

// TestStreamOutlivesTheServersTimes: the bounds of ordinary requests do not end a stream, and a shutdown
// ends it at once.
func TestStreamOutlivesTheServersTimes(t *testing.T) {
	t.Parallel()
	c := liveConsole(t, Config{RequestTimeout: 100 * time.Millisecond, Drain: time.Minute})
	server := c.server()
	const bound = 100 * time.Millisecond
	server.ReadTimeout, server.WriteTimeout = bound, bound
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		endpoint := service.Endpoint{Name: "test", Server: server, Drain: func() time.Duration { return c.config.Drain }}
		ended <- endpoint.Serve(ctx, listener)
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+streamPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(c.cookie(c.sessions.begin(Person{Role: Read})))
	got, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if kind := got.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("the stream has the type %q", kind)
	}
	lines := bufio.NewScanner(got.Body)
	next := func() (now news) {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(text), &now); err != nil {
					t.Fatal(err)
				}
				return now
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return now
	}
	for begun := time.Now(); time.Since(begun) < 4*bound; {
		if now := next(); now.At == "" || now.Letters != "2" || !now.Open || now.Point[1] != 2 {
			t.Fatalf("the stream says %+v", now)
		}
		if err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	if _, err := io.Copy(io.Discard, got.Body); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the console ended with %v", err)
	}
}

// TestStreamOverHTTP2: a stream flows over HTTP/2 too, where a browser has one connection for all.
func TestStreamOverHTTP2(t *testing.T) {
	t.Parallel()
	c := liveConsole(t, Config{})
	server := httptest.NewUnstartedServer(c.handler)
	server.EnableHTTP2 = true
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Second, time.Second
	server.StartTLS()
	defer server.Close()
	defer c.streams.end()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+streamPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(c.cookie(c.sessions.begin(Person{Role: Read})))
	got, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.ProtoMajor != 2 {
		t.Fatalf("the stream came by %s", got.Proto)
	}
	lines := bufio.NewScanner(got.Body)
	for begun := time.Now(); time.Since(begun) < 1500*time.Millisecond; {
		for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
		}
		if lines.Err() != nil || !strings.HasPrefix(lines.Text(), "data: ") {
			t.Fatalf("the stream ended: %v", lines.Err())
		}
		if err := c.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
