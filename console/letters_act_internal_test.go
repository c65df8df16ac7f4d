package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// scriptedOperator replays with the next error of its script.
type scriptedOperator struct {
	Operator
	script  []error
	reasons []string
	wait    bool  // for the end of the request, from the second call on
	then    error // what a call that waited returns
}

func (s *scriptedOperator) ReplayPayment(ctx context.Context, _ payment.ID, _ time.Time, reason string) (int, error) {
	s.reasons = append(s.reasons, reason)
	n := len(s.reasons) - 1
	if s.wait && n > 0 {
		<-ctx.Done()
		return 0, s.then
	}
	if n < len(s.script) {
		return 0, s.script[n]
	}
	return 0, nil
}

// someIDs are outbox ids.
func someIDs(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("01900000-0000-7000-8000-%012d", i+1))
	}
	return ids
}

// actOnMany sends the form of a page of dead letters.
func actOnMany(t *testing.T, op Operator, config Config, act string, form url.Values) (int, string) {
	t.Helper()
	quiet := hostileReader{func(*reader.Timeline) {}}
	c, err := New(config, []Login{NewLink(Operate)}, quiet, op, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/dead-letters/"+act,
		strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(c.cookie(c.sessions.begin(Person{Name: "ann", Role: Operate})))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestOutcomesAreAllNamed: of the ticked ones each has its outcome on the page: a refusal and a lock stop
// no other, and what follows a lost answer is not tried.
func TestOutcomesAreAllNamed(t *testing.T) {
	t.Parallel()
	op := &scriptedOperator{script: []error{
		nil, fmt.Errorf("replaying: %w", &outbox.Fault{SQLState: "RH020", Message: "it is " + hostile}),
		&operator.BlockedError{Blockers: []operator.Blocker{{PID: 7}}}, &pgconn.PgError{Code: "42501"},
		&outbox.Fault{SQLState: "22P02", Message: "a secret"},
		fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, errors.New("DE02-SECRET")),
	}}
	ids := someIDs(8)
	code, page := actOnMany(t, op, Config{}, "replay", url.Values{
		"id": ids, "count": {" 8 "}, "reason": {"the bank is back"}, "back": {"reason=FAILED&evil=%22%3E"},
	})
	if code != http.StatusOK || len(op.reasons) != 6 {
		t.Errorf("status %d after %d calls", code, len(op.reasons))
	}
	for _, reason := range op.reasons {
		if reason != "the bank is back" {
			t.Errorf("the reason is %q", reason)
		}
	}
	for n, word := range []string{
		"done", "refused", "not done", "refused", "refused", "not known", "not tried", "not tried",
	} {
		_, row, found := strings.Cut(page, `<a href="/payments/`+ids[n]+`">`)
		if row, _, _ = strings.Cut(row, "</tr>"); !found || !strings.Contains(row, ">"+word+"<") {
			t.Errorf("payment %d is not %q: %s", n, word, row)
		}
	}
	for _, text := range []string{"1 done, 3 refused, 1 not done, 1 not known, 2 not tried",
		`href="/dead-letters?reason=FAILED"`} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q: %s", text, page)
		}
	}
	if strings.Contains(page, "<img") || strings.Contains(strings.ToLower(page), "secret") {
		t.Errorf("the page has text from outside as markup, or of a value: %s", page)
	}
}

// TestRestIsNotTried: if the time of the request is over, the page says so of each payment that is left.
func TestRestIsNotTried(t *testing.T) {
	t.Parallel()
	for want, then := range map[string]error{
		"1 done, 1 not done, 2 not tried": fmt.Errorf("replaying: %w", context.DeadlineExceeded),
		"2 done, 2 not tried":             nil,
	} {
		op := &scriptedOperator{wait: true, then: then}
		code, page := actOnMany(t, op, Config{RequestTimeout: 100 * time.Millisecond}, "replay",
			url.Values{"id": someIDs(4), "count": {"4"}, "reason": {"x"}})
		if code != http.StatusOK || !strings.Contains(page, want) || len(op.reasons) != 2 {
			t.Errorf("status %d after %d calls, want %s: %s", code, len(op.reasons), want, page)
		}
	}
}

