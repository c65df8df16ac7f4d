package reader

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// grow fills the archive and the registry of keys behind one instruction's back,
// without telling the planner.
const grow = `
	WITH new AS (
	  SELECT railhead.uuidv7() AS id, n FROM generate_series(1, 60000) n
	), keyed AS (
	  INSERT INTO railhead.payment_outbox_keys (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key)
	  SELECT id, 'old-' || n, 'k', 'old', n, sha256('x'), id FROM new
	)
	INSERT INTO railhead.payment_outbox_attempts
	  (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state,
	   rail_reference, outcome_unknown, provisional)
	SELECT railhead.uuidv7(), id, 'old-' || n, 'old', n, 'k', 'bank', a, CASE a WHEN 1 THEN 'RETRYABLE'
	ELSE 'DISPATCHED' END::railhead.outbox_attempt_state,
	  'ref-' || n, false, false
	FROM new, generate_series(1, 2) a`

// TestLooksDoNotGrow runs every statement of a Reader on a small and on a large
// archive, with plans that know no arguments and statistics that know nothing,
// and insists that it touches about as many pages. Scanning the archive or the
// keys would touch thousands.
func TestLooksDoNotGrow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, err := ingest.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ingest.Close)
	var last payment.Receipt
	for _, key := range []string{"a", "b"} {
		last, err = ingest.Enqueue(t.Context(), payment.Instruction{
			InstructionID: "i-" + key, ParticipantID: "p", IdempotencyKey: key, RailType: celltest.Bank,
			Payload: []byte(`{"amount":"1","currency":"EUR"}`),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	executor, err := executor.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(executor.Close)
	_, err = executor.Turn(t.Context(), outbox.Turn{Claim: outbox.ClaimRequest{ClaimID: payment.NewID(), WorkerID: "w",
		Lanes: []outbox.Lane{{RailType: celltest.Bank, Free: 9, Oldest: 1, ProfileVersion: 1}}}})
	if err != nil {
		t.Fatal(err)
	}

	loaded, err := store.LoadStatements(cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	id, highest := store.UUID(last.OutboxID), store.UUID(payment.ID(bytes.Repeat([]byte{0xff}, 16)))
	looks := map[string][]any{
		"find":                {id, "i-b", foundMax, id},
		"timeline_head":       {id},
		"timeline_attempts":   {id, rowsMax},
		"timeline_pending":    {id},
		"timeline_order":      {id},
		"status_order":        {BlockedMax, railsMax},
		"timeline_letter":     {id},
		"timeline_acts":       {id, actsMax},
		"status_rails":        {CountMax, railsMax},
		"status_flight":       {membersMax},
		"status_letters":      {CountMax, lettersPairsMax},
		"status_participants": {participantsMax},
		"status_heartbeats":   {beatsMax},
		"list_chunk":          {"recent", highest, store.UUID(payment.ID{}), "", 2},
		"tail_flight":         {0, nil, nil, nil, tailFlightMax},
		"status_money":        {moneyMax},
		"gauges_rails":        {DepthMax, gaugeRailsMax},
		"gauges_letters":      {[]string{"FAILED", "CONFLICT"}, OpenLettersMax, gaugeLettersMax},
		"gauges_components":   {gaugeComponentsMax},
		"gauges_stuck":        {StuckMax},
		"gauges_server":       {DepthMax},
		"gauges_holders":      {gaugeHoldersMax},
		"database_holders":    {holdersShown},
		"database_logins":     {loginsShown},
		"expiring_soon":       {expiringRead, ExpiringShown},
		"payment_deliveries":  {id},
	}
	conn := cell.Conn(t, celltest.Readonly)
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	small := make(map[string]int)
	for name, args := range looks {
		small[name] = pagesTouched(t, conn, loaded[name], args)
	}
	cell.Exec(grow)
	for name, args := range looks {
		const allowed = 60 // a level more in each index of each partition
		if large := pagesTouched(t, conn, loaded[name], args); large > small[name]+allowed {
			t.Errorf("%s touches %d pages with a large archive, %d with a small one", name, large, small[name])
		} else {
			t.Logf("%s: %d pages, then %d", name, small[name], large)
		}
	}
}

// TestHealthReadsLettersOnce: the overview in SQL reads the open dead letters once, however many rails there are.
func TestHealthReadsLettersOnce(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason)
		SELECT gen_random_uuid(), 'i', 'p', 'bank', 'FAILED' FROM generate_series(1, 5000)`)
	conn := cell.Conn(t, celltest.Readonly)
	const health = "SELECT v.name, v.dead_letters FROM railhead.v_queue_health v"
	few := pagesTouched(t, conn, health, nil)
	cell.Exec(`INSERT INTO railhead.payment_rail_profiles (rail_type, version, profile, reason)
			SELECT 'rail-' || n, 1, p.profile, p.reason
			FROM railhead.payment_rail_profiles p, generate_series(1, 40) n WHERE p.rail_type = 'bank' AND p.version = 1`)
	cell.Exec(`INSERT INTO railhead.payment_rails (rail_type, profile_version) SELECT 'rail-' || n, 1 FROM generate_series(1, 40) n`)
	const each = 30 // probes for a rail
	if many := pagesTouched(t, conn, health, nil); many > few+40*each {
		t.Errorf("%d pages with forty more rails, %d without: the letters are read for each", many, few)
	}
}

// TestListAndTailReadByIndex reads the plans of what lists and follows: by the
// registry's and pending's order, by participant, by the transaction of the last rows,
// and by probes. With statistics of an empty cell and of a large one.
func TestListAndTailReadByIndex(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("ANALYZE")
	cell.Exec(grow)
	loaded, err := store.LoadStatements(cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	highest, lowest := store.UUID(payment.ID(bytes.Repeat([]byte{0xff}, 16))), store.UUID(payment.ID{})
	for _, when := range []string{"SELECT 1", "ANALYZE"} {
		cell.Exec(when)
		conn := cell.Conn(t, celltest.Readonly)
		if _, err := conn.Exec(t.Context(), "SET enable_seqscan = off"); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = "+mode); err != nil {
				t.Fatal(err)
			}
			for _, look := range []struct {
				name string
				args []any
			}{
				{"list_chunk", []any{"recent", highest, lowest, "", 10}},
				{"list_chunk", []any{"waiting", highest, lowest, "", 10}},
				{"list_chunk", []any{"participant", highest, lowest, "old", 10}},
				{"tail", []any{nil, "9223372036854775807", lowest, 0, nil, nil, nil, nil, 10}},
			} {
				text := planOf(t, conn, loaded[look.name], look.args)
				if strings.Contains(text, "Seq Scan") {
					t.Errorf("%s %v, %s, %s: a scan\n%s", look.name, look.args[0], when, mode, text)
				}
				if pages := pagesTouched(t, conn, loaded[look.name], look.args); pages > 400 {
					t.Errorf("%s %v, %s, %s: %d pages\n%s", look.name, look.args[0], when, mode, pages, text)
				}
			}
		}
	}
}

// TestCallbackReadsByIndex bounds what a report of a rail makes the database read,
// however large the archive is.
func TestCallbackReadsByIndex(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(grow)
	loaded, err := store.LoadStatements(cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	conn := cell.Conn(t, celltest.Callbacks)
	if _, err := conn.Exec(t.Context(), "SET enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"callbacks_by_rail_key", "callbacks_headers"} {
		if _, err := conn.Exec(t.Context(), loaded[name], store.UUID(payment.NewID())); err != nil { // plans it
			t.Fatal(err)
		}
		if pages := pagesTouched(t, conn, loaded[name], []any{store.UUID(payment.NewID())}); pages > 400 {
			t.Errorf("%s: %d pages", name, pages)
		}
	}
}

func planOf(t *testing.T, conn *pgx.Conn, sql string, args []any) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "EXPLAIN "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// pagesTouched runs a statement and adds up the pages that it looked at, those of
// planning left out. The least of three runs: where tests in other databases change
// much at once, the server drops what a session has read of its catalogue, and the next
// run reads that again.
func pagesTouched(t *testing.T, conn *pgx.Conn, sql string, args []any) int {
	t.Helper()
	least := math.MaxInt
	for range 3 {
		least = min(least, pagesOfRun(t, conn, sql, args))
	}
	return least
}

func pagesOfRun(t *testing.T, conn *pgx.Conn, sql string, args []any) int {
	t.Helper()
	var text string
	err := conn.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%d plans, %v", len(plans), err)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// crowd puts forty thousand members in flight, so that a join would look cheap.
const crowd = `
	INSERT INTO railhead.payment_outbox_claims (claim_id, worker_id, claimed_at, outbox_ids, attempt_nos)
	SELECT railhead.uuidv7(), 'w', now() - interval '1 hour', array_agg(m.outbox_id), array_agg(1)
	FROM (
	  SELECT k.outbox_id, row_number() OVER () % 400 AS claim
	  FROM railhead.payment_outbox_keys k WHERE k.participant_id = 'old' LIMIT 40000) m
	GROUP BY m.claim`

// TestClaimsAreLookedUpByProbes reads the plans of the statements that go from
// claims in flight to the archive, and finds no scan of it in them.
func TestClaimsAreLookedUpByProbes(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(grow)
	cell.Exec(crowd)
	loaded, err := store.LoadStatements(cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	conn := cell.Conn(t, celltest.Reaper)
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]any{
		"stale_claims":  {1, 1, []string{celltest.Bank}, []int64{1}, 1, 100},
		"find_claim":    {store.UUID(payment.NewID())},
		"close_claims":  {nil, 1000},
		"status_flight": {membersMax},
		"gauges_stuck":  {StuckMax},
	} {
		var text string
		if err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) "+loaded[name], args...).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var plans []struct{ Plan plan }
		if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
			t.Fatalf("%s: %d plans, %v", name, len(plans), err)
		}
		if !plans[0].Plan.probes(t, name) {
			t.Errorf("%s does not read the archive at all", name)
		}
	}
}

// plan is a node of a plan.
type plan struct {
	Type    string `json:"Node Type"`
	Table   string `json:"Relation Name"`
	Cond    string `json:"Index Cond"`
	Recheck string `json:"Recheck Cond"` // that of a bitmap
	Plans   []plan
}

// probes reports whether the archive is read below this node, and complains of
// every read that is no probe of the fence.
func (p plan) probes(t *testing.T, name string) bool {
	found := strings.HasPrefix(p.Table, "payment_outbox_attempts")
	if found && !strings.Contains(p.Cond+p.Recheck, "outbox_id = ") {
		t.Errorf("%s: %s of %s with condition %q", name, p.Type, p.Table, p.Cond)
	}
	for _, below := range p.Plans {
		found = below.probes(t, name) || found
	}
	return found
}

// inflow puts instructions into pending behind the planner's back.
const inflow = `
	INSERT INTO railhead.payment_outbox_pending
	  (instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, outcome_unknown, expires_at)
	SELECT 'f-' || n, 'f', n, 'k', 'bank', '{}', n % 2 = 0, now() + interval '5 minutes'
	FROM generate_series($1::integer, $2::integer) n`

// TestGaugesDoNotGrowWithPending: beyond where its counts end, a gauge costs no
// more, however much waits. Counting all would touch as many pages more as there
// are instructions.
func TestGaugesDoNotGrowWithPending(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec("ALTER TABLE railhead.payment_outbox_pending SET (autovacuum_enabled = false)")
	loaded, err := store.LoadStatements(cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	conn := cell.Conn(t, celltest.Relayer)
	for _, sql := range []string{"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	looks := map[string][]any{"gauges_rails": {DepthMax, gaugeRailsMax}, "gauges_server": {DepthMax}}
	cell.Exec(inflow, 1, 3*DepthMax)
	before := map[string]int{}
	for name, args := range looks {
		before[name] = pagesTouched(t, conn, loaded[name], args)
	}
	cell.Exec(inflow, 3*DepthMax+1, 8*DepthMax)
	for name, args := range looks {
		if after := pagesTouched(t, conn, loaded[name], args); after > before[name]+DepthMax/20 {
			t.Errorf("%s touches %d pages with %d pending, %d with far more", name, before[name], 3*DepthMax, after)
		} else {
			t.Logf("%s: %d pages, then %d", name, before[name], after)
		}
	}
}
