package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// everySubjectAct is every act of the console that is not on one payment, on what subjectsOf makes.
var everySubjectAct = []string{
	"/rails/bank/pause", "/rails/bank/resume", "/rails/*/pause", "/rails/*/resume", "/participant/pause?id=p1",
	"/participant/resume?id=p1", "/endpoints/shop/redeliver", "/endpoints/shop/discard",
}

// subjectPages are the pages of what is no payment.
var subjectPages = []string{"/rails", "/rails/bank", "/participants", "/participant?id=p1", "/endpoints", "/components"}

// subjectsOf makes a participant, an endpoint and a component.
func subjectsOf(t *testing.T) *celltest.Cell {
	t.Helper()
	cell := celltest.New(t)
	enqueue(t, cell, "1")
	cell.Exec(`INSERT INTO railhead.payment_event_endpoints (endpoint_id, paused_at, pause_reason, place_xact, place_system)
		SELECT 'shop', now(), 'it answered 410 Gone', pg_current_xact_id(), s.system_identifier::text FROM pg_control_system() s`)
	cell.Exec(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, last_tick_at, clock_offset_ms)
		VALUES ('r1', 'relayer', 'host-1', 'v9.9', 'running', now() - interval '1 minute', 2500),
			('r2', 'reaper', 'host-2', 'v9.8', 'running', now(), 3)`)
	return cell
}

func countActs(cell *celltest.Cell) int {
	return cell.Int("SELECT count(*) FROM railhead.payment_operator_log")
}

// TestReaderMayNotActOnSubjects: pages offer a reader no form, and each act by hand-made requests is 403,
// as is each act of a console that is read-only; without a login it is 401. Nothing is in the log.
func TestReaderMayNotActOnSubjects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		role console.Role
		acts bool
		says string
	}{"a reader": {console.Read, true, "Your role"}, "a read-only console": {console.Operate, false, "read-only"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := subjectsOf(t)
			before := countActs(cell)
			s := serve(t, cell, test.role, test.acts)
			client := s.login()
			for _, path := range subjectPages {
				page := s.want(s.do(client, "GET", path, nil), 200)
				for _, of := range []string{"rails", "participant", "endpoints"} {
					if strings.Contains(page.text, `<form action="/`+of+`/`) {
						t.Errorf("%s offers an act", path)
					}
				}
				s.want(s.do(s.browser(), "GET", path, nil), 401, "Log in")
			}
			for _, path := range everySubjectAct {
				s.want(s.do(client, "POST", path, url.Values{"reason": {"x"}}), 403, test.says)
				s.want(s.do(s.browser(), "POST", path, url.Values{"reason": {"x"}}), 401)
			}
			if n := countActs(cell); n != before {
				t.Errorf("the operator log has %d acts more", n-before)
			}
		})
	}
}

// TestDatabaseRefusesSubjectActs: were a page to offer an act that the login of the console is not for, the
// database refuses it; nothing is changed, and the page says so.
func TestDatabaseRefusesSubjectActs(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	before := countActs(cell)
	s := serveAs(t, cell, console.Operate, celltest.Readonly)
	client := s.login()
	for _, path := range everySubjectAct {
		seen := "0.0."
		if strings.HasPrefix(path, "/endpoints/") {
			seen = s.shown(client, "/endpoints", "/endpoints/shop/redeliver")
		}
		s.want(s.do(client, "POST", path, url.Values{"reason": {"x"}, "seen": {seen}}), 403, "The database refuses this")
	}
	if n := countActs(cell); n != before {
		t.Errorf("the operator log has %d acts more", n-before)
	}
	opened, err := operator.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Readonly), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	if _, err := opened.Discard(t.Context(), "shop", "x"); ledger.SQLState(err) != "42501" {
		t.Errorf("a discard by the login of readers: %v", err)
	}
}

