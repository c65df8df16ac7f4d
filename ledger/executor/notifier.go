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
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgxlisten"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Notifier receives the notifications of a cell's enqueues on a session of its own. It
// requires a direct connection: behind a transaction pooler LISTEN succeeds but no
// notification arrives. Test detects that.
type Notifier struct {
	config  *pgx.ConnConfig
	channel string
	sender  *Executor // sends the notifications of Test
	log     *slog.Logger

	// The session of Arm. Arm, CheckArmed, Disarm and Close are for one goroutine.
	arming  *pgx.Conn
	dialing dialing
	armed   bool
	armSQL  string

	identitySQL string

	listening atomic.Bool // LISTEN succeeded and the session has not broken since

	mu      sync.Mutex
	waiting map[string]chan struct{}
	session *pgx.Conn     // the listening session, which is closed if it receives nothing
	server  outbox.Server // of that session; zero: it could not be read
	listens chan struct{} // closed, and replaced, when a session begins to listen
}

// selfTest is the prefix of the payload of Test's notifications, which wake no relayer.
const selfTest = "self-test "

// reconnectDelay is the minimum time before a broken listening session is replaced.
// The default of pgxlisten is a minute.
const reconnectDelay = 500 * time.Millisecond

// NewNotifier prepares a listening session to config.URL. Test notifies through sender.
func NewNotifier(config ledger.Config, sender *Executor, log *slog.Logger) (*Notifier, error) {
	loaded, err := store.LoadStatements(config.Cell)
	if err != nil {
		return nil, err
	}
	if err := ledger.CheckURL(config.URL); err != nil {
		return nil, fmt.Errorf("%s: %w", config.Name, err)
	}
	conn, err := pgx.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the connection string of %s: %w", config.Name, err)
	}
	if config.Name != "" {
		conn.RuntimeParams["application_name"] = config.Name
	}
	conn.ConnectTimeout = 5 * time.Second
	conn.ValidateConnect = store.Writable
	store.PinSession(conn)
	return &Notifier{
		config: conn, channel: ledger.NotifyChannel(config.Cell), armSQL: loaded["notify_arm"],
		identitySQL: loaded["server_identity"], sender: sender, log: log,
		waiting: make(map[string]chan struct{}), listens: make(chan struct{}),
	}, nil
}

// Listen calls wake for every notification, and once after each reconnect, until the
// context ends. It calls wake on the listening goroutine; wake must not block, because a
// session that does not read fills the server's queue.
func (b *Notifier) Listen(ctx context.Context, wake func()) {
	listener := &pgxlisten.Listener{
		Connect:        b.connect,
		ReconnectDelay: reconnectDelay,
		LogError: func(_ context.Context, err error) {
			b.listening.Store(false)
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				b.log.Warn("listening session broke; polling goes on", "error", err)
			}
		},
	}
	listener.Handle(b.channel, notificationHandler{notifier: b, wake: wake})
	// Listen returns only when its context ends: it reconnects without a bound.
	if err := listener.Listen(ctx); err != nil && ctx.Err() == nil {
		b.log.Error("listening ended; polling goes on", "error", err)
	}
}

// Listening reports whether this process has no sign of a broken session. Only Test checks
// that notifications arrive.
func (b *Notifier) Listening() bool { return b.listening.Load() }

func (b *Notifier) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, b.config)
	if err != nil {
		return nil, err
	}
	server := b.identity(ctx, conn)
	b.mu.Lock()
	b.session, b.server = conn, server
	b.mu.Unlock()
	return conn, nil
}

// identityWithin bounds the reading of which server a session is on.
const identityWithin = 2 * time.Second

// identity reads which server a session is on; zero: it could not be read.
func (b *Notifier) identity(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (server outbox.Server) {
	ctx, cancel := context.WithTimeout(ctx, identityWithin)
	defer cancel()
	var timeline pgtype.Int8
	if on.QueryRow(ctx, b.identitySQL).Scan(&server.SystemIdentifier, &timeline, &server.StartedAt) != nil {
		return outbox.Server{}
	}
	server.Timeline = timeline.Int64
	return server
}

// unheard says why a notification that was sent did not arrive, as far as that is known.
func (b *Notifier) unheard(ctx context.Context) string {
	b.mu.Lock()
	listens := b.server
	b.mu.Unlock()
	if !b.listening.Load() {
		return "no session listens"
	}
	sends := b.identity(context.WithoutCancel(ctx), b.sender.db.Pool)
	if listens.SystemIdentifier != "" && sends.SystemIdentifier != "" && !listens.Same(sends) {
		return "the session that listens is on another server than the one that notifies: RAILHEAD_LISTEN_URL must lead " +
			"to the same one"
	}
	return "LISTEN needs a direct session to the same database, not a transaction pooler"
}

type notificationHandler struct {
	notifier *Notifier
	wake     func()
}

// HandleNotification distinguishes the notifications of Test from those of enqueues.
func (h notificationHandler) HandleNotification(_ context.Context, n *pgconn.Notification, _ *pgx.Conn) error {
	id, isTest := strings.CutPrefix(n.Payload, selfTest)
	if !isTest {
		h.wake()
		return nil
	}
	h.notifier.mu.Lock()
	defer h.notifier.mu.Unlock()
	if arrived, ok := h.notifier.waiting[id]; ok {
		close(arrived)
		delete(h.notifier.waiting, id)
	}
	return nil
}

// HandleBacklog runs after every LISTEN: earlier notifications were missed.
func (h notificationHandler) HandleBacklog(context.Context, string, *pgx.Conn) error {
	h.notifier.listening.Store(true)
	h.wake()
	h.notifier.mu.Lock()
	defer h.notifier.mu.Unlock()
	close(h.notifier.listens)
	h.notifier.listens = make(chan struct{})
	return nil
}

// Test sends a notification and waits for it, until the context ends. It sends another if
// a new session begins to listen. If the session is the same throughout and receives
// nothing, Test closes it, so that a half-open one is replaced.
func (b *Notifier) Test(ctx context.Context) error {
	id := payment.NewID().String()
	arrived := make(chan struct{})
	b.mu.Lock()
	b.waiting[id] = arrived
	session := b.session
	b.mu.Unlock()
	for {
		b.mu.Lock()
		listens := b.listens
		b.mu.Unlock()
		if _, err := b.sender.db.Pool.Exec(ctx, "SELECT pg_notify($1, $2)", b.channel, selfTest+id); err != nil {
			b.forget(id)
			return fmt.Errorf("sending a notification to ourselves: %w", err)
		}
		select {
		case <-arrived:
			return nil
		case <-listens:
		case <-ctx.Done():
			b.forget(id)
			why := b.unheard(ctx)
			b.closeSession(session)
			return fmt.Errorf("our own notification did not arrive: %s: %w", why, ctx.Err())
		}
	}
}

func (b *Notifier) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

// closeSession closes the socket of a listening session, unless another session has
// replaced it. Its reader then reconnects.
func (b *Notifier) closeSession(session *pgx.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if session != nil && session == b.session {
		session.PgConn().Conn().Close() // an error means that it is closed already
	}
}
