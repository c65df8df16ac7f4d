package proofs_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs"
)

// TestReportIsNoSend: a claim that a report of the rail answered was not sent for that; its worker may yet find that
// the caller allows one send.
func TestReportIsNoSend(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	l := &life{ctx: t.Context(), n: 1000, super: db.Conn(t, ""), ingest: db.Conn(t, celltest.Ingest),
		operator: db.Conn(t, celltest.Operator), order: outbox.Order{Except: []string{"in-order"}},
		ordered: []string{celltest.Bank}}
	var err error
	l.executor, err = executor.Open(t.Context(), ledger.Config{URL: db.URL(celltest.Relayer), Cell: "railhead"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.executor.Close)
	judge := func(what string, status proofs.Status) {
		t.Helper()
		if l.err != nil {
			t.Fatal(what, l.err)
		}
		result := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{Names: []string{"sends"}}).Proofs[0]
		if result.Status != status {
			t.Errorf("%s: %s: %s", what, result.Status, result.Seen)
		}
	}
	claimed := func() payment.Claim {
		id := l.enqueueWith("send_once => true")
		first := l.claim(id)
		first.SendOnce = false // so that it waits for a second send
		l.record(told(sameKey, first, payment.ResultUnknown))
		return l.claim(id)
	}
	report := outcome(claimed(), payment.Decision{State: payment.Dispatched}, payment.ResultExecuted, "ref-report")
	report.Claim.AttemptNo, report.WorkerID = 0, "callbacks"
	l.late(payment.VerdictIn, report)
	judge("a report", proofs.Passed)
	second := claimed()
	second.SendOnce = false
	l.record(told(sameKey, second, payment.ResultAccepted))
	judge("a second send", proofs.Failed)
}
