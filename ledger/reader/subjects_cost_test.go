package reader

import (
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// subjectReads are what is read of rails and participants: with few rows, to count the pages of, and
// with as many as there are.
var subjectReads = map[string][2][]any{
	"rail_codes":          {{celltest.Bank, 100, codesMax}, {celltest.Bank, CodesLooked, codesMax}},
	"participants":        {{"", "", 10, 100}, {"", "", ParticipantsListed + 1, PendingLooked}},
	"participant_numbers": {{"old", 50}, {"old", NumbersLooked}},
	"participant_waiting": {{"old", 100}, {"old", PendingLooked}},
	"participant_volume":  {{"old", 20, VolumeWindow.Seconds()}, {"old", NumbersLooked, VolumeWindow.Seconds()}},
}

// youth is grow with few rows.
var youth = strings.NewReplacer("60000", "300", "'old", "'young", "ref-", "young-ref-").Replace(grow)

// TestSubjectsReadByIndex reads the plans of what is read of rails and participants: in the order of the
// archive's stream, of the registry's participants and of pending, and by probes, however large those
// are. With statistics of an empty cell, of a young one, and of a large one.
func TestSubjectsReadByIndex(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	loaded, err := store.LoadStatements(cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range []struct{ when, then string }{
		{"of an empty cell", youth}, {"of a young cell", grow}, {"of a large cell", "SELECT 1"},
	} {
		cell.Exec("ANALYZE")
		cell.Exec(stage.then)
		conn := cell.Conn(t, celltest.Readonly)
		for _, sql := range []string{
			"SET enable_seqscan = off", "SET jit = off", strings.ReplaceAll(loaded["index_order"], ", true)", ", false)"),
		} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = "+mode); err != nil {
				t.Fatal(err)
			}
			for name, args := range subjectReads {
				wantOrder(t, conn, stage.when+", "+mode, name, loaded[name], args)
			}
		}
	}
}

// wholeTable is a node that reads all of a table: itself, or for a sort of its rows. A Merge Append keeps
// the order of its indexes.
var wholeTable = regexp.MustCompile(`Seq Scan|Bitmap|-> +Sort .*\s+Sort Key: [akp]\.`)

// wantOrder reads one plan, and counts the pages of the statement with few rows.
func wantOrder(t *testing.T, conn *pgx.Conn, when, name, sql string, args [2][]any) {
	t.Helper()
	text := planOf(t, conn, sql, args[1])
	if found := wholeTable.FindString(text); found != "" {
		t.Errorf("%s, statistics %s: %s\n%s", name, when, found, text)
	}
	if pages := pagesTouched(t, conn, sql, args[0]); pages > 400 {
		t.Errorf("%s, statistics %s: %d pages\n%s", name, when, pages, text)
	}
}
