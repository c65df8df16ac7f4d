package railsim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var errClosed = errors.New("bank is closed")

// Bank is one simulated bank. It is safe for concurrent use. Call New, then Serve on one or more
// listeners, then Close.
type Bank struct {
	cfg       Config
	log       *slog.Logger
	journal   *journal
	faults    *faultTable
	seen      *requestLog
	callbacks *callbackSender // nil without callbacks
	tls       *tls.Config     // nil without TLS
	slots     chan struct{}   // one token per open connection
	conns     atomic.Int64    // accepted so far

	ctx  context.Context // ends when Close begins: all hangs and delays end with it
	stop context.CancelCauseFunc
	work sync.WaitGroup // settlements and held connections

	mu       sync.Mutex
	book     *book
	tally    *tally
	memory   map[string]*payment // idempotency memory; expired entries are replaced when their key comes again
	byKey    map[string]*payment // newest payment of each key, for inquiry; not subject to the key window
	byRef    map[string]*payment // newest payment of each reference
	byID     map[string]*payment // those that were recorded, by the bank's own id
	payments int                 // made so far, those replayed included
	lastID   int64
	lastSeq  int64
	pending  map[string]*payment // accepted, not settled, by id
	resumed  bool
	servers  []*http.Server
}

// New opens the ledger, replays it, and returns a bank that does not serve yet. It returns all
// errors of the configuration at once, or the first error of the files.
func New(cfg Config) (*Bank, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("bank configuration: %w", err)
	}
	book, err := newBook(cfg.Accounts, maxAccounts)
	if err != nil {
		return nil, fmt.Errorf("bank accounts: %w", err)
	}
	b := &Bank{
		cfg:     cfg,
		log:     cfg.Log,
		faults:  newFaultTable(cfg.Seed, cfg.Draw, cfg.Faults),
		book:    book,
		tally:   newTally(),
		memory:  map[string]*payment{},
		byKey:   map[string]*payment{},
		byRef:   map[string]*payment{},
		byID:    map[string]*payment{},
		pending: map[string]*payment{},
		slots:   make(chan struct{}, cfg.MaxConns),
	}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	if cfg.Mode == Provisional && cfg.Callback.URL != "" {
		b.callbacks = newCallbackSender(b)
	}
	if cfg.TLS != nil {
		b.tls = cfg.TLS.Clone()
		b.tls.NextProtos = []string{"http/1.1"}
	}
	if b.seen, err = openRequestLog(cfg.RequestsPath, cfg.MaxRequests); err != nil {
		return nil, err
	}
	if b.journal, err = openJournal(cfg.LedgerPath, b.replay); err != nil {
		return nil, errors.Join(err, b.seen.close())
	}
	return b, nil
}

// replay takes one record of an earlier life into memory.
func (b *Bank) replay(r Record) error {
	p, err := paymentOf(r)
	if err != nil {
		return err
	}
	if r.Kind != Accepted {
		if open := b.pending[r.ID]; open != nil {
			p = open
		}
	}
	if p.state == stateNew {
		if b.payments >= b.cfg.MaxPayments {
			return fmt.Errorf("more than %d payments", b.cfg.MaxPayments)
		}
		b.remember(p)
	}
	b.lastSeq = r.Seq
	b.lastID = max(b.lastID, parseID(r.ID))
	if r.Kind == Executed {
		b.book.move(p.debtor, p.creditor, p.currency, p.minor)
	}
	b.applied(p, r)
	return nil
}

// Serve serves l until Close, and then returns nil. It uses TLS if the configuration has it. It may
// be called for several listeners, each in a goroutine of the caller.
func (b *Bank) Serve(l net.Listener) error {
	srv := &http.Server{
		Handler:           b.routes(),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		WriteTimeout:      readTimeout + 4*b.cfg.MaxHang, // three delays and a hang can add up
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(b.log.Handler(), slog.LevelDebug),
		ConnContext:       withConn,
		Protocols:         new(http.Protocols),
	}
	srv.Protocols.SetHTTP1(true) // and nothing newer: faults need the bare connection
	b.mu.Lock()
	if b.ctx.Err() != nil {
		b.mu.Unlock()
		return l.Close()
	}
	b.servers = append(b.servers, srv)
	b.resume()
	b.mu.Unlock()

	err := srv.Serve(b.listen(l))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// Close ends all hangs and delays, lets answers under way finish within 2 s, and closes the files.
// Payments that were accepted and not settled stay pending in the ledger; the next life settles
// them.
func (b *Bank) Close() error {
	b.stop(errClosed)
	b.mu.Lock()
	servers := b.servers
	b.servers = nil
	b.mu.Unlock()
	grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var errs []error
	for _, srv := range servers {
		if srv.Shutdown(grace) != nil {
			errs = append(errs, srv.Close())
		}
	}
	b.work.Wait()
	if b.callbacks != nil {
		b.callbacks.close()
	}
	return errors.Join(append(errs, b.journal.close(), b.seen.close())...)
}

// spawn runs fn so that Close waits for it. It reports false, and does not run it, once Close has begun.
func (b *Bank) spawn(fn func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ctx.Err() != nil {
		return false
	}
	b.work.Go(fn)
	return true
}

// sleep waits for d, at most Config.MaxHang, and reports false if the bank closed meanwhile.
func (b *Bank) sleep(d time.Duration) bool {
	if d <= 0 {
		return b.ctx.Err() == nil
	}
	timer := time.NewTimer(min(d, b.cfg.MaxHang))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// Records reads the ledger as it is on disk now.
func (b *Bank) Records() ([]Record, error) {
	f, length, err := b.openLedger()
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	defer f.Close()
	// What is past the durable length is being written: no caller got an answer that rests on it.
	records := []Record{}
	_, err = scanLedger(io.LimitReader(f, length), func(r Record) error {
		records = append(records, r)
		return nil
	})
	return records, err
}

// Executions reads the executions in the ledger as it is on disk now: each is money that moved.
func (b *Bank) Executions() ([]Record, error) {
	records, err := b.Records()
	executed := make([]Record, 0, len(records))
	for _, r := range records {
		if r.Kind == Executed {
			executed = append(executed, r)
		}
	}
	return executed, err
}

// Summary sums up the ledger from memory, without reading the file.
func (b *Bank) Summary() Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally.summary()
}

// Accounts lists all accounts with their balances, sorted.
func (b *Bank) Accounts() []Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.book.list()
}

// Requests returns the newest requests in order of arrival, at most Config.MaxRequests.
func (b *Bank) Requests() []Request { return b.seen.list() }

// RequestSummary counts all requests since the bank started.
func (b *Bank) RequestSummary() RequestSummary { return b.seen.summary() }

// SetOnReplay changes the answer to replays from now on.
func (b *Bank) SetOnReplay(r Replay) error {
	if err := r.validate(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cfg.Behaviour.OnReplay = r
	return nil
}

// SetFaults replaces all fault rules. Their counters start at zero; the totals by kind go on.
func (b *Bank) SetFaults(rules ...Fault) error {
	if err := validateFaults(rules, b.cfg.MaxHang); err != nil {
		return err
	}
	b.faults.replace(rules)
	return nil
}

// Faults returns the rules in force and how often each was drawn and injected.
func (b *Bank) Faults() FaultState { return b.faults.state() }