// shown is what a page shows of the subject of an act, as the form of the act has it; without such a form, what a
// subject without a pause and without events is shown as.
func (s *site) shown(client *http.Client, page, act string) string {
	s.Helper()
	got := s.want(s.do(client, "GET", page, nil), 200)
	form := regexp.MustCompile(`action="` + regexp.QuoteMeta(html.EscapeString(strings.ReplaceAll(act, "*", "%2A"))) +
		`" method="post" autocomplete="off">\s*<input type="hidden" name="seen" value="([^"]+)"`).FindStringSubmatch(got.text)
	switch {
	case form != nil:
		return form[1]
	case strings.HasPrefix(act, "/endpoints/"):
		return "0.0.0"
	default:
		return "0.0."
	}
}

// act does an act by what its page shows, and follows it to its page.
func (s *site) act(client *http.Client, path string, form url.Values, leads string, texts ...string) {
	s.Helper()
	form.Set("reason", "as ordered")
	form.Set("seen", s.shown(client, leads, path))
	got := s.want(s.do(client, "POST", path, form), 303)
	if location := got.header.Get("Location"); location != leads {
		s.Errorf("%s leads to %q, not to %q", path, location, leads)
	}
	s.want(s.do(client, "GET", got.header.Get("Location"), nil), 200, texts...)
}

