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

// Why a call ended by our own clock.
var (
	errBudget   = errors.New("the call took longer than all of its timeouts together")
	errBodyTime = errors.New("the answer's body did not come in time")
)

// request is one call, rendered and ready.
type request struct {
	method string
	url    string
	header http.Header
	body   []byte
	veto   func() error
	hear   func(rails.Phase)
}

// answer is a complete answer: header and the whole body were read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// exchange makes one call with at most one request on the wire. It gives a
// complete answer, or the result that the lack of one proves.
func (r *Rail) exchange(parent context.Context, q request) (a answer, failure *rails.Result) {
	defer r.ended()
	ctx, cancel := context.WithTimeoutCause(parent, r.timeouts.Total(), errBudget)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	t := &ticket{veto: q.veto, hear: q.hear}
	// Deferred after the two that end the context, so that it runs before them: a
	// connection whose answer was read to its end serves the next request.
	keepConn := context.AfterFunc(ctx, t.closeConn)
	defer keepConn()
	req, err := r.newRequest(ctx, q, t)
	if err != nil {
		return answer{}, &rails.Result{Result: payment.ResultNotSent, Message: r.clean(err.Error())}
	}
	response, err := r.transport.RoundTrip(req)
	if err != nil {
		return answer{}, r.failed(parent, ctx, t, err)
	}
	defer response.Body.Close()
	if !t.seal() {
		// The bank spoke first: whatever it said, it was not about this request.
		return answer{}, r.failed(parent, ctx, t, errors.New("an answer came before the request was written"))
	}
	if !t.answered() {
		t.closeConn() // what else it brings is of no use either
		return answer{}, r.failed(parent, ctx, t, errors.New("an answer was there before the request was written: it is of an earlier request"))
	}
	timer := time.AfterFunc(time.Duration(r.timeouts.Body), func() { stop(errBodyTime) })
	defer timer.Stop()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, r.failed(parent, ctx, t, fmt.Errorf("reading the answer (HTTP %d): %w", response.StatusCode, err))
	case len(body) > maxAnswer:
		return answer{}, r.failed(parent, ctx, t, fmt.Errorf("the answer (HTTP %d) is longer than %d bytes", response.StatusCode, maxAnswer))
	}
	if q.hear != nil {
		q.hear(rails.PhaseAnswered)
	}
	return answer{status: response.StatusCode, header: response.Header, body: body}, nil
}

// newRequest leaves GetBody nil, so that the transport can't send the body a
// second time: it would do so by itself, for any request with an
// Idempotency-Key header, whose reused connection was closed by the bank.
func (r *Rail) newRequest(ctx context.Context, q request, t *ticket) (*http.Request, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			// No other kind of connection exists here; one that did would have
			// no ticket, and every write of it would be refused.
			if conn, ok := info.Conn.(*wireConn); ok && conn.attach(t) == nil && q.hear != nil {
				q.hear(rails.PhaseDialled)
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

// failed says what the lack of an answer proves. Before the first byte it is
// NOT_SENT, or REFUSED_RAIL where no call of this rail could do better; after
// it nothing is known.
func (r *Rail) failed(parent, ctx context.Context, t *ticket, err error) *rails.Result {
	result := &rails.Result{Result: payment.ResultUnknown, FirstByte: t.seal()}
	// Only a stop is ours: a deadline that ran out may be the bank's slowness.
	result.OwnStop = errors.Is(parent.Err(), context.Canceled)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if result.FirstByte {
		result.Message = r.clean("no complete answer: " + err.Error())
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
	result.Message = r.clean("nothing was sent: " + err.Error())
	return result
}
