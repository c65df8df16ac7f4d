package ledger_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
)

// namespace is the constant from which a cell derives rail keys.
func (c *cellDesk) namespace() string {
	c.t.Helper()
	return c.text(`SELECT rail_key_namespace::text FROM railhead.payment_outbox_settings`)
}

// forgetJoining leaves a cell as a restore to a time before it joined does.
func (c *cellDesk) forgetJoining(before string) {
	c.forgetMap()
	c.do(`ALTER TABLE railhead.payment_outbox_settings DISABLE TRIGGER payment_outbox_settings_namespace`)
	c.do(`UPDATE railhead.payment_outbox_settings SET rail_key_namespace = $1`, before)
	c.do(`ALTER TABLE railhead.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_namespace`)
}

// TestOneNamespace: the cells of a directory derive the same rail key for a payment, so that a rail recognises one
// which two of them send. A cell takes the constant of its directory while it is empty, and nothing changes it
// afterwards.
func TestOneNamespace(t *testing.T) {
	t.Parallel()
	east, west := unnamedCell(t, "east"), unnamedCell(t, "west")
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'the first')`))
	before := west.namespace()
	if before == east.namespace() {
		t.Fatal("two databases have one namespace")
	}
	west.must(west.joins(east))
	same(t, "the namespace of west", west.namespace(), east.namespace())
	same(t, "what west had before", west.text(`SELECT joined_with::text FROM railhead.payment_cells WHERE here`), before)
	key := `SELECT railhead.payment_rail_key(rail_key_namespace, 'p1', 'i', 'k')::text FROM railhead.payment_outbox_rules`
	same(t, "the rail key of a payment", west.text(key), east.text(key))

	east.enqueue()
	_, err := east.super.Exec(t.Context(), `UPDATE railhead.payment_outbox_settings SET rail_key_namespace = $1`, before)
	wantRefused(t, "another namespace, with a key", err, "P0001", "UPDATE of rail_key_namespace of")

	// A directory whose cells have different ones, or none, is joined by no cell.
	north := unnamedCell(t, "north")
	id, cells, _ := west.directory()
	for _, other := range []string{`"rail_key_namespace": "` + before + `"`, `"rail_key_namespace": null`} {
		mixed := strings.Replace(cells, `"rail_key_namespace": "`+east.namespace()+`"`, other, 1)
		err := north.act(`SELECT railhead.name_cell('north', 'NORTH', 'railhead', 'why', $1, $2)`, id, mixed)
		wantRefused(t, "a directory with "+other, err, "RH020", "derive different rail keys")
		east.must(east.learns(west))
		err = east.act(`SELECT railhead.learn_cells($1, replace($2, '"west"', '"south"')::jsonb, '[]')`, id,
			strings.ReplaceAll(strings.Replace(mixed, west.id(), "00000000-0000-4000-8000-000000000000", 1),
				east.namespace(), before))
		wantRefused(t, "a copy with "+other, err, "RH020", "of the copy")
	}
	// One that was begun by an older version gives nothing.
	east.must(east.confirms(west))
	east.do(`ALTER TABLE railhead.payment_cells DISABLE TRIGGER ALL`)
	east.do(`UPDATE railhead.payment_cells SET rail_key_namespace = NULL`)
	wantRefused(t, "giving in an older directory", east.act(`SELECT railhead.give_buckets('{5}', 'west', 'why')`), "RH020",
		"cell west derives other rail keys than this one")
}

// TestRejoinOfAnother: only a database from which a cell was made rejoins as that cell, and not one in which
// participants have enqueued with other rail keys meanwhile.
func TestRejoinOfAnother(t *testing.T) {
	t.Parallel()
	east, west := unnamedCell(t, "east"), unnamedCell(t, "west")
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'the first')`))
	before := west.namespace()
	west.must(west.joins(east))
	east.must(east.learns(west))
	west.must(west.learns(east))
	east.must(east.confirms(west))
	west.must(west.confirms(east))
	east.must(east.gives(west, 5, outbox.BucketOf("p1")))
	id, cells, _ := east.directory()
	westID := west.id()
	rejoin := func(c *cellDesk) error {
		return c.act(`SELECT railhead.name_cell('west', 'WEST', 'railhead', 'restored', $1, $2, $3)`, id, cells, westID)
	}
	other := unnamedCell(t, "other")
	wantRefused(t, "an empty database", rejoin(other), "RH020", "this database is not that of cell west")
	other.forgetJoining(east.namespace())
	wantRefused(t, "a database of east", rejoin(other), "RH020", "this database is not that of cell west")

	west.forgetJoining(before)
	west.enqueue() // the cell takes all while it has no map
	wantRefused(t, "one in which a participant has enqueued", rejoin(west), "RH020",
		"participants have enqueued in this database")
	same(t, "what it has then", west.Int(`SELECT count(*) FROM railhead.payment_cells`), 0)

	again := unnamedCell(t, "west")
	again.forgetJoining(before)
	again.must(rejoin(again))
	same(t, "the namespace", again.namespace(), east.namespace())
	// Its server is accepted, and yet nothing is taken by the act itself.
	same(t, "what it takes", again.Int(`SELECT count(*) FROM railhead.payment_buckets WHERE mine`), 0)
	again.must(again.learns(east))
	same(t, "once it has learned", again.Int(`SELECT count(*) FROM railhead.payment_buckets WHERE mine`), 2)
	_, err := openIngest(t, again.Cell, 4).Enqueue(t.Context(), order(2))
	wantRefused(t, "before it is confirmed", err, "RH009", "")
}

