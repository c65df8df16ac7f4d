// Package callback receives the later reports of rails, over HTTP or from streams in which they are
// kept, and records them by the ledger's late-outcome path. Callbacks are signed and bounded, and may
// be repeated.
package callback

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/callback"
)

// Store is the part of the ledger that the receiver uses.
type Store interface {
	// ByRailKey returns the instruction that has a rail key, or outbox.ErrNotFound.
	ByRailKey(ctx context.Context, railKey payment.ID) (payment.ID, error)
	// RecordLate records an outcome; one whose claim has no number is a callback.
	RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error)
}

// Observer counts events for metrics.
type Observer interface {
	Received(railType, what string)
	Recorded(outcome payment.Outcome, verdict payment.Verdict) // evidence that is durable
}

type nopObserver struct{}

func (nopObserver) Received(string, string)                   {}
func (nopObserver) Recorded(payment.Outcome, payment.Verdict) {}

// Results of a callback for the Observer, in addition to the ledger's verdicts.
const (
	Unsigned   = "UNSIGNED"
	Unreadable = "UNREADABLE"
	NoNews     = "NO_NEWS"
	Unmapped   = "UNMAPPED" // no news either, but of a word that is not configured
	NotOurs    = "NOT_OURS"
	Failed     = "NOT_RECORDED"
	Unread     = "NOT_READ" // what is kept can't be read
	Missed     = "MISSED"   // what was kept may be lost
)

// Recordings bounds the callbacks that are recorded concurrently. The store should have two more
// connections, for heartbeats.
const Recordings = 6

// Receiver serves POST /callbacks/{rail_type}.
type Receiver struct {
	readers  map[string]*callback.Reader
	store    Store
	workerID string
	timeout  time.Duration
	turns    chan struct{}
	watch    Observer
	log      *slog.Logger
	unsigned map[string]*service.LogBound // lines of the log about callbacks without a signature, by rail
	// Tracer, if set before the first callback, starts the span of each.
	Tracer trace.Tracer
	// Suspended reports whether the database may have forgotten payments. The rail is then asked to
	// repeat a callback for an unknown payment. Nil: never.
	Suspended func() bool
	// Checked reports whether the server was found to be the one that it was. What is kept waits until then, since
	// days of it could be recorded on a server that forgets them. Nil: always.
	Checked func() bool
}

// NewReceiver returns a Receiver with the readers by rail. The timeout bounds the wait of a
// callback for its turn, and then its recording.
func NewReceiver(
	readers map[string]*callback.Reader, store Store, workerID string, timeout time.Duration, watch Observer,
	log *slog.Logger,
) (*Receiver, error) {
	if len(readers) == 0 {
		return nil, errors.New("no rail is configured for callbacks: give one a callback section")
	}
	if workerID == "" || timeout <= 0 {
		return nil, errors.New("the receiver needs a worker id and a timeout")
	}
	if watch == nil {
		watch = nopObserver{}
	}
	unsigned := make(map[string]*service.LogBound, len(readers))
	for railType := range readers {
		unsigned[railType] = &service.LogBound{Rest: func(leftOut int) {
			log.Warn("callbacks refused within a minute, more than are logged", "rail_type", railType, "not_logged", leftOut)
		}}
	}
	return &Receiver{readers: readers, store: store, workerID: workerID, timeout: timeout,
		turns: make(chan struct{}, Recordings), watch: watch, log: log, unsigned: unsigned}, nil
}

// Register adds the endpoint to a mux.
func (r *Receiver) Register(mux *http.ServeMux) {
	mux.Handle("POST /callbacks/{rail_type}", r)
}

// answer is what a callback is answered over HTTP.
type answer struct {
	status int
	why    string // empty for 204
	later  bool   // with 503: the database may have forgotten the payment
}

var recorded = answer{status: http.StatusNoContent}

