package ledger_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestViews reads the three views of on-call as each role that may look, in a
// cell in which there is something of everything.
func TestViews(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, executor := openIngest(t, cell, 1), openExecutor(t, cell)
	var all []payment.Instruction
	for n := range 6 {
		all = append(all, order(n))
	}
	if _, err := ingest.EnqueueBatch(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	claims := claimAll(t, executor)
	answer(t, executor, claims[:1], payment.ResultUnknown, payment.Outcome{})
	answer(t, executor, claims[1:2], payment.ResultRefusedFinal, payment.Outcome{})
	answer(t, executor, claims[2:3], payment.ResultAccepted, payment.Outcome{})
	if _, err := ingest.Enqueue(t.Context(), order(10)); err != nil {
		t.Fatal(err)
	}
	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() - interval '30 seconds' WHERE " +
		"attempt_count = 0")
	// One that is parked, and one that is out for an inquiry, which counts once.
	cell.Exec(`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason)
		VALUES (gen_random_uuid(), 'i', 'p', 'bank', 'OUTCOME_UNKNOWN')`)
	cell.Exec(`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason)
		SELECT outbox_id, instruction_id, participant_id, rail_type, 'OUTCOME_UNKNOWN' FROM railhead.v_outbox_pending
		WHERE outcome_unknown`)
	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() + interval '1 hour' WHERE " +
		"outcome_unknown")
	for _, beat := range []outbox.Heartbeat{
		{Name: "a", Kind: "relayer", Host: "h", Version: "v", Status: "running"},
		{Name: "b", Kind: "reaper", Host: "h", Version: "v", Status: "running"},
		{Name: "c", Kind: "relayer", Host: "h", Version: "v", Status: "stopped"},
	} {
		if _, err := executor.Heartbeat(t.Context(), beat); err != nil {
			t.Fatal(err)
		}
	}
	cell.Exec("UPDATE railhead.outbox_heartbeats SET stale_after_ms = 900000")
	cell.Exec("UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - interval '10 minutes' WHERE name = 'b'")
	looks := map[string]string{
		`SELECT state || ' ' || count || ' ' || (next_due_at < now())::text FROM railhead.v_outbox_backlog WHERE rail_type = 'bank' ORDER BY 1`: "<null>|PENDING 1 true|UNKNOWN 1 false",
		`SELECT state || ' ' || count || ' ' || at_least FROM railhead.v_outbox_backlog ORDER BY 1`:                                             "DISPATCHING 3 false|PENDING 1 false|UNKNOWN 1 false",
		`SELECT reason || ' ' || rail_type || ' ' || status || ' ' || count FROM railhead.v_dead_letter_summary`:                                "FAILED bank pending 1|OUTCOME_UNKNOWN bank pending 2",
		`SELECT concat_ws(' ', scope, name, status, pending, in_flight, outcome_unknown, dead_letters,
			oldest_due_age BETWEEN interval '29 seconds' AND interval '1 hour', activity) FROM railhead.v_queue_health
			ORDER BY 1`: "cell * running 2 3 2 3 t|component a fresh running|component b warning running|component c stopped stopped|rail bank running 2 3 2 3 t",
		`SELECT (clock_offset_ms BETWEEN -60000 AND 60000)::text FROM railhead.v_queue_health WHERE name = 'a'`: "true",
	}
	status, err := openReader(t, cell).Status(t.Context())
	if err != nil || len(status.Rails) != 1 || status.Rails[0].OutcomeUnknown != 2 {
		t.Errorf("the status does not count 2 of unknown outcome: %+v, %v", status.Rails, err)
	}
	// As the view has it: each by its own time, and not by that of who looks.
	fresh := make(map[string]reader.Freshness)
	for _, beat := range status.Heartbeats {
		fresh[beat.Name] = beat.Freshness
	}
	if want := map[string]reader.Freshness{"a": reader.Fresh, "b": reader.Warning,
		"c": reader.Stopped}; !maps.Equal(fresh, want) {
		t.Errorf("the status calls the components %v, want %v", fresh, want)
	}
	for _, login := range []string{celltest.Control, celltest.Readonly, celltest.Auditor, celltest.Operator} {
		conn := cell.Conn(t, login)
		for sql, want := range looks {
			rows, err := conn.Query(t.Context(), sql)
			if err != nil {
				t.Fatal(err)
			}
			lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
				var line *string
				err := row.Scan(&line)
				if line == nil {
					return "<null>", err
				}
				return *line, err
			})
			slices.Sort(lines)
			if got := strings.Join(lines, "|"); err != nil || got != want {
				t.Errorf("as %s: %s\n got %q, %v\nwant %q", login, sql, got, err, want)
			}
		}
	}
}
