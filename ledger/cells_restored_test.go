package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// forget undoes the gift of a bucket, as a restore of the cell's database does.
func (c *cellDesk) forget(bucket int) {
	c.do(`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`)
	c.do(`DELETE FROM railhead.payment_cell_changes WHERE bucket = $1 AND version > 1`, bucket)
	c.do(`ALTER TABLE railhead.payment_cell_changes ENABLE ALWAYS TRIGGER payment_cell_changes_append_only`)
	c.do(`UPDATE railhead.payment_buckets SET cell = 'east', version = 1, mine = $2, contradicted = false
		WHERE bucket = $1`, bucket, c.name == "east")
}

// forgetMap leaves a cell as a restore to a time before its directory does.
func (c *cellDesk) forgetMap() {
	c.do(`ALTER TABLE railhead.payment_cell_changes DISABLE TRIGGER ALL`)
	c.do(`ALTER TABLE railhead.payment_cells DISABLE TRIGGER ALL`)
	c.do(`UPDATE railhead.payment_buckets SET cell = NULL, version = 0, mine = true, contradicted = false`)
	c.do(`DELETE FROM railhead.payment_cell_changes`)
	c.do(`DELETE FROM railhead.payment_cells`)
	c.do(`UPDATE railhead.payment_buckets SET mine = true`)
}

// accepts accepts the server, by an operator who has compared the payments.
func (c *cellDesk) accepts() error { return c.act(`SELECT railhead.accept_timeline('compared')`) }

// unsettle makes the server one that may have forgotten rows: it was promoted, or restored.
func (c *cellDesk) unsettle() {
	c.do(`ALTER TABLE railhead.payment_accepted_timelines DISABLE TRIGGER ALL`)
	c.do(`UPDATE railhead.payment_accepted_timelines SET timeline = timeline + 1000`)
	c.restart()
}

// restart makes the last comparison of the map one of an earlier start of the server.
func (c *cellDesk) restart() {
	c.do(`ALTER TABLE railhead.payment_cell_checks DISABLE TRIGGER payment_cell_checks_append_only`)
	c.do(`UPDATE railhead.payment_cell_checks SET server_started_at = server_started_at - interval '1 day'`)
	c.do(`UPDATE railhead.payment_outbox_settings SET singleton = true`) // makes payment_outbox_rules anew
}

func (c *cellDesk) learned(other *cellDesk) (learned, contradicted, later, leftBehind int) {
	c.t.Helper()
	id, cells, changes := other.directory()
	c.must(c.acts.QueryRow(c.t.Context(), `SELECT * FROM railhead.learn_cells($1, $2, $3, $4)`, id, cells, changes,
		c.servers(other)).Scan(&learned, &contradicted, &later, &leftBehind))
	return learned, contradicted, later, leftBehind
}

func wantRefused(t *testing.T, what string, err error, state, says string) {
	t.Helper()
	if ledger.SQLState(err) != state || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %s with %q", what, err, state, says)
	}
}

// TestRestoredCell: a cell that was restored to a time before it gave a bucket learns from the other one that it
// did, and stops taking it whatever it holds; it counts the participants that have enqueued meanwhile.
func TestRestoredCell(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	ingest := openIngest(t, east.Cell, 4)
	in := order(1)
	bucket := outbox.BucketOf("p1")
	east.must(east.gives(west, bucket))
	east.forget(bucket)
	east.must(east.learns(west))
	_, err := ingest.Enqueue(t.Context(), in)
	wantForeign(t, "after it learned", err, "p1", "west", 2)

	east.forget(bucket)
	receipt, err := ingest.Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 1, false)
	learned, contradicted, later, leftBehind := east.learned(west)
	same(t, "a cell with a participant of the other one", [4]int{learned, contradicted, later, leftBehind},
		[4]int{1, 0, 0, 1})
	in.InstructionID, in.IdempotencyKey = "another", "another"
	_, err = ingest.Enqueue(t.Context(), in)
	wantForeign(t, "of the participant itself", err, "p1", "west", 2)
	same(t, "the log", east.text(`SELECT concat_ws(' ', actor, subject, detail ->> 'left_behind', detail ->> 'ended')
		FROM railhead.payment_operator_log WHERE act = 'LEARN_CELLS' ORDER BY acted_at DESC LIMIT 1`),
		"railhead_operator_login east 1 [985]")

	// Its pending payment is of the other cell, where the key may be enqueued, too: the server is not accepted.
	east.unsettle()
	east.must(east.confirms(west))
	wantRefused(t, "accepting with a payment of the other cell", east.accepts(), "RH020",
		"1 payments that are pending or claimed are of participants of other cells, or of ones that another cell had "+
			"meanwhile, such as 'p1'")
	east.must(east.act(`SELECT railhead.pause_participant('p1', 'it is in west, too')`))
	east.must(east.accepts())
	east.must(east.act(`SELECT railhead.cancel_payment($1, 'it is in west')`, receipt.OutboxID))
}

