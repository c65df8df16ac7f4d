package payment_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// lifecycle is the whole legal lifecycle, written from the table "from result
// to rows": a line for each last row that is not LATE_OUTCOME, a column for
// each next row. "none" is an instruction without a row.
const lifecycle = `
                DISPATCHING DISPATCHED RETRYABLE FAILED ZOMBIE_REQUEUE INQUIRING ACCEPTED UNKNOWN PARKED CANCELLED REPLAYED LATE_OUTCOME
none                 x          x          .       x          .            x         .        .      x        x        .         x
DISPATCHING          .          x          x       x          x            .         x        x      x        .        .         x
DISPATCHED           .          .          .       .          .            .         .        .      .        .        .         x
RETRYABLE            x          x          .       x          .            x         .        .      x        x        .         x
FAILED               .          .          .       .          .            .         .        .      .        .        x         x
ZOMBIE_REQUEUE       x          x          .       x          .            x         .        .      x        .        .         x
INQUIRING            .          x          x       x          x            .         .        x      x        .        .         x
ACCEPTED             .          x          .       x          .            x         .        .      x        .        .         x
UNKNOWN              x          x          .       x          .            x         .        .      x        .        .         x
PARKED               .          x          .       x          .            .         .        .      .        .        .         x
CANCELLED            .          .          .       .          .            .         .        .      .        .        .         x
REPLAYED             x          x          .       x          .            x         .        .      x        x        .         x
LATE_OUTCOME         .          .          .       .          .            .         .        .      .        .        .         .
`

func TestLifecycle(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(lifecycle), "\n")
	columns := strings.Fields(lines[0])
	if len(columns) != 12 || len(lines) != 14 {
		t.Fatalf("the table has %d columns and %d lines", len(columns), len(lines))
	}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		last := payment.State(cells[0])
		if last == "none" {
			last = ""
		}
		for n, column := range columns {
			if got, want := payment.MayFollow(last, payment.State(column)), cells[n+1] == "x"; got != want {
				t.Errorf("%s after %q: %v, want %v", column, last, got, want)
			}
		}
		if payment.MayFollow(last, "") || payment.MayFollow(last, "SENT") {
			t.Errorf("a word that is no state may follow %q", last)
		}
	}
	for _, next := range payment.States() {
		if payment.MayFollow("SENT", next) {
			t.Errorf("%s may follow a word that is no state", next)
		}
	}
}

func TestStates(t *testing.T) {
	for _, test := range []struct {
		state                    payment.State
		claim, terminal, answers bool
	}{
		{"DISPATCHING", true, false, false},
		{"DISPATCHED", false, true, true},
		{"RETRYABLE", false, false, true},
		{"FAILED", false, false, true},
		{"ZOMBIE_REQUEUE", false, false, true},
		{"INQUIRING", true, false, false},
		{"ACCEPTED", false, false, true},
		{"UNKNOWN", false, false, true},
		{"PARKED", false, false, true},
		{"CANCELLED", false, true, false},
		{"REPLAYED", false, false, false},
		{"LATE_OUTCOME", false, false, false},
		{"", false, false, false},
		{"SENT", false, false, false},
	} {
		s := test.state
		if s.IsClaim() != test.claim || s.IsTerminal() != test.terminal || s.AnswersClaim() != test.answers {
			t.Errorf("%q: claim %v, terminal %v, answers %v", s, s.IsClaim(), s.IsTerminal(), s.AnswersClaim())
		}
	}
	for name, test := range map[string]struct {
		is   func(payment.State) bool
		want []payment.State
	}{
		"waits":           {payment.State.Waits, []payment.State{"RETRYABLE", "ZOMBIE_REQUEUE", "ACCEPTED", "UNKNOWN", "REPLAYED"}},
		"has ended":       {payment.State.HasEnded, []payment.State{"DISPATCHED", "FAILED", "CANCELLED"}},
		"ends unpaid":     {payment.State.EndsUnpaid, []payment.State{"FAILED", "CANCELLED"}},
		"leaves open":     {payment.State.LeavesOpen, []payment.State{"ZOMBIE_REQUEUE", "ACCEPTED", "UNKNOWN"}},
		"may be replayed": {payment.State.MayReplay, []payment.State{"FAILED", "PARKED"}},
	} {
		got := slices.DeleteFunc(append(payment.States(), "", "SENT"), func(s payment.State) bool { return !test.is(s) })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	// The order is the enum's in the schema, and a column sorts by it.
	want := []payment.State{
		"DISPATCHING", "DISPATCHED", "RETRYABLE", "FAILED", "ZOMBIE_REQUEUE", "INQUIRING",
		"ACCEPTED", "UNKNOWN", "PARKED", "CANCELLED", "REPLAYED", "LATE_OUTCOME",
	}
	if !slices.Equal(payment.States(), want) {
		t.Errorf("States are %v", payment.States())
	}
}

func TestClaimState(t *testing.T) {
	for action, want := range map[payment.Action]payment.State{
		payment.ActionSend: payment.Dispatching, payment.ActionInquire: payment.Inquiring,
		// What is not known to be an inquiry may have reached the rail.
		"": payment.Dispatching, "PING": payment.Dispatching,
	} {
		if got := action.ClaimState(); got != want {
			t.Errorf("%q is claimed as %s, want %s", action, got, want)
		}
	}
}

// TestResolutions: an operator's evidence may append these states, and no others.
func TestResolutions(t *testing.T) {
	legal := map[[2]payment.State]bool{
		{"PARKED", "DISPATCHED"}: true, {"PARKED", "FAILED"}: true, {"PARKED", "REPLAYED"}: true, {"PARKED", "UNKNOWN"}: true,
		{"FAILED", "DISPATCHED"}: true, {"CANCELLED", "DISPATCHED"}: true, {"DISPATCHED", "FAILED"}: true,
	}
	for _, last := range append(payment.States(), "") {
		for _, next := range append(payment.States(), "") {
			if got := payment.MayResolve(last, next); got != legal[[2]payment.State{last, next}] {
				t.Errorf("%q then %q by a person: %v", last, next, got)
			}
		}
	}
}
