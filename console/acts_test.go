package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/payment"
)

// everyAct is every act of the console.
var everyAct = []string{
	"acknowledge", "escalate", "close", "replay", "resolve", "inquire", "cancel", "skip", "send-now", "reveal",
}

// enqueue enqueues one instruction that is due in an hour, with this content in each field that a caller
// chooses.
func enqueue(t *testing.T, cell *celltest.Cell, content string) payment.ID {
	t.Helper()
	return enqueueAs(t, cell, content, "i"+content)
}

func enqueueAs(t *testing.T, cell *celltest.Cell, content, instruction string) payment.ID {
	t.Helper()
	store, err := ingest.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema,
		Name: "ingest of a test"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	receipt, err := store.Enqueue(t.Context(), payment.Instruction{
		InstructionID: instruction, ParticipantID: "p" + content, IdempotencyKey: "k" + content,
		RailType: celltest.Bank, NotBefore: time.Now().Add(time.Hour),
		Payload: []byte(`{"amount": "10.50", "currency": "EUR", "payee": "DE02-SECRET"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return receipt.OutboxID
}

// seenField is what a payment's page shows of it, in the forms of its acts.
var seenField = regexp.MustCompile(`name="seen" value="([^"]+)"`)

// form is the form of an act on a payment, as its page has it, with these fields.
func (s *site) form(client *http.Client, id payment.ID, fields url.Values) url.Values {
	s.Helper()
	page := s.want(s.do(client, "GET", "/payments/"+id.String(), nil), 200)
	seen := seenField.FindStringSubmatch(page.text)
	if seen == nil {
		s.Fatalf("the page has no form of an act: %s", page.text)
	}
	form := url.Values{"seen": {seen[1]}}
	maps.Copy(form, fields)
	return form
}

// oneUse is a name of a form of the list of dead letters.
var oneUse = strings.Repeat("A", 43)

// TestReaderMayNotAct: each act by a person with the role read is 403, and so is each act of a console
// that is read-only, whatever the person may; nothing is in the operator log.
func TestReaderMayNotAct(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		role console.Role
		acts bool
		says string
	}{"a reader": {console.Read, true, "Your role"}, "a read-only console": {console.Operate, false, "read-only"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := celltest.New(t)
			s := serve(t, cell, test.role, test.acts)
			id := enqueue(t, cell, "1")
			client := s.login()
			page := s.want(s.do(client, "GET", "/payments/"+id.String(), nil), 200, "your role here may not act")
			if strings.Contains(page.text, `<form action="/payments/`) {
				t.Error("the page offers an act")
			}
			for _, act := range everyAct {
				s.want(s.do(client, "POST", "/payments/"+id.String()+"/"+act, url.Values{"reason": {"x"}}), 403, test.says)
				s.want(s.do(client, "POST", "/dead-letters/"+act,
					url.Values{"id": {id.String()}, "count": {"1"}, "reason": {"x"}}), 403, test.says)
			}
			if n := cell.Int("SELECT count(*) FROM railhead.payment_operator_log WHERE outbox_id IS NOT NULL"); n != 0 {
				t.Errorf("the operator log has %d acts", n)
			}
		})
	}
}

// TestPayment: the page has the certainty first, what comes next, and the payload without its values; an
// operator's act is done, and the operator log has the login and the person.
func TestPayment(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Operate, true)
	id := enqueue(t, cell, "1")
	client := s.login()
	path := "/payments/" + id.String()
	got := s.want(s.do(client, "GET", "/search?id=i1", nil), 303)
	if got.header.Get("Location") != path {
		t.Errorf("the search leads to %q", got.header.Get("Location"))
	}
	page := s.want(s.do(client, "GET", path, nil), 200, "not sent", "SEND in ", "data-due-in=", "payee: text",
		"railhead payment show "+id.String(), "<summary>cancel</summary>", "<b>replay</b>: not now")
	if strings.Contains(page.text, "DE02-SECRET") {
		t.Error("the page shows a value of the payload")
	}
	s.want(s.do(client, "GET", "/payments?participant=p1&currency=EUR&from=10&to=11&newer=1h", nil), 200, id.String(),
		"1 shown")
	s.want(s.do(client, "GET", "/payments?state=NONE&newer=x&from=1", nil), 400, "no such state", "newer than",
		"currency")
	s.want(s.do(client, "POST", path+"/cancel", nil), 400, "needs a reason")
	form := s.form(client, id, url.Values{"reason": {"x"}})
	s.want(s.do(client, "POST", path+"/resolve", form), 400, "the day of the evidence")
	s.want(s.do(client, "POST", path+"/replay", form), 409, "Nothing was done")
	s.want(s.do(client, "POST", path+"/acknowledge", form), 404, "has no dead letter")
	s.want(s.do(client, "POST", path+"/steal", form), 404, "no such act")
	for _, seen := range []string{"", "x", "7", form.Get("seen") + ".1.1.FAILED", "1.1", "-2"} {
		s.want(s.do(client, "POST", path+"/cancel", url.Values{"reason": {"x"}, "seen": {seen}}), 409, "has changed since")
	}
	form.Set("reason", "as ordered")
	got = s.want(s.do(client, "POST", path+"/cancel", form), 303)
	if got.header.Get("Location") != path {
		t.Errorf("the act leads to %q", got.header.Get("Location"))
	}
	s.want(s.do(client, "GET", path, nil), 200, "Cancelled.", "operator: cancel", "as ordered")
	for _, again := range []string{path, path + "?did=replay"} { // what was done is said once, and not by an address
		page = s.want(s.do(client, "GET", again, nil), 200)
		if strings.Contains(page.text, `role="status"`) {
			t.Errorf("%s says again what was done: %s", again, page.text)
		}
	}
	var actor, person, reason string
	cell.QueryRow("SELECT actor, person, reason FROM railhead.payment_operator_log WHERE outbox_id IS NOT NULL", nil,
		&actor, &person, &reason)
	if actor != celltest.Operator || person != "one-time link" || reason != "as ordered" {
		t.Errorf("the operator log has %q, %q, %q", actor, person, reason)
	}
}

