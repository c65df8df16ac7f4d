package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// cellDesk is a cell of a directory, with an operator's session.
type cellDesk struct {
	*desk
	name string
	acts *pgx.Conn
}

// twoCells are the cells east and west of one directory, in two databases. East has every bucket.
func twoCells(t *testing.T) (east, west *cellDesk) {
	t.Helper()
	east, west = unnamedCell(t, "east"), unnamedCell(t, "west")
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'the first')`))
	west.must(west.joins(east))
	east.must(east.learns(west))
	west.must(west.learns(east))
	east.must(east.confirms(west))
	west.must(west.confirms(east))
	return east, west
}

func unnamedCell(t *testing.T, name string) *cellDesk {
	t.Helper()
	d := newDesk(t)
	// Databases of tests are copies of one, and have the constant that it has.
	d.do(`UPDATE railhead.payment_outbox_settings SET rail_key_namespace = gen_random_uuid()`)
	return &cellDesk{desk: d, name: name, acts: d.Conn(t, celltest.Operator)}
}

// act runs an operator's statement in a transaction of its own.
func (c *cellDesk) act(sql string, args ...any) error {
	_, err := c.acts.Exec(c.t.Context(), sql, args...)
	return err
}

// id is the id by which other cells know the database.
func (c *cellDesk) id() string {
	return c.text(`SELECT cell_id::text FROM railhead.payment_cells WHERE here`)
}

// directory returns what a cell knows, as name_cell and learn_cells take it.
func (c *cellDesk) directory() (id, cells, changes string) {
	c.t.Helper()
	err := c.acts.QueryRow(c.t.Context(), `
		SELECT (SELECT directory_id::text FROM railhead.payment_cells WHERE here),
		  (SELECT jsonb_agg(c)::text FROM railhead.payment_cells c),
		  (SELECT coalesce(jsonb_agg(c), '[]')::text FROM railhead.payment_cell_changes c)`).Scan(&id, &cells, &changes)
	c.must(err)
	return id, cells, changes
}

func (c *cellDesk) joins(other *cellDesk) error {
	id, cells, _ := other.directory()
	if err := c.act(`SELECT railhead.name_cell($1, $2, 'railhead', 'it grows', $3, $4)`, c.name, strings.ToUpper(c.name), id,
		cells); err != nil {
		return err
	}
	return c.learns(other)
}

// learns gives a cell what another one knows, once the one has recorded on which server the other is.
func (c *cellDesk) learns(other *cellDesk) error {
	id, cells, changes := other.directory()
	if err := c.act(`SELECT railhead.learn_cells($1, $2, '[]')`, id, cells); err != nil {
		return err
	}
	if err := c.act(`SELECT railhead.note_cell_server($1, $2, 'a test')`, other.name, other.server()); err != nil {
		return err
	}
	return c.act(`SELECT railhead.learn_cells($1, $2, $3, $4)`, id, cells, changes, c.servers(other))
}

// confirms says that the map was compared with those of others, all that the cell knows.
func (c *cellDesk) confirms(others ...*cellDesk) error {
	names := make([]string, 0, len(others))
	for _, other := range others {
		names = append(names, other.name)
	}
	return c.act(`SELECT railhead.confirm_map(railhead.map_server(), $1, '{}', NULL)`, names)
}

// server is the one on which a map is read now.
func (c *cellDesk) server() string {
	c.t.Helper()
	return c.text(`SELECT railhead.map_server()`)
}

// servers are those of a cell and of another one, as learn_cells takes them.
func (c *cellDesk) servers(other *cellDesk) string {
	return c.readOn(c.server(), other, other.server())
}

func (c *cellDesk) readOn(own string, other *cellDesk, server string) string {
	return fmt.Sprintf(`[{"cell": %q, "server": %q}, {"cell": %q, "server": %q}]`, c.name, own, other.name, server)
}

// gives gives buckets to another cell, which learns it.
func (c *cellDesk) gives(other *cellDesk, buckets ...int) error {
	if err := c.act(`SELECT railhead.give_buckets($1, $2, 'a test')`, buckets, other.name); err != nil {
		return err
	}
	return other.learns(c)
}

// waitForLock waits until a session of the cell's database waits for a lock.
func (c *cellDesk) waitForLock() {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); c.Int(`SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatal("no session waits for a lock")
		}
	}
}

