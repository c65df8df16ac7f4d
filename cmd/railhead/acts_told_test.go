package main

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestActIsToldAsDone: an act whose commit was answered is told as done, also if what is in force can't be read then.
func TestActIsToldAsDone(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1")
	until := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for _, test := range []struct{ act, says string }{
		{"rail pause bank", "rail bank paused\n"},
		{"rail pause bank", "rail bank was paused already\n"},
		{"rail resume bank", "rail bank resumed: it was paused by "},
		{"participant pause p1 --until " + until, "participant p1 paused until " + strings.TrimSuffix(until, "Z") + ".000Z\n"},
		{"participant pause p1", "participant p1 was paused already\n"},
		{"participant resume p1", "participant p1 resumed: it was paused by "},
		{"intake close bank", "enqueue for rail bank closed\n"},
		{"intake close bank", "enqueue for rail bank was closed already\n"},
		{"intake open bank", "enqueue for rail bank opened: it was closed by "},
	} {
		gone := &between{answered: once(committed, last)}
		got := who.through(cell, gone).want(exitOK, append(strings.Fields(test.act), "--reason", "x")...)
		if !strings.HasPrefix(got.out, test.says) ||
			!strings.Contains(got.errors, "what is in force now could not be read: ") {
			t.Errorf("%s said %q and %q", test.act, got.out, got.errors)
		}
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE reason = 'x'`); n < 6 {
		t.Errorf("the log has %d acts", n)
	}
}
