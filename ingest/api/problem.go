package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/railhead-pay/railhead/outbox"
)

// What a 5xx states about the enqueue that it answers.
const (
	commitNone    = "none"    // nothing was stored
	commitUnknown = "unknown" // something may have been stored
)

// Problem is an error in the form of RFC 9457. It contains no value of a payload.
type Problem struct {
	Type   string `json:"type" format:"uri" doc:"The type of the problem; each type has a page"`
	Title  string `json:"title" doc:"The problem in a few words, the same for all of its type"`
	Status int    `json:"status" doc:"The status of the answer"`
	Detail string `json:"detail,omitempty" doc:"What is wrong with this call"`
	Code   string `json:"code,omitempty" doc:"The SQLSTATE of the refusal, as listed in docs/ingest.md"`
	Field  string `json:"field,omitempty" doc:"The field that is wrong, to branch on"`
	Rule   string `json:"rule,omitempty" doc:"The rule that it breaks, to branch on"`
	Hint   string `json:"hint,omitempty" doc:"What to do"`
	Commit string `json:"commit,omitempty" enum:"none,unknown" doc:"In a 5xx: whether anything was stored. In both cases the call may be repeated with the same key"`
	allow  string // the methods of the path, in a 405
	After  int    `json:"retry_after,omitempty" minimum:"1" doc:"In a 429 or 503: the seconds to wait before the call is repeated, as in Retry-After"`
}

// wait sets after which time the call may be repeated, rounded up to seconds.
func (p *Problem) wait(after time.Duration) { p.After = int(math.Ceil(after.Seconds())) }

// kind is a type of problem. Names are part of the contract, and never change.
type kind struct {
	name   string
	status int
	title  string
}

var (
	kindBadRequest    = kind{"bad-request", 400, "The request can not be read"}
	kindKeyMissing    = kind{"idempotency-key-missing", 400, "The request has no Idempotency-Key"}
	kindUnauthorized  = kind{"unauthorized", 401, "The request shows no token that is in force"}
	kindForbidden     = kind{"forbidden", 403, "The token is not for this"}
	kindNotFound      = kind{"not-found", 404, "There is no such instruction"}
	kindNoOperation   = kind{"no-such-operation", 404, "The API has no such operation"}
	kindMethod        = kind{"method-not-allowed", 405, "The method is not one of this path"}
	kindSlow          = kind{"request-timeout", 408, "The request did not come in time"}
	kindKeyReused     = kind{"key-reused", 409, "The Idempotency-Key was used with other content"}
	kindSecondKey     = kind{"second-key", 409, "The instruction is enqueued under another key"}
	kindNotAllowed    = kind{"not-allowed", 409, "The state of the instruction does not allow this"}
	kindTooLarge      = kind{"too-large", 413, "The request is too large"}
	kindMediaType     = kind{"unsupported-media-type", 415, "The content type is not one that is taken"}
	kindInvalid       = kind{"invalid-instruction", 422, "The instruction is refused"}
	kindOverQuota     = kind{"over-quota", 429, "The token's quota is used up for now"}
	kindNotOffered    = kind{"not-offered", 501, "This installation does not offer this"}
	kindInternal      = kind{"internal", 500, "The request has failed"}
	kindUnavailable   = kind{"unavailable", 503, "The service can not do this now"}
	kindOtherCell     = kind{"other-cell", 503, "The participant belongs to another cell"}
	kindClosed        = kind{"enqueue-closed", 503, "Enqueue is closed"}
	kindCommitUnknown = kind{"commit-unknown", 503, "The instruction may or may not be stored"}
)

// kinds returns every type of problem; docs/problems has a page for each.
func kinds() []kind {
	return []kind{
		kindBadRequest, kindKeyMissing, kindUnauthorized, kindForbidden, kindNotFound, kindNoOperation, kindMethod,
		kindSlow, kindKeyReused,
		kindSecondKey, kindNotAllowed,
		kindTooLarge, kindMediaType, kindInvalid, kindOverQuota, kindNotOffered, kindInternal, kindUnavailable, kindOtherCell,
		kindClosed, kindCommitUnknown,
	}
}

func (k kind) problem() *Problem {
	return &Problem{Type: outbox.ProblemsAt + k.name + outbox.ProblemsEnd, Title: k.title, Status: k.status}
}

func (k kind) saying(detail string) *Problem {
	p := k.problem()
	p.Detail = detail
	return p
}

func (k kind) of(field, rule, detail string) *Problem {
	p := k.saying(detail)
	p.Field, p.Rule = field, rule
	return p
}

// is reports whether a problem is of a type.
func (p *Problem) is(k kind) bool { return p.Type == outbox.ProblemsAt+k.name+outbox.ProblemsEnd }

func (p *Problem) Error() string { return p.Title }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of RFC 9457.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns the headers of the answer.
func (p *Problem) GetHeaders() http.Header {
	headers := http.Header{}
	if p.After > 0 {
		headers.Set("Retry-After", strconv.Itoa(p.After))
	}
	if p.allow != "" {
		headers.Set("Allow", p.allow)
	}
	if p.is(kindUnauthorized) {
		headers.Set("WWW-Authenticate", "Bearer")
	}
	return headers
}

// write answers with the problem.
func (p *Problem) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p) //nolint:errcheck // the caller has disconnected
}

