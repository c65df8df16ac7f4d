package console_test

import (
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
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// refuse enqueues instructions that the rail refuses for good, with these codes.
func refuse(t *testing.T, cell *celltest.Cell, codes ...string) []payment.ID {
	t.Helper()
	var ids []payment.ID
	byID := make(map[payment.ID]string)
	for n, code := range codes {
		id := enqueue(t, cell, strconv.Itoa(n))
		ids, byID[id] = append(ids, id), code
	}
	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now()")
	works, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer works.Close()
	taken, err := works.Turn(t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "relayer-1",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 100, Oldest: 5,
			ProfileVersion: cell.ProfileInForce(celltest.Bank), RenderVersion: "r1"}},
	}})
	if err != nil || len(taken.Claims) != len(ids) {
		t.Fatalf("%d claims, %v", len(taken.Claims), err)
	}
	policy := payment.Policy{}.WithDefaults()
	var outcomes []payment.Outcome
	for _, claim := range taken.Claims {
		outcomes = append(outcomes, payment.Outcome{
			AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: payment.ResultRefusedFinal,
			Decision: policy.Decide(claim, payment.Answer{Result: payment.ResultRefusedFinal, Elapsed: time.Millisecond}),
			RailCode: byID[claim.OutboxID], CodeTable: "iso20022@1", WorkerID: "relayer-1", ProfileVersion: 1,
			RenderVersion: "r1",
		})
	}
	if _, err := works.Turn(t.Context(), outbox.Turn{Outcomes: outcomes}); err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestDeadLetters: the page groups what went wrong, a group leads to its letters, and pages have each letter
// once.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	codes := make([]string, 60)
	for n := range codes {
		codes[n] = "AC04"
		if n >= 56 {
			codes[n] = "AM04"
		}
	}
	ids := refuse(t, cell, codes...)
	s := serve(t, cell, console.Read, false)
	client := s.login()
	page := s.want(s.do(client, "GET", "/dead-letters", nil), 200, "60 dead letters, 50 on this page", "588.00 EUR",
		"42.00 EUR", `href="/dead-letters?code=AM04&amp;rail=bank&amp;reason=FAILED"`, "/runbooks/RailheadDeadLettersGrowing")
	if strings.Contains(page.text, `type="checkbox"`) || strings.Contains(page.text, "formaction") {
		t.Error("the page offers acts to a reader")
	}
	for _, path := range []string{"/", "/payments"} {
		s.want(s.do(client, "GET", path, nil), 200, `href="/dead-letters" class="badge alarm">Dead letters <b>60</b>`)
	}
	next := nextPage.FindStringSubmatch(page.text)
	if next == nil {
		t.Fatal("the first page leads to no other one")
	}
	second := s.want(s.do(client, "GET", strings.ReplaceAll(next[1], "&amp;", "&"), nil), 200,
		"60 dead letters, 10 on this page")
	for _, id := range ids {
		if n := strings.Count(page.text+second.text, `href="/payments/`+id.String()+`"`); n != 1 {
			t.Errorf("payment %s is %d times on the pages", id, n)
		}
	}
	s.want(s.do(client, "GET", "/dead-letters?code=AM04&triage=pending&older=0s&newer=1h", nil), 200,
		"4 dead letters, 4 on this page")
	s.want(s.do(client, "GET", "/dead-letters?code=-", nil), 200, "0 dead letters", "None is selected")
	s.want(s.do(client, "GET", "/dead-letters?triage=resolved", nil), 200, "0 dead letters")
	s.want(s.do(client, "GET", "/dead-letters?triage=x&reason=x&older=x&after=x", nil), 400, "no such state of triage",
		"no such reason", "older than", "begins at no dead letter")
}

