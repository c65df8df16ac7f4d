// Package railtest is the suite that every adapter passes before it may move
// money. It plays a bank of its own, over raw connections, that answers, lies,
// hangs, drips and hangs up, and it checks the promises of rails.Rail from the
// outside: what the bank saw is the witness.
package railtest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Subject is an adapter as the suite needs to know it. It speaks HTTP/1.1.
type Subject struct {
	// Open makes a rail that sends to the bank at baseURL, which is plain HTTP
	// on loopback, with this profile. The suite closes it.
	Open func(t testing.TB, baseURL string, profile rails.Profile) rails.Rail
	// Profile is completed with short timeouts.
	Profile rails.Profile
	// Send is an instruction that the rail takes. The suite gives it ids.
	Send rails.Send
	// Sends is how the bank says each result of a send, NOT_SENT aside; and
	// Inquiries, if the rail can be asked, each result of an inquiry.
	Sends     map[payment.Result]Answer
	Inquiries map[payment.Result]Answer
	// OtherPayment is an acceptance of a payment that is not ours.
	OtherPayment Answer
	// UnmappedCode is a refusal with a code that is in no table.
	UnmappedCode Answer
	// Remark is a refusal that carries any text as the bank's message.
	Remark func(text string) Answer
	// KeyHeader is the request header that carries the rail key; empty: none.
	KeyHeader string
	// Secrets are what the rail was opened with and must never show.
	Secrets []string

	phase time.Duration // the timeout of each phase
}

// Answer is an HTTP answer. {rail_key} in the body becomes the key of the
// payment that was sent.
type Answer struct {
	Status int
	Body   string
}

// Where a bank is honest its answer is waited for; where it hangs it is not.
// Slack is what a busy machine may add to a whole call.
const (
	patient = 5 * time.Second
	hasty   = 250 * time.Millisecond
	slack   = 3 * time.Second
)

// Run holds a subject to the whole contract.
func Run(t *testing.T, s Subject) {
	s.phase = patient
	for _, part := range []struct {
		name string
		test func(t *testing.T, s Subject)
	}{
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
		{"NoRedirect", noRedirect},
		{"SameBytes", sameBytes},
		{"AnotherSystem", anotherSystem},
		{"AnotherPayment", anotherPayment},
		{"UnmappedCode", unmappedCode},
		{"Garbage", garbage},
		{"CutOff", cutOff},
		{"Undecoded", undecoded},
		{"BoundedAnswers", boundedAnswers},
		{"Hangs", hangs},
		{"EndlessAnswers", endlessAnswers},
		{"StopEndsAnswers", stopEndsAnswers},
		{"SlotsComeBack", slotsComeBack},
		{"InquiryProvesNothing", inquiryProvesNothing},
		{"NoSecretShows", noSecretShows},
		{"ForeignText", foreignText},
	} {
		t.Run(part.name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
			part.test(t, s)
		})
	}
}

// open makes the rail under test, closed before leaks are looked for.
func (s Subject) open(t testing.TB, baseURL string) rails.Rail {
	t.Helper()
	profile := s.profile()
	if err := profile.Validate(); err != nil {
		t.Fatal(err)
	}
	rail := s.Open(t, baseURL, profile)
	t.Cleanup(func() {
		if closer, ok := rail.(io.Closer); ok {
			if err := closer.Close(); err != nil {
				t.Errorf("closing the rail: %v", err)
			}
		}
	})
	return rail
}

// profile is the subject's, with the timeouts of the test.
func (s Subject) profile() rails.Profile {
	profile, each := s.Profile, payment.Duration(s.phase)
	profile.Timeouts = rails.Timeouts{Connect: each, TLS: each, Write: each, ResponseHeader: each, Body: each}
	return profile.WithDefaults()
}

// hurried is the subject with short timeouts.
func (s Subject) hurried() Subject {
	s.phase = hasty
	return s
}

// budget is the longest that a call may take.
func (s Subject) budget() time.Duration { return 5*s.phase + slack }

// next is a send of a new instruction.
func (s Subject) next() rails.Send {
	send := s.Send
	send.OutboxID = payment.NewID()
	send.RailKey = payment.RailKey(send.OutboxID)
	if send.SendNo == 0 {
		send.SendNo = 1
	}
	return send
}

// send makes a call and holds its result to what is true of every result.
func (s Subject) send(t *testing.T, rail rails.Rail, send rails.Send) rails.Result {
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

func (s Subject) inquire(t *testing.T, rail rails.Rail, q rails.Inquiry) rails.Result {
	t.Helper()
	began := time.Now()
	result := rail.(rails.Inquirer).Inquire(t.Context(), q)
	s.valid(t, result, payment.InquiryResults(), time.Since(began))
	return result
}

// valid checks what is true of every result.
func (s Subject) valid(t *testing.T, result rails.Result, allowed []payment.Result, took time.Duration) {
	t.Helper()
	known := false
	for _, word := range allowed {
		known = known || result.Result == word
	}
	if !known {
		t.Errorf("result %q is not one that such a call may have", result.Result)
	}
	if took > s.budget() {
		t.Errorf("the call took %s, its budget is %s", took, s.budget())
	}
	if result.Result == payment.ResultNotSent && result.FirstByte {
		t.Errorf("NOT_SENT with a first byte: %+v", result)
	}
	if len(result.Message) > payment.MaxErrorMessage || len(result.Reference) > rails.MaxReference || len(result.Code) > rails.MaxCode {
		t.Errorf("unbounded text in %+v", result)
	}
	if result.Message != rails.Sanitize(result.Message) {
		t.Errorf("message %q is not clean", result.Message)
	}
	s.redact(t, fmt.Sprintf("%+v", result))
}

// redact fails if a text shows a secret.
func (s Subject) redact(t *testing.T, text string) {
	t.Helper()
	for _, secret := range s.Secrets {
		if strings.Contains(text, secret) {
			t.Errorf("a secret shows in %q", text)
		}
	}
}

// want fails if a result is not the one expected.
func want(t *testing.T, got rails.Result, result payment.Result, firstByte bool) {
	t.Helper()
	if got.Result != result || got.FirstByte != firstByte {
		t.Errorf("got %s with first byte %v (%s), want %s with first byte %v",
			got.Result, got.FirstByte, got.Message, result, firstByte)
	}
}