// TestRejoinWithParticipants: the first cell, restored to a time before its directory, rejoins with what it has, and
// the participants of other cells that enqueued there are counted.
func TestRejoinWithParticipants(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	east.must(east.gives(west, outbox.BucketOf("participant")))
	id, cells, _ := west.directory()
	eastID := east.id()
	east.forgetMap()
	east.enqueue()
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'restored', $1, $2, $3)`, id, cells, eastID))
	east.must(east.learns(west))
	same(t, "participants of other cells", east.text(`SELECT railhead.foreign_participants()::text`), "1")
}

// TestCopyFromBeforeAFailover: once a cell has recorded on which server another one is, it learns nothing that was
// read there on an earlier one. A copy that is learned at this moment is waited for.
func TestCopyFromBeforeAFailover(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	east.must(east.act(`SELECT railhead.give_buckets('{5}', 'west', 'a failover forgets this')`))
	id, cells, changes := east.directory()
	read := west.servers(east)
	later := strings.Replace(east.server(), "/1/", "/2/", 1)

	// The copy is under way: what is recorded meanwhile waits for it, and sees it.
	tx, err := west.acts.Begin(t.Context())
	west.must(err)
	_, err = tx.Exec(t.Context(), `SELECT railhead.learn_cells($1, $2, $3, $4)`, id, cells, changes, read)
	west.must(err)
	noted := make(chan error, 1)
	second := west.Conn(t, celltest.Operator)
	go func() {
		_, err := second.Exec(t.Context(), `SELECT railhead.note_cell_server('east', $1)`, later)
		noted <- err
	}()
	west.waitForLock()
	west.must(tx.Rollback(t.Context()))
	west.must(<-noted)

	learn := func(servers string) error {
		return west.act(`SELECT railhead.learn_cells($1, $2, $3, $4)`, id, cells, changes, servers)
	}
	const says = "was read on another server than the one that this cell knows"
	wantRefused(t, "a copy of the server before", learn(read), "RH020", "the map of cell east "+says)
	wantRefused(t, "one of a cell of no known server", learn(`[{"cell": "north", "server": "1/1/x/0"}]`), "RH020", says)
	wantRefused(t, "one without a server", learn(`[{"cell": "east"}]`), "RH020", says)
	wantRefused(t, "one of its own map of another server", learn(west.readOn("x", east, later)), "RH020",
		"the map of cell west "+says)
	wantRefused(t, "a copy without servers", west.act(`SELECT railhead.learn_cells($1, $2, $3)`, id, cells, changes), "RH020",
		"it is not said on which servers")
	settle := func(servers any) error {
		return west.act(`SELECT railhead.settle_buckets('{5}', '{9}', 'east', 'why', $1)`, servers)
	}
	wantRefused(t, "settling by maps of the server before", settle(read), "RH020", "the map of cell east "+says)
	wantRefused(t, "settling without servers", settle(nil), "RH002", "servers must not be null")
	west.must(learn(west.readOn(west.server(), east, later)))
	same(t, "what is taken of the present server", west.Int(`SELECT count(*) FROM railhead.payment_buckets WHERE mine`), 1)

	// A server that does not follow the known one needs a reason.
	parts := strings.Split(later, "/")
	for what, server := range map[string]string{
		"an earlier timeline": east.server(), "another system": "1" + later,
		"an earlier start": strings.Join([]string{parts[0], parts[1], "2001-01-01 00:00:00+00", parts[3]}, "/"),
	} {
		wantRefused(t, what, west.act(`SELECT railhead.note_cell_server('east', $1)`, server), "RH020", "does not follow")
		wantRefused(t, what+", a reason that is not seen",
			west.act(`SELECT railhead.note_cell_server('east', $1, $2)`, server, "\u200b\u00a0"), "RH020", "does not follow")
	}
	for what, server := range map[string]string{
		"the same once more": later, "a later start": strings.Join([]string{parts[0], parts[1], "2999-01-01 00:00:00+00", "0"}, "/"),
		"gone back":        strings.Join([]string{parts[0], parts[1], "2999-01-01 00:00:00+00", "1"}, "/"),
		"a later timeline": strings.Join([]string{parts[0], "9", "2001-01-01 00:00:00+00", "0"}, "/"),
	} {
		if what == "gone back" {
			west.must(west.act(`SELECT railhead.note_cell_server('east', $1, 'known')`, strings.TrimSuffix(server, "1")+"0"))
		}
		if err := west.act(`SELECT railhead.note_cell_server('east', $1)`, server); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		west.must(west.act(`SELECT railhead.note_cell_server('east', $1, 'moved')`, later))
	}
	same(t, "the log", west.text(`SELECT concat_ws(' ', subject, reason, detail ->> 'before' <> detail ->> 'server')
		FROM railhead.payment_operator_log WHERE act = 'NOTE_CELL_SERVER' ORDER BY acted_at DESC LIMIT 1`), "east moved t")
	for server, state := range map[string]string{"": "RH002", "1/1/yesterday/0": "RH002", later + "; x": "RH002"} {
		wantRefused(t, "server "+server, west.act(`SELECT railhead.note_cell_server('east', $1)`, server), state, "a server is")
	}
	for _, cell := range []any{"west", "south", nil} {
		wantRefused(t, "a cell that is no other", west.act(`SELECT railhead.note_cell_server($1, $2)`, cell, later), "RH010", "")
	}
	wantRefused(t, "flushing a map of another server", west.act(`SELECT railhead.flush_map('x')`), "RH020", "since its map was read")
}

// TestWentBack: a comparison says nothing any more once a component finds that the data went back since, as when a
// snapshot of a running machine is put back: its server was not started anew.
func TestWentBack(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	atEast := openIngest(t, east.Cell, 4)
	receipt, err := atEast.Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)
	suspend := func(cause string) {
		t.Helper()
		worker := east.Conn(t, celltest.Relayer)
		east.must(pgx.BeginFunc(t.Context(), worker, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', $1, 'a test', clock_timestamp())`, cause)
			return err
		}))
		east.do(`UPDATE railhead.payment_outbox_suspensions SET accepted_at = clock_timestamp(), accepted_by = 'x', reason = 'y'
			WHERE accepted_at IS NULL`)
	}
	suspend("NEW_TIMELINE")
	receipt, err = atEast.Enqueue(t.Context(), order(2))
	wantReceipt(t, receipt, err, 2, false)
	// A suspension is open for another reason, and then data is found to be missing.
	worker := east.Conn(t, celltest.Relayer)
	for _, cause := range []string{"NEW_TIMELINE", "ROWS_MISSING"} {
		_, err := worker.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', $1, 'a test', clock_timestamp())`, cause)
		east.must(err)
	}
	_, err = atEast.Enqueue(t.Context(), order(3))
	wantRefused(t, "found during a suspension", err, "RH009", "until its map was compared")
	east.do(`UPDATE railhead.payment_outbox_suspensions SET accepted_at = clock_timestamp(), accepted_by = 'x', reason = 'y'
		WHERE accepted_at IS NULL`)
	west.must(west.learns(east))
	east.must(east.confirms(west))
	n := int64(3)
	for _, cause := range []string{"LOG_WENT_BACK", "ROWS_MISSING"} {
		server := east.server()
		suspend(cause)
		_, err = atEast.Enqueue(t.Context(), order(int(n)))
		wantRefused(t, "after "+cause, err, "RH009", "until its map was compared")
		wantRefused(t, "confirming what was read before "+cause, east.act(
			`SELECT railhead.confirm_map($1, '{west}', '{}', NULL)`, server), "RH020", "since its map was read")
		wantRefused(t, "giving after "+cause, east.act(`SELECT railhead.give_buckets('{5}', 'west', 'why')`), "RH020",
			"giving buckets away has to wait")
		west.must(west.learns(east))
		east.must(east.confirms(west))
		receipt, err = atEast.Enqueue(t.Context(), order(int(n)))
		wantReceipt(t, receipt, err, n, false)
		n++
	}
}