// TestActOnTicked: the ticked ones are acted on, each with its own row in the operator log, and the answer says what
// became of each; a wrong count does nothing.
func TestActOnTicked(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ids := refuse(t, cell, "AC04", "AC04", "AC04", "AM04")
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	s.want(s.do(client, "GET", "/dead-letters", nil), 200, `" value="`+ids[0].String()+`" aria-label`,
		`formaction="/dead-letters/replay"`, "Resolve needs evidence",
		"<form method=\"post\" autocomplete=\"off\">\n<button disabled hidden>")
	const why = "the account is open again"
	logged := func(act string) int {
		return cell.Int(`SELECT count(*) FROM railhead.payment_operator_log
			WHERE act = $1 AND actor = $2 AND person = 'one-time link' AND reason = $3`, act, celltest.Operator, why)
	}
	form := s.tick(client, why, ids[:3]...)
	form.Set("count", "4")
	s.want(s.do(client, "POST", "/dead-letters/replay", form), 400, "3 are ticked, and the count that was typed is 4")
	if n := cell.Int("SELECT count(*) FROM railhead.payment_operator_log WHERE outbox_id IS NOT NULL"); n != 0 {
		t.Errorf("%d acts were done in spite of the count", n)
	}
	form.Set("count", "3")
	s.order(client, "acknowledge", form, "3 done", `href="/dead-letters?code=AC04"`)
	s.order(client, "replay", form, "acknowledge: ", "3 done") // the form is used up
	form.Set("form", oneUse)
	s.want(s.do(client, "POST", "/dead-letters/replay", form), 400, "no dead letter is ticked") // on this page
	form["id-"+oneUse] = []string{ids[0].String(), ids[1].String(), ids[2].String()}
	s.order(client, "replay", form, "3 refused", "it has changed since the page was made")
	s.want(s.do(client, "GET", "/dead-letters?triage=acknowledged", nil), 200, "3 dead letters", why)
	form = s.tick(client, why, ids[:3]...)
	// One is replayed elsewhere meanwhile.
	s.want(s.do(client, "POST", "/payments/"+ids[1].String()+"/replay",
		s.form(client, ids[1], url.Values{"reason": {"first"}})), 303)
	got := s.order(client, "replay", form, "2 done, 1 refused", "it has changed since")
	for n, word := range []string{">done<", ">refused<", ">done<"} {
		_, row, _ := strings.Cut(got.text, `href="/payments/`+ids[n].String()+`"`)
		if row, _, _ = strings.Cut(row, "</tr>"); !strings.Contains(row, word) {
			t.Errorf("payment %d is not %s: %s", n, word, row)
		}
	}
	if ack, replay := logged("TRIAGE"), logged("REPLAY"); ack != 3 || replay != 2 {
		t.Errorf("the operator log has %d acknowledgements and %d replays", ack, replay)
	}
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_pending"); n != 3 {
		t.Errorf("%d payments are in pending", n)
	}
	form = s.tick(client, "not wanted any more", ids[3])
	s.order(client, "close", form, "1 done")
	s.want(s.do(client, "POST", "/dead-letters/resolve", form), http.StatusNotFound, "evidence for each payment")
	s.want(s.do(client, "GET", "/dead-letters", nil), 200, "0 dead letters")
}

// formField is the name of the form of the list of dead letters.
var formField = regexp.MustCompile(`name="form" value="([^"]+)"`)

// tick is the form of the list of dead letters with these ones ticked.
func (s *site) tick(client *http.Client, reason string, ids ...payment.ID) url.Values {
	s.Helper()
	page := s.want(s.do(client, "GET", "/dead-letters", nil), 200)
	name := formField.FindStringSubmatch(page.text)
	if name == nil {
		s.Fatalf("the page has no form: %s", page.text)
	}
	form := url.Values{"form": {name[1]}, "reason": {reason}, "count": {strconv.Itoa(len(ids))}, "back": {"code=AC04"}}
	for _, id := range ids {
		field := "seen-" + id.String()
		_, seen, _ := strings.Cut(page.text, `name="`+field+`" value="`)
		seen, _, _ = strings.Cut(seen, `"`)
		form.Add("id-"+name[1], id.String())
		form.Set(field, seen)
	}
	return form
}

// order sends the form of the list of dead letters, and follows it to its outcomes.
func (s *site) order(client *http.Client, act string, form url.Values, texts ...string) answer {
	s.Helper()
	got := s.want(s.do(client, "POST", "/dead-letters/"+act, form), 303)
	return s.want(s.do(client, "GET", got.header.Get("Location"), nil), 200, texts...)
}

// TestEvidenceIsOfWhatWasSeen: an act from a page that was made before a later send is refused, and does
// nothing: evidence about the send that it showed says nothing about that one.
func TestEvidenceIsOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	id := refuse(t, cell, "AC04")[0]
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	today := time.Now().UTC().Format(time.DateOnly)
	old := s.form(client, id, url.Values{"reason": {"x"}, "found": {"executed"}, "reference": {"R1"}, "date": {today},
		"document": {"the statement of yesterday"}})
	listed := s.tick(client, "x", id)
	path := "/payments/" + id.String()
	s.want(s.do(client, "POST", path+"/replay", s.form(client, id, url.Values{"reason": {"a colleague"}})), 303)
	for act := range map[string]bool{"resolve": true, "replay": true, "acknowledge": true, "cancel": true} {
		s.want(s.do(client, "POST", path+"/"+act, old), 409, "has changed since the page was made", "Nothing was done")
	}
	s.order(client, "acknowledge", listed, "1 refused", "it has changed since")
	if n := cell.Int("SELECT count(*) FROM railhead.payment_operator_log WHERE outbox_id IS NOT NULL"); n != 1 {
		t.Errorf("the operator log has %d acts, not that of the colleague alone", n)
	}
	s.want(s.do(client, "POST", path+"/cancel", s.form(client, id, url.Values{"reason": {"x"}})), 303)
}