// ServeHTTP answers 204 once the evidence is durable, whatever it changed. It also answers 204 for
// a payment whose month has left the archive, of which only the log's line is kept: repeating the
// callback would change nothing, and some rails stop all reports after a 410. It answers 401 and
// 400 for callbacks that will never be accepted; 404 for a payment or a rail that is not ours; and
// 503 if the rail should repeat the callback, also for a payment that the database may have
// forgotten, and after a body that did not come whole.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	railType := request.PathValue("rail_type")
	reader, ok := r.readers[railType]
	if !ok {
		http.Error(w, "this rail has no callbacks here", http.StatusNotFound)
		return
	}
	ctx, span := r.begin(request.Context(), railType)
	defer span.End()
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, callback.MaxBody))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		r.watch.Received(railType, Unreadable)
		http.Error(w, fmt.Sprintf("the body is longer than %d bytes", callback.MaxBody), http.StatusBadRequest)
		return
	}
	if err != nil { // of the rest it is not known what it says
		r.watch.Received(railType, Failed)
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the body did not come whole and in time, send it again", http.StatusServiceUnavailable)
		return
	}
	event, err := reader.Read(request.Header, body)
	said := r.take(ctx, railType, event, err)
	if said.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	if said.why != "" {
		http.Error(w, said.why, said.status)
		return
	}
	w.WriteHeader(said.status)
}

// Kept takes what is kept for a rail that has a reader, by the rules of [Receiver.ServeHTTP]. It is a callback.Taker.
func (r *Receiver) Kept(railType string) callback.Taker { return taker{r, railType} }

type taker struct {
	*Receiver
	railType string
}

// Take implements callback.Taker. The sender does not hear of an answer that refuses, as one over HTTP does, so that a
// fault of our own, such as a missing secret, must not end the callback: it comes again for a day.
func (t taker) Take(ctx context.Context, kept callback.Kept) callback.Fate {
	if t.Checked != nil && !t.Checked() {
		return callback.Again
	}
	ctx, span := t.begin(ctx, t.railType)
	defer span.End()
	var event callback.Event
	err := fmt.Errorf("%w: it is longer than %d bytes", callback.ErrUnreadable, callback.MaxBody)
	if !kept.TooLong && len(kept.Body) <= callback.MaxBody {
		event, err = t.readers[t.railType].ReadKept(kept.Header, kept.Body)
	}
	switch said := t.take(ctx, t.railType, event, err); {
	case said.status == http.StatusNoContent:
		return callback.Taken
	case said.later:
		return callback.Later
	case said.status == http.StatusServiceUnavailable:
		return callback.Again
	default:
		level, message := slog.LevelWarn, "a callback that is kept is refused; it comes again"
		if kept.Last {
			level, message = slog.LevelError, "a callback that is kept was refused for a day and is given up"
		}
		t.log.Log(ctx, level, message, "rail_type", t.railType, "from", kept.From, "delivery", kept.Deliveries,
			"webhook_id", rails.Sanitize(kept.Header.Get("webhook-id")), "error", said.why)
		return callback.Refused
	}
}

// Unread implements callback.Taker.
func (t taker) Unread(ctx context.Context, why error) {
	t.watch.Received(t.railType, Unread)
	t.log.ErrorContext(ctx, "callbacks can't be read where they are kept, or their position can't be stored: those that "+
		"were not read wait there", "rail_type", t.railType, "error", why)
}

// Missed implements callback.Taker.
func (t taker) Missed(ctx context.Context, why error) {
	t.watch.Received(t.railType, Missed)
	t.log.ErrorContext(ctx, "callbacks may be lost where they were kept: compare the payments with the rail's own "+
		"statement", "rail_type", t.railType, "error", why)
}

// take makes the evidence of a callback durable, if it could be read.
func (r *Receiver) take(ctx context.Context, railType string, event callback.Event, err error) answer {
	switch {
	case errors.Is(err, callback.ErrUnsigned):
		r.watch.Received(railType, Unsigned)
		if leftOut, ok := r.unsigned[railType].Next(); ok { // any client may send one
			r.log.WarnContext(ctx, "callback refused", "rail_type", railType, "error", err, "not_logged", leftOut)
		}
		return answer{status: http.StatusUnauthorized, why: callback.ErrUnsigned.Error()}
	case err != nil:
		r.watch.Received(railType, Unreadable)
		r.log.WarnContext(ctx, "callback refused", "rail_type", railType, "error", err)
		return answer{status: http.StatusBadRequest, why: err.Error()}
	case event.Result == "":
		what := NoNews
		if event.Unmapped {
			what = Unmapped
		}
		r.watch.Received(railType, what)
		if event.Doubt != "" {
			r.log.WarnContext(ctx, "callback proves nothing", "rail_type", railType,
				"rail_key", payment.RailKey(event.RailKey), "code", event.Code, "error", event.Doubt)
		}
		return recorded
	default:
		return r.record(ctx, railType, event)
	}
}

