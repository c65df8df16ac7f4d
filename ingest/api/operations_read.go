package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

type idInput struct {
	OutboxID string `path:"outbox_id" doc:"The instruction's id, as returned by the enqueue"`
	Prefer   string `header:"Prefer" doc:"wait=N: answer once the instruction rests, or after N seconds, at most 30"`
}

func (a *API) status(ctx context.Context, input *idInput) (*seenOutput, error) {
	id, err := payment.ParseID(input.OutboxID)
	if err != nil {
		return nil, problemNotFound()
	}
	header, _ := ctx.Value(headerKey{}).(http.Header)
	out := &seenOutput{Status: http.StatusOK}
	var found outbox.Tracked
	if patience := waitOf(header.Values("Prefer"), a.config.WaitMax); patience > 0 {
		out.PreferenceApplied = fmt.Sprintf("wait=%d", int(patience.Seconds()))
		found, err = a.await(ctx, bearer(ctx), id, patience)
	} else {
		asking, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
		defer cancel()
		found, err = a.store.Status(asking, bearer(ctx), id)
	}
	if err != nil {
		return nil, a.refused(ctx, opStatus, err)
	}
	if found.State == payment.Elsewhere {
		out.PreferenceApplied = "" // no outcome comes to this cell
	}
	out.Body = seenOf(found)
	return out, nil
}

// row is a row of the archive as an answer contains it.
type row struct {
	AttemptNo        int        `json:"attempt_no"`
	State            string     `json:"state"`
	CreatedAt        time.Time  `json:"created_at"`
	ClaimedAt        *time.Time `json:"claimed_at,omitempty"`
	CompletedAt      *time.Time `json:"completed_at,omitempty"`
	AnswersAttemptNo int        `json:"answers_attempt_no,omitempty" doc:"The number of the claim that it answers"`
	Result           string     `json:"result,omitempty"`
	RailReference    string     `json:"rail_reference,omitempty"`
	RailCode         string     `json:"rail_code,omitempty"`
	ErrorCode        string     `json:"error_code,omitempty"`
	LatencyMS        int        `json:"latency_ms,omitempty"`
}

type attemptsInput struct {
	OutboxID string `path:"outbox_id"`
	After    int    `query:"after" minimum:"0" maximum:"2147483647" doc:"Rows with a number above this one"`
	Limit    int    `query:"limit" minimum:"1" maximum:"200" default:"100"`
}

// attemptQuery is what a page of attempts answers. Without it an empty page says nothing: something on the way may
// have answered, or a cache with the page of another instruction.
type attemptQuery struct {
	OutboxID string `json:"outbox_id" format:"uuid"`
	After    int    `json:"after,omitempty" doc:"Absent: 0"`
}

type attemptsOutput struct {
	Body struct {
		Query attemptQuery `json:"query" doc:"What the page answers. A caller compares it with its call before it takes an empty page for no attempt"`
		Items []row        `json:"items" nullable:"false"`
		Next  *int         `json:"next,omitempty" doc:"The value of after for the next page; absent on the last page"`
	}
}

func (a *API) attempts(ctx context.Context, input *attemptsInput) (*attemptsOutput, error) {
	id, err := payment.ParseID(input.OutboxID)
	if err != nil {
		return nil, problemNotFound()
	}
	asking, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
	defer cancel()
	rows, err := a.store.Attempts(asking, bearer(ctx), id, input.After, input.Limit)
	if err != nil {
		return nil, a.refused(ctx, opAttempts, err)
	}
	out := &attemptsOutput{}
	out.Body.Query = attemptQuery{OutboxID: id.String(), After: input.After}
	out.Body.Items = make([]row, len(rows))
	for n, r := range rows {
		out.Body.Items[n] = row{
			AttemptNo: r.AttemptNo, State: r.State, CreatedAt: r.CreatedAt.UTC(), ClaimedAt: momentOf(r.ClaimedAt),
			CompletedAt:      momentOf(r.CompletedAt),
			AnswersAttemptNo: r.AnswersAttemptNo, Result: r.Result, RailReference: r.RailReference, RailCode: r.RailCode,
			ErrorCode: r.ErrorCode, LatencyMS: r.LatencyMS,
		}
	}
	if len(rows) == input.Limit {
		out.Body.Next = new(rows[len(rows)-1].AttemptNo)
	}
	return out, nil
}