// TestForgottenCallsStay: while callers may repeat calls that the database has forgotten, it gives no bucket: it does
// not know their participants, and another cell would send the payments as first sends.
func TestForgottenCallsStay(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	east.do(`INSERT INTO railhead.payment_outbox_suspensions (worker_id, cause, detail, system_identifier, timeline,
		  server_started_at, known_until, accepted_at, accepted_by, reason)
		SELECT 'w', 'NEW_SERVER', 'a test', '1', 1, now() - interval '1 day', now() - interval '1 day', now(), 'x', 'y'`)
	wantRefused(t, "giving", east.gives(west, 5), "RH020", "callers may repeat calls that this database has forgotten")
	east.do(`UPDATE railhead.payment_outbox_settings SET repeated_within = '0'`)
	east.must(east.gives(west, 5))
}

// TestWhoVouches: a relayer or a reaper vouches for a start of the server, with what it remembers. Callback endpoints,
// APIs and event deliveries do not, although they write vouched.
func TestWhoVouches(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	beat := func(kind string, vouched bool, start string) {
		d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, vouched)
			SELECT $1 || ':1', $1, 'h', 'v', 'running', `+start+`, $2
			ON CONFLICT ON CONSTRAINT outbox_heartbeats_pk DO UPDATE SET vouched = excluded.vouched,
			  server_started_at = excluded.server_started_at`, kind, vouched)
	}
	beat("relayer", true, "pg_postmaster_start_time() - interval '1 day'")
	const settled = `SELECT railhead.server_is_settled()::text`
	const vouched = `SELECT vouched::text FROM railhead.recall_memory(NULL, NULL, NULL, NULL, NULL, NULL, 'n')`
	for _, kind := range []string{"callback", "ingest", "events"} {
		beat(kind, true, "pg_postmaster_start_time()")
		same(t, "settled by "+kind, d.text(settled)+" "+d.text(vouched), "false false")
	}
	known := func() string {
		t.Helper()
		_, err := d.Conn(t, celltest.Relayer).Exec(t.Context(),
			`SELECT railhead.suspend_outbox('w', 'NO_MEMORY', 'a test', clock_timestamp())`)
		d.must(err)
		text := d.text(`SELECT (known_until > now() - interval '2 days')::text FROM railhead.payment_outbox_suspensions`)
		d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
		d.do(`DELETE FROM railhead.payment_outbox_suspensions`)
		return text
	}
	d.do(`UPDATE railhead.outbox_heartbeats SET vouched = false WHERE kind = 'relayer'`)
	d.do(`UPDATE railhead.outbox_heartbeats SET server_started_at = now() - interval '1 day' WHERE kind <> 'relayer'`)
	same(t, "the data is known by others", known(), "false")
	d.do(`UPDATE railhead.outbox_heartbeats SET vouched = true WHERE kind = 'relayer'`)
	same(t, "the data is known by a relayer", known(), "true")
	for _, kind := range []string{"relayer", "reaper"} {
		beat(kind, true, "pg_postmaster_start_time()")
		same(t, "settled by "+kind, d.text(settled)+" "+d.text(vouched), "true true")
		beat(kind, false, "pg_postmaster_start_time()")
		same(t, kind+" that does not vouch", d.text(settled)+" "+d.text(vouched), "false false")
	}
}

// TestTwoGiftsInOneCopy: a cell learns of two gifts of one version at once, and of neither before: it believes neither.
func TestTwoGiftsInOneCopy(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	north := unnamedCell(t, "north")
	north.must(north.joins(west))
	for _, pair := range [][2]*cellDesk{{west, north}, {east, north}, {north, east}} {
		pair[0].must(pair[0].learns(pair[1]))
	}
	id, cells, _ := east.directory()
	for bucket, first := range map[int]*cellDesk{5: north, 6: west} {
		second := map[*cellDesk]*cellDesk{north: west, west: north}[first]
		changes := `[{"bucket": ` + strconv.Itoa(bucket) + `, "version": 2, "cell": "` + first.name + `", "cell_id": "` +
			first.id() + `", "digest": "", "reason": "x", "changed_by": "x", "changed_at": "2026-01-01"},
			{"bucket": ` + strconv.Itoa(bucket) + `, "version": 2, "cell": "` + second.name + `", "cell_id": "` + second.id() +
			`", "digest": "", "reason": "x", "changed_by": "x", "changed_at": "2026-01-01"}]`
		north.must(north.act(`SELECT railhead.learn_cells($1, $2, $3, $4)`, id, cells, changes, north.servers(east)))
		same(t, "the bucket", north.text(`SELECT concat_ws(' ', cell, version, mine, contradicted) FROM railhead.payment_buckets
			WHERE bucket = $1`, bucket), "east 1 f t")
	}
}

// TestSuspensionWaitsForNothing: a suspension is recorded although a session holds the row that enqueues read.
func TestSuspensionWaitsForNothing(t *testing.T) {
	t.Parallel()
	east, _ := twoCells(t)
	tx, err := east.super.Begin(t.Context())
	east.must(err)
	defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it holds a lock, and changes nothing
	_, err = tx.Exec(t.Context(), `SELECT FROM railhead.payment_outbox_rules FOR UPDATE`)
	east.must(err)
	worker := east.Conn(t, celltest.Relayer)
	_, err = worker.Exec(t.Context(), `SET statement_timeout = '10s'`)
	east.must(err)
	_, err = worker.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', 'ROWS_MISSING', 'a test', clock_timestamp())`)
	east.must(err)
	same(t, "the map is confirmed", east.acted(`SELECT railhead.map_is_confirmed()::text`), "false")
}

// acted is a text that the operator reads.
func (c *cellDesk) acted(sql string) (text string) {
	c.t.Helper()
	c.must(c.acts.QueryRow(c.t.Context(), sql).Scan(&text))
	return text
}
