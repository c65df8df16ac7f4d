package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

var gaugeQuery = reader.GaugeQuery{}

// gaugesAs reads the gauges with a login.
func gaugesAs(t *testing.T, cell *celltest.Cell, login string) reader.Gauges {
	t.Helper()
	reader, err := reader.Open(t.Context(), ledger.Config{URL: cell.URL(login), Cell: cell.Schema, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	g, err := reader.Gauges(t.Context(), gaugeQuery)
	if err != nil {
		t.Fatalf("as %s: %v", login, err)
	}
	return g
}

// TestGauges reads every number of a cell in which there is something of each,
// as each role that exports metrics.
func TestGauges(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.ApplyProfile("slow", celltest.BankProfile)
	ingest, executor := openIngest(t, cell, 1), openExecutor(t, cell)
	var all []payment.Instruction
	for n := range 6 {
		all = append(all, order(n))
	}
	if _, err := ingest.EnqueueBatch(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	claims := claimAll(t, executor)
	answer(t, executor, claims[:1], payment.ResultUnknown, payment.Outcome{}) // waits with its outcome unknown
	// a dead letter; four of the claim are unanswered
	answer(t, executor, claims[1:2], payment.ResultRefusedFinal, payment.Outcome{})
	cell.Exec("UPDATE railhead.payment_outbox_claims SET claimed_at = now() - interval '2 minutes'")
	for n := range 3 {
		in := order(10 + n)
		in.RailType = "slow"
		if n == 0 {
			in.NotBefore, in.ExpiresAt = time.Now().Add(5*time.Minute), time.Now().Add(10*time.Minute)
		}
		if _, err := ingest.Enqueue(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() - interval '30 seconds' WHERE " +
		"rail_type = 'slow' AND expires_at IS NULL")
	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() + interval '1 hour' WHERE " +
		"outcome_unknown")
	if g := gaugesAs(t, cell, celltest.Readonly); g.ExpiringSoon != 0 {
		t.Errorf("%d expire soon, though they came a moment ago", g.ExpiringSoon)
	}
	cell.Exec("UPDATE railhead.payment_outbox_pending SET created_at = now() - interval '31 seconds' WHERE expires_at " +
		"IS NOT NULL")
	if _, err := executor.PauseRail(t.Context(), "slow", "it refuses us"); err != nil {
		t.Fatal(err)
	}
	for _, login := range []string{celltest.Relayer, celltest.Readonly, celltest.Operator, celltest.Auditor} {
		g := gaugesAs(t, cell, login)
		got := map[string]any{"stuck": g.Stuck, "expiring": g.ExpiringSoon, "months": g.MonthsAhead, "default": g.DefaultRows}
		for _, rail := range g.Rails {
			got[rail.RailType] = fmt.Sprintf("%d waiting, %d unknown, paused %v, itself %v", rail.Depth, rail.Unknown,
				rail.Paused, rail.PausedByItself)
			if want := rail.RailType == "slow"; (rail.OldestDue > 29*time.Second) != want || rail.OldestDue > time.Hour {
				t.Errorf("%s: oldest due for %s", rail.RailType, rail.OldestDue)
			}
		}
		for what, want := range map[string]any{
			"stuck": int64(4), "expiring": int64(1), "months": 3, "default": int64(0),
			"bank": "1 waiting, 1 unknown, paused false, itself false",
			"slow": "3 waiting, 0 unknown, paused true, itself true",
			"*":    "0 waiting, 0 unknown, paused false, itself false",
		} {
			if got[what] != want {
				t.Errorf("as %s: %s is %v, want %v", login, what, got[what], want)
			}
		}
		if len(g.Letters) != 1 || time.Since(g.Letters[0].OpenedAt).Abs() > time.Minute {
			t.Fatalf("as %s: letters %v", login, g.Letters)
		}
		g.Letters[0].OpenedAt = time.Time{}
		if g.Letters[0] != (reader.LetterGauge{RailType: "bank", Reason: payment.DeadFailed, Open: 1}) {
			t.Errorf("as %s: letters %v", login, g.Letters)
		}
		if g.ClockOffset.Abs() > time.Second || g.DatabaseBytes < 1<<20 {
			t.Errorf("as %s: clock %s, %d bytes", login, g.ClockOffset, g.DatabaseBytes)
		}
	}
}

// TestGaugeOfWraparound compares the shares with what the server has of the ids of its oldest database.
func TestGaugeOfWraparound(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ages := func() (transactions, multixacts float64) {
		cell.QueryRow("SELECT max(age(datfrozenxid)) / 2^31, max(mxid_age(datminmxid)) / 2^31 FROM pg_database", nil,
			&transactions, &multixacts)
		return transactions, multixacts
	}
	lowX, lowM := ages()
	got := gaugesAs(t, cell, celltest.Readonly).Wraparound
	highX, highM := ages()
	if got.Transactions < lowX || got.Transactions > highX || got.Multixacts < lowM || got.Multixacts > highM {
		t.Errorf("%+v, want transactions of %g to %g, multixacts of %g to %g", got, lowX, highX, lowM, highM)
	}
	if got.Transactions <= got.Multixacts {
		t.Errorf("%+v: a server numbers more transactions than multixacts", got)
	}
}

// TestGaugeOfWhatMayBeClaimed: a participant on hold and a blocked line age nothing but themselves, and hide no stop of
// the others of their rail.
func TestGaugeOfWhatMayBeClaimed(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.ApplyProfile(celltest.Bank, `{"order_participants": {"strict": "STRICT"}}`)
	ingest := openIngest(t, cell, 1)
	for _, one := range []struct{ participant, since string }{
		{"held", "3 hours"}, {"strict", "2 hours"}, {"free", "1 hour"},
	} {
		in := order(1)
		in.ParticipantID, in.InstructionID, in.IdempotencyKey = one.participant, one.participant, one.participant
		if _, err := ingest.Enqueue(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() - $1::interval "+
			"WHERE participant_id = $2", one.since, one.participant)
	}
	want := func(what string, due, free time.Duration) {
		t.Helper()
		for _, login := range []string{celltest.Relayer, celltest.Readonly} {
			for _, rail := range gaugesAs(t, cell, login).Rails {
				if rail.RailType == celltest.Bank &&
					(rail.OldestDue.Round(time.Hour) != due || rail.OldestFree.Round(time.Hour) != free) {
					t.Errorf("%s, as %s: due for %s and %s, want %s and %s", what, login, rail.OldestDue, rail.OldestFree, due, free)
				}
			}
		}
	}
	want("nothing is held", 3*time.Hour, 3*time.Hour)
	cell.Exec("SELECT railhead.pause_participant('held', 'a test')")
	want("a participant is on hold", 3*time.Hour, 2*time.Hour)
	cell.Exec("DELETE FROM railhead.payment_order_lines")
	cell.Exec(`INSERT INTO railhead.payment_order_lines (rail_type, participant_id, head, head_no, blocked_by, blocked_since)
		SELECT rail_type, participant_id, outbox_id, 1000, 'PARKED', now()
		FROM railhead.payment_outbox_pending WHERE participant_id = 'strict'`)
	cell.Exec("DELETE FROM railhead.payment_order_marks")
	want("and a line is blocked", 3*time.Hour, time.Hour)
	cell.Exec("UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() + interval '1 hour' " +
		"WHERE participant_id = 'free'")
	want("and nothing else is due", 3*time.Hour, 0)
}

// TestGaugeOfASuspension: it is open until an operator has accepted the server.
func TestGaugeOfASuspension(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	suspended := func(want bool) {
		t.Helper()
		for _, login := range []string{celltest.Relayer, celltest.Readonly, celltest.Operator, celltest.Auditor} {
			if got := gaugesAs(t, cell, login).Suspended; got != want {
				t.Errorf("as %s: suspended %v, want %v", login, got, want)
			}
		}
	}
	suspended(false)
	cell.Exec(`SELECT railhead.suspend_outbox('relayer', 'ROWS_MISSING', 'a test', clock_timestamp())`)
	suspended(true)
	cell.Exec(`SELECT railhead.accept_timeline('compared', (SELECT s.opened_at FROM railhead.payment_outbox_suspensions s
		WHERE s.accepted_at IS NULL))`)
	suspended(false)
}

// TestGaugesOfComponents: one that stopped in order is not counted, nor a silent
// one after which another was started.
func TestGaugesOfComponents(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	beat := func(name, kind, status string, started, ago time.Duration) {
		cell.Exec(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, stale_after_ms, started_at, last_tick_at)
			VALUES ($1, $2, 'h', 'v', $3, 900000, now() - make_interval(secs => $4), now() - make_interval(secs => $5))`,
			name, kind, status, started.Seconds(), ago.Seconds())
	}
	components := func() []string {
		var all []string
		for _, each := range gaugesAs(t, cell, celltest.Relayer).Components {
			all = append(all, fmt.Sprintf("%s %s %d %s", each.Kind, each.Status, each.Count,
				each.Youngest.Truncate(time.Minute)))
		}
		slices.Sort(all)
		return all
	}
	beat("fresh 1", "relayer", "running", 5*time.Hour, time.Minute)
	beat("fresh 2", "relayer", "suspended", 5*time.Hour, 2*time.Minute)
	beat("slow", "relayer", "running", 5*time.Hour, 8*time.Minute)
	beat("silent", "relayer", "running", 5*time.Hour, time.Hour)
	beat("ended", "reaper", "stopped", 5*time.Hour, time.Minute)
	beat("callback:long gone", "callback", "running", 50*time.Hour, 48*time.Hour)
	want := []string{"relayer fresh 2 1m0s", "relayer stale 1 1h0m0s", "relayer warning 1 8m0s"}
	if got := components(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	beat("the next", "relayer", "running", 30*time.Minute, 0)
	want = []string{"relayer fresh 3 0s", "relayer warning 1 8m0s"}
	if got := components(); !slices.Equal(got, want) {
		t.Errorf("after another was started: got %q, want %q", got, want)
	}
}

// TestGaugesSeeAHeldSnapshot: a role without any right to look into other
// sessions sees that one holds vacuum back, and sees the same one again.
func TestGaugesSeeAHeldSnapshot(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	holding := cell.Conn(t, "")
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"} {
		if _, err := holding.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var pid int
	if err := holding.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	held := func() (found reader.Holder) {
		for _, each := range gaugesAs(t, cell, celltest.Relayer).Holders {
			if each.Holder == fmt.Sprintf("session %d", pid) {
				found = each
			}
		}
		return found
	}
	write := "UPDATE railhead.payment_outbox_settings SET batch_items_max = batch_items_max"
	cell.Exec(write)
	first := held()
	cell.Exec(write)
	if again := held(); first.XID == "" || again != first {
		t.Errorf("seen as %+v, then as %+v", first, again)
	}
	if _, err := holding.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if after := held(); after.XID != "" {
		t.Errorf("still there after it ended: %+v", after)
	}
}

// TestYoungestDeadLetter tests that the gauges of dead letters have the time at which the youngest open one was opened:
// alerts tell one from another by it.
func TestYoungestDeadLetter(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest, executor := openIngest(t, cell, 1), openExecutor(t, cell)
	var all []payment.Instruction
	for n := range 3 {
		all = append(all, order(n))
	}
	if _, err := ingest.EnqueueBatch(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	answer(t, executor, claimAll(t, executor), payment.ResultRefusedFinal, payment.Outcome{})
	cell.Exec(`UPDATE railhead.payment_dead_letters l
		SET opened_at = '2026-07-01 12:00:00.25Z'::timestamptz + w.place * interval '1 hour',
		  status = CASE WHEN w.place = 3 THEN 'resolved' ELSE l.status END
		FROM (SELECT d.outbox_id, row_number() OVER (ORDER BY d.outbox_id) AS place
		  FROM railhead.payment_dead_letters d) w
		WHERE w.outbox_id = l.outbox_id`)
	want := time.Date(2026, time.July, 1, 14, 0, 0, 250_000_000, time.UTC) // of the second; the third is closed
	letters := gaugesAs(t, cell, celltest.Auditor).Letters
	if len(letters) != 1 || letters[0].Open != 2 || !letters[0].OpenedAt.Equal(want) {
		t.Errorf("letters %v; want 2, the youngest of %s", letters, want)
	}
}

// TestYoungestLetterOfManyRails: a rail with more open dead letters than are counted hides neither those of another
// rail nor when the youngest of them was opened. Letters of a rail that the cell does not have count too.
func TestYoungestLetterOfManyRails(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.Exec(`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason,
		  opened_at)
		SELECT gen_random_uuid(), 'i', 'p', w.rail, w.reason, '2026-07-01 12:00Z'::timestamptz + w.hour * interval '1 hour'
		FROM (
		  SELECT 'bank' AS rail, 'OUTCOME_UNKNOWN' AS reason, 0 AS hour FROM generate_series(1, 500)
		  UNION ALL SELECT 'rail-b', 'OUTCOME_UNKNOWN', 1 FROM generate_series(1, 120)
		  UNION ALL SELECT 'rail-b', 'OUTCOME_UNKNOWN', 3
		  UNION ALL SELECT 'rail-c', 'OUTCOME_UNKNOWN', 2 FROM generate_series(1, 7)
		  UNION ALL SELECT 'bank', 'FAILED', 4 FROM generate_series(1, 300)) w`)
	looker, err := reader.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Readonly), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(looker.Close)
	seen, err := looker.Gauges(t.Context(), reader.GaugeQuery{OpenLetters: 150})
	if err != nil {
		t.Fatal(err)
	}
	type counted struct {
		rail   string
		reason payment.DeadReason
		open   int64
		hour   int
	}
	got := make(map[counted]bool)
	for _, each := range seen.Letters {
		got[counted{each.RailType, each.Reason, each.Open, each.OpenedAt.UTC().Hour() - 12}] = true
	}
	want := map[counted]bool{
		{"bank", payment.DeadOutcomeUnknown, 100, 0}: true, {"rail-b", payment.DeadOutcomeUnknown, 100, 3}: true,
		{"rail-c", payment.DeadOutcomeUnknown, 7, 2}: true, {"bank", payment.DeadFailed, 150, 4}: true,
	}
	if !maps.Equal(got, want) {
		t.Errorf("letters %v, want %v", got, want)
	}
}