// TestAcceptedByAPauseThatEnds: a pause that the reaper ends by itself is none for a payment whose key another cell
// has, too.
func TestAcceptedByAPauseThatEnds(t *testing.T) {
	t.Parallel()
	east, west := withTheKeyOfWest(t)
	east.must(east.act(`SELECT railhead.pause_participant('p1', 'their file was wrong', now() + interval '300 days')`))
	east.learned(west)
	east.unsettle()
	east.must(east.confirms(west))
	err := east.accepts()
	wantRefused(t, "accepting by a pause that ends", err, "RH020",
		"1 payments that are pending or claimed are of participants")
	if fault, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.Contains(fault.Hint, "without an end") {
		t.Errorf("the hint of %v says nothing of the end", err)
	}
	east.must(east.act(`SELECT railhead.pause_participant('p1', 'it is in west, too')`))
	east.must(east.accepts())
}

// TestAcceptedWhileItIsClaimed: a payment whose key another cell has, too, is named while it is claimed: it may be
// returned to pending.
func TestAcceptedWhileItIsClaimed(t *testing.T) {
	t.Parallel()
	east, west := withTheKeyOfWest(t)
	rail := order(1).RailType
	claims := east.claim(east.inForce(lane(rail, 1, 1)))
	same(t, "claimed", len(claims), 1)
	east.learned(west)
	east.unsettle()
	east.must(east.confirms(west))
	wantRefused(t, "accepting while it is claimed", east.accepts(), "RH020",
		"1 payments that are pending or claimed are of participants")
	for _, claim := range claims {
		same(t, "nothing left", east.late(told(sameKey, claim, payment.ResultNotSent, "")), payment.VerdictIn)
	}
	wantRefused(t, "accepting once it is pending again", east.accepts(), "RH020",
		"1 payments that are pending or claimed are of participants")
	east.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now()`)
	claims = east.claim(east.inForce(lane(rail, 1, 1)))
	same(t, "claimed again", len(claims), 1)
	for id, claim := range claims {
		same(t, "sent", east.late(told(sameKey, claim, payment.ResultAccepted, "ref")), payment.VerdictIn)
		same(t, "rows", east.rows(id), "DISPATCHING RETRYABLE(1) DISPATCHING DISPATCHED(3)")
	}
	// Its row may be left until claims are closed.
	claim := `INSERT INTO railhead.payment_outbox_claims (claim_id, worker_id, claimed_at, outbox_ids, attempt_nos)
		SELECT gen_random_uuid(), 'worker', now(), array_agg(a.outbox_id), array_agg(a.attempt_no)
		FROM railhead.payment_outbox_attempts a WHERE a.state = 'DISPATCHING'`
	east.do(claim)
	east.must(east.accepts())
}

// withTheKeyOfWest is a directory in which east was restored to a time before it gave the bucket of p1 to west, and has
// taken a call that west has stored.
func withTheKeyOfWest(t *testing.T) (east, west *cellDesk) {
	t.Helper()
	east, west = twoCells(t)
	bucket := outbox.BucketOf("p1")
	ingest := openIngest(t, east.Cell, 1)
	east.must(east.gives(west, bucket))
	receipt, err := openIngest(t, west.Cell, 1).Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)
	east.forget(bucket)
	receipt, err = ingest.Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)
	return east, west
}

// TestUnsettledCell: a cell whose database may have gone back takes no instruction until its map was compared with
// those of all other cells, of participants that it has neither, gives no bucket and takes none. A repeated call of
// what it stored is answered.
func TestUnsettledCell(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	atEast := openIngest(t, east.Cell, 4)
	receipt, err := atEast.Enqueue(t.Context(), order(1))
	wantReceipt(t, receipt, err, 1, false)
	east.must(east.gives(west, 7))
	// A relayer that vouches for a start says nothing of what was given.
	east.restart()
	_, err = atEast.Enqueue(t.Context(), order(2))
	wantRefused(t, "after a start for which no map was compared", err, "RH009", "until its map was compared")
	east.unsettle()

	// A comparison on another start, or on another timeline, confirms nothing.
	for _, other := range []string{
		"t.timeline - 1001, pg_postmaster_start_time()", "t.timeline - 1000, now() - interval '1 day'",
	} {
		east.do(`INSERT INTO railhead.payment_cell_checks (system_identifier, timeline, server_started_at, database_oid,
				table_oid, compared, gone)
			SELECT t.system_identifier, ` + other + `, t.database_oid, 'railhead.payment_cell_checks'::regclass, '{west}', '{}'
			FROM railhead.payment_accepted_timelines t
			WHERE t.table_oid = t.tableoid AND t.database_oid = railhead.database_oid()`)
	}

	known, fresh := order(2), order(3)
	_, err = atEast.Enqueue(t.Context(), known)
	wantRefused(t, "a participant that it has", err, "RH009", "until its map was compared with those of the other cells")
	fresh.ParticipantID = "new"
	_, err = atEast.Enqueue(t.Context(), fresh)
	wantRefused(t, "a new participant", err, "RH009", "until its map was compared with those of the other cells")
	results, err := atEast.EnqueueBatch(t.Context(), []payment.Instruction{fresh, order(1), known})
	east.must(err)
	wantRefused(t, "a new participant of a batch", results[0].Fault, "RH009", "it takes no instruction")
	wantReceipt(t, results[1].Receipt, nil, 1, true)
	wantRefused(t, "a known participant of a batch", results[2].Fault, "RH009", "it takes no instruction")
	wantRefused(t, "giving", east.act(`SELECT railhead.give_buckets('{8}', 'west', 'why')`), "RH020",
		"giving buckets away has to wait")

	// It would take a bucket that west gives: not now.
	east.must(west.act(`SELECT railhead.give_buckets('{7}', 'east', 'back again')`))
	learned, contradicted, later, leftBehind := east.learned(west)
	same(t, "a gift to it", [4]int{learned, contradicted, later, leftBehind}, [4]int{1, 0, 1, 0})
	same(t, "what it takes", east.text(`SELECT mine::text FROM railhead.payment_buckets WHERE bucket = 7`), "false")
	wantRefused(t, "settling for itself", east.act(`SELECT railhead.settle_buckets('{7}', '{9}', 'east', 'why', '[]')`), "RH020",
		"taking buckets has to wait")

	wantRefused(t, "accepting", east.accepts(), "RH020", "and accepting the server has to wait")
	wantRefused(t, "confirming without west", east.act(`SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', NULL)`), "RH020",
		"was not compared with that of cell west")
	wantRefused(t, "confirming what was read before a restart",
		east.act(`SELECT railhead.confirm_map(replace(railhead.map_server(), '/1/', '/2/'), '{west}', '{}', NULL)`), "RH020",
		"or a dump was loaded into it, since its map was read")
	east.must(east.act(`SELECT railhead.confirm_map(railhead.map_server(), '{}', '{west}', 'west is lost')`))
	same(t, "the log", east.text(`SELECT concat_ws(' ', subject, reason, detail ->> 'gone')
		FROM railhead.payment_operator_log WHERE act = 'CONFIRM_MAP'`), `east west is lost ["west"]`)
	receipt, err = atEast.Enqueue(t.Context(), fresh)
	wantReceipt(t, receipt, err, 1, false)
	wantRefused(t, "giving before it is accepted", east.act(`SELECT railhead.give_buckets('{8}', 'west', 'why')`), "RH020",
		"no relayer has confirmed that nothing is missing")
	east.must(east.accepts())
	receipt, err = atEast.Enqueue(t.Context(), known)
	wantReceipt(t, receipt, err, 2, false)
	_, _, later, _ = east.learned(west)
	same(t, "the gift, once its server is accepted", later, 0)
	same(t, "what it takes then", east.text(`SELECT mine::text FROM railhead.payment_buckets WHERE bucket = 7`), "true")
}

