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
	expires time.Time // of the last call
	wait    bool      // for the end of the request, from the second call on
	then    error     // what a call that waited returns
}

func (s *scriptedOperator) ReplayPayment(
	ctx context.Context, _ payment.ID, expires time.Time, reason string,
) (int, error) {
	s.expires = expires
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

// actOnMany sends the form of a page of dead letters, and follows it to its outcomes.
func actOnMany(t *testing.T, op Operator, config Config, act string, form url.Values) (int, string) {
	t.Helper()
	quiet := hostileReader{func(*reader.Timeline) {}}
	c, err := New(config, []Login{NewLink(Operate)}, quiet, op, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if form.Get("form") == "" {
		form.Set("form", newSecret())
	}
	form["id-"+form.Get("form")] = form["id"]
	for _, id := range form["id"] {
		if name := "seen-" + id; !form.Has(name) {
			form.Set(name, "-1.1.1.FAILED")
		}
	}
	cookie := c.cookie(c.sessions.begin(Person{Name: "ann", Role: Operate}))
	w := sendOrder(t, c, cookie, act, form)
	if w.Code != http.StatusSeeOther {
		return w.Code, w.Body.String()
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, w.Header().Get("Location"), nil)
	r.AddCookie(cookie)
	w = httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// sendOrder sends the form of a page of dead letters.
func sendOrder(t *testing.T, c *Console, cookie *http.Cookie, act string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/dead-letters/"+act,
		strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(cookie)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

// TestOrderIsDoneOnce: a form that is sent again does nothing, and leads to the same outcomes; those of
// another session are not shown.
func TestOrderIsDoneOnce(t *testing.T) {
	t.Parallel()
	op := &scriptedOperator{}
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{}, op, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ids := someIDs(2)
	name := newSecret()
	form := url.Values{"id-" + name: ids, "count": {"2"}, "reason": {"x"}, "form": {name},
		"seen-" + ids[0]: {"-1.1.1.FAILED"}, "seen-" + ids[1]: {"-1.1.1.FAILED"}}
	cookie := c.cookie(c.sessions.begin(Person{Name: "ann", Role: Operate}))
	var last string
	for range 3 {
		w := sendOrder(t, c, cookie, "replay", form)
		if last = w.Header().Get("Location"); w.Code != http.StatusSeeOther || len(op.reasons) != 2 {
			t.Errorf("status %d, %d acts were done", w.Code, len(op.reasons))
		}
	}
	for secret, want := range map[string]int{
		cookie.Value: 200, c.sessions.begin(Person{Name: "bob", Role: Operate}): 404,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, last, nil)
		r.AddCookie(c.cookie(secret))
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != want || (want == 200) != strings.Contains(w.Body.String(), "2 done") {
			t.Errorf("status %d, want %d: %s", w.Code, want, w.Body)
		}
	}
	form.Set("form", "x")
	if w := sendOrder(t, c, cookie, "replay", form); w.Code != http.StatusBadRequest || len(op.reasons) != 2 {
		t.Errorf("a form without a name: status %d after %d acts", w.Code, len(op.reasons))
	}
}

// TestOrdersAreBounded: a session keeps the outcomes of so many orders, the latest ones.
func TestOrdersAreBounded(t *testing.T) {
	t.Parallel()
	all := newSessions(1, time.Hour, time.Hour)
	secret := all.begin(Person{})
	for n := range ordersMax + 2 {
		if _, isNew := all.order(secret, fmt.Sprint(n)); !isNew {
			t.Errorf("order %d is not new", n)
		}
		time.Sleep(time.Microsecond)
	}
	if all.ordered(secret, "1") != nil || all.ordered(secret, "2") == nil || len(all.find(secret).orders) != ordersMax {
		t.Errorf("%d orders are kept, or not the latest", len(all.find(secret).orders))
	}
	if order, _ := all.order("none", "x"); order != nil {
		t.Error("there is an order without a session")
	}
}

// TestReplayOfExpired: what the form says of the expiry is what the database judges: a new one, that there is none, or
// nothing.
func TestReplayOfExpired(t *testing.T) {
	t.Parallel()
	op := &scriptedOperator{}
	ids := someIDs(2)
	_, page := actOnMany(t, op, Config{}, "replay", url.Values{"id": ids, "count": {"2"}, "reason": {"x"},
		"seen-" + ids[0]: {"-1.1.1.EXPIRED"}, "seen-" + ids[1]: {"nothing"}})
	if !strings.Contains(page, "1 refused") || !strings.Contains(page, "it has changed since") || len(op.reasons) != 1 ||
		!op.expires.IsZero() {
		t.Errorf("%d acts were done: %s", len(op.reasons), page)
	}
	never := operator.NeverExpires.Format(time.RFC3339)
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{}, op, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cookie := c.cookie(c.sessions.begin(Person{Name: "ann", Role: Operate}))
	for _, test := range []struct {
		fields, reason string
		code           int
		expires        string
	}{
		{"&expires=tomorrow", "FAILED", 400, ""}, {"&expires=2026-12-01T10:00:00Z&never=yes", "EXPIRED", 400, ""},
		{"&expires=+", "EXPIRED", 303, "0001-01-01T00:00:00Z"},
		{"&expires=0001-01-01T00:00:00Z", "EXPIRED", 400, ""}, {"&expires=0001-01-01T01:00:00%2B01:00", "FAILED", 400, ""},
		{"&never=yes", "EXPIRED", 303, never}, {"&never=yes", "FAILED", 303, never}, {"", "FAILED", 303, "0001-01-01T00:00:00Z"},
		{"&expires=2026-12-01T10:00:00Z", "EXPIRED", 303, "2026-12-01T10:00:00Z"},
	} {
		before := len(op.reasons)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments/"+ids[0]+"/replay",
			strings.NewReader("reason=x&seen=4.1.1."+test.reason+test.fields))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != test.code || (len(op.reasons) > before) != (test.code == 303) {
			t.Errorf("%s, %q: status %d: %s", test.reason, test.fields, w.Code, w.Body)
		}
		if test.code == 303 && op.expires.Format(time.RFC3339) != test.expires {
			t.Errorf("%s, %q: it expires %s", test.reason, test.fields, op.expires)
		}
	}
}

// TestLostAnswerOfAnAct: an act whose commit had no answer is not called one to try again.
func TestLostAnswerOfAnAct(t *testing.T) {
	t.Parallel()
	op := &scriptedOperator{script: []error{fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, errors.New("DE02-SECRET"))}}
	var log strings.Builder
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{}, op, nil, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments/"+someIDs(1)[0]+"/replay",
		strings.NewReader("reason=x&seen=4.1.1.FAILED"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(c.cookie(c.sessions.begin(Person{Name: "ann", Role: Operate})))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	text := w.Body.String()
	if w.Code != http.StatusBadGateway || !strings.Contains(text, "not known whether it was done") ||
		strings.Contains(text, "ry again") || strings.Contains(text, "SECRET") {
		t.Errorf("status %d: %s", w.Code, text)
	}
	if !strings.Contains(log.String(), `outcome="not known"`) {
		t.Errorf("the log says %s", log.String())
	}
}

// loggedOperator reveals nothing after its row of the operator log.
type loggedOperator struct{ Operator }

func (loggedOperator) RevealPayload(context.Context, payment.ID, string) (operator.Revealed, error) {
	return operator.Revealed{ActID: payment.ID{7}}, &outbox.Fault{SQLState: "RH020", Message: "no row has it"}
}

// TestRevealThatIsOnlyLogged: if the payload can't be read after its row of the operator log, the page names
// that row, and does not say that nothing was done.
func TestRevealThatIsOnlyLogged(t *testing.T) {
	t.Parallel()
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{}, loggedOperator{}, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments/"+someIDs(1)[0]+"/reveal",
		strings.NewReader("reason=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(c.cookie(c.sessions.begin(Person{Name: "ann", Role: Operate})))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if text := w.Body.String(); w.Code != http.StatusConflict || strings.Contains(text, "Nothing was done") ||
		!strings.Contains(text, payment.ID{7}.String()) {
		t.Errorf("status %d: %s", w.Code, text)
	}
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
