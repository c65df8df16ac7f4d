package railsim

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestInquiryFaults(t *testing.T) {
	const closed = "closed"
	for _, c := range []struct {
		name   string
		fault  Fault
		age    time.Duration // since the decision
		sees   func(got) bool
		status string // of the payment: executed unless it says refused
	}{
		{"unavailable", Fault{Kind: InquiryStatus}, 0, sees(503, "FAULT"), ""},
		{"limited", Fault{Kind: InquiryStatus, Status: 429, RetryAfterS: 3}, 0, header("Retry-After", "3"), ""},
		{"inconclusive", Fault{Kind: InquiryUnknown}, 0, sees(200, `"INCONCLUSIVE"`), ""},
		{"dropped", Fault{Kind: InquiryDrop}, 0, cut, ""},
		{"hung", Fault{Kind: InquiryHang, DelayMS: 20}, 0, cut, ""},
		{"delayed", Fault{Kind: InquiryDelay, DelayMS: 20}, 0, sees(200, `"EXECUTED"`), ""},
		{"garbage", Fault{Kind: InquiryGarbage}, 0, sees(200, "<html>"), ""},
		{"wrong id", Fault{Kind: InquiryWrongID}, 0, sees(200, `"reference":"r-other"`), ""},
		{"lie", Fault{Kind: InquiryNotFound}, 0, sees(404, `"NOT_FOUND"`), ""},
		{"lag", Fault{Kind: InquiryLag, DelayMS: 1000}, time.Second - 1, sees(404, `"NOT_FOUND"`), ""},
		{"lag in progress", Fault{Kind: InquiryLag, DelayMS: 1000, Answer: "IN_PROGRESS"}, 0, sees(200, `"IN_PROGRESS"`), ""},
		{"lag of a refusal tells no code", Fault{Kind: InquiryLag, DelayMS: 1000, Answer: "IN_PROGRESS"}, 0,
			func(g got) bool { return g.reply.Status == "IN_PROGRESS" && g.reply.Code == "" }, closed},
		{"lag over", Fault{Kind: InquiryLag, DelayMS: 1000}, time.Second, sees(200, `"EXECUTED"`), ""},
		{"lag over, refused", Fault{Kind: InquiryLag, DelayMS: 1000}, time.Second, sees(200, `"AC04"`), closed},
		{"no trace only of what is not decided", Fault{Kind: InquiryNoTrace}, 0, sees(200, `"EXECUTED"`), ""},
		{"blind only in progress", Fault{Kind: InquiryBlind}, 0, sees(200, `"EXECUTED"`), ""},
		{"not aged out", Fault{Kind: InquiryForgetful, DelayMS: 1000}, time.Second - 1, sees(200, `"EXECUTED"`), ""},
		{"aged out", Fault{Kind: InquiryForgetful, DelayMS: 1000}, time.Second, sees(404, `"NOT_FOUND"`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := newClock()
			c.fault.Probability = 1
			f := start(t, Config{Now: now.Now, Faults: []Fault{c.fault}})
			creditor, executed := "B", 1
			if c.status == closed {
				creditor, executed = "CLOSED", 0
			}
			f.pay("k", order1("r", "1.00", "A", creditor))
			now.add(c.age)
			if g := f.inquire("k"); !c.sees(g) {
				t.Errorf("the client sees %v", g)
			}
			f.ledger(executed, 1-executed) // an inquiry changes nothing
		})
	}
}

func TestInquiryWhileInProgress(t *testing.T) {
	f := start(t, Config{Mode: Provisional, SettleDelay: time.Hour, MaxHang: time.Hour})
	f.want(f.inquire("k"), http.StatusNotFound, "NOT_FOUND")
	f.want(f.pay("k", simple("r")), http.StatusAccepted, "ACCEPTED")
	f.want(f.inquire("k"), http.StatusOK, "IN_PROGRESS")
	if err := f.bank.SetFaults(Fault{Kind: InquiryBlind, Probability: 1, Match: Match{Nth: 3}}); err != nil {
		t.Fatal(err)
	}
	f.want(f.inquire("k"), http.StatusNotFound, "NOT_FOUND")
	f.want(f.inquire("k"), http.StatusOK, "IN_PROGRESS")
	f.ledger(0, 0)
}

// TestAnotherID tests that an inquiry by the id of such an answer returns another payment.
func TestAnotherID(t *testing.T) {
	f := start(t, Config{})
	f.want(f.pay("k1", simple("r1")), http.StatusCreated, "EXECUTED")
	if err := f.bank.SetFaults(Fault{Kind: AnotherIDAfter, Probability: 1}); err != nil {
		t.Fatal(err)
	}
	g := f.pay("k2", simple("r2"))
	f.want(g, http.StatusCreated, "EXECUTED")
	if asked := f.do(t.Context(), http.MethodGet, "/payments/by-id/"+g.reply.ID, ""); g.reply.Reference != "r2" ||
		asked.reply.Key != "k1" {
		t.Errorf("told %v, asked %v", g, asked)
	}
}

func TestInquiryOfOddNames(t *testing.T) {
	f := start(t, Config{})
	f.want(f.pay("a/b c%?", simple("x/y z")), http.StatusCreated, "EXECUTED")
	f.want(f.inquire("a%2Fb%20c%25%3F"), http.StatusOK, "EXECUTED")
	g := f.do(t.Context(), http.MethodGet, "/payments/by-reference/x%2Fy%20z", "")
	f.want(g, http.StatusOK, "EXECUTED")
	byID := f.do(t.Context(), http.MethodGet, "/payments/by-id/"+g.reply.ID, "")
	f.want(byID, http.StatusOK, "EXECUTED")
	f.want(f.do(t.Context(), http.MethodGet, "/payments/by-id/"+idPrefix+"404", ""), http.StatusNotFound, "NOT_FOUND")
	if byID.reply.Key != g.reply.Key {
		t.Errorf("by the bank's id: %v", byID)
	}
	if g.reply.Key != "a/b c%?" || !strings.HasPrefix(g.reply.ID, idPrefix) {
		t.Errorf("got %v", g)
	}
}
