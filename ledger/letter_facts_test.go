package ledger_test

import (
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// TestLetterFacts: a dead letter says what its rows said, also once they have left.
func TestLetterFacts(t *testing.T) {
	t.Parallel()
	seen := 0
	for what, plight := range plights {
		d := newDesk(t)
		id := plight(d)
		looker := openReader(t, d.Cell)
		line, err := looker.Timeline(t.Context(), id)
		d.must(err)
		if line.DeadLetter == nil {
			continue
		}
		seen++
		want := *line.DeadLetter
		want.Amount, want.Currency, want.Attempts = "10.50", "EUR", 0
		want.FirstAttemptAt, want.LastAttemptAt, want.RailCode, want.ErrorMessage = time.Time{}, time.Time{}, "", ""
		for _, row := range line.Attempts {
			switch {
			case row.State == payment.Dispatching || row.State == payment.Inquiring:
				want.Attempts++
				want.LastAttemptAt = row.ClaimedAt
				if want.FirstAttemptAt.IsZero() {
					want.FirstAttemptAt = row.ClaimedAt
				}
			case row.Result != "" && (row.RailCode != "" || row.ErrorMessage != ""):
				want.RailCode, want.ErrorMessage = row.RailCode, row.ErrorMessage
			}
		}
		if what == "TAMPERED" {
			want.Amount = "9999.00" // which is what was claimed
		}
		same(t, what, *line.DeadLetter, want)

		d.do(`SET session_replication_role = replica`)
		d.do(`DROP TABLE railhead.payment_outbox_attempts CASCADE`)
		d.do(`DELETE FROM railhead.payment_outbox_pending`)
		letters, err := looker.DeadLetters(t.Context(), reader.LetterFilter{Status: want.Status})
		d.must(err)
		if len(letters) != 1 || letters[0].DeadLetter != want {
			t.Errorf("%s: without its rows the letter is %+v, want %+v", what, letters, want)
		}
	}
	if seen < 5 {
		t.Errorf("%d plights have a dead letter", seen)
	}
}
