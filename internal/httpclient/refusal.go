package httpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// problem is an error in an answer.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Field  string `json:"field"`
	Rule   string `json:"rule"`
	Hint   string `json:"hint"`
	Commit string `json:"commit"`
	After  int    `json:"retry_after"` // seconds
}

var (
	// errNotSaid is the error if a call that changes nothing has no answer that can be read.
	errNotSaid = errors.New("the API has given no answer that can be read")
	// errNoOperation is the error if an API does not have the operation of a call. It has done nothing.
	errNoOperation = errors.New("the API has no such operation: see whether the base URL is its address")
)

// silence is the error if what a call has done is not said.
func silence(method string) error {
	if method == http.MethodGet {
		return errNotSaid
	}
	return outbox.ErrCommitUnknown
}

// ofAPI reports whether the API itself has answered with the problem. A gateway, which may answer anything at any time,
// has not: what it says is said of no payment.
func (p problem) ofAPI() bool { return strings.HasPrefix(p.Type, outbox.ProblemsAt) }

// is reports whether the problem is of a type of the API.
func (p problem) is(name string) bool { return p.Type == outbox.ProblemsAt+name+outbox.ProblemsEnd }

// errOf returns the error that ingest.Ingest has for the same refusal of a call.
func (p problem) errOf(method string, status int) error {
	fault := &outbox.Fault{SQLState: p.Code, Message: cmp.Or(p.Detail, p.Title), Hint: p.Hint, Field: p.Field,
		Rule: p.Rule}
	switch {
	case p.Code != "" && (status < 500 || p.Commit == "none"): // a gateway may have a code of its own
		return fault
	case status == http.StatusUnauthorized:
		fault.SQLState = outbox.StateToken
	case status == http.StatusForbidden:
		fault.SQLState = outbox.StateForbidden
	case p.is("not-found") && method == http.MethodGet:
		return outbox.ErrNotFound
	case status == http.StatusNotFound:
		return errNoOperation
	case status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || p.Commit == "none":
		return fmt.Errorf("%w: %s", outbox.ErrBusy, p.Title)
	case status >= 500:
		return fmt.Errorf("%w: %s", silence(method), cmp.Or(p.Title, strconv.Itoa(status)))
	default:
		fault.SQLState = outbox.StateInvalid
	}
	return fault
}

// inDoubt returns the error of a call that an attempt has done, or may have done, in whole or in part:
// ErrCommitUnknown. The last error is then only text, so that callers do not branch on it.
func inDoubt(doubt bool, last error) error {
	if !doubt || errors.Is(last, outbox.ErrCommitUnknown) {
		return last
	}
	//nolint:errorlint // on purpose
	return fmt.Errorf("%w: an attempt may have stored something; the last one returned: %v", outbox.ErrCommitUnknown, last)
}

// later is an error that may disappear after a while.
type later struct {
	error
	after time.Duration
}

func (l later) Unwrap() error { return l.error }

// askedFor returns the time after which an error may disappear; 0: none was asked for.
func askedFor(err error) time.Duration {
	asked, _ := errors.AsType[later](err)
	return asked.after
}

// inSeconds is an error whose call may succeed then.
func inSeconds(err error, seconds int) error {
	return later{err, min(time.Duration(min(max(seconds, 0), 3600))*time.Second, askedMax)}
}

// problemOf returns the problem in an answer. What is no problem has no type.
func problemOf(text []byte) (said problem) {
	json.Unmarshal(text, &said) //nolint:errcheck // see above
	return said
}

// refusal returns the error of an answer that is no success, and whether it is final.
func refusal(method string, response *http.Response, text []byte) (final bool, err error) {
	said := problemOf(text)
	if status := response.StatusCode; said.ofAPI() {
		err = said.errOf(method, status)
		final = status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
	} else {
		err = fmt.Errorf("%w: status %d, and not from the API", silence(method), status)
	}
	if final {
		return true, err
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return false, inSeconds(err, seconds)
}

// pause waits for the backoff, less a jitter of up to half, and at least for the time that the API asks for.
func (h *HTTP) pause(ctx context.Context, repetition int, last error) error {
	wait := min(h.config.Backoff<<min(repetition-1, 16), backoffMax)
	wait -= time.Duration(rand.Int64N(int64(wait)/2 + 1))
	if asked := askedFor(last); asked > 0 {
		wait = max(wait, asked+time.Duration(rand.Int64N(int64(h.config.Backoff)/2+1)))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
