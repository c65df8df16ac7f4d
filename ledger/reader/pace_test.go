package reader

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// TestPaceIsBounded: the pace of a busy cell is read from its newest rows by their index: four times as many
// rows cost no more pages.
func TestPaceIsBounded(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	loaded, err := store.LoadStatements(cell.Schema)
	if err != nil {
		t.Fatal(err)
	}
	conn := cell.Conn(t, celltest.Readonly)
	for _, sql := range []string{"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off",
		"SET enable_bitmapscan = off", "SET enable_sort = off", "SET jit = off"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	pages := func(measured int) int {
		return pagesTouched(t, conn, loaded["pace"],
			[]any{PaceWindow.Milliseconds(), paceRows, measured, payment.CodeResolved})
	}
	cell.Exec(strings.Replace(grow, "60000", "6000", 1))
	before := pages(0)
	cell.Exec(strings.ReplaceAll(strings.Replace(grow, "60000", "18000", 1), "old", "new"))
	after, measured := pages(0), pages(paceMeasureMax)
	t.Logf("%d pages, then %d, and %d with the latency", before, after, measured)
	if after > before+100 || measured > after+8*paceMeasureMax { // a few pages for each that is measured
		t.Errorf("the pace touches %d pages, then %d, and %d with the latency", before, after, measured)
	}
	now := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	lastMinute, all := Pace{Now: now, Since: now.Add(-2 * time.Second), Dispatched: 5000, LastMinute: 5000}.PerSecond()
	if lastMinute != 2500 || all != 2500 {
		t.Errorf("of two seconds: %g and %g per second", lastMinute, all)
	}
	if lastMinute, all := (Pace{}).PerSecond(); lastMinute != 0 || all != 0 {
		t.Errorf("of nothing: %g and %g per second", lastMinute, all)
	}
}
