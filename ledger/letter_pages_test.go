package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestLetterPages reads open and closed dead letters page by page: each once and in order, also where several
// were opened at one moment and letters leave the list meanwhile.
func TestLetterPages(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	// Three at each moment, so that a page ends between letters of one moment.
	d.do(`INSERT INTO railhead.payment_dead_letters
		(outbox_id, instruction_id, participant_id, rail_type, reason, error_code, status, opened_at, updated_at, amount, currency)
		SELECT railhead.uuidv7(), 'i-' || n, 'p', 'bank', 'FAILED', CASE WHEN n % 2 = 0 THEN 'AC04' END,
			CASE WHEN n > 18 THEN 'resolved' ELSE 'pending' END, now() - n / 3 * interval '1 hour',
			now() - n / 3 * interval '1 hour', n, 'EUR'
		FROM generate_series(1, 36) n`)
	looker := openReader(t, d.Cell)
	for name, c := range map[string]struct {
		filter reader.LetterFilter
		want   int64
	}{
		"with the code":    {reader.LetterFilter{ErrorCode: "AC04"}, 9},
		"without a code":   {reader.LetterFilter{WithoutCode: true}, 9},
		"newer":            {reader.LetterFilter{NewerThan: 90 * time.Minute}, 5},
		"newer and older":  {reader.LetterFilter{NewerThan: 150 * time.Minute, OlderThan: 30 * time.Minute}, 6},
		"closed and newer": {reader.LetterFilter{Status: "resolved", NewerThan: 7*time.Hour + 30*time.Minute}, 5},
	} {
		letters, err := looker.DeadLetters(t.Context(), c.filter)
		d.must(err)
		groups, _, err := looker.LettersByCode(t.Context(), c.filter)
		d.must(err)
		var counted int64
		for _, group := range groups {
			counted += group.Letters
			if group.FirstAt.After(group.LastAt) || group.FirstAt.IsZero() {
				t.Errorf("%s: the group was first opened at %s, last at %s", name, group.FirstAt, group.LastAt)
			}
		}
		same(t, name, fmt.Sprint(len(letters), counted), fmt.Sprint(c.want, c.want))
	}
	for status, want := range map[string]int{"": 18, "resolved": 18} {
		var all []reader.Letter
		filter := reader.LetterFilter{Status: status, Limit: 4}
		for range 10 {
			page, err := looker.DeadLetters(t.Context(), filter)
			d.must(err)
			if len(page) == 0 {
				break
			}
			all = append(all, page...)
			filter.After = page[len(page)-1].Place()
			if status == "" && len(all) == 4 { // the next page does not depend on the letter before it
				d.do(`DELETE FROM railhead.payment_dead_letters WHERE outbox_id = $1`, [16]byte(filter.After.OutboxID))
			}
		}
		got := map[payment.ID]bool{}
		for _, letter := range all {
			got[letter.OutboxID] = true
		}
		if len(all) != want || len(got) != want {
			t.Errorf("status %q: %d letters on the pages, %d different ones, want %d", status, len(all), len(got), want)
		}
		if !slices.IsSortedFunc(all, func(a, b reader.Letter) int {
			if status == "" {
				return a.OpenedAt.Compare(b.OpenedAt)
			}
			return b.UpdatedAt.Compare(a.UpdatedAt)
		}) {
			t.Errorf("status %q: the pages are not in order", status)
		}
	}
}
