// Package api is the HTTP door to the enqueue: it takes instructions of callers that
// have a token and no login, and says what became of them. What a token is for is the
// database's to know, in each statement; this package refuses what it can before that.
//
// An answer of 2xx is given after the commit. An answer of 5xx to an enqueue says whether
// anything may have been stored ("commit": "none" or "unknown"); either way the same call
// may be repeated.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Store is what the API needs of the ledger.
type Store interface {
	Token(ctx context.Context, digest [32]byte) (outbox.Token, error)
	Enqueue(ctx context.Context, who outbox.Bearer, in outbox.Entrusted) (payment.Receipt, error)
	EnqueueBatch(ctx context.Context, who outbox.Bearer, all []outbox.Entrusted) ([]outbox.ReceiptOrFault, error)
	Status(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error)
	Await(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error)
	List(ctx context.Context, who outbox.Bearer, page outbox.Page) ([]outbox.Tracked, error)
	Attempts(ctx context.Context, who outbox.Bearer, id payment.ID, after, most int) ([]outbox.ArchiveRow, error)
	Cancel(ctx context.Context, who outbox.Bearer, id payment.ID, reason string) (attemptNo int, err error)
	Events(ctx context.Context, all []outbox.Subscription, from outbox.Place, since time.Time, most int) (outbox.Heard, error)
	Newest(ctx context.Context, who outbox.Subscription) (outbox.Place, error)
	NoteUses(ctx context.Context, tokens [][32]byte, uses, refused []int64) error
}

// Observer counts what happens, for metrics.
type Observer interface {
	// Answered counts an answer. Took below 0: it was a stream, which takes as long as it is read.
	Answered(operation string, status int, took time.Duration)
	TokenRefused(reason string)
	CommitUnknown()
	Waiting(delta int)
	Streaming(delta int)
	StreamCut()
}

type silent struct{}

func (silent) Answered(string, int, time.Duration) {}
func (silent) TokenRefused(string)                 {}
func (silent) CommitUnknown()                      {}
func (silent) Waiting(int)                         {}
func (silent) Streaming(int)                       {}
func (silent) StreamCut()                          {}

// Config bounds what one process does. Zero values have the defaults that the fields name.
type Config struct {
	StoreTimeout   time.Duration // of one call of the store; 10 s
	WaitMax        time.Duration // of Prefer: wait; 30 s
	BodyBytesMax   int64         // of one instruction; 128 KiB
	ConnectionsMax int           // at once; 1,000
	BatchesMax     int           // at once; 4, of one token half of them
	BatchTimeMax   time.Duration // until the last line of a batch has come; 10 min
	StreamsMax     int           // of events, at once, of the connections; 500
	StreamLife     time.Duration // of a stream; its caller goes on by another; 1 h
	StreamBeat     time.Duration // between two signs of life of a stream that has nothing to tell; 15 s
	Origins        []string      // of pages that may read events, such as https://shop.example; none
	EventKeys      [][]byte      // that seal tokens for events: the first one seals, each opens; none: there are none
	IdleMax        time.Duration // without a byte of a request or of room for an answer; 15 s
	Drain          time.Duration // of requests under way when the process is stopped; 20 s
	TLS            TLSFiles
}

func (c Config) withDefaults() Config {
	service.Fill(&c.StoreTimeout, 10*time.Second)
	service.Fill(&c.WaitMax, 30*time.Second)
	service.Fill(&c.BodyBytesMax, 128<<10)
	service.Fill(&c.ConnectionsMax, 1000)
	service.Fill(&c.BatchesMax, 4)
	service.Fill(&c.BatchTimeMax, 10*time.Minute)
	service.Fill(&c.StreamsMax, 500)
	service.Fill(&c.StreamLife, time.Hour)
	service.Fill(&c.StreamBeat, 15*time.Second)
	service.Fill(&c.IdleMax, 15*time.Second)
	service.Fill(&c.Drain, 20*time.Second)
	return c
}

// API answers under /v1.
type API struct {
	config  Config
	store   Store
	watch   Observer
	log     *slog.Logger
	tokens  *tokens
	huma    huma.API
	handler http.Handler
	batches chan struct{}
	hub     *hub
	seals   []seal

	// draining ends waits and batches early, so that a stop does not last as long as they may.
	draining context.Context
	drain    context.CancelFunc
	away     atomic.Pointer[time.Time] // since when the database can't be reached; nil: it can
}

