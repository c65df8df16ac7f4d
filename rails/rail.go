// Package rails defines the interface to the payment rails: what an adapter must do, the versioned
// facts about a rail (Profile), the codes it answers with, and the guard that keeps a slow or
// broken rail from affecting other rails.
//
// Adapters are sub-packages. An adapter does not decide what becomes of an instruction: it reports
// what an answer proves, in the terms of package payment, and the rules there decide.
package rails

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Rail sends instructions to one payment network. The steps of one send are:
//
//  1. Check, if the adapter implements Checker: pure, before any byte leaves. A refusal is the
//     instruction's fault and final.
//  2. Send dials, or takes an idle connection, and calls OnPhase with PhaseDialled.
//  3. Send calls BeforeFirstByte; an error ends the send as NOT_SENT.
//  4. Send calls OnPhase with PhaseFirstByte, and only then writes the first byte: within the write
//     timeout counted from before step 3, or never.
//  5. Send reads a complete answer and calls OnPhase with PhaseAnswered.
//  6. Send returns what the answer proves.
//
// The suite in rails/railtest holds every adapter to these rules:
//
//   - Send never returns an error: an unknown outcome is an outcome.
//   - NOT_SENT is returned only if provably no byte of the request left, and none can leave afterwards.
//   - Anything unmapped, unparseable, or cut off after the first byte is UNKNOWN.
//   - A recovered panic is UNKNOWN after the first byte, NOT_SENT before it.
//   - One Send puts at most one request on the wire. Nothing is retried and no redirect is followed
//     below this interface.
//   - The bytes of an instruction are the same on every send, and go to the same system: they are a pure
//     function of instruction, rail key, profile and RenderVersion.
//   - Send and Inquire return within the profile's SendBudget, or as soon as ctx ends, whatever the rail
//     answers and however long the answer takes.
//   - No secret and no payload is in any Result, error or log line.
//
// A Rail is safe for concurrent use. One that holds connections also implements io.Closer.
type Rail interface {
	// RenderVersion identifies how requests are rendered, the system that they go to, and the
	// account in whose name they are made. It changes whenever the bytes of a request could change,
	// and whenever the system might not remember the rail key of an earlier send. It contains no
	// secret and no address.
	RenderVersion() string
	Send(ctx context.Context, s Send) Result
}

// Inquirer is a rail that can be asked what became of an instruction. Inquire returns one of
// payment.InquiryResults; an answer that proves nothing is UNAVAILABLE.
type Inquirer interface {
	Inquire(ctx context.Context, q Inquiry) Result
}

// Heir is a rail that remembers what its destination has acknowledged, by which a loss there is noticed. A process
// that opens a rail anew, for another version of its profile or in a component that is made anew, calls Inherit with
// the one before, before the first send. From a rail with another destination nothing is inherited.
type Heir interface {
	Inherit(earlier Rail)
}

// Checker is a rail that can refuse an instruction before it is sent. Check is pure; its error is a
// *CheckError.
type Checker interface {
	Check(s Send) error
}

// Send is one send of an instruction to a rail.
type Send struct {
	OutboxID      payment.ID
	RailKey       string // the rail's de-duplication key, the same on every send
	InstructionID string
	ParticipantID string
	Amount        payment.Amount // zero if the payload has none, which only a rail of messages permits
	Payload       []byte         // the text of the stored jsonb
	// SendNo counts the sends of this instruction that may have reached the rail, including this
	// one; from 1.
	SendNo int
	// FirstSentAt is when the first send that may have reached the rail was claimed, by the clock of
	// the database, or, if a restore may have forgotten a send, the earliest moment at which that
	// may have been; zero: this is the first, or it is not known.
	FirstSentAt             time.Time
	TraceParent, TraceState string // W3C trace context; empty: none
	// Headers are the caller's headers that the profile lists.
	Headers map[string]string
	// BeforeFirstByte is called right before the first byte, on another goroutine, and must return
	// quickly. An error ends the send as NOT_SENT. Nil allows the send.
	BeforeFirstByte func() error
	// OnPhase is called for each phase, on any goroutine, unless it is nil.
	OnPhase func(Phase)
}

