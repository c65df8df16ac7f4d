package reaper_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

// monthOf returns the name of the partition of a month, counted from this one.
func monthOf(months int) string {
	now := time.Now().UTC()
	month := time.Date(now.Year(), now.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	return "payment_outbox_attempts_" + month.Format("y2006m01")
}

// ofAttempts returns the partitions of payment_outbox_attempts that a turn has created.
func ofAttempts(result reaper.Result) []string {
	return slices.DeleteFunc(slices.Clone(result.Partitions),
		func(name string) bool { return !strings.HasPrefix(name, "payment_outbox_attempts_") })
}

// plantRow inserts a row into the archive whose outbox_id was made in the middle of a month,
// counted from this one.
func (y *yard) plantRow(months int) {
	y.t.Helper()
	y.do(`INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key,
			rail_type, attempt_no, state, outcome_unknown, provisional)
		SELECT gen_random_uuid(), railhead.uuidv7_floor(date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(months => $1, days => 14)),
			'i', 'p', 1, 'k', 'bank', 1, 'LATE_OUTCOME', false, false`, months)
}

func (y *yard) rowsIn(partition string) int {
	y.t.Helper()
	return y.Int(`SELECT count(*) FROM railhead.` + partition)
}

// guarded checks that every partition of a table refuses changes by its own name, and that no role
// has a right to it except through the parent.
func (y *yard) guarded(parent string) {
	y.t.Helper()
	rows, err := y.super.Query(y.t.Context(),
		`SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = ('railhead.' || $1)::regclass`, parent)
	if err != nil {
		y.t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		y.t.Fatal(err)
	}
	for _, name := range names {
		for _, sql := range []string{`UPDATE %s SET outbox_id = outbox_id`, `DELETE FROM %s`, `TRUNCATE %s`} {
			sql = fmt.Sprintf(sql, name)
			if _, err := y.super.Exec(y.t.Context(), sql); ledger.SQLState(err) != "P0001" {
				y.t.Errorf("%s: %v", sql, err)
			}
		}
		same(y.t, "grants on "+name, y.Int(`SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a
			WHERE c.oid = $1::text::regclass AND a.grantee <> c.relowner`, name), 0)
	}
}

// TestPartitionsAhead tests that the missing months are created, once.
func TestPartitionsAhead(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	r := y.reaper(func(c *reaper.Config) { c.MonthsAhead = 6 })
	same(t, "made", strings.Join(ofAttempts(y.once(r)), " "),
		strings.Join([]string{monthOf(4), monthOf(5), monthOf(6)}, " "))
	same(t, "made again", len(y.once(y.reaper(func(c *reaper.Config) { c.MonthsAhead = 6 })).Partitions), 0)
	y.plantRow(6)
	same(t, "rows there", y.rowsIn(monthOf(6)), 1)
	same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), 0)
	y.guarded("payment_outbox_attempts")
}

// TestUsedDefault tests that rows in DEFAULT stay where they are and become the partition of their
// months. A new DEFAULT takes its place, with the same guards.
func TestUsedDefault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		months []int
		holds  string
	}{
		"one month":       {[]int{5}, monthOf(5)},
		"several at once": {[]int{4, 6}, monthOf(4) + "_" + strings.TrimPrefix(monthOf(6), "payment_outbox_attempts_")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t, sameKey)
			for _, month := range c.months {
				y.plantRow(month)
			}
			claim := y.claimOne("worker")
			same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), len(c.months))
			alive := func() { // however long the partitions take, the claim stays its worker's
				y.beat("worker", "running", 0)
				y.age(0)
			}
			alive()
			months := func(c *reaper.Config) { c.MonthsAhead = 8 }
			result := y.once(y.reaper(months))
			if len(result.Partitions) < 3 || result.Partitions[0] != "payment_outbox_attempts_default" {
				t.Errorf("made %v", result.Partitions)
			}
			same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), 0)
			same(t, "rows where they were", y.rowsIn(c.holds), len(c.months))
			same(t, "rows in all", y.rowsIn("payment_outbox_attempts"), len(c.months)+1)
			y.guarded("payment_outbox_attempts")
			for _, month := range c.months {
				if _, err := y.super.Exec(t.Context(),
					`INSERT INTO railhead.payment_outbox_attempts SELECT * FROM railhead.`+c.holds); ledger.SQLState(err) != "23505" {
					t.Errorf("the fence of month %d: %v", month, err)
				}
			}
			for month := range 9 {
				y.text(`SELECT 'there' FROM pg_inherits i WHERE i.inhparent = 'railhead.payment_outbox_attempts'::regclass
					AND railhead.partition_holds(i.inhrelid, railhead.uuidv7_floor(date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(months => $1)))`, month)
			}
			alive()
			same(t, "made again", len(y.once(y.reaper(months)).Partitions), 0)
			y.late(told(claim, "ACCEPTED", "ref"))
			same(t, "work goes on", y.fate(claim.OutboxID), "DISPATCHING DISPATCHED")
		})
	}
}

