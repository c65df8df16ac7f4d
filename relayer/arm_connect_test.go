package relayer_test

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
)

// behindHosts returns the address of a login, with other hosts before the real one.
func behindHosts(t *testing.T, address string, before ...string) string {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	settings := at.Query()
	host, port := at.Hostname(), at.Port()
	if host == "" {
		host, port = settings.Get("host"), settings.Get("port")
	}
	var hosts, ports []string
	for _, each := range before {
		h, p, err := net.SplitHostPort(each)
		if err != nil {
			t.Fatal(err)
		}
		hosts, ports = append(hosts, h), append(ports, p)
	}
	settings.Set("host", strings.Join(append(hosts, host), ","))
	settings.Set("port", strings.Join(append(ports, port), ","))
	at.Host, at.RawQuery = "", settings.Encode()
	return at.String()
}

// TestArmBehindASilentHost tests a connection string of two hosts, the first of which takes connections and says
// nothing, as one that is frozen does: the session that makes enqueues notify is connected behind the turns, and no
// turn waits for it but the first.
func TestArmBehindASilentHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	notifier, err := executor.NewNotifier(ledger.Config{Cell: w.cell.Schema,
		URL: behindHosts(t, w.cell.URL(celltest.Relayer), silent.Addr().String())}, w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	slow := config()
	slow.Poll = time.Minute
	w.runWith(slow, w.store, notifier)
	// The host has five seconds. In the meantime the relayer polls; then every enqueue notifies it.
	for n := range 3 {
		w.awaitStates(w.enqueue("meanwhile-"+string(rune('a'+n))), "DISPATCHING DISPATCHED")
	}
	w.awaitText("1", `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	w.awaitStates(w.enqueue("afterwards"), "DISPATCHING DISPATCHED")
}

// TestArmThatCannotConnect tests a session that can't be connected: it is tried less and less often, and said once.
func TestArmThatCannotConnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fastProfile)
	refuses, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer refuses.Close()
	var tries atomic.Int64
	go func() {
		for {
			conn, err := refuses.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			conn.Close()
		}
	}()
	notifier, err := executor.NewNotifier(ledger.Config{Cell: w.cell.Schema,
		URL: "postgres://login@" + refuses.Addr().String() + "/none?sslmode=disable"}, w.store, w.log)
	if err != nil {
		t.Fatal(err)
	}
	var said logged
	w.log = slog.New(slog.NewTextHandler(&said, nil))
	w.runWith(config(), w.store, unheard{notifier})
	w.awaitStates(w.enqueue("first"), "DISPATCHING DISPATCHED")
	begun := time.Now()
	time.Sleep(3 * time.Second)
	// At 0, 0.25, 0.75, 1.75 and 3.75 s.
	if most := 6 + int64(time.Since(begun)/time.Second); tries.Load() > most || tries.Load() < 2 {
		t.Errorf("%d connections were tried in 3 s, want 2 to %d", tries.Load(), most)
	}
	if n := said.count("can't arm the notifier"); n != 1 {
		t.Errorf("it was said %d times, want once", n)
	}
	w.awaitStates(w.enqueue("second"), "DISPATCHING DISPATCHED")
}

// unheard is a notifier of which only the session of Arm is used: nothing is listened for.
type unheard struct{ *executor.Notifier }

func (unheard) Listen(ctx context.Context, _ func()) { <-ctx.Done() }
func (unheard) Test(context.Context) error           { return nil }

// logged counts lines of a log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *logged) Write(some []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(some)
}

func (c *logged) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.text.String(), text)
}
