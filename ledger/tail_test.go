package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

const tailRow = `
	INSERT INTO railhead.payment_outbox_attempts
	  (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state,
	   created_at, outcome_unknown, provisional)
	SELECT railhead.uuidv7(), railhead.uuidv7(), $1, 'p', 1, 'k', 'bank', 1, 'RETRYABLE', clock_timestamp() - $2::interval, false, false`

// TestTailSeesLateCommits: a row that was written before others and commits after
// them is told of, and nothing is told of twice.
func TestTailSeesLateCommits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	looker := d.reader()
	tail, err := looker.Tail(reader.TailFilter{Since: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	look := func() {
		t.Helper()
		looked, err := tail.Read(t.Context(), func(row reader.AttemptEvent) error {
			told[row.InstructionID]++
			return nil
		})
		if err != nil || looked != (reader.TailResult{}) {
			t.Fatalf("%+v, %v", looked, err)
		}
	}
	late, err := d.Conn(t, "").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Rollback(t.Context())
	if _, err := late.Exec(t.Context(), tailRow, "late", "5 s"); err != nil {
		t.Fatal(err)
	}
	d.do(tailRow, "first", "1 s")
	look()
	d.do(tailRow, "second", "0 s")
	look()
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	if got := fmt.Sprint(told); got != "map[first:1 late:1 second:1]" {
		t.Errorf("told %s", got)
	}
}

// TestTailPages: more rows of the same moment than one statement reads.
func TestTailPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`INSERT INTO railhead.payment_outbox_attempts
		(attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state,
		 created_at, outcome_unknown, provisional)
		SELECT railhead.uuidv7(), railhead.uuidv7(), 'i' || n, 'p', n, 'k', 'bank', 1, 'RETRYABLE', now(), false, false
		FROM generate_series(1, 5000) n`)
	tail, err := d.reader().Tail(reader.TailFilter{Since: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range 2 {
		if _, err := tail.Read(t.Context(), func(reader.AttemptEvent) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n != 5000 {
		t.Errorf("told of %d rows, want 5000", n)
	}
}

// TestTailTellsOfWhatHangs: a claim in flight is told of once, after a second.
func TestTailTellsOfWhatHangs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	d.claim(lane("bank", 1, 1))
	d.do(`UPDATE railhead.payment_outbox_claims SET claimed_at = now() - interval '5 s'`)
	tail, err := d.reader().Tail(reader.TailFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var told []reader.AttemptEvent
	for range 3 {
		if _, err := tail.Read(t.Context(), func(row reader.AttemptEvent) error {
			told = append(told,
				row)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 1 || told[0].OutboxID != id || told[0].State != payment.Dispatching {
		t.Errorf("told %+v", told)
	}
}

func (d *desk) reader() *reader.Reader {
	d.t.Helper()
	reader, err := reader.Open(d.t.Context(), ledger.Config{URL: d.URL(celltest.Readonly), Cell: d.Schema})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(reader.Close)
	return reader
}

// TestTailAfterARestore: a failover that forgot a row gives its number and its place to others, which are told.
func TestTailAfterARestore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	tail, err := d.reader().Tail(reader.TailFilter{Since: time.Hour})
	d.must(err)
	var told []string
	look := func() bool {
		t.Helper()
		looked, err := tail.Read(t.Context(), func(row reader.AttemptEvent) error {
			told = append(told, row.InstructionID)
			return nil
		})
		d.must(err)
		return looked.WentBack
	}
	d.do(tailRow, "first", "1 s")
	d.do(tailRow, "forgotten", "1 s")
	d.settled()
	look()
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
	d.do(`DELETE FROM railhead.payment_outbox_attempts WHERE instruction_id = 'forgotten'`)
	d.do(`UPDATE railhead.payment_outbox_attempts SET xact = (xact::text::bigint - 10)::text::xid8`)
	d.do(tailRow, "another", "0 s")
	d.do(`UPDATE railhead.payment_outbox_attempts SET xact = (xact::text::bigint - 10)::text::xid8
		WHERE instruction_id = 'another'`)
	d.settled()
	same(t, "went back", look(), true)
	same(t, "went back again", look(), false)
	same(t, "told", fmt.Sprint(told), "[first forgotten first another]")
}