func wantForeign(t *testing.T, what string, err error, participant, cell string, version int) {
	t.Helper()
	fault, ok := errors.AsType[*outbox.Fault](err)
	if !ok || !errors.Is(err, outbox.ErrOtherCell) || errors.Is(err, outbox.ErrInvalid) {
		t.Fatalf("%s: got %v, want that the participant belongs to another cell", what, err)
	}
	message := fmt.Sprintf("the participant belongs to cell %s: bucket %d, version %d of its map", cell,
		outbox.BucketOf(participant), version)
	if fault.SQLState != "RH009" || fault.Field != "participant_id" || fault.Rule != "CELL" || fault.Message != message {
		t.Errorf("%s: %+v, want %q", what, fault, message)
	}
}

// TestBucketOf: Go and SQL compute the same bucket, and that of a participant never changes.
func TestBucketOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ids := []string{"p1", "p2", "acct-0001", "a", strings.Repeat("z", 128), "with space", "~!@#", "é", "日本"}
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[int]bool{}
	for len(ids) < 20_000 {
		ids = append(ids, fmt.Sprintf("participant-%x", random.Uint64()))
	}
	rows, err := d.super.Query(t.Context(), `SELECT railhead.cell_bucket(id) FROM unnest($1::text[]) WITH ORDINALITY
		AS i (id, n) ORDER BY n`, ids)
	d.must(err)
	buckets, err := pgx.CollectRows(rows, pgx.RowTo[int])
	d.must(err)
	for n, id := range ids {
		if seen[buckets[n]] = true; buckets[n] != outbox.BucketOf(id) {
			t.Fatalf("bucket of %q: SQL %d, Go %d", id, buckets[n], outbox.BucketOf(id))
		}
	}
	if len(seen) != outbox.Buckets {
		t.Errorf("%d participants are spread over %d buckets, want %d", len(ids), len(seen), outbox.Buckets)
	}
	for id, want := range map[string]int{"p1": 985, "acct-0001": 615, "日本": 828} {
		same(t, "bucket of "+id, outbox.BucketOf(id), want)
	}
}