// New makes an API. Watch may be nil.
func New(config Config, store Store, watch Observer, log *slog.Logger) (*API, error) {
	config = config.withDefaults()
	if config.StoreTimeout <= 0 || config.WaitMax <= 0 || config.BodyBytesMax < 1024 || config.ConnectionsMax < 1 || config.BatchesMax < 1 ||
		config.StreamsMax < 1 || config.StreamsMax > streamsMost || config.StreamLife <= 0 || config.StreamBeat <= 0 || config.BatchTimeMax <= 0 || config.IdleMax <= 0 || config.Drain <= 0 {
		return nil, errors.New("the bounds of the API must be above 0, a body at least 1,024 bytes, and streams at most 10,000")
	}
	if watch == nil {
		watch = silent{}
	}
	a := &API{config: config, store: store, watch: watch, log: log, batches: make(chan struct{}, config.BatchesMax)}
	a.draining, a.drain = context.WithCancel(context.Background())
	a.tokens, a.hub = newTokens(store, config.StoreTimeout), newHub(a)
	var err error
	if a.seals, err = sealsOf(config.EventKeys); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, describe())
	a.register()
	mux.HandleFunc("POST /v1/instructions/batch", a.batch)
	mux.HandleFunc("GET /v1/events", a.events)
	mux.HandleFunc("OPTIONS /v1/events", a.events)
	mux.HandleFunc("POST /v1/events/tokens", a.eventToken)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { problemNotFound().write(w) })
	a.handler = a.guarded(mux)
	return a, nil
}

// Handler answers all requests.
func (a *API) Handler() http.Handler { return a.handler }

// SetAway says whether the database can be reached, as the caller's heartbeats find it.
// While it can't, every call is answered with 503 at once.
func (a *API) SetAway(away bool) {
	switch {
	case !away:
		a.away.Store(nil)
	case a.away.Load() == nil:
		a.away.Store(new(time.Now()))
	}
}

// NoteUses writes down how often each token was used since the last call.
func (a *API) NoteUses(ctx context.Context) error {
	used := a.tokens.uses()
	for len(used) > 0 {
		some := used[:min(len(used), 1000)]
		used = used[len(some):]
		digests, uses, refused := make([][32]byte, len(some)), make([]int64, len(some)), make([]int64, len(some))
		for n, each := range some {
			digests[n], uses[n], refused[n] = each.digest, each.uses, each.refused
			if each.refused > 0 {
				a.log.WarnContext(ctx, "a token that is not in force was used", "token_id", each.id, "times", each.refused)
			}
		}
		if err := a.store.NoteUses(ctx, digests, uses, refused); err != nil {
			a.tokens.again(append(some, used...))
			return err
		}
	}
	return nil
}

type bearerKey struct{}

// bearer is who calls, as guarded has found.
func bearer(ctx context.Context) outbox.Bearer {
	who, _ := ctx.Value(bearerKey{}).(outbox.Bearer)
	return who
}

// guarded lets a request pass whose token is in force, within its quota, and counts its answer.
func (a *API) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		seen := &statusWriter{ResponseWriter: w}
		operation := operationOf(r)
		defer func() {
			if failed := recover(); failed != nil {
				a.log.ErrorContext(r.Context(), "a request has failed", "operation", operation)
				if seen.status == 0 {
					problemInternal().write(seen)
				}
			}
			took := time.Since(began)
			if operation == opStream {
				took = -1
			}
			a.watch.Answered(operation, seen.status, took)
		}()
		seen.Header().Set("Cache-Control", "no-store")
		if r.URL.Path == "/v1/events" {
			a.allowOrigin(seen, r) // also where it is refused: the page learns why
		}
		if operation == opOpenAPI || r.URL.Path == "/v1/events" && r.Method == http.MethodOptions {
			next.ServeHTTP(seen, r)
			return
		}
		if problem := a.admit(&r); problem != nil {
			problem.write(seen)
			return
		}
		if r.Method == http.MethodPost && operation != opBatch {
			r.Body = http.MaxBytesReader(seen, r.Body, a.config.BodyBytesMax)
		}
		next.ServeHTTP(seen, r)
	})
}

// admit finds out who calls. The request gets the bearer in its context.
func (a *API) admit(r **http.Request) *Problem {
	if a.away.Load() != nil {
		return problemUnavailable(commitNone)
	}
	who, narrow, ok := a.shown(*r)
	if !ok {
		a.watch.TokenRefused("none")
		return problemUnauthorized()
	}
	known, err := a.tokens.find((*r).Context(), who.Token)
	switch {
	case errors.Is(err, outbox.ErrToken):
		a.watch.TokenRefused("unknown")
		return problemUnauthorized()
	case err != nil:
		a.log.WarnContext((*r).Context(), "a token can't be looked up", "error", err)
		return problemUnavailable(commitNone)
	}
	if problem := known.admits(who); problem != nil {
		a.watch.TokenRefused("not_in_force")
		return problem
	}
	takes := func() time.Duration { return known.take(1) }
	if narrow != nil {
		takes = known.takeEvents
	}
	if wait := takes(); wait > 0 {
		a.watch.TokenRefused("over_quota")
		return problemOverQuota(wait)
	}
	ctx := context.WithValue((*r).Context(), bearerKey{}, who)
	if narrow != nil {
		ctx = context.WithValue(ctx, narrowKey{}, *narrow)
	}
	*r = (*r).WithContext(ctx)
	return nil
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(text []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(text)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
