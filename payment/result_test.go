package payment_test

import (
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// These lists are contracts: with the adapters, and with the schema's checks.
func TestWordLists(t *testing.T) {
	if want := []payment.Result{"ACCEPTED", "EXECUTED", "REFUSED_FINAL", "REFUSED_TRANSIENT", "REFUSED_BUSINESS",
		"REFUSED_LATER", "REFUSED_RAIL", "NOT_SENT", "UNKNOWN"}; !slices.Equal(payment.SendResults(), want) {
		t.Errorf("a send may return %v", payment.SendResults())
	}
	if want := []payment.Result{"EXECUTED", "REFUSED", "IN_PROGRESS", "NOT_FOUND", "UNAVAILABLE", "NOT_SENT",
		"REFUSED_LATER"}; !slices.Equal(payment.InquiryResults(), want) {
		t.Errorf("an inquiry may return %v", payment.InquiryResults())
	}
	if want := []payment.DeadReason{"FAILED", "EXPIRED", "OUTCOME_UNKNOWN", "CONFLICT", "TAMPERED",
		"UNCLAIMABLE"}; !slices.Equal(payment.DeadReasons(), want) {
		t.Errorf("the reasons are %v", payment.DeadReasons())
	}
}

// everyWord has all words of all lists, and two that are on none.
func everyWord() []payment.Result {
	return []payment.Result{
		"ACCEPTED", "REFUSED_FINAL", "REFUSED_TRANSIENT", "REFUSED_BUSINESS", "REFUSED_LATER", "REFUSED_RAIL", "NOT_SENT",
		"UNKNOWN",
		"EXECUTED", "REFUSED", "IN_PROGRESS", "NOT_FOUND", "UNAVAILABLE",
		"CHECK_FAILED", "TAMPERED", "WINDOW_CLOSED", "RENDER_CHANGED",
		"", "accepted",
	}
}

// TestPredicates: the words that each rule is true of. The schema has the same lists.
func TestPredicates(t *testing.T) {
	for name, test := range map[string]struct {
		is   func(payment.Result) bool
		want []payment.Result
	}{
		"refuses":         {payment.Result.Refuses, []payment.Result{"REFUSED_FINAL", "REFUSED"}},
		"refuses for now": {payment.Result.RefusesForNow, []payment.Result{"REFUSED_TRANSIENT", "REFUSED_BUSINESS"}},
		"refuses a send":  {payment.Result.RefusesSend, []payment.Result{"REFUSED_FINAL", "REFUSED_TRANSIENT", "REFUSED_BUSINESS", "REFUSED"}},
		"leaves doubt":    {payment.Result.LeavesDoubt, []payment.Result{"ACCEPTED", "UNKNOWN"}},
		"reached the rail": {payment.Result.ReachedRail, []payment.Result{
			"ACCEPTED", "REFUSED_FINAL", "REFUSED_TRANSIENT", "REFUSED_BUSINESS", "UNKNOWN"}},
		"left nothing": {payment.Result.LeftNothing, []payment.Result{
			"REFUSED_LATER", "REFUSED_RAIL", "NOT_SENT", "CHECK_FAILED", "TAMPERED", "WINDOW_CLOSED", "RENDER_CHANGED"}},
		"may be an execution": {payment.Result.MayExecute, []payment.Result{"ACCEPTED", "EXECUTED"}},
		"names the payment":   {payment.Result.NamesPayment, []payment.Result{"ACCEPTED", "IN_PROGRESS"}},
		"shows the payment":   {payment.Result.ShowsPayment, []payment.Result{"ACCEPTED", "EXECUTED", "REFUSED", "IN_PROGRESS"}},
		"keeps busy":          {payment.Result.KeepsBusy, []payment.Result{"REFUSED_LATER", "REFUSED_RAIL", "NOT_SENT"}},
	} {
		var got []payment.Result
		for _, word := range everyWord() {
			if test.is(word) {
				got = append(got, word)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	for _, word := range everyWord() {
		if slices.Contains(payment.Results(), word) != (word != "" && word != "accepted") {
			t.Errorf("%q is on the list of all results, or is not: %v", word, payment.Results())
		}
	}
}

// TestLetters: the words of dead letters that have a rule of their own.
func TestLetters(t *testing.T) {
	for status, want := range map[payment.LetterStatus]string{
		"pending": "open", "acknowledged": "open, by a word", "escalated": "open, by a word",
		"manual_replay": "closed", "resolved": "closed, by a word", "": "open", "closed": "open",
	} {
		got := "open"
		if status.IsClosed() {
			got = "closed"
		}
		if status.IsTriage() {
			got += ", by a word"
		}
		if got != want {
			t.Errorf("%q is %s, want %s", status, got, want)
		}
	}
	if n := len(payment.LetterStatuses()); n != 5 {
		t.Errorf("%d statuses", n)
	}
	for _, reason := range payment.DeadReasons() {
		if got, want := reason.IsUnpaid(), reason == "FAILED" || reason == "EXPIRED"; got != want {
			t.Errorf("%s is proven not paid: %v", reason, got)
		}
	}
}