// TestForeignParticipant: a cell refuses what belongs to another cell, alone, in a batch, in arrays and over
// HTTP, whatever else is wrong with it, and stores nothing of it; the other cell takes it.
func TestForeignParticipant(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	atEast, atWest := openIngest(t, east.Cell, 4), openIngest(t, west.Cell, 4)
	of := func(n int, participant string) payment.Instruction {
		in := order(n)
		in.ParticipantID = participant
		return in
	}
	_, err := atWest.Enqueue(t.Context(), of(1, "p1"))
	wantForeign(t, "before it is given", err, "p1", "east", 1)
	east.must(east.gives(west, outbox.BucketOf("p1")))

	_, err = atEast.Enqueue(t.Context(), of(1, "p1"))
	wantForeign(t, "alone", err, "p1", "west", 2)
	unknown := of(1, "p1")
	unknown.RailType, unknown.Payload = "no-such-rail", []byte(`{}`)
	_, err = atEast.Enqueue(t.Context(), unknown)
	wantForeign(t, "with another fault", err, "p1", "west", 2)
	results, err := atEast.EnqueueBatch(t.Context(), []payment.Instruction{of(1, "p1"), of(2, "p2"), of(3, "p1")})
	east.must(err)
	wantForeign(t, "first of a batch", results[0].Fault, "p1", "west", 2)
	wantReceipt(t, results[1].Receipt, nil, 1, false)
	wantForeign(t, "last of a batch", results[2].Fault, "p1", "west", 2)
	var code string
	east.must(east.ingest.QueryRow(t.Context(), `SELECT error_code FROM railhead.enqueue_payment_outbox_batch(
		'[{"instruction_id":"i","participant_id":"p1","idempotency_key":"k","rail_type":"bank","payload":{"amount":"1","currency":"EUR"}}]')`).
		Scan(&code))
	same(t, "as JSON", code, "RH009")
	east.must(east.super.QueryRow(t.Context(), `
		WITH made AS (SELECT railhead.create_api_token(sha256(sha256('t')), 'a test', ARRAY['p1'], ARRAY['ENQUEUE'],
		  now() + interval '1 day', 'a test'))
		SELECT e.error_code FROM made, railhead.api_enqueue(ARRAY[sha256('t')], ARRAY[NULL::bytea], ARRAY['i'], ARRAY['p1'],
		  ARRAY['k'], ARRAY['bank'], ARRAY['{"amount":"1","currency":"EUR"}'::jsonb], ARRAY[NULL::timestamptz],
		  ARRAY[NULL::timestamptz], ARRAY[1], ARRAY['{}'::jsonb], ARRAY[false], ARRAY[NULL::text], true) e`).Scan(&code))
	same(t, "over HTTP", code, "RH009")
	if n := east.Int(`SELECT count(*) FROM railhead.participant_outbox_sequences WHERE participant_id = 'p1'`); n != 0 {
		t.Errorf("the cell that refused has %d counters", n)
	}
	wantStream(t, east.Cell, 1)

	receipt, err := atWest.Enqueue(t.Context(), of(1, "p1"))
	wantReceipt(t, receipt, err, 1, false)
	receipt, err = atWest.Enqueue(t.Context(), of(1, "p1"))
	wantReceipt(t, receipt, err, 1, true)
	_, err = atWest.Enqueue(t.Context(), of(4, "p2"))
	wantForeign(t, "what east kept", err, "p2", "east", 1)
	wantStream(t, west.Cell, 1)

	err = west.gives(east, outbox.BucketOf("p1"))
	if ledger.SQLState(err) != "RH020" || !strings.Contains(err.Error(), "1 participants of 1 of the buckets") {
		t.Errorf("giving a bucket with a payment: %v", err)
	}
}

// TestCellWithoutMap: a cell that is in no directory takes everything.
func TestCellWithoutMap(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ingest := openIngest(t, d.Cell, 4)
	for n := range 20 {
		in := order(n)
		in.ParticipantID = fmt.Sprintf("p%d", n)
		receipt, err := ingest.Enqueue(t.Context(), in)
		wantReceipt(t, receipt, err, 1, false)
	}
	same(t, "its map", d.Int(`SELECT count(*) FROM railhead.cell_map()`), 0)
	same(t, "what an enqueue reads", d.text(`SELECT coalesce(own_buckets::text, 'null') FROM railhead.payment_outbox_rules`), "null")
}

