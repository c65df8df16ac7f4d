package httpjson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Causes of a call that our own clock ended.
var (
	errBudget   = errors.New("the call took longer than all of its timeouts together")
	errBodyTime = errors.New("the answer's body did not come in time")
)

// request is one rendered call.
type request struct {
	method  string
	url     string
	header  http.Header
	body    []byte
	veto    func() error
	onPhase func(rails.Phase)
	// read returns what a complete answer proves, and whether the bank says that its final answer is to come.
	read func(answer) (result rails.Result, more bool)
}

// answer is a complete answer: the header and the whole body were read.
type answer struct {
	status int
	header http.Header
	body   []byte
	kept   bool // from before the call, by a cache on the way
}

// exchange makes one call with at most one request on the wire. It returns what a complete answer
// proves, or what the lack of one does, and which of the two it is.
func (r *Rail) exchange(parent context.Context, q request) (result rails.Result, answered bool) {
	defer r.ended()
	ctx, cancel := context.WithTimeoutCause(parent, r.timeouts.Total(), errBudget)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	t := &ticket{veto: q.veto, onPhase: q.onPhase}
	defer t.settle(false)
	// This is deferred after the two calls that end the context, and so runs before them: a
	// connection whose answer was read to its end serves the next request.
	keepConn := context.AfterFunc(ctx, t.closeConn)
	defer keepConn()
	response, err := r.roundTrip(ctx, q, t)
	if err != nil {
		return r.failed(parent, ctx, t, err), false
	}
	defer response.Body.Close()
	kept := older(response.Header, t.took())
	if !t.seal() {
		// The bank answered before the request: the answer can't be about it.
		return r.failed(parent, ctx, t, errors.New("an answer came before the request was written")), false
	}
	if !t.answered() {
		t.closeConn() // the rest of the connection is of no use either
		return r.failed(parent, ctx, t,
			errors.New("an answer came before the request was written: it belongs to an earlier request")), false
	}
	timer := time.AfterFunc(time.Duration(r.timeouts.Body), func() { stop(errBodyTime) })
	defer timer.Stop()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return r.failed(parent, ctx, t, fmt.Errorf("reading the answer (HTTP %d): %w", response.StatusCode, err)), false
	case len(body) > maxAnswer:
		return r.failed(parent, ctx, t, fmt.Errorf("the answer (HTTP %d) is longer than %d bytes",
			response.StatusCode, maxAnswer)), false
	}
	if q.onPhase != nil {
		q.onPhase(rails.PhaseAnswered)
	}
	result, more := q.read(answer{status: response.StatusCode, header: response.Header, body: body, kept: kept})
	// A connection that the end of the context closes, or has closed, serves none.
	t.settle(keepConn() && !more && ends(result, response.StatusCode))
	return result, true
}

// newRequest leaves GetBody nil, so that the transport can't send the body a second time. It would
// do so by itself for any request with an Idempotency-Key header whose reused connection the bank
// has closed.
func (r *Rail) newRequest(ctx context.Context, q request, t *ticket) (*http.Request, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			// All connections are of this kind. Another one would have no ticket, and every write
			// to it would be refused.
			conn, ok := info.Conn.(*wireConn)
			if !ok {
				return
			}
			conn.await(ctx)
			if conn.attach(t) == nil && q.onPhase != nil {
				q.onPhase(rails.PhaseDialled)
			}
		},
	})
	var body io.Reader
	if len(q.body) > 0 {
		body = bytes.NewReader(q.body)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, q.url, body)
	if err != nil {
		return nil, errors.New("the request's URL can't be built")
	}
	req.GetBody = nil
	req.Header = q.header
	return req, nil
}

// failed returns what the lack of an answer proves. Before the first byte it is NOT_SENT, or
// REFUSED_RAIL if no call of this rail could do better; after it nothing is known, also where the bank
// has refused our certificate: that counts as a refusal of the rail, and proves nothing about the payment.
func (r *Rail) failed(parent, ctx context.Context, t *ticket, err error) rails.Result {
	result := rails.Result{Result: payment.ResultUnknown, FirstByte: t.seal()}
	// Only a cancellation is ours: a deadline may have passed because the bank is slow.
	result.OwnStop = errors.Is(parent.Err(), context.Canceled)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if result.FirstByte {
		result.RailRefused = !result.OwnStop && refusedByAlert(err)
		result.Message = r.clean("no complete answer: " + plainly(err))
		return result
	}
	result.Result = payment.ResultNotSent
	if cause := t.vetoed(); cause != nil {
		result.OwnStop = true
		result.Message = r.clean("stopped before the first byte: " + cause.Error())
		return result
	}
	if !result.OwnStop && brokenForAll(err) {
		result.Result = payment.ResultRefusedRail
	}
	result.Message = r.clean("nothing was sent: " + plainly(err))
	return result
}
