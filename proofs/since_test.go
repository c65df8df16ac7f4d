package proofs_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/proofs"
)

var ledgerProofs = []string{
	"attempt-numbers", "transitions", "answers", "evidence", "sends", "operator-acts", "one-dispatched", "terminal",
	"nothing-lost", "identity", "fingerprints", "rail-keys", "idempotency", "callers", "sequence", "order",
}

// TestSince proves the later half of the instructions, in pages of every
// size, and finds a gap in that half only.
func TestSince(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	super, auditor := db.Conn(t, ""), db.Conn(t, celltest.Auditor)
	var all, half int64
	var since time.Time
	err := super.QueryRow(t.Context(), `
		SELECT count(*), count(*) / 2, (array_agg(railhead.uuidv7_time(outbox_id) ORDER BY outbox_id DESC))[count(*) / 2]
		FROM railhead.payment_outbox_keys`).Scan(&all, &half, &since)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 3, int(all), 1000} {
		for from, n := range map[time.Time]int64{{}: all, since: half} {
			report := prove(t, auditor, proofs.Options{Names: ledgerProofs, Since: from, PageSize: size})
			for _, result := range report.Proofs {
				if result.Status != proofs.Passed {
					t.Errorf("pages of %d since %v: %s is %s: %s", size, from, result.Name, result.Status, result.Seen)
				}
				switch result.Name {
				case "one-dispatched", "terminal", "nothing-lost", "sequence", "idempotency":
					if result.Rows != n {
						t.Errorf("pages of %d since %v: %s saw %d rows, want %d", size, from, result.Name, result.Rows, n)
					}
				}
			}
		}
	}
	if err := gap(t, super); err != nil {
		t.Fatal(err)
	}
	for from, status := range map[time.Time]proofs.Status{{}: proofs.Failed, since: proofs.Passed} {
		report := prove(t, auditor, proofs.Options{Names: []string{"sequence"}, Since: from})
		want(t, "sequence since "+from.String(), report.Proofs[0].Status, status)
	}
}

// TestTakesSince: a report says of each proof whether its first moment leaves instructions out.
func TestTakesSince(t *testing.T) {
	t.Parallel()
	conn := database(t, nil).Conn(t, "")
	since := prove(t, conn, proofs.Options{Names: []string{"sequence"}}).TakenAt
	for _, result := range prove(t, conn, proofs.Options{Behaviour: true, Since: since}).Proofs {
		status := proofs.Passed
		if result.TakesSince() {
			status = proofs.Empty
		}
		if result.Status != status {
			t.Errorf("%s, of which nothing was enqueued since, is %s, want %s", result.Name, result.Status, status)
		}
	}
}

// TestSinceByTheServersClock: the clock of the machine of prove decides nothing.
func TestSinceByTheServersClock(t *testing.T) {
	t.Parallel()
	conn := celltest.New(t).Conn(t, celltest.Auditor)
	o := proofs.Options{Cell: "railhead", Names: []string{"sequence"}, Age: 24 * time.Hour}
	report := prove(t, conn, o)
	want(t, "the first moment", report.Since, report.TakenAt.Add(-24*time.Hour).Format(time.RFC3339Nano))
	o = proofs.Options{Cell: "railhead", Names: []string{"sequence"}, Since: report.TakenAt.Add(time.Hour)}
	_, err := proofs.Run(t.Context(), conn, o)
	wantError(t, err, proofs.ErrSince)
}

// gap removes the first number of a participant.
func gap(t *testing.T, conn *pgx.Conn) error {
	return unguarded(t, conn, func() error {
		_, err := conn.Exec(t.Context(), `DELETE FROM railhead.payment_outbox_keys WHERE participant_id = 'participant-1'
			AND sequence_id = 1`)
		return err
	})
}

// TestRetired distinguishes instructions whose month has left the archive from lost ones.
func TestRetired(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	super := db.Conn(t, "")
	if err := unguarded(t, super, func() error {
		_, err := super.Exec(t.Context(), `
			INSERT INTO railhead.payment_outbox_keys (outbox_id, created_at, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key)
			VALUES (railhead.uuidv7_floor('2001-02-03'), '2001-02-03', 'old', 'old', 'retired', 1, sha256(''), railhead.payment_rail_key((SELECT rail_key_namespace FROM railhead.payment_outbox_settings), 'retired', 'old', 'old'))`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	report := prove(t, db.Conn(t, celltest.Auditor), proofs.Options{Names: ledgerProofs})
	for _, result := range report.Proofs {
		if result.Status != proofs.Passed {
			t.Errorf("%s is %s: %s", result.Name, result.Status, result.Seen)
		}
	}
}

// TestReadOnly lets nothing be written by a session that proves.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	db := database(t, nil)
	conn := db.Conn(t, "")
	before := snapshot(t, conn)
	other := db.Conn(t, "")
	prove(t, other, proofs.Options{Behaviour: true})
	if _, err := other.Exec(t.Context(), `CREATE TABLE public.written ()`); err == nil {
		t.Error("the session that proved can write")
	}
	want(t, "the cell after every attempt", snapshot(t, conn), before)
}

// snapshot counts what could have changed.
func snapshot(t *testing.T, conn *pgx.Conn) []int64 {
	t.Helper()
	counts := make([]int64, 6)
	err := conn.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM railhead.payment_outbox_attempts), (SELECT count(*)
		FROM railhead.payment_outbox_pending),
			(SELECT count(*) FROM railhead.payment_outbox_keys), (SELECT count(*) FROM pg_class),
			(SELECT count(*) FROM pg_roles WHERE rolname LIKE 'railhead\_prove%'), (SELECT count(*) FROM pg_trigger)`).
		Scan(&counts[0], &counts[1], &counts[2], &counts[3], &counts[4], &counts[5])
	if err != nil {
		t.Fatal(err)
	}
	return counts
}