// TestLoneCell: a cell that knows no other one may have been restored to a time before they joined. It is confirmed
// with a reason alone.
func TestLoneCell(t *testing.T) {
	t.Parallel()
	east := unnamedCell(t, "east")
	east.must(east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'the first')`))
	east.must(east.act(`SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', NULL)`))
	east.unsettle()
	for _, reason := range []string{" ", "\u200b\u00a0"} {
		wantRefused(t, "without a reason", east.act(`SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', $1)`, reason),
			"RH020", "this cell knows no other cell")
	}
	east.must(east.act(`SELECT railhead.confirm_map(railhead.map_server(), '{}', '{}', 'there never was one')`))
	east.must(east.accepts())
}

// TestContradictedBucket: two cells gave one version of a bucket to different cells. Neither is believed, and no cell
// takes it, until an operator has settled it in each of them; a repeated look at the copies changes nothing.
func TestContradictedBucket(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	north := unnamedCell(t, "north")
	north.must(north.joins(west))
	for _, pair := range [][2]*cellDesk{{west, north}, {east, north}, {north, east}, {north, west}} {
		pair[0].must(pair[0].learns(pair[1]))
	}
	north.must(north.confirms(east, west))
	bucket := outbox.BucketOf("p1")
	east.must(east.gives(west, bucket, 5))
	east.forget(bucket)
	east.forget(5)
	east.must(east.gives(north, bucket))

	takes := func(want string) {
		t.Helper()
		var got strings.Builder
		for _, c := range []*cellDesk{east, west, north} {
			got.WriteString(c.text(`SELECT concat(CASE WHEN mine THEN 'takes' ELSE 'no' END, CASE WHEN contradicted THEN '!' END, ' ')
				FROM railhead.payment_buckets WHERE bucket = $1`, bucket))
		}
		same(t, "who takes it", strings.TrimSpace(got.String()), want)
	}
	takes("no takes takes")
	// East hears of it, and then of a later gift of one of the sides, which is no reason to take it.
	if _, contradicted, _, _ := east.learned(west); contradicted != 1 {
		t.Errorf("%d buckets are contradicted", contradicted)
	}
	north.must(north.act(`SELECT railhead.give_buckets($1, 'east', 'back')`, []int{bucket}))
	if _, contradicted, _, _ := east.learned(north); contradicted != 1 {
		t.Errorf("after a later gift %d buckets are contradicted", contradicted)
	}
	takes("no! takes no")
	for range 2 {
		for _, pair := range [][2]*cellDesk{{west, east}, {north, west}, {east, west}} {
			if _, contradicted, _, _ := pair[0].learned(pair[1]); contradicted != 1 {
				t.Errorf("%s learned from %s, and %d buckets are contradicted", pair[0].name, pair[1].name, contradicted)
			}
		}
		takes("no! no! no!")
	}
	// The other bucket of the same copy is learned.
	same(t, "the bucket of no contradiction", east.text(`SELECT concat(cell, version, mine) FROM railhead.payment_buckets
		WHERE bucket = 5`), "west2f")
	in := order(1)
	_, err := openIngest(t, west.Cell, 4).Enqueue(t.Context(), in)
	wantRefused(t, "a participant of it", err, "RH009", "contradict each other about bucket 985 of the participant")
	wantRefused(t, "giving it", west.act(`SELECT railhead.give_buckets($1, 'east', 'why')`, []int{bucket}), "RH020",
		"does not take 1 of the buckets")

	settle := func(c *cellDesk) {
		t.Helper()
		for range 2 {
			c.must(c.act(`SELECT railhead.settle_buckets($1, '{5}', 'west', 'west has its payments', '[]')`, []int{bucket}))
		}
	}
	settle(east)
	otherwise := east.act(`SELECT railhead.settle_buckets($1, '{5}', 'north', 'why', '[]')`, []int{bucket})
	wantRefused(t, "settling it otherwise", otherwise, "RH020", "a newer version of bucket")
	takes("no no! no!")
	// North hears of it by the copy, and west by the act.
	if _, contradicted, _, _ := north.learned(east); contradicted != 0 {
		t.Errorf("north still has a contradiction")
	}
	settle(west)
	takes("no takes no")
	for _, pair := range [][2]*cellDesk{{east, north}, {north, west}, {west, east}, {east, west}} {
		if _, contradicted, _, _ := pair[0].learned(pair[1]); contradicted != 0 {
			t.Errorf("after it was settled, %s learns a contradiction from %s", pair[0].name, pair[1].name)
		}
	}
	takes("no takes no")
	receipt, err := openIngest(t, west.Cell, 4).Enqueue(t.Context(), in)
	wantReceipt(t, receipt, err, 1, false)
}

