package main

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// twoHoursAhead puts the clock of the cell's database ahead of that of the machine on which the commands run. What is
// called by its number, as in the default of a column, keeps the other one.
func twoHoursAhead(cell *celltest.Cell) {
	cell.Exec("ALTER FUNCTION pg_catalog.clock_timestamp() RENAME TO clock_of_the_machine")
	cell.Exec(`CREATE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS
		'SELECT pg_catalog.clock_of_the_machine() + interval ''2 hours'''`)
}

// TestSpansCountFromTheDatabase: what is given as a span from now, and what is over, is judged by the clock of the
// database, however wrong that of the operator's machine is.
func TestSpansCountFromTheDatabase(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	who.env = append(who.env, "RAILHEAD_ADMIN_URL_EAST="+cell.URL(""))
	enqueued(who, "INV-1")
	cell.Exec(`INSERT INTO railhead.payment_event_endpoints (endpoint_id, place_xact, place_system, lease_until)
		VALUES ('shop', '0', '', clock_timestamp() + interval '1 hour')`)
	who.want(exitOK, "token", "create", "--name", "old", "--participant", "p1", "--expires-in", "1h", "--reason", "x")
	twoHoursAhead(cell)
	for what, until := range map[string]string{
		"rail pause bank":                           "SELECT paused_until FROM railhead.payment_rails WHERE paused",
		"participant pause p1":                      "SELECT paused_until FROM railhead.payment_paused_participants",
		"intake close bank":                         "SELECT closed_until FROM railhead.payment_closed_gates",
		"token create --name shop --participant p1": "SELECT expires_at FROM railhead.payment_api_tokens WHERE name = 'shop'",
		"token create --name east --participant p1 --cells EAST": "SELECT expires_at FROM railhead.payment_api_tokens " +
			"WHERE name = 'east'",
	} {
		flag := "--for"
		if strings.HasPrefix(what, "token") {
			flag = "--expires-in"
		}
		who.want(exitOK, append(strings.Fields(what), flag, "1h", "--reason", "x")...)
		var left time.Duration
		cell.QueryRow("SELECT ("+until+") - clock_timestamp()", nil, &left)
		if left <= 59*time.Minute || left > time.Hour {
			t.Errorf("%s ends in %s by the clock of the database, want 1h", what, left)
		}
	}
	if said := who.want(exitOK, "token", "list").out; strings.Count(said, "expired ") != 1 {
		t.Errorf("a token that has expired by the clock of the database: %s", said)
	}
	if said := who.want(exitOK, "events", "endpoints").out; !strings.Contains(said, "no process has it") {
		t.Errorf("an endpoint whose process is gone by the clock of the database: %s", said)
	}
	since := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	who.want(exitOK, "events", "redeliver", "--endpoint", "shop", "--since", since, "--reason", "x")
	since = time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
	who.want(exitUsage, "events", "redeliver", "--endpoint", "shop", "--since", since, "--reason", "x")
}
