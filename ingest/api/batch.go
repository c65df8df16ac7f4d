package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// The bounds of a batch. One chunk of it is in memory, the line after it, and the answers that were not taken yet.
const (
	batchLinesMax = 10_000
	batchBytesMax = 64 << 20
	chunkLinesMax = 256
	chunkBytesMax = 1 << 20
	chunkLull     = 5 * time.Millisecond // time without a line after which a chunk is stored
)

// batchLine is a line of the answer: the result of one line, or the end.
type batchLine struct {
	Line       int      `json:"line,omitempty" doc:"The number of the line that it answers, from 1, where blank lines are not counted; absent in the end line"`
	Status     int      `json:"status" doc:"As the status of a single call: 201 new, 200 known, otherwise a problem. In the end line: 200, or why the rest was not read"`
	Accepted   *seen    `json:"instruction,omitempty"`
	Problem    *Problem `json:"problem,omitempty"`
	End        bool     `json:"end,omitempty" doc:"Set in the last line of the answer"`
	Lines      int      `json:"lines,omitempty" doc:"In the end line: the number of lines answered; no line behind them was stored"`
	Created    int      `json:"created,omitempty" doc:"In the end line: the number that were new"`
	Replayed   int      `json:"replayed,omitempty" doc:"In the end line: the number that were known"`
	RefusedNum int      `json:"refused,omitempty" doc:"In the end line: the number of all others: refused, or not known to be stored"`
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// batching is one batch under way.
type batching struct {
	api     *API
	who     outbox.Bearer
	known   *knownToken
	trace   map[string]string
	control *http.ResponseController
	out     *answers
	end     batchLine
	until   time.Time           // the end of the batch
	over    int                 // lines over the token's quota
	vain    time.Duration       // that chunks took whose cells did not answer
	most    int                 // lines of one call of the store; fewer once a cell has refused so many
	held    map[string]heldLine // the first of a participant's that may be stored later: what follows waits for it
}

// batch reads instructions line by line and answers each, in order, while it continues to read. Its caller may write
// all lines before it takes the first answer.
func (a *API) batch(w http.ResponseWriter, r *http.Request) {
	// The rest of a body that was not read to its end would be taken for the next request.
	w.Header().Set("Connection", "close")
	if problem := wantType(r.Header.Get("Content-Type"), "application/x-ndjson"); problem != nil {
		problem.write(w)
		return
	}
	who := bearer(r.Context())
	known, err := a.tokens.find(r.Context(), who.Token)
	if err != nil {
		problemOf(err).write(w)
		return
	}
	if !known.enters(max(1, a.config.BatchesMax/2)) {
		problemOverQuota(time.Second).write(w)
		return
	}
	defer known.leaves()
	if !known.isFor(outbox.VerbEnqueue) {
		kindForbidden.of("token", "VERB", "The token is not for enqueuing.").write(w)
		return
	}
	select {
	case a.batches <- struct{}{}:
		defer func() { <-a.batches }()
	default:
		problemUnavailable(commitNone).write(w)
		return
	}
	control, until := http.NewResponseController(w), time.Now().Add(a.config.BatchTimeMax)
	b := &batching{
		api: a, who: who, known: known, trace: traceOf(r.Header.Get("Traceparent"), r.Header.Get("Tracestate")),
		control: control, out: newAnswers(control, a.config.IdleMax, until), until: until,
		end: batchLine{End: true, Status: http.StatusOK}, most: chunkLinesMax, held: map[string]heldLine{},
	}
	if err := b.control.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		problemInternal().write(w)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	ctx, stop := context.WithCancel(r.Context())
	lines, sent := make(chan readLine), make(chan error, 1)
	var both sync.WaitGroup
	both.Go(func() {
		b.read(ctx, r.Body, lines)
		b.out.bodyRead()
	})
	both.Go(func() { sent <- b.out.deliver(w) })
	defer func() {
		b.out.end()
		stop()
		b.control.SetReadDeadline(time.Now()) //nolint:errcheck // the reader ends by it, or by its own deadline
		both.Wait()
		if err := <-sent; err != nil {
			a.cutOff(r.Context(), w, b.end, err)
		}
	}()
	b.run(ctx, lines)
	b.out.add(b.end)
}

// cutOff notes that a batch was begun with 200 and its answer did not reach the caller whole: counted as 408.
func (a *API) cutOff(ctx context.Context, w http.ResponseWriter, end batchLine, err error) {
	if seen, ok := w.(*statusWriter); ok {
		seen.status = http.StatusRequestTimeout
	}
	a.log.WarnContext(ctx, "the answer to a batch was cut off: its caller has gone, or does not read",
		"lines_answered", end.Lines, "lines_created", end.Created, "error", err)
}

// run enqueues the lines in chunks until there are no more.
func (b *batching) run(ctx context.Context, lines <-chan readLine) {
	for {
		chunk, err := b.gather(lines)
		if len(chunk) > 0 && !b.enqueue(ctx, chunk) {
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return
		case errors.Is(err, errTooMuch):
			b.ends(kindTooLarge.saying("Send it in parts: the rest was not read."))
			return
		case b.api.draining.Err() != nil:
			b.ends(problemUnavailable(commitNone))
			return
		default:
			b.ends(kindSlow.saying("The rest was not read."))
			return
		}
	}
}

func (b *batching) ends(problem *Problem) {
	b.end.Status, b.end.Problem = problem.Status, problem
}