type listInput struct {
	ParticipantID  string `query:"participant_id" required:"true" maxLength:"128" doc:"The participant whose instructions are listed"`
	After          string `query:"after" maxLength:"64" doc:"The cursor next of the previous page"`
	Limit          int    `query:"limit" minimum:"1" maximum:"200" default:"100"`
	State          string `query:"state" enum:"PENDING,DISPATCHING,DISPATCHED,RETRYABLE,FAILED,ZOMBIE_REQUEUE,INQUIRING,ACCEPTED,UNKNOWN,PARKED,CANCELLED,REPLAYED,CONFLICT,ELSEWHERE" doc:"Only instructions in this state; a page may then have fewer items, or none, although next is present"`
	InstructionID  string `query:"instruction_id" maxLength:"128" doc:"Only this instruction"`
	IdempotencyKey string `query:"idempotency_key" maxLength:"128" doc:"Only the instruction that was enqueued over HTTP under this key"`
}

// instructionQuery is what a page of instructions answers, as it was sent.
type instructionQuery struct {
	ParticipantID  string `json:"participant_id"`
	After          string `json:"after,omitempty"`
	State          string `json:"state,omitempty"`
	InstructionID  string `json:"instruction_id,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

type listOutput struct {
	Body struct {
		Query instructionQuery `json:"query" doc:"What the page answers, as it was sent. A caller compares it with its call before it takes an empty page for no instruction that was stored when it was read"`
		Items []seen           `json:"items" nullable:"false"`
		Next  string           `json:"next,omitempty" doc:"The value of after for the next page; absent on the last page"`
	}
}

func (a *API) list(ctx context.Context, input *listInput) (*listOutput, error) {
	page := outbox.Page{
		ParticipantID: input.ParticipantID, Most: input.Limit, InstructionID: input.InstructionID,
		IdempotencyKey: input.IdempotencyKey,
	}
	if input.After != "" {
		text, err := base64.RawURLEncoding.DecodeString(input.After)
		if err == nil {
			page.After, err = strconv.ParseInt(string(text), 10, 64)
		}
		if err != nil || page.After < 0 {
			return nil, kindBadRequest.of("query.after", "FORM", "after must be the cursor next of an earlier page.")
		}
	}
	asking, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
	defer cancel()
	found, err := a.store.List(asking, bearer(ctx), page)
	if err != nil {
		return nil, a.refused(ctx, opList, err)
	}
	out := &listOutput{}
	out.Body.Query = instructionQuery{ParticipantID: input.ParticipantID, After: input.After, State: input.State,
		InstructionID: input.InstructionID, IdempotencyKey: input.IdempotencyKey}
	out.Body.Items = make([]seen, 0, len(found))
	for _, each := range found {
		if input.State == "" || each.State == input.State {
			out.Body.Items = append(out.Body.Items, seenOf(each))
		}
	}
	if len(found) == input.Limit {
		out.Body.Next = base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(found[len(found)-1].SequenceID, 10)))
	}
	return out, nil
}

type cancelInput struct {
	OutboxID    string `path:"outbox_id"`
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

// cancel ends a waiting instruction. Its status comes from the same transaction: without its certainty, the answer
// would not say whether the payment may be made in another way. A repeated call, whose first answer was lost, gets
// the status too.
func (a *API) cancel(ctx context.Context, input *cancelInput) (*seenOutput, error) {
	id, err := payment.ParseID(input.OutboxID)
	if err != nil {
		return nil, problemNotFound()
	}
	if problem := wantType(input.ContentType, "application/json"); problem != nil {
		return nil, problem
	}
	reason, problem := readReason(input.RawBody)
	if problem != nil {
		return nil, problem
	}
	asking, cancel := context.WithTimeout(ctx, a.config.StoreTimeout)
	defer cancel()
	found, replayed, err := a.store.Cancel(asking, bearer(ctx), id, reason)
	if err != nil {
		return nil, a.refused(ctx, opCancel, err)
	}
	out := &seenOutput{Status: http.StatusOK, Body: seenOf(found)}
	if replayed {
		out.Replayed = "true"
	}
	return out, nil
}