// TestGiveDuringFirstEnqueue: a bucket is not given while the first instruction of a participant is under way, and
// not after it has committed.
func TestGiveDuringFirstEnqueue(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	for n, participant := range []string{"undone", "done"} {
		tx, err := east.ingest.Begin(t.Context())
		east.must(err)
		_, err = tx.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox($1, $1, $1, 'bank', '{"amount":"1","currency":"EUR"}')`,
			participant)
		east.must(err)
		if err := east.gives(west, outbox.BucketOf(participant)); ledger.SQLState(err) != "55P03" {
			t.Fatalf("%s: giving during an open transaction: %v", participant, err)
		}
		given := make(chan error, 1)
		go func() { given <- east.gives(west, outbox.BucketOf(participant)) }()
		east.waitForLock()
		if n == 0 {
			east.must(tx.Rollback(t.Context()))
			east.must(<-given)
			continue
		}
		east.must(tx.Commit(t.Context()))
		if err := <-given; ledger.SQLState(err) != "RH020" {
			t.Errorf("giving a bucket whose participant has just enqueued: %v", err)
		}
	}
}

// TestFirstEnqueueDuringGive: an enqueue that found the old map, and then waited for the change of it, is refused.
func TestFirstEnqueueDuringGive(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	ingest := openIngest(t, east.Cell, 4)
	for n, call := range []func(payment.Instruction) error{
		func(in payment.Instruction) error {
			_, err := ingest.Enqueue(t.Context(), in)
			return err
		},
		func(in payment.Instruction) error {
			results, err := ingest.EnqueueBatch(t.Context(), []payment.Instruction{in})
			if err == nil && results[0].Fault != nil {
				err = results[0].Fault
			}
			return err
		},
	} {
		in := order(n)
		in.ParticipantID = fmt.Sprintf("late-%d", n)
		tx, err := east.acts.Begin(t.Context())
		east.must(err)
		_, err = tx.Exec(t.Context(), `SELECT railhead.give_buckets($1, 'west', 'a test')`,
			[]int{outbox.BucketOf(in.ParticipantID)})
		east.must(err)
		called := make(chan error, 1)
		go func() { called <- call(in) }()
		east.waitForLock()
		east.must(tx.Commit(t.Context()))
		wantForeign(t, in.ParticipantID, <-called, in.ParticipantID, "west", 2)
		west.must(west.learns(east))
	}
}

// TestEnqueueByOldSnapshot: a transaction whose snapshot is older than the map enqueues nothing by it: neither in a
// cell that has given the bucket, nor in one that has joined a directory meanwhile.
func TestEnqueueByOldSnapshot(t *testing.T) {
	t.Parallel()
	east, west := unnamedCell(t, "east"), unnamedCell(t, "west")
	enqueue := func(c *cellDesk, change func()) {
		t.Helper()
		tx, err := c.ingest.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		c.must(err)
		defer tx.Rollback(context.WithoutCancel(t.Context())) //nolint:errcheck // it has failed
		_, err = tx.Exec(t.Context(), `SELECT count(*) FROM pg_class`)
		c.must(err)
		change()
		_, err = tx.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('i', 'p1', 'k', 'bank', '{"amount":"1","currency":"EUR"}')`)
		if ledger.SQLState(err) != "40001" {
			t.Errorf("%s: an enqueue by an old snapshot: %v", c.name, err)
		}
	}
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'the first')`))
	enqueue(west, func() { west.must(west.joins(east)) })
	east.must(east.learns(west))
	east.must(east.confirms(west))
	enqueue(east, func() { east.must(east.gives(west, outbox.BucketOf("p1"))) })
}

// TestMapOfCells: what the functions of the directory refuse, and what is left in the tables.
func TestMapOfCells(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	id, cells, _ := east.directory()
	refused := func(c *cellDesk, state, sql string, args ...any) {
		t.Helper()
		if err := c.act(sql, args...); ledger.SQLState(err) != state {
			t.Errorf("%s of %s: %v, want %s", sql, c.name, err, state)
		}
	}
	refused(east, "RH002", `SELECT railhead.name_cell('east', 'EAST', 'railhead', ' ')`)
	refused(east, "RH002", `SELECT railhead.name_cell('East', 'EAST', 'railhead', 'why')`)
	refused(east, "RH002", `SELECT railhead.name_cell('east', 'postgres://u:secret@h/d', 'railhead', 'why')`)
	refused(east, "RH002", `SELECT railhead.name_cell('east', 'EAST', 'Rail head', 'why')`)
	refused(east, "RH020", `SELECT railhead.name_cell('north', 'NORTH', 'railhead', 'why')`)
	refused(east, "RH020", `SELECT railhead.name_cell('east', 'EAST', 'railhead', 'why', gen_random_uuid())`)
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'again')`))
	refused(east, "RH002", `SELECT railhead.give_buckets('{1}', 'west', '')`)
	for _, buckets := range []string{"{}", "{-1}", "{1024}", "{1,NULL}"} {
		refused(east, "RH002", `SELECT railhead.give_buckets($1, 'west', 'why')`, buckets)
	}
	refused(east, "RH010", `SELECT railhead.give_buckets('{1}', 'north', 'why')`)
	refused(east, "RH010", `SELECT railhead.give_buckets('{1}', 'east', 'why')`)
	refused(west, "RH020", `SELECT railhead.give_buckets('{1}', 'east', 'why')`)
	refused(west, "RH020", `SELECT railhead.learn_cells(gen_random_uuid(), '[]', '[]')`)
	refused(west, "RH020", `SELECT railhead.learn_cells($1, '[]', jsonb_build_array(jsonb_build_object('bucket', 1,
		'version', 3, 'cell', 'east', 'cell_id', $2::text, 'reason', 'x', 'changed_by', 'x', 'changed_at', now())),
		$3)`, id, east.id(), west.servers(east))
	refused(east, "RH020", `SELECT railhead.name_cell('east', 'EAST2', 'railhead', 'why')`)
	refused(east, "RH020", `SELECT railhead.name_cell('east', 'EAST', 'other', 'why')`)
	refused(east, "RH020", `SELECT railhead.name_cell('east', 'EAST', 'railhead', 'why', NULL, '[]', gen_random_uuid())`)
	refused(east, "RH002", `SELECT railhead.settle_buckets('{1}', '{2}', 'east', '', '[]')`)
	for _, of := range [][2]string{
		{"{}", "{}"}, {"{1}", "{2,3}"}, {"{1024}", "{2}"}, {"{1}", "{NULL}"}, {"{1,1}", "{2,3}"},
	} {
		refused(east, "RH002", `SELECT railhead.settle_buckets($1, $2, 'east', 'why', '[]')`, of[0], of[1])
	}
	refused(east, "RH010", `SELECT railhead.settle_buckets('{1}', '{2}', 'north', 'why', '[]')`)
	refused(east, "RH020", `SELECT railhead.settle_buckets('{1}', '{1}', 'east', 'why', '[]')`)
	refused(east, "RH002", `SELECT railhead.confirm_map(railhead.map_server(), '{west,NULL}', '{}', NULL)`)
	refused(east, "RH002", `SELECT railhead.confirm_map(railhead.map_server(), NULL, '{}', NULL)`)
	refused(east, "RH002", `SELECT railhead.confirm_map(railhead.map_server(), '{}', '{west}', NULL)`)
	refused(east, "RH020", `SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', NULL)`)
	for _, sql := range []string{
		`SELECT railhead.give_buckets('{1}', 'west', 'why')`, `SELECT railhead.learn_cells(gen_random_uuid(), '[]', '[]')`,
		`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'why')`, `SELECT railhead.flush_map('x')`,
		`SELECT railhead.settle_buckets('{1}', '{2}', 'east', 'why', '[]')`, `SELECT railhead.confirm_map(railhead.map_server(), '{west}', '{}', NULL)`,
	} {
		tx, err := east.acts.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		east.must(err)
		if _, err := tx.Exec(t.Context(), sql); ledger.SQLState(err) != "25001" {
			t.Errorf("%s in REPEATABLE READ: %v", sql, err)
		}
		east.must(tx.Rollback(t.Context()))
	}

	// A cell joins while it is empty, and with a whole copy.
	north := unnamedCell(t, "north")
	refused(north, "RH010", `SELECT railhead.give_buckets('{1}', 'west', 'why')`)
	refused(north, "RH020", `SELECT railhead.learn_cells($1, $2, '[]')`, id, cells)
	refused(north, "RH020", `SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', NULL)`)
	refused(north, "RH020", `SELECT railhead.name_cell('west', 'WEST', 'railhead', 'why', $1, $2)`, id, cells)
	refused(north, "RH020", `SELECT railhead.name_cell('west', 'WEST2', 'railhead', 'why', $1, $2, $3)`, id, cells, west.id())
	north.enqueue()
	err := north.joins(east)
	if ledger.SQLState(err) != "RH020" || !strings.Contains(err.Error(), "participants have enqueued in this cell") {
		t.Errorf("joining with a payment: %v", err)
	}
	same(t, "after refusals", north.Int(`SELECT count(*) FROM railhead.payment_cells`), 0)
	north.enqueue()

	east.must(east.gives(west, 7, 3, 3))
	east.must(west.gives(east, 3))
	for _, c := range []*cellDesk{east, west} {
		same(t, "map of "+c.name, c.text(`SELECT string_agg(concat_ws(' ', bucket, cell, version, setting, cell_schema, here), '; '
			ORDER BY bucket) FROM railhead.cell_map() WHERE bucket IN (3, 7) OR version > 1`),
			map[string]string{
				"east": "3 east 3 EAST railhead t; 7 west 2 WEST railhead f",
				"west": "3 east 3 EAST railhead f; 7 west 2 WEST railhead t",
			}[c.name])
		same(t, "changes in "+c.name, c.text(`SELECT string_agg(concat_ws(' ', bucket, version, cell, reason, changed_by), '; '
			ORDER BY bucket, version) FROM railhead.payment_cell_changes WHERE bucket IN (3, 7)`),
			"3 1 east the first railhead_operator_login; 3 2 west a test railhead_operator_login; "+
				"3 3 east a test railhead_operator_login; 7 1 east the first railhead_operator_login; "+
				"7 2 west a test railhead_operator_login")
	}
	same(t, "the log", east.text(`SELECT string_agg(concat_ws(' ', actor, act, subject, reason, detail ->> 'buckets'), '; '
		ORDER BY acted_at) FROM railhead.payment_operator_log WHERE act IN ('ADD_CELL', 'GIVE_BUCKETS')`),
		"railhead_operator_login ADD_CELL east the first; railhead_operator_login GIVE_BUCKETS west a test [3, 7]")
	east.must(east.learns(west))
	east.must(west.learns(east))
	same(t, "learned again", east.Int(`SELECT count(*) FROM railhead.payment_cell_changes`), 1024+3)

	for _, sql := range []string{
		`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'mine')`, `SELECT railhead.give_buckets('{1}', 'west', 'mine')`,
		`SELECT railhead.learn_cells(gen_random_uuid(), '[]', '[]')`, `UPDATE railhead.payment_buckets SET cell = 'west'`,
		`SELECT railhead.settle_buckets('{1}', '{9}', 'west', 'mine', '[]')`, `SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', 'mine')`,
		`SELECT railhead.flush_map('x')`,
		`INSERT INTO railhead.payment_cell_changes (bucket, version, cell, reason) VALUES (1, 9, 'east', 'mine')`,
		`INSERT INTO railhead.payment_cell_checks (system_identifier, timeline, server_started_at, database_oid, table_oid,
			compared, gone) VALUES ('1', 1, now(), 1, 1, '{}', '{}')`,
	} {
		for login := range celltest.Logins() {
			if login == celltest.Operator && strings.HasPrefix(sql, "SELECT") {
				continue
			}
			if _, err := east.Conn(t, login).Exec(t.Context(), sql); ledger.SQLState(err) != "42501" {
				t.Errorf("%s: %s: %v", login, sql, err)
			}
		}
	}
}