// TestDatabaseRefuses: where the page let an act pass, the database refuses it to a login of another role.
func TestDatabaseRefuses(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serveAs(t, cell, console.Operate, celltest.Readonly)
	id := enqueue(t, cell, "1")
	client := s.login()
	for _, act := range everyAct {
		s.want(s.do(client, "POST", "/payments/"+id.String()+"/"+act, s.form(client, id, url.Values{
			"reason": {"x"}, "date": {"2026-11-27"}, "found": {"not_executed"}, "document": {"x"},
		})), 403, "The database refuses this")
	}
	for n, act := range []string{"acknowledge", "escalate", "inquire", "replay", "close"} {
		form := oneUse[1:] + strconv.Itoa(n)
		got := s.want(s.do(client, "POST", "/dead-letters/"+act, url.Values{
			"id-" + form: {id.String()}, "count": {"1"}, "reason": {"x"}, "seen-" + id.String(): {"-1"}, "form": {form},
		}), 303)
		s.want(s.do(client, "GET", got.header.Get("Location"), nil), 200, "1 refused", "does not let the login")
	}
	if n := cell.Int("SELECT count(*) FROM railhead.payment_operator_log WHERE outbox_id IS NOT NULL"); n != 0 {
		t.Errorf("the operator log has %d acts", n)
	}
}

// runbooks are the links to runbooks.
var runbooks = regexp.MustCompile(`href="(/runbooks/\w+)"`)

// TestOverview: the first page has the numbers, each with its metric and a runbook that is there.
func TestOverview(t *testing.T) {
	t.Parallel()
	s := serve(t, celltest.New(t), console.Read, false)
	client := s.login()
	page := s.want(s.do(client, "GET", "/", nil), 200, "State as of", "outbox_pending_depth", "dlq_depth", "bank",
		"dispatched per second", "no rail took a payment in the last 1h00m", `id="badge" href="/dead-letters"`,
		"no running relayer serves rail bank", "No dead letter is open")
	links := runbooks.FindAllStringSubmatch(page.text, -1)
	if len(links) < 8 {
		t.Errorf("%d tiles have a runbook", len(links))
	}
	for _, link := range links {
		s.want(s.do(client, "GET", link[1], nil), 200, "<h2>Meaning</h2>")
	}
	s.want(s.do(client, "GET", "/runbooks/RailheadNone", nil), 404)
	s.want(s.do(client, "GET", "/live.json", nil), 200, "[[")
	s.want(s.do(client, "GET", "/state.json", nil), 200, `"letters":"0"`, `"open":false`)
	s.want(s.do(client, "GET", "/payments/01900000-0000-7000-8000-000000000000", nil), 404, "no such payment")
	s.want(s.do(client, "GET", "/search?id=nothing", nil), 404, "no such payment", "Idempotency keys are not searched")
}

// TestSearchByTheNameOfAnother: a search by an outbox id leads to that payment, whatever a caller names another one; it
// leads to none by a name that may be the outbox id of a payment of another cell.
func TestSearchByTheNameOfAnother(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Read, false)
	client := s.login()
	first := enqueue(t, cell, "1")
	enqueueAs(t, cell, "2", first.String())
	got := s.want(s.do(client, "GET", "/search?id="+first.String(), nil), 303)
	if to := got.header.Get("Location"); to != "/payments/"+first.String() {
		t.Errorf("it leads to %s", to)
	}
	away := payment.NewID().String()
	second := enqueueAs(t, cell, "3", away)
	s.want(s.do(client, "GET", "/search?id="+away, nil), 200, "A payment has this id as a name", second.String(),
		"may be in another cell")
}

// TestReveal: an operator sees the payload on the answer to the form alone, as text, and the operator log
// has the login, the person and the reason.
func TestReveal(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Operate, true)
	id := enqueue(t, cell, "1")
	client := s.login()
	path := "/payments/" + id.String()
	s.want(s.do(client, "GET", path, nil), 200, `<form action="`+path+`/reveal" method="post" autocomplete="off">`)
	s.want(s.do(client, "POST", path+"/reveal", nil), 400, "needs a reason")
	s.want(s.do(client, "GET", path+"/reveal", nil), 404)
	got := s.want(s.do(client, "POST", path+"/reveal", url.Values{"reason": {"their call 146"}}), 200,
		"&#34;payee&#34;: &#34;DE02-SECRET&#34;")
	if kept := got.header.Get("Cache-Control"); kept != "no-store" {
		t.Errorf("Cache-Control is %q", kept)
	}
	var logged string
	cell.QueryRow(`SELECT concat_ws(' | ', actor, person, act, reason) FROM railhead.payment_operator_log
		WHERE outbox_id IS NOT NULL`, nil, &logged)
	if want := celltest.Operator + " | one-time link | REVEAL_PAYLOAD | their call 146"; logged != want {
		t.Errorf("the operator log has %q, want %q", logged, want)
	}
	page := s.want(s.do(client, "GET", path, nil), 200, "operator: reveal payload",
		celltest.Operator+" for one-time link")
	if strings.Contains(page.text, "DE02-SECRET") {
		t.Error("the page of the payment shows the payload")
	}
	s.want(s.do(client, "POST", "/payments/01900000-0000-7000-8000-000000000000/reveal",
		url.Values{"reason": {"x"}}), 404, "is not known to this cell")
}