func problemUnauthorized() *Problem { return kindUnauthorized.problem() }
func problemNotFound() *Problem     { return kindNotFound.problem() }
func problemInternal() *Problem {
	p := kindInternal.problem()
	p.Commit = commitUnknown
	return p
}

func problemOverQuota(after time.Duration) *Problem {
	p := kindOverQuota.problem()
	p.wait(after)
	return p
}

func problemUnavailable(commit string) *Problem {
	p := kindUnavailable.problem()
	if p.Commit = commit; commit == commitUnknown {
		p = kindCommitUnknown.problem()
		p.Commit, p.Hint = commit, "Repeat the call with the same key and content: it never makes a second instruction."
	}
	p.wait(time.Second)
	return p
}

// problemOf returns the problem for an error of the store.
func problemOf(err error) *Problem {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem
	}
	if fault, ok := errors.AsType[*outbox.Fault](err); ok {
		return problemOfFault(fault)
	}
	switch {
	case errors.Is(err, outbox.ErrCommitUnknown):
		return problemUnavailable(commitUnknown)
	case errors.Is(err, outbox.ErrToken):
		return problemUnauthorized()
	case errors.Is(err, outbox.ErrForbidden):
		return kindForbidden.of("token", "PARTICIPANT", "The token is not for reading, or not for one of these participants.")
	case errors.Is(err, outbox.ErrNotFound):
		return problemNotFound()
	default: // every other error of the store means that nothing was stored
		return problemUnavailable(commitNone)
	}
}

// problemOfFault returns the problem for a refusal of the database.
func problemOfFault(fault *outbox.Fault) *Problem {
	p := kindInvalid.problem()
	switch fault.SQLState {
	case outbox.StateConflict:
		p = kindKeyReused.problem()
	case outbox.StateSecondKey:
		p = kindSecondKey.problem()
	case outbox.StateTooLarge:
		p = kindTooLarge.problem()
	case outbox.StateToken:
		return problemUnauthorized()
	case outbox.StateForbidden:
		p = kindForbidden.problem()
	case outbox.StateNoInstruction:
		return problemNotFound()
	case outbox.StateNotAllowed:
		p = kindNotAllowed.problem()
	case outbox.StateEnqueueClosed:
		// Callers are not told who closed it and why.
		p = kindClosed.of(fault.Field, fault.Rule, "An operator has closed enqueue for a while. Nothing was stored.")
		p.Code, p.Commit, p.Hint = fault.SQLState, commitNone, fault.Hint
		p.wait(time.Minute)
		return p
	case outbox.StateOtherCell:
		// Callers are not told which cells there are.
		p = kindOtherCell.of(fault.Field, fault.Rule,
			"No cell that this process serves takes the participant's instructions now. This call stored nothing.")
		p.Code, p.Commit = fault.SQLState, commitNone
		p.wait(time.Second)
		p.Hint = "Repeat the call with the same key and content, here or at the API of the participant's cell."
		return p
	case outbox.StateCommitUnknown:
		return problemUnavailable(commitUnknown)
	case outbox.StateBusy, outbox.StateContended, outbox.StateSecondKeys:
		p = problemUnavailable(commitNone)
		p.Code = fault.SQLState
		return p
	}
	p.Field, p.Rule = fault.Field, fault.Rule
	if strings.HasPrefix(fault.SQLState, "RH") {
		p.Code, p.Detail, p.Hint = fault.SQLState, sentences(fault.Message, fault.Detail), fault.Hint
	} else {
		// The server's own message may quote the text that it rejected.
		p.Code, p.Detail = fault.SQLState, "The database can not read this instruction, such as for a character U+0000 in it."
	}
	return p
}

// quieten makes huma answer with our problems: its own errors echo the values that it refuses,
// including whole bodies.
var quieten = sync.OnceFunc(func() {
	huma.NewError = func(status int, _ string, errs ...error) huma.StatusError { return plainly(status, errs) }
	huma.NewErrorWithContext = func(_ huma.Context, status int, _ string, errs ...error) huma.StatusError {
		return plainly(status, errs)
	}
})

// plainly names the places that huma refuses, and no value.
func plainly(status int, errs []error) *Problem {
	p := kindBadRequest.problem()
	switch {
	case status == http.StatusNotFound:
		return problemNotFound()
	case status == http.StatusMethodNotAllowed:
		return kindMethod.problem()
	case status == http.StatusRequestTimeout:
		return kindSlow.problem()
	case status == http.StatusUnsupportedMediaType:
		return kindMediaType.problem()
	case status == http.StatusRequestEntityTooLarge:
		return kindTooLarge.problem()
	case status >= 500:
		return problemInternal()
	}
	var places []string
	for _, err := range errs {
		if detail, ok := errors.AsType[interface {
			error
			huma.ErrorDetailer
		}](err); ok {
			places = append(places, bounded(detail.ErrorDetail().Location))
		}
	}
	slices.Sort(places)
	if len(places) > 0 {
		p.Detail = "Not as the API describes it: " + strings.Join(slices.Compact(places), ", ")
		p.Field = places[0]
	}
	return p
}

// bounded returns the printable beginning of a name from outside, at most 64 bytes.
func bounded(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), 64)])
}

// gone reports whether the caller has disconnected.
func gone(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// sentences joins two fields of a PostgreSQL error: a message without a full stop, and a detail in
// whole sentences.
func sentences(message, detail string) string {
	if detail == "" || strings.HasSuffix(message, ".") {
		return strings.TrimSpace(message + " " + detail)
	}
	return message + ". " + detail
}