// TestNoKeyInTwoCells: callers with stale maps send each instruction to both cells, in every way, while buckets are
// given to and fro. No key and no participant is ever in both.
func TestNoKeyInTwoCells(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	rounds := 12
	if testing.Short() {
		rounds = 4
	}
	const participants, callers = 12, 4
	opened := map[*cellDesk]*ingest.Ingest{east: openIngest(t, east.Cell, 8), west: openIngest(t, west.Cell, 8)}
	conns := map[*cellDesk][]*pgx.Conn{}
	for _, c := range []*cellDesk{east, west} {
		for range callers {
			conns[c] = append(conns[c], c.Conn(t, celltest.Ingest))
		}
	}
	owner := map[int]*cellDesk{}
	accepted := 0
	for round := range rounds {
		var names []string
		for n := range participants {
			names = append(names, fmt.Sprintf("round-%d-p%d", round, n))
		}
		var callersDone, giverDone sync.WaitGroup
		var mu sync.Mutex
		stop := make(chan struct{})
		giverDone.Go(func() {
			random := rand.New(rand.NewPCG(uint64(round), 99))
			for {
				select {
				case <-stop:
					return
				default:
				}
				bucket := outbox.BucketOf(names[random.IntN(participants)])
				from, to := east, west
				if owner[bucket] == west {
					from, to = west, east
				}
				err := from.act(`SELECT railhead.give_buckets($1, $2, 'a test')`, []int{bucket}, to.name)
				if err == nil {
					for owner[bucket], err = to, to.learns(from); busy(err); {
						err = to.learns(from)
					}
				}
				if err != nil && !busy(err) && ledger.SQLState(err) != "RH020" {
					t.Errorf("giving bucket %d: %v", bucket, err)
					return
				}
			}
		})
		for caller := range callers {
			callersDone.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(caller)))
				for n := range participants * 3 {
					in := order(n)
					in.ParticipantID = names[random.IntN(participants)]
					in.InstructionID = fmt.Sprintf("%s-%d", in.ParticipantID, n)
					in.IdempotencyKey = in.InstructionID
					cells := []*cellDesk{east, west}
					random.Shuffle(2, func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
					for _, c := range cells {
						ok, err := enqueueAnyhow(t.Context(), random.IntN(4), opened[c], conns[c][caller], in)
						if err != nil {
							t.Errorf("enqueue of %s in %s: %v", in.InstructionID, c.name, err)
						}
						if ok {
							mu.Lock()
							accepted++
							mu.Unlock()
						}
					}
				}
			})
		}
		callersDone.Wait()
		close(stop)
		giverDone.Wait()
	}
	for _, list := range []string{
		`SELECT participant_id FROM railhead.participant_outbox_sequences`,
		`SELECT instruction_id || ' ' || idempotency_key FROM railhead.payment_outbox_keys`,
	} {
		in := map[string]bool{}
		for _, c := range []*cellDesk{east, west} {
			rows, err := c.super.Query(t.Context(), list)
			c.must(err)
			all, err := pgx.CollectRows(rows, pgx.RowTo[string])
			c.must(err)
			for _, one := range all {
				if in[one] {
					t.Errorf("%s is in both cells", one)
				}
				in[one] = true
			}
		}
	}
	moved := west.Int(`SELECT count(*) FROM railhead.payment_cell_changes WHERE version > 1`)
	if accepted == 0 || moved == 0 || west.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`) == 0 {
		t.Errorf("%d accepted and %d buckets given: nothing was tried", accepted, moved)
	}
	for _, c := range []*cellDesk{east, west} {
		wantStream(t, c.Cell, c.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`))
	}
}