// TestSubjectActs: each act is done, its page says so at once, and the operator log has the person.
func TestSubjectActs(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	none := func() url.Values { return url.Values{} }
	by := "is paused by " + celltest.Operator
	s.act(client, "/rails/bank/pause", url.Values{"for": {"24h"}}, "/rails/bank", "Paused.", "rail bank "+by, "until ",
		"as ordered", "<summary>resume</summary>")
	s.act(client, "/rails/bank/pause", none(), "/rails/bank", "It was paused already")
	s.want(s.do(client, "GET", "/rails", nil), 200, "rail bank "+by, "Not everything is paused.")
	s.act(client, "/rails/bank/resume", none(), "/rails/bank", "Resumed.", "It has no pause of its own.",
		"<b>resume</b>: not now")
	s.act(client, "/rails/bank/resume", none(), "/rails/bank", "nothing was changed")
	s.act(client, "/rails/*/pause", none(), "/rails", "Paused.", "everything "+by)
	s.want(s.do(client, "GET", "/rails/bank", nil), 200, "everything "+by)
	s.want(s.do(client, "GET", "/participant?id=p1", nil), 200, "everything "+by)
	s.act(client, "/rails/*/resume", none(), "/rails", "Resumed.")
	s.act(client, "/participant/pause?id=p1", none(), "/participant?id=p1", "Paused.", "participant p1 "+by)
	s.want(s.do(client, "GET", "/participants", nil), 200, "participant p1 "+by)
	s.act(client, "/participant/resume?id=p1", none(), "/participant?id=p1", "Resumed.")
	s.want(s.do(client, "GET", "/endpoints", nil), 200, "paused: it answered 410 Gone")
	s.act(client, "/endpoints/shop/redeliver", url.Values{"since": {"2026-01-01T00:00:00Z"}}, "/endpoints",
		"No event waited:", "no process has it")
	s.act(client, "/endpoints/shop/discard", none(), "/endpoints", "nothing was discarded")

	refused := func(path string, form url.Values, status int, text string) {
		t.Helper()
		form.Set("reason", "x")
		s.want(s.do(client, "POST", path, form), status, text)
	}
	refused("/rails/bank/pause", url.Values{"for": {"1d"}}, 400, "a span for the pause")
	refused("/rails/bank/pause", url.Values{"for": {"9000h"}}, 409, "Nothing was done")
	refused("/endpoints/shop/redeliver", url.Values{"since": {"now"}}, 400, "a moment in the past")
	refused("/rails/none/pause", none(), 409, "is not known to this cell")
	refused("/participant/pause?id=none", none(), 404, "no such name")
	refused("/endpoints/none/redeliver", url.Values{"seen": {"0.0.0"}}, 404, "no such name")
	refused("/endpoints/shop/pause", none(), 404, "no such act")
	s.want(s.do(client, "POST", "/rails/bank/pause", url.Values{"reason": {" "}}), 400, "needs a reason")
	s.want(s.do(client, "POST", "/rails/bank/pause", url.Values{"reason": {"x"}}, "Sec-Fetch-Site", "cross-site"), 403,
		"another site")
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log
		WHERE reason = 'as ordered' AND person = 'one-time link' AND actor = $1`, celltest.Operator); n != 10 {
		t.Errorf("the operator log has %d acts of the person", n)
	}
}

// TestActWaitsForALock: an act that waits too long for a lock has done nothing, and its page names the
// session that held it.
func TestActWaitsForALock(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	s := serve(t, cell, console.Operate, true)
	client, before := s.login(), countActs(cell)
	holder := cell.Conn(t, "")
	if _, err := holder.Exec(t.Context(), "SET application_name = 'a migration by hand'"); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM railhead.payment_rails FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	s.want(s.do(client, "POST", "/rails/bank/pause", url.Values{"reason": {"x"}}), 409, "Another session holds a lock",
		"Nothing was done", fmt.Sprintf("pid %d", holder.PgConn().PID()), "a migration by hand")
	if n := countActs(cell); n != before {
		t.Errorf("the operator log has %d acts more", n-before)
	}
}

// TestRailPage: the profile in force with its fields, two versions compared, and the codes of answers.
func TestRailPage(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	cell.ApplyProfile(celltest.Bank, `{"acceptance": "FINAL", "concurrency": 7}`)
	cell.Exec(`INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, rail_type, attempt_no, state, result,
		rail_code, code_table, outcome_unknown, provisional)
		VALUES (gen_random_uuid(), railhead.uuidv7(), 'bank', 1, 'UNKNOWN', 'UNKNOWN', 'ZZ1', 'none@1', true, false)`)
	s := serve(t, cell, console.Read, false)
	client := s.login()
	s.want(s.do(client, "GET", "/rails", nil), 200, `href="/rails/bank"`, "no running relayer serves rail bank",
		"railhead rail pause --everything --reason WHY")
	s.want(s.do(client, "GET", "/rails/bank", nil), 200, "Profile in force: version 2", "timeouts.response_header",
		"send budget", "calls in flight", "railhead rail pause bank --reason WHY",
		"1 of the newest 1 rows", "They are all rows of the archive", "give these codes no class", "<code>ZZ1</code>",
		`<code>concurrency</code></th><td>32</td><td>7</td>`, "set by a test")
	s.want(s.do(client, "GET", "/rails/bank?from=2&to=1", nil), 200,
		`<code>concurrency</code></th><td>7</td><td>32</td>`)
	s.want(s.do(client, "GET", "/rails/bank?from=2&to=2", nil), 200, "have the same fields")
	s.want(s.do(client, "GET", "/rails/bank?to=1", nil), 200, "It is the first version")
	s.want(s.do(client, "GET", "/rails/bank?to=9", nil), 200, "no such version to compare")
	s.want(s.do(client, "GET", "/rails/bank?to=x", nil), 400, "no such version")
	s.want(s.do(client, "GET", "/rails/none", nil), 404, "no such rail")
	s.want(s.do(client, "GET", "/", nil), 200, `href="/rails/bank"`, `href="/components"`)
}

// TestParticipantPages: the list is found by the beginning of an id, and the page has what waits, the
// numbers and the sums.
func TestParticipantPages(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	enqueue(t, cell, "/a b?")
	s := serve(t, cell, console.Read, false)
	client := s.login()
	s.want(s.do(client, "GET", "/participants?prefix=p1", nil), 200, `href="/participant?id=p1"`)
	odd := s.want(s.do(client, "GET", "/participants?prefix=p%2F", nil), 200, `href="/participant?id=p%2Fa&#43;b%3F"`)
	if strings.Contains(odd.text, `id=p1"`) {
		t.Error("the list has a participant with another id")
	}
	s.want(s.do(client, "GET", "/participant?id=p%2Fa+b%3F", nil), 200, "p/a b?",
		"railhead participant pause &#39;p/a b?&#39;")
	s.want(s.do(client, "GET", "/participants?prefix=q", nil), 200, "whose id begins so")
	s.want(s.do(client, "GET", "/participant?id=p1", nil), 200, "10.50", "EUR", `href="/payments?participant=p1"`,
		"<dt>missing</dt><dd>none</dd>", "<dt>in pending</dt><dd>1, 0 due</dd>")
	s.want(s.do(client, "GET", "/participant?id=none", nil), 404, "no such participant")
}