// TestPartitionsDuringADump: a session that reads the archive for long keeps partitions from being created. It fails no
// turn, and each try holds up claims for a moment only, and once a minute.
func TestPartitionsDuringADump(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	dump, err := y.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Rollback(t.Context()) //nolint:errcheck // it has read alone
	if _, err := dump.Exec(t.Context(), `SELECT count(*) FROM railhead.payment_outbox_attempts`); err != nil {
		t.Fatal(err)
	}
	r := y.reaper(func(c *reaper.Config) { c.MonthsAhead = 8 })
	begun := time.Now()
	same(t, "made during the dump", len(y.once(r).Partitions), 0)
	if took := time.Since(begun); took > 1500*time.Millisecond {
		t.Errorf("the turn took %s", took)
	}
	if err := dump.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "made at once", len(y.once(r).Partitions), 0)
	if made := y.once(y.reaper(func(c *reaper.Config) { c.MonthsAhead = 8 })).Partitions; len(made) < 3 {
		t.Errorf("made after the dump: %v", made)
	}
}

// TestDefaultAroundOtherMonths tests a DEFAULT that can't become one partition. It stays as it is,
// and the months ahead are created nevertheless.
func TestDefaultAroundOtherMonths(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	y.plantRow(-1)
	y.plantRow(7)
	result := y.once(y.reaper(func(c *reaper.Config) { c.MonthsAhead = 5 }))
	same(t, "made", strings.Join(ofAttempts(result), " "), monthOf(4)+" "+monthOf(5))
	same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), 2)
}

// TestMonthsOfInstructions tests that months of instructions are created with those of the
// attempts: ahead of time, and of the rows in the DEFAULT partition.
func TestMonthsOfInstructions(t *testing.T) {
	t.Parallel()
	month := func(months int) string { return strings.Replace(monthOf(months), "attempts", "instructions", 1) }
	y := newYard(t, sameKey)
	plant := func(months int) {
		y.do(`INSERT INTO railhead.payment_outbox_instructions (outbox_id, priority, rail_type, headers, payload)
			SELECT railhead.uuidv7_floor(date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + make_interval(months => $1, days => 14)),
				1, 'bank', '{}', '{}'`, months)
	}
	plant(5)
	same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_instructions_default"), 1)
	ahead := func(c *reaper.Config) { c.MonthsAhead = 6 }
	same(t, "made", strings.Join(y.once(y.reaper(ahead)).Partitions, " "), strings.Join([]string{
		monthOf(4), monthOf(5), monthOf(6), "payment_outbox_instructions_default", month(4), month(6),
	}, " "))
	same(t, "rows in their month", y.rowsIn(month(5)), 1)
	plant(6)
	same(t, "rows of the next", y.rowsIn(month(6)), 1)
	y.do(`ALTER TABLE railhead.payment_outbox_instructions DETACH PARTITION railhead.payment_outbox_instructions_default`)
	same(t, "attached again", strings.Join(y.once(y.reaper(ahead)).Partitions, " "), "payment_outbox_instructions_default")
	y.guarded("payment_outbox_instructions")
}

// TestPartitionsThatCantBeMade tests that partitions that can't be created delay no other work.
func TestPartitionsThatCantBeMade(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	y.claimOne("worker")
	y.age(time.Minute)
	y.enqueue()
	y.do(expireAll)
	tx, err := y.Conn(t, "").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK railhead.payment_outbox_attempts IN SHARE UPDATE EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	ahead := func(c *reaper.Config) { c.MonthsAhead = 5 }
	result := y.once(y.reaper(ahead))
	same(t, "made", len(result.Partitions), 0)
	same(t, "repaired", result.Repaired, 1)
	same(t, "expired", result.Expired, 1)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "made afterwards", len(ofAttempts(y.once(y.reaper(ahead)))), 2)
}

