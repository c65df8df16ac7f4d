package httpclient

import (
	"errors"
	"fmt"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// answer is what a call is answered with. clear empties it; whole returns an error if it is not of the API.
type answer interface {
	clear()
	whole() error
}

// shown is an instruction in an answer.
type shown struct {
	OutboxID       string `json:"outbox_id"`
	InstructionID  string `json:"instruction_id"`
	ParticipantID  string `json:"participant_id"`
	IdempotencyKey string `json:"idempotency_key"`
	payment.Status
	Replayed bool     `json:"replayed"`
	Differs  []string `json:"differs"`
}

// whole returns an error unless it is an instruction of the API. The error quotes nothing of what has answered.
func (s *shown) whole() (err error) {
	if s.Status.OutboxID, err = payment.ParseID(s.OutboxID); err != nil {
		return errors.New("it has no instruction's id")
	}
	return nil
}

// errAnother is the error if an answer is about another payment: something on the way, such as a cache that knows a
// key and not the participant, has answered in the place of the API.
var errAnother = errors.New("it is about another payment")

// of returns errAnother unless it is the instruction of a participant with a key. Of one that is in another cell the
// API may know the digest of the key alone.
func (s *shown) of(participantID string, key payment.Key) error {
	if s.InstructionID != key.InstructionID || s.ParticipantID != participantID ||
		s.IdempotencyKey != key.IdempotencyKey && (s.IdempotencyKey != "" || s.State != payment.Elsewhere) {
		return errAnother
	}
	return nil
}

// one is an instruction in an answer, which has to be that of a participant with a key.
type one struct {
	shown
	participantID string
	key           payment.Key
}

func (o *one) clear() { o.shown = shown{} }

func (o *one) whole() error { return errors.Join(o.shown.whole(), o.of(o.participantID, o.key)) }

func (s *shown) receipt() payment.Receipt {
	return payment.Receipt{OutboxID: s.Status.OutboxID, SequenceID: s.SequenceID, CreatedAt: s.CreatedAt, State: s.State,
		Replayed: s.Replayed, Differs: s.Differs}
}

// question is what a page of instructions says that it answers.
type question struct {
	ParticipantID  string `json:"participant_id"`
	After          string `json:"after"`
	State          string `json:"state"`
	InstructionID  string `json:"instruction_id"`
	IdempotencyKey string `json:"idempotency_key"`
}

// page is a page of instructions in an answer, which have to be those of a participant with a key.
type page struct {
	Query         *question `json:"query"`
	Items         *[]shown  `json:"items"`
	participantID string
	key           payment.Key
}

func (p *page) clear() { p.Query, p.Items = nil, nil }

// whole returns an error unless it is a page of the API that answers the question. That has no null in the place of no
// items. A page of an older API does not say what it answers: only the payments in it do, so that an empty one, which
// anything on the way may have answered as well, says nothing.
func (p *page) whole() error {
	asked := question{ParticipantID: p.participantID, InstructionID: p.key.InstructionID,
		IdempotencyKey: p.key.IdempotencyKey}
	switch {
	case p.Items == nil:
		return errors.New("it is not a page of instructions")
	case p.Query == nil && len(*p.Items) == 0:
		return errors.New("it is an empty page that does not say what it answers, as of an API before version 1.4.0")
	case p.Query != nil && *p.Query != asked:
		return errors.New("it is a page about something else")
	}
	for n := range *p.Items {
		each := &(*p.Items)[n]
		if err := errors.Join(each.whole(), each.of(p.participantID, p.key)); err != nil {
			return err
		}
	}
	return nil
}

// status returns that of the one payment of the page.
func (p *page) status() (payment.Status, error) {
	if len(*p.Items) == 0 {
		return payment.Status{}, outbox.ErrNotFound
	}
	first := (*p.Items)[0].Status
	for _, each := range *p.Items {
		if each.Status.OutboxID != first.OutboxID {
			return payment.Status{}, fmt.Errorf("%w: %s and %s", outbox.ErrSeveralPayments, first.OutboxID,
				each.Status.OutboxID)
		}
	}
	return first, nil
}