// TestCellOfTheSameName: a database that was given the name of another cell is not taken for it, and takes nothing
// that the other one was given.
func TestCellOfTheSameName(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	other := unnamedCell(t, "west")
	_, cells, _ := east.directory()
	other.must(other.act(`SELECT railhead.name_cell('west', 'WEST', 'railhead', 'a second west',
		(SELECT (c ->> 'directory_id')::uuid FROM jsonb_array_elements($1::jsonb) c LIMIT 1),
		(SELECT jsonb_agg(c) FROM jsonb_array_elements($1::jsonb) c WHERE c ->> 'name' <> 'west'))`, cells))
	east.must(east.act(`SELECT railhead.give_buckets('{5}', 'west', 'why')`))
	wantRefused(t, "the second west", other.learns(east), "RH020", "cell west of the copy is not the cell of that name")
	wantRefused(t, "east", east.learns(other), "RH020", "cell west of the copy is not the cell of that name")
	same(t, "what it takes", other.Int(`SELECT count(*) FROM railhead.payment_buckets WHERE mine`), 0)
	west.must(west.learns(east))
	same(t, "what west takes", west.Int(`SELECT count(*) FROM railhead.payment_buckets WHERE mine`), 1)
}

// TestRejoin: a cell that was restored to a time before it had a map takes everything until it has joined again, then
// nothing, and its own buckets once its server is accepted.
func TestRejoin(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	east.enqueue() // p1
	east.must(east.gives(west, 5, 6))
	id := east.id()
	east.forgetMap()
	east.unsettle()
	directory, cells, _ := west.directory()
	rejoin := func(of string) error {
		return east.act(`SELECT railhead.name_cell('east', 'EAST', 'railhead', 'restored', $1, $2, $3)`, directory, cells, of)
	}
	wantRefused(t, "joining as a new cell", east.joins(west), "RH020", "the directory has a cell east already")
	wantRefused(t, "with another id", rejoin(west.id()), "RH020", "does not have this cell")
	east.must(rejoin(id))
	same(t, "what it takes at first", east.Int(`SELECT count(*) FROM railhead.payment_buckets WHERE mine`), 0)
	same(t, "what enqueues read", east.text(`SELECT (own_buckets = repeat('0', 1024)::bit(1024))::text
		FROM railhead.payment_outbox_rules`), "true")
	again := order(9) // of another participant
	_, err := openIngest(t, east.Cell, 4).Enqueue(t.Context(), again)
	wantRefused(t, "its own participant", err, "RH009", "it has to learn the map of cells")
	same(t, "what its log says", east.text(`SELECT reason FROM railhead.payment_operator_log WHERE act = 'REJOIN_CELL'`),
		"restored")

	same(t, "participants of others", east.text(`SELECT railhead.foreign_participants()::text`), "0")
	east.must(east.learns(west))
	east.must(east.confirms(west))
	east.must(east.accepts())
	if _, _, later, _ := east.learned(west); later != 0 {
		t.Errorf("%d buckets wait for a server that is accepted", later)
	}
	same(t, "what it takes then", east.Int(`SELECT count(*) FROM railhead.payment_buckets WHERE mine`), 1022)
	receipt, err := openIngest(t, east.Cell, 4).Enqueue(t.Context(), again)
	wantReceipt(t, receipt, err, 1, false)
}

