// Package railtest is the test suite that every adapter has to pass before it may move money. It
// runs a bank of its own, over raw connections, that answers, sends false answers, hangs, drips and
// closes connections, and it checks the promises of rails.Rail from the outside: what the bank
// received is the witness.
//
// The bank is a Witness, one for each protocol. docs/adapters.md says how an adapter is written and
// how it passes.
package railtest

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Subject describes an adapter to the suite.
type Subject struct {
	// Witness is the bank of the adapter's protocol.
	Witness Witness
	// Open returns a rail that sends with this profile to a bank at an address of the witness. The
	// suite closes it.
	Open func(t testing.TB, address string, profile rails.Profile) rails.Rail
	// Profile is the rail's; the suite replaces its timeouts.
	Profile rails.Profile
	// Send is an instruction that the rail accepts. The suite sets its ids.
	Send rails.Send
	// Sends contains the bank's answer for each result of a send but NOT_SENT. Inquiries contains
	// one for each result of an inquiry, if the rail can be asked.
	Sends     map[payment.Result]Answer
	Inquiries map[payment.Result]Answer
	// OtherPayment is an acceptance of a payment that is not ours.
	OtherPayment Answer
	// UnmappedCode is a refusal with a code that is in no table.
	UnmappedCode Answer
	// Remark returns a refusal with a text as the bank's message.
	Remark func(text string) Answer
	// Without names what the protocol can't show, each with the reason: results that have no entry in
	// Sends or Inquiries, and cases. All else is required.
	Without map[string]string
	// Secrets are the secrets that the rail was opened with, which must never show.
	Secrets []string

	phase time.Duration // the timeout of each phase
}

// The timeouts of a phase: patient where the bank answers, hasty where it hangs. Slack is what a
// busy machine may add to a whole call.
const (
	patient = 5 * time.Second
	hasty   = 250 * time.Millisecond
	slack   = 3 * time.Second
)

// Run tests a subject against the whole contract.
func Run(t *testing.T, s Subject) {
	s.phase = patient
	cases := append(ofAllProtocols(), s.Witness.Cases()...)
	t.Log("witness:", s.Witness.Protocol())
	for _, what := range slices.Sorted(maps.Keys(s.Without)) {
		if !known(what, cases) || s.Without[what] == "" {
			t.Errorf("Without has %q with the reason %q: it must name a result or a case, and give a reason", what,
				s.Without[what])
		}
	}
	for _, part := range cases {
		if s.without(t, part.Name) {
			continue
		}
		t.Run(part.Name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
			part.Test(t, s)
		})
	}
}

// ofAllProtocols returns the cases that every adapter passes.
func ofAllProtocols() []Case {
	return []Case{
		{"EveryResult", everyResult},
		{"EveryInquiryResult", everyInquiryResult},
		{"NothingListens", nothingListens},
		{"StoppedBeforeTheCall", stoppedBeforeTheCall},
		{"VetoBeforeTheFirstByte", vetoBeforeFirstByte},
		{"HeldUpBeforeTheFirstByte", heldUpBeforeFirstByte},
		{"PhasesInOrder", phasesInOrder},
		{"OneRequestASend", oneRequestASend},
		{"ManyAtOnce", manyAtOnce},
		{"NotSentIsFinal", notSentIsFinal},
		{"CancelAfterTheFirstByte", cancelAfterFirstByte},
		{"Silence", silence},
		{"SameBytes", sameBytes},
		{"AnotherSystem", anotherSystem},
		{"AnotherPayment", anotherPayment},
		{"UnmappedCode", unmappedCode},
		{"SlotsComeBack", slotsComeBack},
		{"InquiryProvesNothing", inquiryProvesNothing},
		{"NoSecretShows", noSecretShows},
		{"ForeignText", foreignText},
	}
}

// known reports whether a word is a result of a call, or the name of a case.
func known(what string, cases []Case) bool {
	return slices.Contains(payment.SendResults(), payment.Result(what)) ||
		slices.Contains(payment.InquiryResults(), payment.Result(what)) ||
		slices.ContainsFunc(cases, func(one Case) bool { return one.Name == what })
}

// without reports whether the protocol can't show something, and logs the reason.
func (s Subject) without(t *testing.T, what string) bool {
	reason, declared := s.Without[what]
	if declared {
		t.Logf("%s is not shown by %s: %s", what, s.Witness.Protocol(), reason)
	}
	return declared
}