// Inquiry asks what became of an instruction that was sent before.
type Inquiry struct {
	OutboxID      payment.ID
	RailKey       string
	InstructionID string
	ParticipantID string
	Reference     string // the rail's own reference, if an earlier answer contained one
	// Payload is that of the sends, as Send.Payload, for a rail that shows what it stored.
	Payload []byte
	SendNo  int // sends that may have reached the rail so far
	// FirstSentAt is when the first of them was claimed, as Send.FirstSentAt; zero: it is not known.
	FirstSentAt time.Time
	// RenderVersion is that of the earlier sends; empty if it is not known. A rail that would ask
	// another system than the one they went to answers UNAVAILABLE: the other system does not have
	// the payment, which proves nothing. So does one that finds nothing and would render a request in
	// another form: the system may have the payment under another name.
	RenderVersion           string
	TraceParent, TraceState string
	OnPhase                 func(Phase)
}

// Phase is the progress of a call.
type Phase int

// The phases, in the order in which a call passes them.
const (
	PhaseDialled   Phase = iota + 1 // a connection is ready, new or reused
	PhaseFirstByte                  // the first byte is about to be written
	PhaseAnswered                   // a complete answer was read
)

func (p Phase) String() string {
	switch p {
	case PhaseDialled:
		return "dialled"
	case PhaseFirstByte:
		return "first byte"
	case PhaseAnswered:
		return "answered"
	default:
		return "none"
	}
}

// Result is what a call to a rail proves, with the evidence for it.
type Result struct {
	Result payment.Result
	// Reference is the rail's identifier of the payment, at most MaxReference bytes.
	Reference string
	// Code is the rail's reason code, at most MaxCode bytes. CodeTable is the table and edition
	// that classified it: "iso20022@2025-08", at most 128 bytes.
	Code, CodeTable string
	// Message is for operators: at most payment.MaxErrorMessage bytes, without control characters,
	// card numbers, secrets or payload.
	Message string
	// Place says where the send may be, for an operator who looks for it. It is made of the configuration and of
	// numbers alone, and is put before the message after the words of the instruction were removed there.
	Place string
	// Loss says which payments the destination was found to have lost by this call; empty: none. It is logged.
	Loss string
	// RetryAfter is the delay that the rail asked for; 0: none.
	RetryAfter time.Duration
	// SeenBefore is set if an UNKNOWN answer to a send may mean that the rail already has the key:
	// "duplicate", or, to a later send (SendNo is not 1), a refusal that may be about the
	// repetition, or the acknowledgement of a destination that has lost payments. After it, "no such
	// payment" from the rail proves nothing.
	SeenBefore bool
	// RailRefused is set if the rail refuses our credentials, route or form. The result may still be
	// UNKNOWN, if the rail's code is in no table, or if the request may have left before our certificate
	// was refused; and UNAVAILABLE, since REFUSED_RAIL is no result of an inquiry.
	RailRefused bool
	// Unmapped is set if the rail's code was in no table. Metrics count it and an alert fires: an
	// operator has to classify the code.
	Unmapped bool
	// FirstByte is set if a byte of the request may have left.
	FirstByte bool
	// OwnStop is set if this side ended the call: cancelled, stopped, or refused by
	// BeforeFirstByte; and if an answer proves nothing because this side would ask in another form
	// than it has sent. It proves nothing about the rail's health.
	OwnStop bool
	// Forgets is set with NOT_SENT, for a re-send, if the destination does not remember what it took at
	// the time of the first send, and never will again: another send might be a second payment.
	Forgets bool
}

// Bounds of what is kept of a rail's answer, in bytes. A longer reference is dropped: cut off, it
// would name another payment.
const (
	MaxReference = 256
	MaxCode      = 64
	maxCodeTable = 128
)