// TestMapIsDurable: whatever the login has set, a change of the map waits for its flush, and so does one that was
// read.
func TestMapIsDurable(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	id, cells, changes := east.directory()
	for _, c := range []struct {
		of  *cellDesk
		sql string
		arg []any
	}{
		{east, `SELECT railhead.give_buckets('{9}', 'west', 'why')`, nil},
		{west, `SELECT railhead.learn_cells($1, $2, $3, $4)`, []any{id, cells, changes, west.servers(east)}},
		{west, `SELECT railhead.note_cell_server('east', $1)`, []any{east.server()}},
		{east, `SELECT railhead.settle_buckets('{9}', '{7}', 'west', 'why', '[]')`, nil},
		{east, `SELECT railhead.confirm_map(railhead.map_server(), '{west}', '{}', NULL)`, nil},
		{east, `SELECT railhead.flush_map(railhead.map_server())`, nil},
		{east, `SELECT railhead.name_cell('east', 'EAST', 'railhead', 'again')`, nil},
	} {
		err := pgx.BeginFunc(t.Context(), c.of.acts, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), `SET LOCAL synchronous_commit = off`); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), c.sql, c.arg...); err != nil {
				return err
			}
			var mode string
			var writes bool
			err := tx.QueryRow(t.Context(), `SELECT current_setting('synchronous_commit'),
				pg_current_xact_id_if_assigned() IS NOT NULL`).Scan(&mode, &writes)
			if mode != "on" || !writes && strings.Contains(c.sql, "flush_map") {
				t.Errorf("%s: synchronous_commit is %s, and whether it writes is %t", c.sql, mode, writes)
			}
			return err
		})
		east.must(err)
	}
}
