package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestLettersByCode: dead letters by each filter, and their number and money by code.
func TestLettersByCode(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	for _, line := range []string{"INV-1 p1 10.50 EUR", "INV-2 p1 0.25 EUR", "INV-3 p2 7 USD", "INV-4 p2 1.00 EUR"} {
		f := strings.Fields(line)
		who.want(exitOK, "enqueue", "--instruction-id", f[0], "--participant-id", f[1], "--idempotency-key", "k", "--rail",
			celltest.Bank, "--amount", f[2], "--currency", f[3])
	}
	for _, claim := range works.claim() {
		if claim.InstructionID == "INV-4" {
			works.park(claim)
			continue
		}
		works.answer(claim, payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1"})
	}
	cell.Exec(`UPDATE railhead.payment_dead_letters SET opened_at = opened_at - interval '2 days'
		WHERE instruction_id = 'INV-2'`)

	for filter, want := range map[string]string{
		"--participant p2": "INV-3 7 USD, INV-4 1.00 EUR", "--older-than 24h": "INV-2 0.25 EUR", "--code NO_SAFE_RECOVERY": "INV-4 1.00 EUR", "--code AC04 --participant p2": "INV-3 7 USD",
		"--participant p1 --reason FAILED --older-than 1h": "INV-2 0.25 EUR", "--participant p3": "",
	} {
		var letters []reader.Letter
		said := who.want(exitOK, append([]string{"dead-letter", "list", "-o", "json"}, strings.Fields(filter)...)...).out
		if err := json.Unmarshal([]byte(said), &letters); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range letters {
			got = append(got, l.InstructionID+" "+l.Amount+" "+l.Currency)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("dead-letter list %s: %v, want %s", filter, got, want)
		}
	}

	var lines []string
	for line := range strings.Lines(who.want(exitOK, "dead-letter", "list", "--by-code").out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	const heading = "REASON ERROR RAIL LETTERS OLDEST AMOUNT CURRENCY"
	if len(lines) != 4 || lines[0] != heading || !strings.HasPrefix(lines[1], "FAILED AC04 bank 2 2d00h 10.75 EUR") ||
		!strings.HasPrefix(lines[2], "FAILED AC04 bank 1 ") || !strings.HasSuffix(lines[2], " 7 USD") ||
		!strings.HasPrefix(lines[3], "OUTCOME_UNKNOWN NO_SAFE_RECOVERY bank 1 ") ||
		!strings.HasSuffix(lines[3], " 1.00 EUR") {
		t.Errorf("by code:\n%s", strings.Join(lines, "\n"))
	}
	if none := who.want(exitOK, "dead-letter", "list", "--by-code", "--status", "resolved", "-o",
		"json").out; none != "[]\n" {
		t.Errorf("of a status that none has: %q", none)
	}
	who.want(exitUsage, "dead-letter", "list", "--older-than", "-1h")
}
