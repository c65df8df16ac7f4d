package console_test

import (
	"net/url"
	"testing"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestDatabasePage: the largest tables with those of others, the partitions, and who may log in.
func TestDatabasePage(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`CREATE TABLE public.filler AS SELECT repeat(md5(g::text), 20) AS filler FROM generate_series(1, 4000) g`)
	s := serve(t, cell, console.Read, false)
	s.want(s.do(s.login(), "GET", "/database", nil), 200, "its limit is not known here", "public.filler",
		"no table of this cell", "months after this one", "No row is in its DEFAULT", celltest.Readonly, "may log in")
}

// TestTokensPage: tokens with their states.
func TestTokensPage(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	s := serve(t, cell, console.Read, false)
	client := s.login()
	s.want(s.do(client, "GET", "/tokens", nil), 200, "No token was made")
	for n, name := range []string{"old shop", "new shop"} {
		cell.Exec(`INSERT INTO railhead.payment_api_tokens (token_digest, token_id, name, participants, verbs, expires_at,
		    revoked_at)
		  SELECT d, left(encode(d, 'hex'), 16), $1, '{p1}', '{READ}', now() + interval '1 day', CASE WHEN $2 = 0 THEN now() END
		  FROM (VALUES (sha256($1::text::bytea))) v (d)`, name, n)
	}
	cell.Exec(`INSERT INTO railhead.payment_api_uses (token_id, uses, refused, last_refused_at)
	  SELECT token_id, 3, 7, now() FROM railhead.payment_api_tokens WHERE name = 'old shop'`)
	s.want(s.do(client, "GET", "/tokens", nil), 200, "A token was used that is not in force", "old shop",
		"revoked since", "in force until", "<td>READ</td>")
}

// suspended is a cell with an open suspension, and the time that names it.
func suspended(t *testing.T) (cell *celltest.Cell, since string) {
	t.Helper()
	cell = celltest.New(t)
	cell.Exec(`SELECT railhead.suspend_outbox('w', 'ROWS_MISSING', 'a test', clock_timestamp())`)
	cell.QueryRow(`SELECT to_char(opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
		FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`, nil, &since)
	return cell, since
}

func open(cell *celltest.Cell) int {
	return cell.Int("SELECT count(*) FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL")
}

// TestAcceptServer: a suspension is ended for a person who says that it was compared, and only the one that the page
// showed.
func TestAcceptServer(t *testing.T) {
	t.Parallel()
	cell, since := suspended(t)
	s := serve(t, cell, console.Operate, true)
	client := s.login()
	const path = "/components/accept"
	s.want(s.do(client, "GET", "/components", nil), 200, "A suspension is open", `action="/components/accept"`,
		`value="`+since+`"`)
	for _, form := range []url.Values{
		{"since": {since}, "reason": {"x"}}, {"compared-" + since: {"yes"}, "reason": {"x"}},
		{"since": {since}, "compared-" + since: {"yes"}}, {"since": {since}, "compared": {"yes"}, "reason": {"x"}},
		{"since": {since}, "compared-2026-01-01T00:00:00Z": {"yes"}, "reason": {"x"}},
	} {
		s.want(s.do(client, "POST", path, form), 400, "Nothing was done")
	}
	other := url.Values{"since": {"2026-01-01T00:00:00Z"}, "compared-2026-01-01T00:00:00Z": {"yes"}, "reason": {"x"}}
	s.want(s.do(client, "POST", path, other), 409, "but you have compared the suspension of")
	if open(cell) != 1 {
		t.Fatal("a refused act ended the suspension")
	}
	s.act(client, path, url.Values{"since": {since}, "compared-" + since: {"yes"}}, "/components",
		"The server is accepted. What is paused stays paused.", "as ordered")
	if open(cell) != 0 {
		t.Error("the suspension is still open")
	}
	n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'ACCEPT_TIMELINE' AND person <> ''`)
	if n != 1 {
		t.Errorf("%d acts with their person in the log", n)
	}
}

// TestReaderMayNotAccept: the role read gets no form and 403, and the database refuses the login of readers.
func TestReaderMayNotAccept(t *testing.T) {
	t.Parallel()
	cell, since := suspended(t)
	form := url.Values{"since": {since}, "compared-" + since: {"yes"}, "reason": {"x"}}
	s := serve(t, cell, console.Read, true)
	client := s.login()
	s.want(s.do(client, "GET", "/components", nil), 200, "railhead timeline accept --since "+since)
	s.want(s.do(client, "POST", "/components/accept", form), 403, "Your role")
	s = serveAs(t, cell, console.Operate, celltest.Readonly)
	s.want(s.do(s.login(), "POST", "/components/accept", form), 403, "The database refuses this")
	if open(cell) != 1 {
		t.Error("the suspension was ended")
	}
}