// TestOrderIsChecked: nothing is done unless the count that was typed is that of the ticked ones, and the
// form is complete.
func TestOrderIsChecked(t *testing.T) {
	t.Parallel()
	ids := someIDs(lettersLimit + 1)
	for name, test := range map[string]struct {
		act  string
		form url.Values
		code int
		says string
	}{
		"too few typed":  {"replay", url.Values{"id": ids[:3], "count": {"2"}, "reason": {"x"}}, 400, "3 are ticked, and the count"},
		"too many typed": {"replay", url.Values{"id": ids[:3], "count": {"4"}, "reason": {"x"}}, 400, "3 are ticked, and the count"},
		"one ticked twice": {"replay", url.Values{"id": {ids[0], ids[0]}, "count": {"2"}, "reason": {"x"}}, 400,
			"1 are ticked"},
		"no count":    {"replay", url.Values{"id": ids[:3], "reason": {"x"}}, 400, "type how many"},
		"no number":   {"replay", url.Values{"id": ids[:3], "count": {"all"}, "reason": {"x"}}, 400, "type how many"},
		"none":        {"replay", url.Values{"count": {"0"}, "reason": {"x"}}, 400, "no dead letter is ticked"},
		"no reason":   {"replay", url.Values{"id": ids[:1], "count": {"1"}, "reason": {" "}}, 400, "needs a reason"},
		"too many":    {"replay", url.Values{"id": ids, "count": {"51"}, "reason": {"x"}}, 400, "at most 50"},
		"no id":       {"replay", url.Values{"id": {"x"}, "count": {"1"}, "reason": {"x"}}, 400, "no outbox id"},
		"resolve":     {"resolve", url.Values{"id": ids[:1], "count": {"1"}, "reason": {"x"}}, 404, "evidence for each"},
		"no such act": {"steal", url.Values{"id": ids[:1], "count": {"1"}, "reason": {"x"}}, 404, "Nothing was done"},
		"as many as a page has": {"replay", url.Values{"id": ids[:lettersLimit], "count": {"50"}, "reason": {"x"}}, 200,
			"50 done"},
	} {
		op := &scriptedOperator{}
		code, page := actOnMany(t, op, Config{}, test.act, test.form)
		if code != test.code || !strings.Contains(page, test.says) {
			t.Errorf("%s: status %d, want %d with %q: %s", name, code, test.code, test.says, page)
		}
		if test.code != http.StatusOK && len(op.reasons) != 0 {
			t.Errorf("%s: %d acts were done", name, len(op.reasons))
		}
	}
}

// TestGroups: groups that differ by their currency alone are one, the largest first.
func TestGroups(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	got := groupsOf([]reader.LetterGroup{
		{Reason: payment.DeadConflict, RailType: "card", Letters: 4, FirstAt: at, LastAt: at},
		{Reason: payment.DeadFailed, ErrorCode: "AC04", RailType: "bank", Currency: "EUR", Letters: 3, FirstAt: at,
			LastAt: at.Add(time.Hour), Amount: "10.75"},
		{Reason: payment.DeadFailed, ErrorCode: "AC04", RailType: "bank", Currency: "USD", Letters: 2,
			FirstAt: at.Add(-time.Hour), LastAt: at, Amount: "7"},
	}, true, "escalated")
	if len(got) != 2 || got[0].Code != "AC04" || got[0].Count != 5 || got[0].More != "+" ||
		!got[0].First.Equal(at.Add(-time.Hour)) || !got[0].Last.Equal(at.Add(time.Hour)) ||
		strings.Join(got[0].Sums, ", ") != "10.75+ EUR, 7+ USD" || got[0].Alert != "RailheadDeadLettersGrowing" ||
		got[0].Link != "/dead-letters?code=AC04&rail=bank&reason=FAILED&triage=escalated" {
		t.Errorf("got %+v", got)
	}
	if got[1].Link != "/dead-letters?code=-&rail=card&reason=CONFLICT&triage=escalated" || got[1].Sums != nil ||
		got[1].Alert != "RailheadConflictOpened" {
		t.Errorf("got %+v", got[1])
	}
}
