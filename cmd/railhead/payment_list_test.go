package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// crowd is a cell with an instruction in each of several states.
func crowd(t *testing.T) (*celltest.Cell, command, worker) {
	t.Helper()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueue := func(id, participant, amount, currency string) {
		who.want(exitOK, "enqueue", "--instruction-id", id, "--participant-id", participant, "--idempotency-key", "key-"+id,
			"--rail", celltest.Bank, "--amount", amount, "--currency", currency, "--payload", `{"payee": "Jane Roe"}`)
	}
	enqueue("paid", "p1", "10.50", "EUR")
	works.answer(works.claim()[0], payment.ResultAccepted, payment.Outcome{RailReference: "BANK-1"})
	enqueue("refused", "p1", "99", "EUR")
	works.answer(works.claim()[0], payment.ResultRefusedFinal, payment.Outcome{RailCode: "AC04"})
	enqueue("doubt", "p2", "1000", "JPY")
	works.answer(works.claim()[0], payment.ResultUnknown, payment.Outcome{ErrorMessage: "no answer within 30s"})
	enqueue("waits", "p2", "7", "EUR")
	return cell, who, works
}

func TestPaymentList(t *testing.T) {
	t.Parallel()
	cell, who, _ := crowd(t)
	var seen strings.Builder
	list := func(args ...string) string {
		t.Helper()
		args = append([]string{"payment", "list"}, args...)
		got := who.want(exitOK, args...).out
		seen.WriteString("=== " + strings.Join(args, " ") + "\n" + got + "\n")
		return got
	}
	list()
	list("--state", "pending")
	list("--state", "UNKNOWN")
	list("--participant", "p1")
	list("--code", "AC04", "--rail", "bank")
	list("--currency", "EUR", "--amount-from", "7.01", "--amount-to", "99")
	cell.ApplyProfile("unknown", celltest.BankProfile)
	list("--rail", "unknown")
	list("--older-than", "1h", "--newer-than", "2h")
	golden(t, "payment_list", seen.String())
	if strings.Contains(seen.String(), "Jane Roe") || strings.Contains(seen.String(), "key-") {
		t.Error("a list shows payload or keys")
	}
	golden(t, "payment_list_json", who.want(exitOK, "payment", "list", "--limit", "1", "-o", "json").out)

	// Page by page, each instruction comes once; so do those of one participant.
	for _, more := range [][]string{nil, {"--participant", "p2"}} {
		found, before := map[string]int{}, ""
		for range 10 {
			args := append([]string{"payment", "list", "--limit", "1", "-o", "json"}, more...)
			if before != "" {
				args = append(args, "--before", before)
			}
			var page struct {
				Payments []struct {
					InstructionID string `json:"instruction_id"`
				}
				Next string
			}
			if err := json.Unmarshal([]byte(who.want(exitOK, args...).out), &page); err != nil {
				t.Fatal(err)
			}
			for _, p := range page.Payments {
				found[p.InstructionID]++
			}
			if before = page.Next; before == "" {
				break
			}
		}
		if want := 4 - len(more); len(found) != want || before != "" {
			t.Errorf("%v: pages gave %v, want %d instructions", more, found, want)
		}
		for id, n := range found {
			if n != 1 {
				t.Errorf("%s came %d times", id, n)
			}
		}
	}
	for _, args := range [][]string{
		{"--state", "LOST"}, {"--before", "x"}, {"--amount-from", "1"}, {"--currency", "EURO"}, {"--currency", "EUR", "--amount-to", "1.001"},
		{"--limit", "0", "--newer-than", "1h", "--older-than", "2h"}, {"--limit", "-1"}, {"more"},
	} {
		who.want(exitUsage, append([]string{"payment", "list"}, args...)...)
	}
	operators := who
	operators.env = append(operators.env, "RAILHEAD_READER_URL="+cell.URL(celltest.Operator))
	operators.want(exitOK, "payment", "list")
	operators.want(exitOK, "payment", "tail", "--once")
	operators.want(exitOK, "payment", "show", "paid")
}

func TestPaymentTail(t *testing.T) {
	t.Parallel()
	_, who, works := crowd(t)
	golden(t, "payment_tail", who.want(exitOK, "payment", "tail", "--since", "1h", "--once").out+
		"=== FAILED\n"+who.want(exitOK, "payment", "tail", "--since", "1h", "--once", "--state", "failed").out+
		"=== of p2\n"+who.want(exitOK, "payment", "tail", "--since", "1h", "--once", "--participant", "p2").out)
	if out := who.want(exitOK, "payment", "tail", "--once").out; out != "" {
		t.Errorf("without --since it begins now, and told %q", out)
	}
	who.want(exitUsage, "payment", "tail", "--state", "x")
	who.want(exitUsage, "payment", "tail", "--every", "1ms")

	// Live: what is recorded while it follows comes, and Ctrl-C ends it in order.
	cmd := who.process("payment", "tail", "--every", "100ms", "-o", "json", "--since", "1h", "--rail", "bank")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func() (row reader.AttemptEvent) {
		t.Helper()
		// on a slow machine claims are told of too
		for row = (reader.AttemptEvent{}); row.State == "" || row.State.IsClaim(); {
			if !lines.Scan() {
				t.Fatalf("it ended: %v", lines.Err())
			}
			row = reader.AttemptEvent{}
			if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
				t.Fatal(err)
			}
		}
		return row
	}
	for range 3 {
		next()
	}
	for _, claim := range works.claim() {
		works.answer(claim, payment.ResultAccepted, payment.Outcome{RailReference: "BANK-" + claim.InstructionID})
	}
	for range 2 {
		if row := next(); row.State != payment.Dispatched || row.LatencyMS == nil || row.WorkerID != "relayer-1" {
			t.Errorf("told %+v", row)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("after Ctrl-C: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Ctrl-C does not end it")
	}
}