// errNoTurn is the error of a callback that waited too long for its turn.
var errNoTurn = errors.New("too many callbacks at once")

// record makes the evidence durable before it answers. The rail may close the connection meanwhile:
// the recording has its own deadline, which starts with its turn. A recording that is cut off loses
// its database connection, and the first one on a new connection takes much longer. If the wait
// counted, a crowd of callbacks would leave only new connections.
func (r *Receiver) record(ctx context.Context, railType string, event callback.Event) answer {
	ctx = context.WithoutCancel(ctx)
	var outboxID payment.ID
	var outcome payment.Outcome
	var verdict payment.Verdict
	err := r.inTurn(ctx, func(ctx context.Context) (err error) {
		if outboxID, err = r.store.ByRailKey(ctx, event.RailKey); err != nil {
			return err
		}
		outcome = r.outcome(railType, outboxID, event)
		r.nameInstruction(ctx, outboxID, event)
		verdict, err = r.store.RecordLate(ctx, outcome)
		return err
	})
	endRecord(ctx, verdict, err)
	forgotten := errors.Is(err, outbox.ErrNotFound) && r.Suspended != nil && r.Suspended()
	switch {
	case errors.Is(err, outbox.ErrNotFound) && !forgotten:
		r.watch.Received(railType, NotOurs)
		r.log.WarnContext(ctx, "callback for a payment that is not ours",
			"rail_type", railType, "rail_key", payment.RailKey(event.RailKey))
		return answer{status: http.StatusNotFound, why: "no such payment"}
	case err != nil:
		r.watch.Received(railType, Failed)
		r.log.ErrorContext(ctx, "callback not recorded; it is asked for again",
			"rail_type", railType, "outbox_id", outboxID, "error", err)
		return answer{status: http.StatusServiceUnavailable, why: "not recorded, send it again",
			later: forgotten || errors.Is(err, outbox.ErrMayBeForgotten)}
	default:
		r.watch.Received(railType, string(verdict))
		r.watch.Recorded(outcome, verdict)
		level, message := slog.LevelInfo, "callback recorded"
		switch verdict {
		case payment.VerdictConflict:
			level = slog.LevelError
		case payment.VerdictRetired:
			level, message = slog.LevelWarn, "callback for a payment that has left the archive: it is kept only in this log"
		}
		r.log.Log(ctx, level, message, "rail_type", railType, "outbox_id", outboxID, "result", event.Result,
			"rail_reference", event.Reference, "verdict", verdict)
		return recorded
	}
}

// inTurn waits for a turn, and then calls do with the timeout.
func (r *Receiver) inTurn(ctx context.Context, do func(context.Context) error) error {
	wait := time.NewTimer(r.timeout)
	defer wait.Stop()
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-wait.C:
		return errNoTurn
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return do(ctx)
}

func (r *Receiver) outcome(railType string, outboxID payment.ID, event callback.Event) payment.Outcome {
	decision := payment.Decision{State: payment.Dispatched}
	if event.Result == payment.ResultRefused {
		decision = payment.Decision{State: payment.Failed, Reason: payment.DeadFailed}
	}
	return payment.Outcome{
		AttemptID: attemptID(railType, outboxID, event), Claim: payment.Claim{OutboxID: outboxID, RailType: railType},
		Result: event.Result, Decision: decision, RailReference: event.Reference, RailCode: event.Code,
		ErrorMessage: "by callback " + rails.Sanitize(event.ID), WorkerID: r.workerID,
	}
}

// attemptID returns the same id for the same event of the same rail with the same content about the
// same payment, so that the ledger recognizes a repeated callback as its own row. Some rails number
// their events by payment, or by change of status: the id of the event alone does not distinguish
// two reports. It is a UUID of version 8 (RFC 9562, section 5.8).
func attemptID(railType string, outboxID payment.ID, event callback.Event) payment.ID {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		"callback", railType, event.ID, outboxID.String(), string(event.Result), event.Reference, event.Code}, "\x1f")))
	id := payment.ID(sum[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
