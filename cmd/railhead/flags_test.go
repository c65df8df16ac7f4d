package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// everyFlag calls do for each flag of each command, on a tree of commands of its own.
func everyFlag(do func(command *cobra.Command, flag *pflag.Flag)) {
	var below func(*cobra.Command)
	below = func(command *cobra.Command) {
		command.LocalFlags().VisitAll(func(flag *pflag.Flag) { do(command, flag) })
		for _, sub := range command.Commands() {
			below(sub)
		}
	}
	below(rootCommand())
}

// TestRowIsADecimalNumber: -1 is "any row" to the code below, and 0x2 or 010 another number than a person may think. No
// number of a flag is taken in such a form.
func TestRowIsADecimalNumber(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`)
	enqueued(who, "INV-1")
	works.park(works.claim()[0])
	sentOnceMore(who, works, "INV-1")
	rows := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`)
	for _, row := range []string{"-1", "-2", "+7", "0x7", "0_7", "07", "0b1", "", "99999999999"} {
		for _, act := range [][]string{
			slices.Concat([]string{"dead-letter", "resolve", "INV-1"}, notExecuted()),
			{"dead-letter", "replay", "INV-1", "--reason", "x"}, {"dead-letter", "acknowledge", "INV-1", "--reason", "x"},
		} {
			if got := who.want(exitUsage, append(act, "--row", row)...); !strings.Contains(got.errors, "decimal digits") {
				t.Errorf("--row %q: it said %q", row, got.errors)
			}
		}
	}
	if now := cell.Int(`SELECT count(*) FROM railhead.payment_outbox_attempts`); now != rows {
		t.Errorf("there are %d rows, want %d", now, rows)
	}
	numbers := 0
	everyFlag(func(command *cobra.Command, flag *pflag.Flag) {
		if !strings.Contains(flag.Value.Type(), "int") {
			return
		}
		numbers++
		for _, text := range []string{"-1", "0x2", "0_2", "010", "1e1", "99999999999"} {
			if flag.Value.Set(text) == nil {
				t.Errorf("%s takes --%s %s", command.CommandPath(), flag.Name, text)
			}
		}
	})
	if numbers < 10 {
		t.Errorf("%d flags are numbers", numbers)
	}
}

// TestEmptyFlagIsRefused: a flag that was given without a value, as by a variable of a script that is empty, is not one
// that was left out.
func TestEmptyFlagIsRefused(t *testing.T) {
	t.Parallel()
	texts := 0
	everyFlag(func(command *cobra.Command, flag *pflag.Flag) {
		switch flag.Value.Type() {
		case "string", "stringSlice", "stringToString":
		default:
			return
		}
		texts++
		fresh, _, err := rootCommand().Find(strings.Fields(command.CommandPath())[1:])
		if err != nil {
			t.Fatal(err)
		}
		if fresh.ParseFlags([]string{"--" + flag.Name + "="}) != nil {
			return
		}
		if err := checkGlobals(fresh); exitCode(err) != exitUsage ||
			!strings.Contains(err.Error(), "--"+flag.Name+" was given") {
			t.Errorf("%s --%s '': %v", command.CommandPath(), flag.Name, err)
		}
	})
	if texts < 60 {
		t.Errorf("%d flags are texts", texts)
	}

	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	for _, name := range []string{"INV-1", "INV-2"} {
		enqueued(who, name)
		works.answer(works.claim()[0], payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	}
	for _, line := range []string{
		"dead-letter list --code=", "dead-letter list --rail=", "dead-letter list --reason=", "dead-letter list --cell=",
		"log --payment=", "payment list --state=", "dead-letter replay INV-1 --reason x --expires-at=",
		"dead-letter replay INV-1 --reason x --expires-at 0001-01-01T00:00:00Z",
		"dead-letter replay INV-1 --reason x --never-expires --expires-at 2027-01-01T00:00:00Z",
		"dead-letter replay INV-1 --reason x --expires-at 0001-01-01T01:00:00+01:00",
		"payment reschedule INV-1 --reason x --at 0001-01-01T00:00:00Z",
		"rail pause bank --reason x --until 0001-01-01T00:00:00Z",
		"timeline accept --reason x --since 0001-01-01T00:00:00Z", "timeline accept --reason x --since=",
		"token create --name shop --participant p1 --reason x --cells=",
	} {
		if got := who.want(exitUsage, strings.Fields(line)...); got.out != "" || !strings.Contains(got.errors, "--") {
			t.Errorf("%s: it said %q and %q", line, got.out, got.errors)
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act <> 'APPLY_PROFILE'`); n != 0 {
		t.Errorf("%d acts were done", n)
	}
}

// TestSpanOfNothing: no flag takes a length of time of 0 for one that was left out: a pause would have no end, a list
// no bound. Where 0 is a value, the help says which. What is no length of time is refused in plain words.
func TestSpanOfNothing(t *testing.T) {
	t.Parallel()
	spans := 0
	everyFlag(func(command *cobra.Command, flag *pflag.Flag) {
		if flag.Value.Type() != "duration" {
			return
		}
		spans++
		if flag.Value.Set("0") == nil && !strings.Contains(flag.Usage, "0: ") {
			t.Errorf("%s takes --%s 0, and its help does not say what that is", command.CommandPath(), flag.Name)
		}
		for _, text := range []string{"-1s", "2026-11-27T18:00:00Z", "1", "", "90d", "soon"} {
			err := flag.Value.Set(text)
			if err == nil || strings.Contains(err.Error(), "time: ") {
				t.Errorf("%s --%s %q: %v", command.CommandPath(), flag.Name, text, err)
			}
		}
	})
	if spans < 15 {
		t.Errorf("%d flags are lengths of time", spans)
	}

	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1")
	for _, line := range []string{
		"rail pause bank --reason x --for 0", "rail pause --everything --reason x --for 0h",
		"participant pause p1 --reason x --for 0s", "intake close bank --reason x --for 0",
		"payment reschedule INV-1 --reason x --in 0", "payment list --newer-than 0", "payment list --older-than 0m",
		"dead-letter list --older-than 0", "token create --name shop --participant p1 --reason x --expires-in 0",
		"payment list --newer-than 2026-11-27T18:00:00Z",
	} {
		if got := who.want(exitUsage, strings.Fields(line)...); got.out != "" || !strings.Contains(got.errors, ": use ") {
			t.Errorf("%s: it said %q and %q", line, got.out, got.errors)
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act <> 'APPLY_PROFILE'`); n != 0 {
		t.Errorf("%d acts were done", n)
	}
}
