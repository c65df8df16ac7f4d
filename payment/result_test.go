package payment_test

import (
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// These lists are contracts: with the adapters, and with the schema's checks.
func TestWordLists(t *testing.T) {
	if want := []payment.Result{"ACCEPTED", "EXECUTED", "REFUSED_FINAL", "REFUSED_TRANSIENT", "REFUSED_BUSINESS", "REFUSED_LATER", "REFUSED_RAIL", "NOT_SENT", "UNKNOWN"}; !slices.Equal(payment.SendResults(), want) {
		t.Errorf("a send may return %v", payment.SendResults())
	}
	if want := []payment.Result{"EXECUTED", "REFUSED", "IN_PROGRESS", "NOT_FOUND", "UNAVAILABLE", "NOT_SENT", "REFUSED_LATER"}; !slices.Equal(payment.InquiryResults(), want) {
		t.Errorf("an inquiry may return %v", payment.InquiryResults())
	}
	if want := []payment.DeadReason{"FAILED", "EXPIRED", "OUTCOME_UNKNOWN", "CONFLICT", "TAMPERED", "UNCLAIMABLE"}; !slices.Equal(payment.DeadReasons(), want) {
		t.Errorf("the reasons are %v", payment.DeadReasons())
	}
}

// everyWord is every word of every list, and two that are on none.
func everyWord() []payment.Result {
	return []payment.Result{
		"ACCEPTED", "REFUSED_FINAL", "REFUSED_TRANSIENT", "REFUSED_BUSINESS", "REFUSED_LATER", "REFUSED_RAIL", "NOT_SENT", "UNKNOWN",
		"EXECUTED", "REFUSED", "IN_PROGRESS", "NOT_FOUND", "UNAVAILABLE",
		"CHECK_FAILED", "TAMPERED", "WINDOW_CLOSED", "RENDER_CHANGED",
		"", "accepted",
	}
}
