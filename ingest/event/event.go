// Package event defines the JSON of an event, by which callers learn what happened to their
// instructions. It is the same in a page, in a stream and at a webhook.
package event

import (
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Event is one event as callers receive it.
type Event struct {
	ID        string    `json:"id" doc:"The same in every delivery of the event: store it to recognize a repetition"`
	Type      string    `json:"type" doc:"payment.dispatched, payment.accepted, payment.outcome_unknown, payment.needs_attention, payment.failed, payment.expired, payment.cancelled, payment.replayed or payment.conflict. Others may be added"`
	Timestamp time.Time `json:"timestamp" doc:"When the row of the archive was written"`
	Data      EventData `json:"data"`
}

// EventData is the content of the archive's row.
type EventData struct {
	OutboxID       string `json:"outbox_id" format:"uuid"`
	InstructionID  string `json:"instruction_id"`
	ParticipantID  string `json:"participant_id"`
	SequenceID     int64  `json:"sequence_id" doc:"The instruction's number in the participant's stream"`
	AttemptNo      int    `json:"attempt_no" doc:"The number of the row within its instruction: of two events of one instruction the one with the higher number is later"`
	State          string `json:"state" doc:"The state of the row"`
	OutcomeUnknown bool   `json:"outcome_unknown" doc:"As of this row, some send has no trustworthy answer: do not pay in another way"`
	RailType       string `json:"rail_type"`
	RailReference  string `json:"rail_reference,omitempty" doc:"The rail's reference of the payment"`
	RailCode       string `json:"rail_code,omitempty" doc:"The rail's own code"`
	ErrorCode      string `json:"error_code,omitempty"`
}

// Of returns an event of the archive as callers receive it.
func Of(e payment.Event) Event {
	return Event{
		ID: e.Name(), Type: string(e.Type), Timestamp: e.CreatedAt.UTC(),
		Data: EventData{
			OutboxID: e.OutboxID.String(), InstructionID: e.InstructionID, ParticipantID: e.ParticipantID,
			SequenceID: e.SequenceID, AttemptNo: e.AttemptNo,
			State: string(e.State), OutcomeUnknown: e.OutcomeUnknown, RailType: e.RailType, RailReference: e.RailReference,
			RailCode: e.RailCode, ErrorCode: e.ErrorCode,
		},
	}
}
