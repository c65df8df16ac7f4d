package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgxlisten"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Bell hears the enqueues of a cell on a session of its own. It needs a direct
// one: behind a transaction pooler LISTEN succeeds and nothing ever arrives,
// which Test finds out.
type Bell struct {
	config  *pgx.ConnConfig
	channel string
	ringer  *Executor
	log     *slog.Logger

	// The session that dozes; Doze, Dozing, Rouse and Close are for one goroutine.
	doze    *pgx.Conn
	dozing  bool
	dozeSQL string

	listening atomic.Bool // LISTEN was said and the session has not broken since

	mu      sync.Mutex
	waiting map[string]chan struct{}
	session *pgx.Conn     // the listening one, so that a deaf session can be closed
	listens chan struct{} // closed, and made anew, when a session begins to listen
}

// selfTest marks the bells of Test; they wake no relayer.
const selfTest = "self-test "

// bellReconnect is how long a broken listening session stays broken at least;
// pgxlisten's own default is a minute.
const bellReconnect = 500 * time.Millisecond

// NewBell prepares a listening session to config.URL. Test rings through ringer.
func NewBell(config ledger.Config, ringer *Executor, log *slog.Logger) (*Bell, error) {
	loaded, err := store.LoadStatements(config.Cell)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the connection string of %s: %w", config.Name, err)
	}
	if config.Name != "" {
		conn.RuntimeParams["application_name"] = config.Name
	}
	conn.ConnectTimeout = 5 * time.Second
	conn.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	return &Bell{
		config: conn, channel: ledger.BellChannel(config.Cell), dozeSQL: loaded["bell_doze"], ringer: ringer, log: log,
		waiting: make(map[string]chan struct{}), listens: make(chan struct{}),
	}, nil
}

// Listen calls ring for every bell, and once after each reconnect, until the
// context ends. Ring is called on the listening goroutine and must not block: a
// listener that does not read holds back the server's queue.
func (b *Bell) Listen(ctx context.Context, ring func()) {
	listener := &pgxlisten.Listener{
		Connect:        b.connect,
		ReconnectDelay: bellReconnect,
		LogError: func(_ context.Context, err error) {
			b.listening.Store(false)
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				b.log.Warn("listening session broke; polling goes on", "error", err)
			}
		},
	}
	listener.Handle(b.channel, bellHandler{bell: b, ring: ring})
	// Listen returns only when its context ends: it reconnects without a bound.
	if err := listener.Listen(ctx); err != nil && ctx.Err() == nil {
		b.log.Error("listening ended; polling goes on", "error", err)
	}
}

// Listening reports whether the session stands, as far as this process knows: whether it
// hears is for Test to find out.
func (b *Bell) Listening() bool { return b.listening.Load() }

func (b *Bell) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, b.config)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.session = conn
	b.mu.Unlock()
	return conn, nil
}

type bellHandler struct {
	bell *Bell
	ring func()
}

// HandleNotification tells tests of the bell from bells.
func (h bellHandler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	id, isTest := strings.CutPrefix(n.Payload, selfTest)
	if !isTest {
		h.ring()
		return nil
	}
	h.bell.mu.Lock()
	defer h.bell.mu.Unlock()
	if heard, ok := h.bell.waiting[id]; ok {
		close(heard)
		delete(h.bell.waiting, id)
	}
	return nil
}

// HandleBacklog runs after every LISTEN: whatever rang before was missed.
func (h bellHandler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.bell.listening.Store(true)
	h.ring()
	h.bell.mu.Lock()
	defer h.bell.mu.Unlock()
	close(h.bell.listens)
	h.bell.listens = make(chan struct{})
	return nil
}

// Test rings the bell and waits to hear it, until the context ends. It rings again for
// a session that begins to listen meanwhile. A session that was there from the beginning
// and does not hear is closed, so that a half-open one is replaced.
func (b *Bell) Test(ctx context.Context) error {
	id := payment.NewID().String()
	heard := make(chan struct{})
	b.mu.Lock()
	b.waiting[id] = heard
	session := b.session
	b.mu.Unlock()
	for {
		b.mu.Lock()
		listens := b.listens
		b.mu.Unlock()
		if _, err := b.ringer.db.Pool.Exec(ctx, "SELECT pg_notify($1, $2)", b.channel, selfTest+id); err != nil {
			b.forget(id)
			return fmt.Errorf("ringing our own bell: %w", err)
		}
		select {
		case <-heard:
			return nil
		case <-listens:
		case <-ctx.Done():
			b.forget(id)
			b.hangUp(session)
			return fmt.Errorf("our own bell was not heard: %w", ctx.Err())
		}
	}
}

func (b *Bell) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// hangUp breaks the socket of a listening session, unless another has replaced it; its reader
// then reconnects.
func (b *Bell) hangUp(session *pgx.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if session != nil && session == b.session {
		session.PgConn().Conn().Close() // an error means that it is closed already
	}
}