// busy reports whether a change of the map has waited too long for the first instruction of a participant.
func busy(err error) bool {
	return slices.Contains([]string{"55P03", "40P01"}, ledger.SQLState(err))
}

// enqueueAnyhow enqueues in one of four ways, and reports whether the instruction was taken. A refusal by the map,
// and a conflict of snapshots, is no error.
func enqueueAnyhow(
	ctx context.Context, way int, through *ingest.Ingest, conn *pgx.Conn, in payment.Instruction,
) (bool, error) {
	var err error
	switch way {
	case 0:
		_, err = through.Enqueue(ctx, in)
	case 1:
		var results []outbox.ReceiptOrFault
		if results, err = through.EnqueueBatch(ctx, []payment.Instruction{in}); err == nil && results[0].Fault != nil {
			err = results[0].Fault
		}
	default:
		level := pgx.ReadCommitted
		if way == 3 {
			level = pgx.RepeatableRead
		}
		err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT count(*) FROM pg_class`); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `SELECT railhead.enqueue_payment_outbox($1, $2, $3, $4, $5)`,
				in.InstructionID, in.ParticipantID, in.IdempotencyKey, in.RailType, string(in.Payload))
			return err
		})
	}
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, outbox.ErrOtherCell), slices.Contains([]string{"RH009", "40001", "40P01"}, ledger.SQLState(err)):
		return false, nil
	default:
		return false, err
	}
}
