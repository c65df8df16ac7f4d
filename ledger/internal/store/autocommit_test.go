package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// ends are how a transaction can end that is sent with its commit. Only the server's own
// refusal says that nothing was done. A lost answer, and one with a warning by which
// the commit may be lost, leave it open.
var ends = map[string]struct {
	SQL     string
	unknown bool
	calls   int
}{
	"done":                {"SELECT ''", false, 1},
	"refused":             {"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'RH002'; END $$", false, 1},
	"lost race":           {"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$", false, transactTries},
	"answer lost":         {"SELECT pg_terminate_backend(pg_backend_pid())", true, 1},
	"done in doubt":       {"DO $$ BEGIN RAISE WARNING USING ERRCODE = '25P01'; END $$", true, 1},
	"done with a warning": {"DO $$ BEGIN RAISE WARNING 'of something else'; END $$", false, 1},
}

// eachEnd holds what run says of each end, and how often it tries, to the list.
func eachEnd(t *testing.T, run func(t *testing.T, sql string, calls *int) error) {
	t.Helper()
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := run(t, end.SQL, &calls)
			done := strings.HasPrefix(name, "done") && !end.unknown
			if (err == nil) != done || errors.Is(err, outbox.ErrCommitUnknown) != end.unknown || calls != end.calls {
				t.Errorf("after %d calls: %v", calls, err)
			}
		})
	}
}

// TestAloneKnowsWhatItDoesNotKnow: of a single statement.
func TestAloneKnowsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	eachEnd(t, func(t *testing.T, sql string, calls *int) error {
		db, err := Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Pool.Close()
		return db.Autocommit(t.Context(), func(conn *pgx.Conn) error {
			*calls++
			_, err := conn.Exec(t.Context(), sql)
			return err
		})
	})
}

// TestTogetherKnowsWhatItDoesNotKnow: of several statements, with the commit behind them.
// What only reads has no commit, and the next is not disturbed.
func TestTogetherKnowsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	eachEnd(t, func(t *testing.T, sql string, calls *int) error {
		db, err := Open(t.Context(), ledger.Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Pool.Close()
		err = db.Batch(t.Context(), func(tx *Transaction) {
			*calls++
			tx.Queue(sql)
		})
		if _, err := ReadRows(t.Context(), db, pgx.RowTo[string],
			"SELECT pg_terminate_backend(pg_backend_pid())::text"); err == nil || errors.Is(err, outbox.ErrCommitUnknown) {
			t.Errorf("a read whose answer is lost: %v", err)
		}
		if _, err := ReadRows(t.Context(), db, pgx.RowTo[string], "SELECT ''"); err != nil {
			t.Errorf("the next: %v", err)
		}
		return err
	})
}
