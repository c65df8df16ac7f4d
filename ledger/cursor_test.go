package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// plant puts n rows that were due so long ago, and so many milliseconds apart,
// into pending.
func (d *desk) plant(participant string, n int, ago string) {
	d.t.Helper()
	d.do(`INSERT INTO railhead.payment_outbox_pending
			(instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at)
		SELECT $1 || n, $1, n + (SELECT count(*) FROM railhead.payment_outbox_attempts), gen_random_uuid(), 'bank',
			'{"amount": "1.00", "currency": "EUR"}', clock_timestamp() - $3::interval + n * interval '1 microsecond'
		FROM generate_series(1, $2::integer) n`, participant, n, ago)
}

// bloat leaves n dead tuples in pending that can't be vacuumed before the test ends,
// and an executor that has walked over them once.
func (d *desk) bloat(n int) {
	d.t.Helper()
	tx, err := d.Conn(d.t, "").BeginTx(d.t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := tx.Exec(d.t.Context(), `SELECT FROM railhead.payment_outbox_pending`); err != nil {
		d.t.Fatal(err)
	}
	d.plant("earlier", n, "1 second")
	d.drained()
	d.drained()
}

// drained claims until nothing is due.
func (d *desk) drained() {
	d.t.Helper()
	for len(d.claim(lane("bank", 1000, 0))) > 0 {
	}
}

// rescanned waits until a claim takes exactly this, within what is documented.
func (d *desk) rescanned(id payment.ID) time.Duration {
	d.t.Helper()
	begun := time.Now()
	d.eventually("a full rescan", func() bool {
		claims := d.claim(lane("bank", 10, 0))
		_, ok := claims[id]
		return ok
	})
	return time.Since(begun)
}

// rescanEvery and one turn on a slow machine.
const rescanLimit = 8 * time.Second

// TestRowsBeforeTheWatermarkAreClaimed: rows that appear with a due time before the
// place where scans begin are claimed within the documented time.
func TestRowsBeforeTheWatermarkAreClaimed(t *testing.T) {
	t.Parallel()
	for name, appear := range map[string]func(d *desk) payment.ID{
		"an old date": func(d *desk) payment.ID {
			id := d.enqueue()
			d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() - interval '1 hour'`)
			return id
		},
		"a transaction that began long ago": func(d *desk) payment.ID {
			tx, err := d.ingest.Begin(d.t.Context())
			if err != nil {
				d.t.Fatal(err)
			}
			var id [16]byte
			if err := tx.QueryRow(d.t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox('long', 'participant', 'long', 'bank',
				'{"amount": "10.50", "currency": "EUR"}')`).Scan(&id); err != nil {
				d.t.Fatal(err)
			}
			for begun := time.Now(); time.Since(begun) < time.Second; {
				d.drained()
			}
			if err := tx.Commit(d.t.Context()); err != nil {
				d.t.Fatal(err)
			}
			return payment.ID(id)
		},
		"a participant that was paused": func(d *desk) payment.ID {
			d.do(`INSERT INTO railhead.payment_paused_participants (participant_id, paused_by, pause_reason)
				VALUES ('participant', 'p', 'r')`)
			id := d.enqueue()
			for begun := time.Now(); time.Since(begun) < time.Second; {
				d.drained()
			}
			d.do(`DELETE FROM railhead.payment_paused_participants`)
			return id
		},
		"a row that another had locked": func(d *desk) payment.ID {
			id := d.enqueue()
			tx, err := d.super.Begin(d.t.Context())
			if err != nil {
				d.t.Fatal(err)
			}
			if _, err := tx.Exec(d.t.Context(), `SELECT FROM railhead.payment_outbox_pending FOR UPDATE`); err != nil {
				d.t.Fatal(err)
			}
			for begun := time.Now(); time.Since(begun) < time.Second; {
				d.drained()
			}
			if err := tx.Rollback(d.t.Context()); err != nil {
				d.t.Fatal(err)
			}
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.bloat(5000)
			if took := d.rescanned(appear(d)); took > rescanLimit {
				t.Errorf("found after %s", took)
			}
		})
	}
}

// TestFailedClaimIsRescannedAtOnce: what it had taken is due again, before the watermark.
func TestFailedClaimIsRescannedAtOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.bloat(5000)
	id := d.enqueue()
	d.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = now() - interval '1 hour'`)
	d.do(`CREATE FUNCTION railhead.refuse_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no claims today'; END $$`)
	d.do(`CREATE TRIGGER no_claims BEFORE INSERT ON railhead.payment_outbox_claims FOR EACH ROW EXECUTE FUNCTION railhead.refuse_claim()`)
	d.eventually("a claim that fails", func() bool {
		_, err := d.exec.Turn(t.Context(), outbox.Turn{Claim: request(lane("bank", 10, 0))})
		return err != nil
	})
	d.do(`DROP TRIGGER no_claims ON railhead.payment_outbox_claims`)
	if claims := d.claim(lane("bank", 10, 0)); len(claims) != 1 || claims[id].OutboxID != id {
		t.Errorf("claimed %v", claims)
	}
}

