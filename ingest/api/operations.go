package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// The operations, as named in metrics.
const (
	opEnqueue  = "enqueue"
	opBatch    = "enqueue_batch"
	opStatus   = "status"
	opAttempts = "attempts"
	opList     = "list"
	opCancel   = "cancel"
	opEvents   = "events"
	opStream   = "event_stream"
	opToken    = "event_token"
	opOpenAPI  = "openapi"
	opOther    = "other"
)

// Operations returns their names.
func Operations() []string {
	return []string{opEnqueue, opBatch, opStatus, opAttempts, opList, opCancel, opEvents, opStream, opToken, opOpenAPI,
		opOther}
}

// operationOf returns the operation of a request, before it is routed.
func operationOf(r *http.Request) string {
	path := strings.TrimPrefix(r.URL.Path, "/v1/instructions")
	switch {
	case r.URL.Path == "/openapi.json" || r.URL.Path == "/openapi.yaml":
		return opOpenAPI
	case r.URL.Path == "/v1/events" && accepts(r, "text/event-stream"):
		return opStream
	case r.URL.Path == "/v1/events":
		return opEvents
	case r.URL.Path == "/v1/events/tokens":
		return opToken
	case path == r.URL.Path:
		return opOther
	case path == "" && r.Method == http.MethodPost:
		return opEnqueue
	case path == "":
		return opList
	case path == "/batch":
		return opBatch
	case strings.HasSuffix(path, "/cancel"):
		return opCancel
	case strings.HasSuffix(path, "/attempts"):
		return opAttempts
	default:
		return opStatus
	}
}

// seen is an instruction as an answer contains it.
type seen struct {
	OutboxID       string     `json:"outbox_id" format:"uuid" doc:"The instruction's id in Railhead"`
	InstructionID  string     `json:"instruction_id"`
	ParticipantID  string     `json:"participant_id"`
	IdempotencyKey string     `json:"idempotency_key" doc:"The caller's key; may be empty with ELSEWHERE, because this cell has only its digest"`
	OnBehalfOf     string     `json:"on_behalf_of,omitempty" doc:"The principal that the first call named; absent in the answer to a repetition that named another one, or of which that is not known"`
	SequenceID     int64      `json:"sequence_id" doc:"Its number in the participant's gapless stream"`
	CreatedAt      time.Time  `json:"created_at" doc:"When it was first enqueued"`
	State          string     `json:"state" doc:"PENDING, UNKNOWN, ACCEPTED, CONFLICT, or the state of its last attempt; empty if only the key is left. ELSEWHERE: the payment is in another cell, where it was enqueued before its participant was moved to this one. Only that cell knows what became of it: do not pay in another way"`
	Certainty      string     `json:"certainty,omitempty" doc:"What is known about the money: NOT_SENT, OUTCOME_UNKNOWN, ACCEPTED, REFUSED, CONTRADICTED, EXECUTED_BY_EVIDENCE or NOT_EXECUTED_BY_EVIDENCE"`
	Attempts       *int       `json:"attempts,omitempty" doc:"The number of its rows in the archive"`
	ChangedAt      *time.Time `json:"changed_at,omitempty" doc:"When the last of these rows was written"`
	NextAttemptAt  *time.Time `json:"next_attempt_at,omitempty" doc:"When the next attempt is due, while the instruction waits"`
	ErrorCode      string     `json:"error_code,omitempty"`
	RailCode       string     `json:"rail_code,omitempty" doc:"The rail's own code"`
	RailReference  string     `json:"rail_reference,omitempty" doc:"The rail's reference of the payment"`
	WaitsForPerson *bool      `json:"waits_for_person,omitempty" doc:"A dead letter is open: nothing happens until an operator acts"`
	Replayed       *bool      `json:"replayed,omitempty" doc:"For an enqueue: the key was known, and this call enqueued nothing"`
	Differs        []string   `json:"differs,omitzero" nullable:"false" doc:"For a replayed key: those of not_before, expires_at, priority, send_once and on_behalf_of that differ from the first call, whose values hold; empty: none. Absent for a first call, and where they are not known (an API before version 1.6.0 also leaves it out for none)"`
}

func seenOf(p outbox.Tracked) seen {
	s := seen{
		OutboxID: p.OutboxID.String(), InstructionID: p.InstructionID, ParticipantID: p.ParticipantID,
		IdempotencyKey: p.IdempotencyKey,
		OnBehalfOf:     p.OnBehalfOf, SequenceID: p.SequenceID, CreatedAt: p.CreatedAt.UTC(), State: p.State,
	}
	if p.State == payment.Elsewhere {
		return s
	}
	s.Certainty, s.Attempts, s.ChangedAt = p.Certainty, new(p.Attempts), momentOf(p.ChangedAt)
	s.NextAttemptAt, s.ErrorCode, s.RailCode = momentOf(p.NextAttemptAt), p.ErrorCode, p.RailCode
	s.RailReference, s.WaitsForPerson = p.RailReference, new(p.WaitsForPerson)
	return s
}

func momentOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// taken returns the answer to an enqueue.
func taken(in outbox.Entrusted, receipt payment.Receipt) seen {
	return seen{
		OutboxID: receipt.OutboxID.String(), InstructionID: in.InstructionID, ParticipantID: in.ParticipantID,
		IdempotencyKey: in.IdempotencyKey,
		OnBehalfOf:     principalOf(in, receipt), SequenceID: receipt.SequenceID, CreatedAt: receipt.CreatedAt.UTC(),
		State:    receipt.State,
		Replayed: new(receipt.Replayed), Differs: receipt.Differs,
	}
}

// principalOf returns the principal that is stored with an instruction, as far as the answer to an enqueue has it.
func principalOf(in outbox.Entrusted, receipt payment.Receipt) string {
	if receipt.Replayed && (receipt.Differs == nil || slices.Contains(receipt.Differs, "on_behalf_of")) {
		return ""
	}
	return in.OnBehalfOf
}

// enqueueInput is one instruction. readInstruction parses the body strictly; instructionSchema is
// its schema.
type enqueueInput struct {
	Key         string `header:"Idempotency-Key" doc:"The caller's key for this payment, 1 to 128 printable ASCII characters: a new one for each payment, and the same for each retry"`
	Prefer      string `header:"Prefer" doc:"wait=N: answer with the outcome, or with 202 after N seconds, at most 30"`
	ContentType string `header:"Content-Type" hidden:"true"`
	Traceparent string `header:"Traceparent" doc:"W3C trace context; the span of the first send is its child"`
	Tracestate  string `header:"Tracestate"`
	RawBody     []byte `contentType:"application/json"`
}

type seenOutput struct {
	Status            int
	Location          string `header:"Location"`
	Replayed          string `header:"Idempotent-Replayed"`
	PreferenceApplied string `header:"Preference-Applied"`
	RetryAfter        string `header:"Retry-After"`
	Body              seen
}

func (a *API) enqueue(ctx context.Context, input *enqueueInput) (*seenOutput, error) {
	if problem := wantType(input.ContentType, "application/json"); problem != nil {
		return nil, problem
	}
	header, _ := ctx.Value(headerKey{}).(http.Header)
	key, problem := keyOf(header.Values("Idempotency-Key"))
	if problem != nil {
		return nil, problem
	}
	in, problem := readInstruction(input.RawBody, false)
	if problem != nil {
		return nil, problem
	}
	in.IdempotencyKey, in.Headers = key, traceOf(input.Traceparent, input.Tracestate)
	who := bearer(ctx)
	storing, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
	defer cancel()
	receipt, err := a.store.Enqueue(storing, who, in)
	if err != nil {
		return nil, a.refused(ctx, opEnqueue, err)
	}
	out := &seenOutput{Status: http.StatusCreated, Location: "/v1/instructions/" + receipt.OutboxID.String(),
		Body: taken(in, receipt)}
	if receipt.Replayed {
		out.Status, out.Replayed = http.StatusOK, "true"
	}
	patience := waitOf(header.Values("Prefer"), a.config.WaitMax)
	if patience == 0 || receipt.State == payment.Elsewhere { // no outcome comes to this cell
		return out, nil
	}
	// The instruction is stored: the answer confirms that whatever the wait brings. Without the right to read it is
	// what it is without the preference.
	last, err := a.await(ctx, who, receipt.OutboxID, patience)
	switch {
	case errors.Is(err, outbox.ErrForbidden):
		return out, nil
	case err != nil:
		a.refused(ctx, opEnqueue, fmt.Errorf("waiting for the outcome of what is stored: %w", err))
		if !payment.State(receipt.State).HasEnded() {
			out.Status, out.RetryAfter = http.StatusAccepted, "1"
		}
		return out, nil
	}
	body := seenOf(last)
	body.Replayed, body.Differs = out.Body.Replayed, out.Body.Differs
	out.Body, out.PreferenceApplied = body, fmt.Sprintf("wait=%d", int(patience.Seconds()))
	if out.Status = http.StatusOK; !last.Rests() {
		out.Status, out.RetryAfter = http.StatusAccepted, "1"
	}
	return out, nil
}

// refused logs what only operators can repair, and returns the problem.
func (a *API) refused(ctx context.Context, operation string, err error) *Problem {
	problem := problemOf(err)
	if problem.Commit == commitUnknown {
		a.watch.CommitUnknown()
	}
	if problem.Status >= 500 && !gone(ctx) {
		// The text of a fault may contain an operator's reason, and never content.
		a.log.WarnContext(ctx, "a call failed", "operation", operation, "error", err)
	}
	return problem
}

func wantType(header, want string) *Problem {
	media, _, err := mime.ParseMediaType(header)
	if err != nil || media != want {
		return kindMediaType.saying("The content type must be " + want + ".")
	}
	return nil
}

// traceOf returns the caller's trace context if it is valid.
func traceOf(parent, state string) map[string]string {
	if parent == "" || len(parent)+len(state) > 1024 {
		return nil
	}
	text, err := json.Marshal(map[string]string{"traceparent": parent, "tracestate": state})
	if err != nil {
		return nil
	}
	kept, keptState := payment.TraceContext(text)
	switch {
	case kept == "":
		return nil
	case keptState == "":
		return map[string]string{"traceparent": kept}
	default:
		return map[string]string{"traceparent": kept, "tracestate": keptState}
	}
}