// queries are the statements that a payment's page has for psql.
var queries = regexp.MustCompile(`(?s)-c "\s*(SELECT.*?)"</pre>`)

// TestTheSameElsewhere: what the page offers to copy works as it is.
func TestTheSameElsewhere(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	id := enqueue(t, cell, "1")
	s := serve(t, cell, console.Read, false)
	page := s.want(s.do(s.login(), "GET", "/payments/"+id.String(), nil), 200, `data-copy="psql"`, `data-copy="curl"`,
		`data-copy="railhead">railhead payment show `+id.String()+`<`)
	found := queries.FindStringSubmatch(page.text)
	if found == nil {
		t.Fatalf("the page has no statement: %s", page.text)
	}
	rows, err := cell.Conn(t, celltest.Readonly).Query(t.Context(), strings.ReplaceAll(found[1], "&#39;", "'"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if !rows.Next() {
		t.Errorf("the statement returns nothing: %s, %v", found[1], rows.Err())
	}
}

// TestReplayAfterTheDeadline: several are not replayed whose time to be sent has passed, whatever their dead letter is
// for; the page of one says so, and takes a new expiry or the word that there is none.
func TestReplayAfterTheDeadline(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Operate, true)
	id := refuse(t, cell, "AC04")[0]
	cell.Exec("ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER")
	cell.Exec("UPDATE railhead.payment_outbox_attempts SET expires_at = now() - interval '1 minute' " +
		"WHERE enqueued_at IS NOT NULL")
	cell.Exec("ALTER TABLE railhead.payment_outbox_attempts ENABLE TRIGGER USER")
	client := s.login()
	path := "/payments/" + id.String()
	page := s.want(s.do(client, "GET", path, nil), 200, "It had to be sent before", `name="never"`, "--expires-at TIME")
	seen := seenField.FindStringSubmatch(page.text)[1]
	got := s.want(s.do(client, "POST", "/dead-letters/replay", url.Values{"id-" + oneUse: {id.String()}, "count": {"1"},
		"reason": {"x"}, "seen-" + id.String(): {seen}, "form": {oneUse}}), 303)
	s.want(s.do(client, "GET", got.header.Get("Location"), nil), 200, "1 refused", "it had to be sent before")
	form := s.form(client, id, url.Values{"reason": {"x"}})
	s.want(s.do(client, "POST", path+"/replay", form), 409, "Nothing was done", "it had to be sent before")
	form.Set("never", "yes")
	s.want(s.do(client, "POST", path+"/replay", form), 303)
	if n := cell.Int("SELECT count(*) FROM railhead.payment_outbox_pending WHERE expires_at IS NULL"); n != 1 {
		t.Errorf("%d payments are pending without an expiry", n)
	}
}

// TestReplayOfQuarantined: the page of a quarantined payment whose time to be sent has passed says that a replay
// without a new expiry ends it.
func TestReplayOfQuarantined(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Operate, true)
	id := enqueue(t, cell, "1")
	works, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(works.Close)
	if _, err := works.Quarantine(t.Context(), []payment.ID{id}, "SQLSTATE_23514"); err != nil {
		t.Fatal(err)
	}
	client, path := s.login(), "/payments/"+id.String()
	const needs = "which is past: it needs a new expiry, or the tick"
	for _, test := range []struct {
		set   string
		needs bool
		says  []string
	}{
		{"expires_at = NULL", false, []string{"it never expires"}},
		{"expires_at = now() + interval '1 hour'", false, []string{", stays."}},
		{"expires_at = now() - interval '1 minute'", true, []string{needs, "--expires-at TIME"}},
		{"outcome_unknown = true", false, []string{", stays: from then on it is not sent again."}},
	} {
		cell.Exec("UPDATE railhead.payment_outbox_pending SET " + test.set)
		page := s.want(s.do(client, "GET", path, nil), 200, test.says...)
		if strings.Contains(page.text, needs) != test.needs {
			t.Errorf("%s: %s", test.set, page.text)
		}
	}
}