// TestMonthsBeforeTheArchive: once a month was detached, no partition is created of it or of an earlier one, for a
// clock that was set back or for rows in DEFAULT: payments of months that left would count as lost. Later months are
// created.
func TestMonthsBeforeTheArchive(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	retired := payment.NewID()
	left := func() bool {
		return y.text(`SELECT railhead.left_the_archive($1)::text`, [16]byte(retired)) == "true"
	}
	same(t, "left before", left(), false)
	y.plantRow(-2)
	for _, table := range []string{"attempts", "instructions"} {
		month := strings.Replace(monthOf(0), "attempts", table, 1)
		y.do(`ALTER TABLE railhead.payment_outbox_` + table + ` DETACH PARTITION railhead.` + month)
	}
	var errs atomic.Int64
	counts := countErrors{slog.DiscardHandler, &errs}
	r, err := reaper.New(reaper.Config{WorkerID: "reaper", MonthsAhead: 5}, y.exec, nil, slog.New(counts))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "made", strings.Join(ofAttempts(y.once(r)), " "), monthOf(4)+" "+monthOf(5))
	same(t, "errors logged", errs.Load(), 1)
	same(t, "left", left(), true)
	same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), 1)
	made, before, err := y.exec.EnsurePartitions(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "made again", len(made), 0)
	same(t, "the oldest month", "payment_outbox_attempts_"+before.UTC().Format("y2006m01"), monthOf(1))
	for _, table := range []string{"attempts", "instructions"} {
		y.do(`SELECT railhead.attach_attempt_partition('payment_outbox_` + table + `', '` +
			strings.Replace(monthOf(0), "attempts", table, 1) + `', date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC',
			(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC')`)
	}
	if _, before, err = y.exec.EnsurePartitions(t.Context(), 5); err != nil || !before.IsZero() {
		t.Errorf("with this month: before %s, %v", before, err)
	}
}

// TestMonthsBeforeTheCell: a cell that was made while the clock was ahead has the present month like any other, also
// for rows that are in DEFAULT by then, so that its payments do not count as retired. Once a month of it has left, it
// gets none before it.
func TestMonthsBeforeTheCell(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	y.do(`UPDATE railhead.schema_migrations SET tstamp = tstamp + interval '2 months'`)
	detach := func(n int) {
		for _, table := range []string{"attempts", "instructions"} {
			y.do(`ALTER TABLE railhead.payment_outbox_` + table + ` DETACH PARTITION railhead.` +
				strings.Replace(monthOf(n), "attempts", table, 1))
			y.do(`DROP TABLE railhead.` + strings.Replace(monthOf(n), "attempts", table, 1))
		}
	}
	detach(0)
	detach(1)
	y.plantRow(0)
	same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), 1)
	left := func() bool {
		return y.text(`SELECT railhead.left_the_archive($1)::text`, [16]byte(payment.NewID())) == "true"
	}
	same(t, "left before", left(), true)
	ensure := func() (names string, before bool) {
		made, at, err := y.exec.EnsurePartitions(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(ofAttempts(reaper.Result{Partitions: made}), " "), !at.IsZero()
	}
	made, before := ensure()
	same(t, "made", made, "payment_outbox_attempts_default "+monthOf(1))
	same(t, "before the archive", before, false)
	same(t, "left", left(), false)
	same(t, "rows of this month", y.rowsIn(monthOf(0)), 1)

	y.enqueue()
	detach(0)
	made, before = ensure()
	same(t, "made after a month has left", made, "")
	same(t, "before the month after it", before, true)
	detach(1)
	detach(2)
	made, before = ensure()
	same(t, "made after the first month of the cell has left", made, "")
	same(t, "then before the archive", before, true)
}

// countErrors counts the errors that are logged.
type countErrors struct {
	slog.Handler
	errs *atomic.Int64
}

func (c countErrors) Enabled(context.Context, slog.Level) bool { return true }

func (c countErrors) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		c.errs.Add(1)
	}
	return nil
}

// detachDefault does what an operator may do, or a restore of single tables.
func (y *yard) detachDefault() {
	y.t.Helper()
	y.do(`ALTER TABLE railhead.payment_outbox_attempts DETACH PARTITION railhead.payment_outbox_attempts_default`)
}

