// Package api is the HTTP interface to the enqueue: it takes instructions from callers that have a
// token and no database login, and reports what became of them. The database checks in each
// statement what a token allows; this package refuses earlier what it can.
//
// A 2xx answer is sent after the commit. A 5xx answer to an enqueue contains whether anything may
// have been stored ("commit": "none" or "unknown"); in both cases the same call may be repeated.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Store is the part of the ledger that the API uses.
type Store interface {
	Token(ctx context.Context, digest [32]byte) (outbox.Token, error)
	Enqueue(ctx context.Context, who outbox.Bearer, in outbox.Entrusted) (payment.Receipt, error)
	EnqueueBatch(ctx context.Context, who outbox.Bearer, all []outbox.Entrusted) ([]outbox.ReceiptOrFault, error)
	Status(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error)
	Await(ctx context.Context, who outbox.Bearer, id payment.ID) (outbox.Tracked, error)
	List(ctx context.Context, who outbox.Bearer, page outbox.Page) ([]outbox.Tracked, error)
	Attempts(ctx context.Context, who outbox.Bearer, id payment.ID, after, most int) ([]outbox.ArchiveRow, error)
	Cancel(ctx context.Context, who outbox.Bearer, id payment.ID, reason string) (found outbox.Tracked, replayed bool,
		err error)
	Events(ctx context.Context, all []outbox.Subscription, from outbox.Place, since time.Time, most int) (outbox.Heard,
		error)
	Newest(ctx context.Context, who outbox.Subscription) (outbox.Place, error)
	NoteUses(ctx context.Context, tokens [][32]byte, uses, refused []int64) error
}

// Observer counts events for metrics.
type Observer interface {
	// Answered counts an answer. A negative duration means a stream, which lasts as long as its
	// caller reads it.
	Answered(operation string, status int, took time.Duration)
	TokenRefused(reason string)
	CommitUnknown()
	Waiting(delta int)
	Streaming(delta int)
	StreamCut()
}

type nopObserver struct{}

func (nopObserver) Answered(string, int, time.Duration) {}
func (nopObserver) TokenRefused(string)                 {}
func (nopObserver) CommitUnknown()                      {}
func (nopObserver) Waiting(int)                         {}
func (nopObserver) Streaming(int)                       {}
func (nopObserver) StreamCut()                          {}