// TestHeldSnapshotDoesNotSlowTheClaim: dead tuples that can't be vacuumed lie before the
// watermark, and a scan from there reads none of them.
func TestHeldSnapshotDoesNotSlowTheClaim(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.bloat(10_000)
	begun := d.text(`SELECT clock_timestamp()::text`)
	d.plant("participant", 5, "0")
	since := func(place string) int { return d.read(place, 100) }
	if n := since(`'-infinity'`); n < 300 {
		t.Fatalf("a scan from the start read %d pages: nothing is in its way", n)
	}
	if n := since("'" + begun + "'"); n > 100 {
		t.Errorf("a scan from the watermark read %d pages", n)
	}
}

// read counts the pages that a claim reads before it writes anything.
func (d *desk) read(since string, free int) int {
	d.t.Helper()
	conn := d.Conn(d.t, celltest.Relayer)
	text, err := statementText("railhead", "claim")
	if err != nil {
		d.t.Fatal(err)
	}
	mustExec(d.t, conn, `SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan`)
	mustExec(d.t, conn, "PREPARE planned AS "+text)
	mustExec(d.t, conn, "BEGIN")
	defer mustExec(d.t, conn, "ROLLBACK")
	rows, err := conn.Query(d.t.Context(), fmt.Sprintf(`EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) EXECUTE planned (ARRAY['bank'], ARRAY[%d], ARRAY[0], ARRAY[1], ARRAY['r'],
		'worker', gen_random_uuid(), NULL, ARRAY[%[1]d], ARRAY[%[2]s]::timestamptz[], ARRAY[%[2]s]::timestamptz[], ARRAY[%[2]s]::timestamptz[],
		ARRAY[%[2]s]::timestamptz[], ARRAY[%[2]s]::timestamptz[], ARRAY[%[2]s]::timestamptz[], ARRAY[]::text[], ARRAY[]::text[], ARRAY[false])`, free, since), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		d.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		d.t.Fatal(err)
	}
	at := -1
	for n, line := range lines {
		if strings.Contains(line, "CTE urgent") {
			at = n
		}
		var hit int
		if at >= 0 && strings.Contains(line, "Buffers: shared hit=") {
			if _, err := fmt.Sscanf(strings.TrimSpace(line), "Buffers: shared hit=%d", &hit); err != nil {
				d.t.Fatal(line, err)
			}
			return hit
		}
	}
	d.t.Fatal(strings.Join(lines, "\n"))
	return 0
}

// TestNoisyParticipantStarvesNoOther: behind two thousand rows of one participant, the
// rows of others that come later are claimed within a few turns, and that one still
// gets its quarter.
func TestNoisyParticipantStarvesNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.plant("noisy", 2000, "1 minute")
	for range 4 {
		d.claim(lane("bank", 8, 0))
	}
	small := make(map[payment.ID]bool)
	for n := range 24 {
		small[d.enqueueAs(fmt.Sprintf("small-%d", n))] = true
	}
	turns, noisy := 0, 0
	for ; len(small) > 0 && turns < 20; turns++ {
		for id, claim := range d.claim(lane("bank", 8, 0)) {
			delete(small, id)
			if claim.ParticipantID == "noisy" {
				noisy++
			}
		}
	}
	if turns > 5 { // six of eight slots a turn, and one turn in which the noisy one was noticed
		t.Errorf("%d turns for 24 payments of others, %d of them are left", turns, len(small))
	}
	if noisy < 2*turns {
		t.Errorf("the noisy participant had %d slots in %d turns of eight", noisy, turns)
	}
	// No other participant waits: the noisy one has it all again.
	if n := len(d.claim(lane("bank", 8, 0))); n != 8 {
		t.Errorf("claimed %d of 2000 of the noisy participant, has room for 8", n)
	}
	// The more urgent row of a noisy participant comes before normal ones of others.
	d.enqueueAs("small")
	urgent := d.enqueueAs("noisy", "priority => 0")
	if _, ok := d.claim(lane("bank", 1, 0))[urgent]; !ok {
		t.Error("an urgent row was not claimed first")
	}
}

// enqueueAs is enqueue for another participant.
func (d *desk) enqueueAs(participant string, more ...string) payment.ID {
	d.t.Helper()
	d.n++
	sql := `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, $2, $1, 'bank',
		'{"amount": "10.50", "currency": "EUR"}'` + strings.Join(append([]string{""}, more...), ", ") + `)`
	var id [16]byte
	if err := d.ingest.QueryRow(d.t.Context(), sql, fmt.Sprintf("instruction-%d", d.n),
		participant).Scan(&id); err != nil {
		d.t.Fatal(err)
	}
	return payment.ID(id)
}
