package ledger

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// TestAloneKnowsWhatItDoesNotKnow: only the server's own refusal says that
// nothing was done. A lost answer, and one with a warning, leave it open.
func TestAloneKnowsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for name, test := range map[string]struct {
		sql     string
		unknown bool
		calls   int
	}{
		"done":               {"SELECT 1", false, 1},
		"refused":            {"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'RH002'; END $$", false, 1},
		"lost race":          {"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$", false, transactTries},
		"answer lost":        {"SELECT pg_terminate_backend(pg_backend_pid())", true, 1},
		"done with warnings": {"DO $$ BEGIN RAISE WARNING 'the wait for the standby was cancelled'; END $$", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ingest, err := OpenIngest(t.Context(), Config{URL: cell.URL(celltest.Ingest), Cell: cell.Schema})
			if err != nil {
				t.Fatal(err)
			}
			defer ingest.Close()
			calls := 0
			err = alone(t.Context(), ingest.pool, func(conn *pgx.Conn) error {
				calls++
				_, err := conn.Exec(t.Context(), test.sql)
				return err
			})
			if (err == nil) != (name == "done") || errors.Is(err, payment.ErrCommitUnknown) != test.unknown || calls != test.calls {
				t.Errorf("after %d calls: %v", calls, err)
			}
		})
	}
}

// TestTogetherKnowsWhatItDoesNotKnow: the same of a transaction that is sent with its
// commit, whose last statement here breaks. What only reads has no commit.
func TestTogetherKnowsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	for name, test := range map[string]struct {
		sql     string
		unknown bool
		calls   int
	}{
		"done":        {"SELECT ''", false, 1},
		"refused":     {"SELECT (1 / 0)::text", false, 1},
		"answer lost": {"SELECT pg_terminate_backend(pg_backend_pid())::text", true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := OpenExecutor(t.Context(), Config{URL: cell.URL(celltest.Relayer), Cell: cell.Schema})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			calls := 0
			_, err = e.together(t.Context(), nil, func(batch *pgx.Batch) {
				calls++
				batch.Queue(test.sql)
			}, nil)
			if (err == nil) != (name == "done") || errors.Is(err, payment.ErrCommitUnknown) != test.unknown || calls != test.calls {
				t.Errorf("after %d calls: %v", calls, err)
			}
			if _, err := readRows(t.Context(), e, pgx.RowTo[string], test.sql); (err == nil) != (name == "done") || errors.Is(err, payment.ErrCommitUnknown) {
				t.Errorf("a read: %v", err)
			}
			if _, err := readRows(t.Context(), e, pgx.RowTo[string], "SELECT ''"); err != nil {
				t.Errorf("the next: %v", err)
			}
		})
	}
}