// Begin returns the rail under test. It is closed at the end of the test.
func (s Subject) Begin(t testing.TB, address string) rails.Rail {
	t.Helper()
	profile := s.profile()
	if err := profile.Validate(); err != nil {
		t.Fatal(err)
	}
	rail := s.Open(t, address, profile)
	t.Cleanup(func() {
		if closer, ok := rail.(io.Closer); ok {
			if err := closer.Close(); err != nil {
				t.Errorf("closing the rail: %v", err)
			}
		}
	})
	return rail
}

// profile returns the subject's profile with the timeouts of the test.
func (s Subject) profile() rails.Profile {
	profile, each := s.Profile, payment.Duration(s.phase)
	profile.Timeouts = rails.Timeouts{Connect: each, TLS: each, Write: each, ResponseHeader: each, Body: each}
	return profile.WithDefaults()
}

// Hurried returns the subject with short timeouts.
func (s Subject) Hurried() Subject {
	s.phase = hasty
	return s
}

// Budget returns the longest time that a call may take.
func (s Subject) Budget() time.Duration { return 5*s.phase + slack }

// Next returns a send of a new instruction.
func (s Subject) Next() rails.Send {
	send := s.Send
	send.OutboxID = payment.NewID()
	send.RailKey = payment.RailKey(send.OutboxID)
	if send.SendNo == 0 {
		send.SendNo = 1
	}
	return send
}

// Question returns an inquiry about a new instruction.
func (s Subject) Question() rails.Inquiry {
	send := s.Next()
	return rails.Inquiry{
		OutboxID: send.OutboxID, RailKey: send.RailKey, InstructionID: send.InstructionID,
		ParticipantID: send.ParticipantID, Payload: send.Payload, Reference: "suite-1", SendNo: 1, FirstSentAt: time.Now(),
	}
}

// Call makes a send, and checks what holds for every result.
func (s Subject) Call(t *testing.T, rail rails.Rail, send rails.Send) rails.Result {
	t.Helper()
	if checker, ok := rail.(rails.Checker); ok {
		if err := checker.Check(send); err != nil {
			t.Fatalf("the suite's instruction is refused by Check: %v", err)
		}
	}
	began := time.Now()
	result := rail.Send(t.Context(), send)
	s.valid(t, result, payment.SendResults(), time.Since(began))
	return result
}

// Inquire makes an inquiry, and checks what holds for every result.
func (s Subject) Inquire(t *testing.T, rail rails.Rail, q rails.Inquiry) rails.Result {
	t.Helper()
	began := time.Now()
	result := rail.(rails.Inquirer).Inquire(t.Context(), q)
	s.valid(t, result, payment.InquiryResults(), time.Since(began))
	return result
}

// valid checks what holds for every result.
func (s Subject) valid(t *testing.T, result rails.Result, allowed []payment.Result, took time.Duration) {
	t.Helper()
	known := false
	for _, word := range allowed {
		known = known || result.Result == word
	}
	if !known {
		t.Errorf("result %q is not one that such a call may have", result.Result)
	}
	if took > s.Budget() {
		t.Errorf("the call took %s, its budget is %s", took, s.Budget())
	}
	if result.Result == payment.ResultNotSent && result.FirstByte {
		t.Errorf("NOT_SENT with a first byte: %+v", result)
	}
	if len(result.Message) > payment.MaxErrorMessage || len(result.Reference) > rails.MaxReference ||
		len(result.Code) > rails.MaxCode {
		t.Errorf("unbounded text in %+v", result)
	}
	if result.Message != rails.Sanitize(result.Message) {
		t.Errorf("message %q is not clean", result.Message)
	}
	s.redact(t, fmt.Sprintf("%+v", result))
}

// redact fails the test if a text contains a secret.
func (s Subject) redact(t *testing.T, text string) {
	t.Helper()
	for _, secret := range s.Secrets {
		if strings.Contains(text, secret) {
			t.Errorf("a secret shows in %q", text)
		}
	}
}

// Want fails the test if a result is not the one expected.
func Want(t *testing.T, got rails.Result, result payment.Result, firstByte bool) {
	t.Helper()
	if got.Result != result || got.FirstByte != firstByte {
		t.Errorf("got %s with first byte %v (%s), want %s with first byte %v",
			got.Result, got.FirstByte, got.Message, result, firstByte)
	}
}