func (y *yard) hasDefault() bool {
	y.t.Helper()
	return y.Int(`SELECT count(*) FROM pg_partitioned_table WHERE partrelid = 'railhead.payment_outbox_attempts'::regclass
		AND partdefid = 'railhead.payment_outbox_attempts_default'::regclass`) == 1
}

// TestDetachedDefault tests that a detached DEFAULT is attached again with its rows, and keeps no
// month from being created.
func TestDetachedDefault(t *testing.T) {
	t.Parallel()
	ahead := func(c *reaper.Config) { c.MonthsAhead = 6 }
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		y := newYard(t, sameKey)
		y.detachDefault()
		same(t, "made", strings.Join(ofAttempts(y.once(y.reaper(ahead))), " "),
			strings.Join([]string{"payment_outbox_attempts_default", monthOf(4), monthOf(5), monthOf(6)}, " "))
		same(t, "attached", y.hasDefault(), true)
		y.guarded("payment_outbox_attempts")
		y.plantRow(9)
		same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), 1)
	})
	t.Run("with rows of months that have no partition", func(t *testing.T) {
		t.Parallel()
		y := newYard(t, sameKey)
		y.plantRow(5)
		y.detachDefault()
		same(t, "rows in the archive", y.rowsIn("payment_outbox_attempts"), 0)
		y.once(y.reaper(ahead))
		same(t, "rows in the archive again", y.rowsIn("payment_outbox_attempts"), 1)
		same(t, "rows in their month", y.rowsIn(monthOf(5)), 1)
		same(t, "attached", y.hasDefault(), true)
		same(t, "made again", len(y.once(y.reaper(ahead)).Partitions), 0)
		y.guarded("payment_outbox_attempts")
	})
	t.Run("with rows of a month that has a partition", func(t *testing.T) {
		t.Parallel()
		y := newYard(t, sameKey)
		y.plantRow(5)
		y.detachDefault()
		y.do(`SELECT railhead.attach_attempt_partition('payment_outbox_attempts', $1, date_trunc('month', now() + make_interval(months => 5)), date_trunc('month', now() + make_interval(months => 6)))`, monthOf(5))
		same(t, "made", strings.Join(ofAttempts(y.once(y.reaper(ahead))), " "), monthOf(4)+" "+monthOf(6))
		same(t, "attached", y.hasDefault(), false)
		same(t, "rows in the detached table", y.rowsIn("payment_outbox_attempts_default"), 1)
		// This is what the warning asks for.
		y.do(`INSERT INTO railhead.payment_outbox_attempts SELECT * FROM railhead.payment_outbox_attempts_default`)
		y.do(`ALTER TABLE railhead.payment_outbox_attempts_default RENAME TO done_with`)
		same(t, "made then", strings.Join(ofAttempts(y.once(y.reaper(ahead))), " "), "payment_outbox_attempts_default")
		same(t, "rows in their month", y.rowsIn(monthOf(5)), 1)
	})
}

// TestIDsOfNoMonth tests that an outbox_id that is no UUIDv7 of these times is refused. One that
// exists nevertheless stays in DEFAULT, as do rows next to it whose month has no partition. Every
// other month is created.
func TestIDsOfNoMonth(t *testing.T) {
	t.Parallel()
	y := newYard(t, sameKey)
	const far = `INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key,
			rail_type, attempt_no, state, outcome_unknown, provisional)
		VALUES (gen_random_uuid(), 'ffffffff-ffff-7fff-bfff-ffffffffffff', 'i', 'p', 1, 'k', 'bank', 1, 'LATE_OUTCOME', false, false)`
	if _, err := y.Conn(t, celltest.Relayer).Exec(t.Context(), far); ledger.SQLState(err) != "23514" {
		t.Errorf("a row of the year 10889: %v, want a check that refuses it", err)
	}
	y.do(`ALTER TABLE railhead.payment_outbox_attempts DROP CONSTRAINT payment_outbox_attempts_time`)
	y.do(far)
	y.plantRow(5)
	ahead := func(c *reaper.Config) { c.MonthsAhead = 6 }
	same(t, "made", strings.Join(ofAttempts(y.once(y.reaper(ahead))), " "), monthOf(4)+" "+monthOf(6))
	same(t, "made again", len(y.once(y.reaper(ahead)).Partitions), 0)
	same(t, "rows in DEFAULT", y.rowsIn("payment_outbox_attempts_default"), 2)
}