// TestMovedPages: what a participant enqueued in another cell, before it was moved to this one, is said to be there,
// and is not missing among its numbers.
func TestMovedPages(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for _, sql := range []string{
		`INSERT INTO railhead.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, reason)
			SELECT n, gen_random_uuid(), upper(n), 'railhead', d.id, n = 'west', 'x'
			FROM unnest(ARRAY['east', 'west']) AS n, (SELECT gen_random_uuid() AS id OFFSET 0) d`,
		`INSERT INTO railhead.payment_cell_changes (bucket, version, cell, cell_id, reason)
			SELECT 7, row_number() OVER (ORDER BY name), name, cell_id, 'x' FROM railhead.payment_cells`,
		`INSERT INTO railhead.payment_arrivals (bucket, version, digest, complete_at, taken_at)
			VALUES (7, 2, 'x', now(), now())`,
		`INSERT INTO railhead.payment_arrived_keys
			(bucket, version, outbox_id, sequence_id, created_at, participant_id, instruction_id, idempotency_key, fingerprint)
			VALUES (7, 2, '01900000-0000-7000-8000-000000000001', 1, now(), 'p1', 'BEFORE', 'BEFORE', sha256('')),
				(7, 2, '01900000-0000-7000-8000-000000000002', 1, now(), 'p2', 'i1', 'k2', sha256(''))`,
		`INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id, moved_in) VALUES ('p1', 2, true)`,
	} {
		cell.Exec(`SET session_replication_role = replica; ` + sql)
	}
	here := enqueue(t, cell, "1")
	s := serve(t, cell, console.Read, false)
	client := s.login()
	s.want(s.do(client, "GET", "/participant?id=p1", nil), 200, "<dt>missing</dt><dd>none</dd>",
		"<dt>in other cells</dt><dd>1 of these, from before it was moved to this cell")
	for _, path := range []string{"/search?id=BEFORE", "/payments/01900000-0000-7000-8000-000000000001"} {
		s.want(s.do(client, "GET", path, nil), 404, "This payment is in another cell",
			"Look in the cells that had it: east. If none")
	}
	cell.Exec(`SET session_replication_role = replica;
		UPDATE railhead.payment_buckets SET cell = 'west', version = 2, leaving = 3 WHERE bucket = 9`)
	s.want(s.do(client, "GET", "/components", nil), 200, "No cell takes the participants of 1 buckets",
		"/runbooks/RailheadBucketsUntaken")
	s.want(s.do(client, "GET", "/search?id=i1", nil), 200, "01900000-0000-7000-8000-000000000002, in another cell: east",
		`<a href="/payments/`+here.String()+`"`)
}

// TestComponentsPage: a stale component has its meaning and a runbook, a clock that differs one too, and
// the schema the numbers of migrations.
func TestComponentsPage(t *testing.T) {
	t.Parallel()
	cell := subjectsOf(t)
	s := serve(t, cell, console.Read, false)
	client := s.login()
	page := s.want(s.do(client, "GET", "/components", nil), 200, "No relayer runs", "it starts no send", "host-1", "v9.9",
		"&#43;2500 ms", "/runbooks/RailheadComponentStale", "/runbooks/RailheadClockSkew", "The cell is at migration ",
		"There never was one.", "v9.8: 1")
	for _, link := range runbooks.FindAllStringSubmatch(page.text, -1) {
		s.want(s.do(client, "GET", link[1], nil), 200, "<h2>Meaning</h2>")
	}
	cell.Exec(`INSERT INTO railhead.payment_outbox_suspensions
		(worker_id, cause, detail, system_identifier, timeline, server_started_at, known_until)
		VALUES ('w1', 'ROWS_MISSING', 'rows are gone', 's', 1, now(), '-infinity')`)
	s.want(s.do(client, "GET", "/components", nil), 200, "A suspension is open", "rows are gone", "not known",
		"/runbooks/RailheadSuspensionOpen")
}
