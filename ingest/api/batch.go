package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// The bounds of a batch. One chunk of it is in memory, and the line after it.
const (
	batchLinesMax = 10_000
	batchBytesMax = 64 << 20
	chunkLinesMax = 256
	chunkBytesMax = 1 << 20
	chunkLull     = 5 * time.Millisecond // time without a line after which a chunk is stored
)

// batchLine is a line of the answer: the result of one line, or the end.
type batchLine struct {
	Line       int      `json:"line,omitempty" doc:"The number of the line that it answers, from 1; absent in the end line"`
	Status     int      `json:"status" doc:"As the status of a single call: 201 new, 200 known, otherwise a problem. In the end line: 200, or why the rest was not read"`
	Accepted   *seen    `json:"instruction,omitempty"`
	Problem    *Problem `json:"problem,omitempty"`
	End        bool     `json:"end,omitempty" doc:"Set in the last line of the answer"`
	Lines      int      `json:"lines,omitempty" doc:"In the end line: the number of lines answered"`
	Created    int      `json:"created,omitempty" doc:"In the end line: the number that were new"`
	Replayed   int      `json:"replayed,omitempty" doc:"In the end line: the number that were known"`
	RefusedNum int      `json:"refused,omitempty" doc:"In the end line: the number that were refused"`
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// batching is one batch under way.
type batching struct {
	api     *API
	who     outbox.Bearer
	known   *knownToken
	trace   map[string]string
	control *http.ResponseController
	out     *bufio.Writer
	end     batchLine
}

// readLine is one line, or the reason why there is none.
type readLine struct {
	text []byte
	err  error
}

var (
	errLineTooLong = errors.New("a line is too long")
	errTooMuch     = errors.New("too many lines or bytes")
)

// batch reads instructions line by line and answers each, in order, while it continues to read.
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
	b := &batching{
		api: a, who: who, known: known, trace: traceOf(r.Header.Get("Traceparent"), r.Header.Get("Tracestate")),
		control: http.NewResponseController(w), out: bufio.NewWriter(w), end: batchLine{End: true, Status: http.StatusOK},
	}
	if err := b.control.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		problemInternal().write(w)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	ctx, stop := context.WithCancel(r.Context())
	lines := make(chan readLine)
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(ctx, r.Body, lines)
	}()
	defer func() {
		stop()
		b.control.SetReadDeadline(time.Now()) //nolint:errcheck // the reader ends by it, or by its own deadline
		<-read
	}()
	b.run(ctx, lines)
	b.write(b.end)
	b.out.Flush()     //nolint:errcheck // the caller has disconnected
	b.control.Flush() //nolint:errcheck // the caller has disconnected
}

// read reads lines until the body ends, a bound is reached or no byte comes for too long. A broken
// connection also ends the request's context, so its error may not be sent.
func (b *batching) read(ctx context.Context, body io.Reader, lines chan<- readLine) {
	defer close(lines)
	reader := bufio.NewReaderSize(body, 16<<10)
	bytesLeft := batchBytesMax
	end := time.Now().Add(b.api.config.BatchTimeMax)
	for n := 0; ; {
		patience := min(b.api.config.IdleMax, time.Until(end))
		b.control.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // without deadlines the server has its own
		text, err := oneLine(reader, int(b.api.config.BodyBytesMax))
		if bytesLeft -= len(text); bytesLeft < 0 {
			err = errTooMuch
		}
		next := readLine{text, err}
		if n++; err == nil && n > batchLinesMax { // blank lines count too, or they would occupy the place without end
			next = readLine{err: errTooMuch}
		}
		if next.err == nil && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		select {
		case lines <- next:
		case <-ctx.Done():
			return
		}
		if next.err != nil {
			return
		}
	}
}

// oneLine reads a line of at most so many bytes. The last one may lack the line end.
func oneLine(reader *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := reader.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, errLineTooLong
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0:
			return line, nil
		default:
			return line, err
		}
	}
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
		case errors.Is(err, errLineTooLong), errors.Is(err, errTooMuch):
			b.ends(kindTooLarge.saying("Send it in parts: the rest was not read."))
			return
		case b.api.draining.Err() != nil:
			b.ends(problemUnavailable(commitNone))
			return
		default:
			b.ends(kindBadRequest.saying("The rest did not come in time."))
			return
		}
	}
}

func (b *batching) ends(problem *Problem) {
	b.end.Status, b.end.Problem = problem.Status, problem
}

// gather waits for a line, and adds those that follow closely.
func (b *batching) gather(lines <-chan readLine) (chunk [][]byte, err error) {
	size := 0
	var lull <-chan time.Time
	for len(chunk) < chunkLinesMax && size < chunkBytesMax {
		select {
		case next, more := <-lines:
			if !more {
				return chunk, io.ErrUnexpectedEOF // the connection broke
			}
			if next.err != nil {
				return chunk, next.err
			}
			chunk, size = append(chunk, next.text), size+len(next.text)
		case <-lull:
			return chunk, nil
		case <-b.api.draining.Done():
			return chunk, context.Canceled
		}
		lull = time.After(chunkLull)
	}
	return chunk, nil
}

// enqueue enqueues a chunk and answers its lines. It reports whether the batch continues: if the
// store can't tell what it did with a line, the rest is not read.
func (b *batching) enqueue(ctx context.Context, chunk [][]byte) bool {
	answers := make([]batchLine, len(chunk))
	var all []outbox.Entrusted
	var from []int
	for n, text := range chunk {
		answers[n].Line = b.end.Lines + n + 1
		in, problem := readInstruction(text, true)
		if problem == nil && in.IdempotencyKey == "" {
			problem = kindInvalid.of("idempotency_key", "FORM", "Each line has its idempotency_key.")
		}
		if problem == nil {
			if wait := b.known.take(1); wait > 0 {
				problem = problemOverQuota(wait)
			}
		}
		if problem != nil {
			answers[n].Status, answers[n].Problem = problem.Status, problem
			continue
		}
		in.Headers = b.trace
		all, from = append(all, in), append(from, n)
	}
	goesOn := true
	if len(all) > 0 {
		storing, cancel := context.WithTimeout(ctx, b.api.config.StoreTimeout)
		results, err := b.api.store.EnqueueBatch(storing, b.who, all)
		cancel()
		for n, at := range from {
			answer := &answers[at]
			switch {
			case err != nil:
				answer.Problem = b.api.refused(ctx, opBatch, err)
			case results[n].Fault != nil:
				answer.Problem = problemOfFault(results[n].Fault)
			default:
				answer.Accepted, answer.Status = new(taken(all[n], results[n].Receipt)), http.StatusCreated
				if results[n].Receipt.Replayed {
					answer.Status = http.StatusOK
				}
			}
			if answer.Problem != nil {
				answer.Status = answer.Problem.Status
			}
		}
		if err != nil {
			b.ends(problemOf(err))
			goesOn = false
		}
	}
	for _, answer := range answers {
		b.end.Lines++
		switch answer.Status {
		case http.StatusCreated:
			b.end.Created++
		case http.StatusOK:
			b.end.Replayed++
		default:
			b.end.RefusedNum++
		}
		b.write(answer)
	}
	if b.out.Flush() != nil || b.control.Flush() != nil {
		return false
	}
	return goesOn
}

func (b *batching) write(line batchLine) {
	//nolint:errcheck // without deadlines the server has its own
	b.control.SetWriteDeadline(time.Now().Add(b.api.config.IdleMax))
	text, err := json.Marshal(line)
	if err != nil {
		return // batchLine has no value that can't be encoded
	}
	b.out.Write(append(text, '\n')) //nolint:errcheck // Flush returns it
}