// Config bounds one process. The comments name the defaults of zero values.
type Config struct {
	StoreTimeout   time.Duration // of one call of the store; 10 s
	WaitMax        time.Duration // of Prefer: wait; 30 s
	BodyBytesMax   int64         // of one instruction; 128 KiB
	ConnectionsMax int           // open at once; 1,000
	BatchesMax     int           // at once; 4, half of them for one token
	BatchTimeMax   time.Duration // until the last line of a batch; 10 min
	StreamsMax     int           // event streams at once, part of the connections; 500
	StreamLife     time.Duration // of a stream, after which its caller reconnects; 1 h
	StreamBeat     time.Duration // between two keep-alives of a stream without events; 15 s
	Origins        []string      // of pages that may read events, such as https://shop.example; none
	EventKeys      [][]byte      // seal event tokens: the first one seals, all open; none: no event tokens
	Cells          []string      // the settings of the cells that the store serves; none: it is one cell
	IdleMax        time.Duration // without a byte of a request or space for an answer; 15 s
	Drain          time.Duration // of requests under way at a stop; 20 s
	TLS            *service.TLS  // nil: a proxy in front of it has to provide it
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

// API serves the paths under /v1.
type API struct {
	config  Config
	store   Store
	watch   Observer
	log     *slog.Logger
	tokens  *tokens
	huma    huma.API
	handler http.Handler
	batches chan struct{}
	hubs    map[string]*hub // by the setting of the cell; one of "" if there is one cell
	streams streams
	seals   []seal

	// draining ends waits and batches early, so that a stop does not last as long as they may.
	draining context.Context
	drain    context.CancelFunc
	away     atomic.Pointer[time.Time] // since when the database is unavailable; nil: it is available
}

// New returns an API. The observer may be nil.
func New(config Config, store Store, watch Observer, log *slog.Logger) (*API, error) {
	config = config.withDefaults()
	if config.StoreTimeout <= 0 || config.WaitMax <= 0 || config.BodyBytesMax < 1024 || config.ConnectionsMax < 1 ||
		config.BatchesMax < 1 ||
		config.StreamsMax < 1 || config.StreamsMax > streamsMost || config.StreamLife <= 0 || config.StreamBeat <= 0 ||
		config.BatchTimeMax <= 0 || config.IdleMax <= 0 || config.Drain <= 0 {
		return nil, errors.New("the bounds of the API must be above 0, " +
			"a body at least 1,024 bytes, and streams at most 10,000")
	}
	if watch == nil {
		watch = nopObserver{}
	}
	a := &API{config: config, store: store, watch: watch, log: log, batches: make(chan struct{}, config.BatchesMax)}
	a.draining, a.drain = context.WithCancel(context.Background())
	a.tokens, a.hubs = newTokens(store, config.StoreTimeout), map[string]*hub{}
	for _, cell := range a.cells() {
		a.hubs[cell] = newHub(a, cell)
	}
	var err error
	if a.seals, err = sealsOf(config.EventKeys); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	a.huma = humago.New(mux, describe())
	a.register()
	mux.HandleFunc("POST /v1/instructions/batch", a.batch)
	mux.HandleFunc("GET /v1/instructions/batch", notBatch) // batch is no outbox_id
	mux.HandleFunc("GET /v1/events", a.events)
	mux.HandleFunc("OPTIONS /v1/events", a.events)
	mux.HandleFunc("POST /v1/events/tokens", a.eventToken)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { noOperation(mux, r).write(w) })
	a.handler = a.guarded(mux)
	return a, nil
}

// Handler returns the handler of all requests.
func (a *API) Handler() http.Handler { return a.handler }

// SetAway sets whether the database is unavailable, as the caller's heartbeats find it. While it
// is, every call is answered with 503 at once.
func (a *API) SetAway(away bool) {
	switch {
	case !away:
		a.away.Store(nil)
	case a.away.Load() == nil:
		a.away.Store(new(time.Now()))
	}
}

// NoteUses stores how often each token was used since the last call.
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

// bearer returns the caller that guarded has found.
func bearer(ctx context.Context) outbox.Bearer {
	who, _ := ctx.Value(bearerKey{}).(outbox.Bearer)
	return who
}

// guarded passes on a request whose token is in force and within its quota, and counts its answer.
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
		if mark := r.Header.Get(outbox.CallHeader); isMark(mark) {
			seen.Header().Set(outbox.CallHeader, mark)
		}
		if r.URL.Path == "/v1/events" {
			a.allowOrigin(seen, r) // also for a refusal, so that the page can read the reason
		}
		if operation == opOpenAPI || r.URL.Path == "/v1/events" && r.Method == http.MethodOptions {
			next.ServeHTTP(seen, r)
			return
		}
		if problem := a.admit(&r); problem != nil {
			problem.write(seen)
			return
		}
		if !isClean(r.URL.EscapedPath()) {
			kindNoOperation.saying("The path has an empty part, . or ..: write it as the API describes it.").write(seen)
			return
		}
		if problem := readable(r.URL.RawQuery, operation); problem != nil {
			problem.write(seen)
			return
		}
		if r.Method == http.MethodPost && operation != opBatch {
			r.Body = http.MaxBytesReader(seen, r.Body, a.config.BodyBytesMax)
		}
		next.ServeHTTP(seen, r)
	})
}

// isMark reports whether a caller may have its mark of a call back: 1 to 64 letters, digits, - and _.
func isMark(text string) bool {
	return text != "" && len(text) <= 64 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '-' && r != '_'
	})
}

// admit identifies the caller and adds the bearer to the request's context.
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

// statusWriter records the status of an answer.
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

// Unwrap gives http.ResponseController access to the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
