// Package rails is the border to the payment rails: what an adapter must do,
// the versioned facts about a rail (Profile), the codes it answers with, and the
// guard that keeps a slow or broken rail from hurting other rails.
//
// Adapters are sub-packages. They never decide what becomes of an instruction:
// they say what an answer proves, in the words of package payment, and the
// rules there decide.
package rails

import (
	"context"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Rail sends instructions to one payment network. The life of one send is:
//
//  1. Check, where the adapter has it: pure, before anything leaves. A refusal
//     is the instruction's fault and final.
//  2. Send dials, or takes an idle connection; OnPhase hears PhaseDialled.
//  3. BeforeFirstByte is asked one last time; an error ends the send as NOT_SENT.
//  4. OnPhase hears PhaseFirstByte, and only then is the first byte written:
//     within the write timeout of the moment before the question, or never.
//  5. A complete answer was read: OnPhase hears PhaseAnswered.
//  6. Send returns what the answer proves.
//
// The rules that every adapter is held to, by the suite in rails/railtest:
//
//   - Send never returns an error: an unknown outcome is an outcome.
//   - NOT_SENT is said only where provably no byte of the request left, and
//     where none can leave afterwards either.
//   - Anything unmapped, unparseable, or cut off after the first byte is UNKNOWN.
//   - A recovered panic is UNKNOWN after the first byte, NOT_SENT before it.
//   - One Send puts at most one request on the wire. Nothing is retried and no
//     redirect is followed below this interface.
//   - The bytes of an instruction are the same on every send, and go to the same
//     system: a pure function of instruction, rail key, profile and RenderVersion.
//   - Send and Inquire return within the profile's SendBudget, or as soon as ctx
//     ends, whatever the rail answers and however long it goes on answering.
//   - No secret and no payload is in any Result, error or log line.
//
// A Rail is safe for concurrent use. One that holds connections is an
// io.Closer too.
type Rail interface {
	// RenderVersion names the way requests are rendered, the system that they go
	// to and the account that they go in the name of. It changes whenever the
	// bytes of a request could, and whenever the system might not remember the
	// rail key of an earlier send. It holds no secret and no address.
	RenderVersion() string
	Send(ctx context.Context, s Send) Result
}

// Inquirer is a rail that can be asked what became of an instruction. Inquire
// returns one of payment.InquiryResults; whatever proves nothing is UNAVAILABLE.
type Inquirer interface {
	Inquire(ctx context.Context, q Inquiry) Result
}

// Checker is a rail that can tell before sending that an instruction can't be
// right for it. Check is pure; its error is a *CheckError.
type Checker interface {
	Check(s Send) error
}

// Send is one instruction on its way to a rail.
type Send struct {
	OutboxID      payment.ID
	RailKey       string // the rail's de-duplication key, the same on every send
	InstructionID string
	ParticipantID string
	Amount        payment.Amount
	Payload       []byte // the text of the stored jsonb
	// SendNo counts the sends of this instruction that may have reached the
	// rail, this one included; from 1.
	SendNo                  int
	TraceParent, TraceState string // W3C trace context; empty: none
	// BeforeFirstByte is asked right before the first byte, on another
	// goroutine, and must be quick. An error ends the send as NOT_SENT. Nil: yes.
	BeforeFirstByte func() error
	// OnPhase hears how far the send has come, on any goroutine. Nil: phases are not told.
	OnPhase func(Phase)
}

// Inquiry asks what became of an instruction that was sent before.
type Inquiry struct {
	OutboxID      payment.ID
	RailKey       string
	InstructionID string
	ParticipantID string
	Reference     string // the rail's own, if an earlier answer gave one
	SendNo        int    // sends that may have reached the rail so far
	// RenderVersion is that of the earlier sends; empty: not known. A rail that
	// would ask another system than the one they went to answers UNAVAILABLE: the
	// other one does not know the payment, which proves nothing.
	RenderVersion           string
	TraceParent, TraceState string
	OnPhase                 func(Phase)
}

// Phase is how far a call has come.
type Phase int

// The phases, in the order in which a call passes them.
const (
	PhaseDialled   Phase = iota + 1 // a connection is in hand, new or reused
	PhaseFirstByte                  // the next thing that happens is the first byte
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
	// Reference is the rail's own name for the payment, at most MaxReference bytes.
	Reference string
	// Code is the rail's word for why, at most MaxCode bytes. CodeTable is the
	// table and edition that gave it its class: "iso20022@2025-08".
	Code, CodeTable string
	// Message is for people: at most payment.MaxErrorMessage bytes, without
	// control characters, card numbers, secrets or payload.
	Message string
	// RetryAfter is the rail's own wish; 0: none.
	RetryAfter time.Duration
	// SeenBefore is set where an UNKNOWN answer to a send may mean that the rail knows
	// the key already: "duplicate", or, to a later send (SendNo is not 1), a refusal
	// that may speak of the repetition. Its "no such payment" proves nothing after that.
	SeenBefore bool
	// RailRefused is set where the answer refuses our credentials, route or form. The
	// result may be UNKNOWN all the same: the rail's own word for it is in no table.
	RailRefused bool
	// Unmapped is set where the rail's code was in no table. It is counted and
	// alerted on: an operator has to class it.
	Unmapped bool
	// FirstByte is set where a byte of the request may have left.
	FirstByte bool
	// OwnStop is set where this side ended the call: cancelled, stopped, or
	// refused by BeforeFirstByte. It says nothing about the rail's health.
	OwnStop bool
}

// Bounds of what is kept of a rail's own words, in bytes. A longer reference is
// no reference: cutting it would name another payment.
const (
	MaxReference = 256
	MaxCode      = 64
)
