package metrics

import "github.com/railhead-pay/railhead/payment"

// appended counts the rows of an outcome that was recorded at its claim's number.
func (s *Set) appended(outcome payment.Outcome) {
	s.rows[outcome.Decision.State].Inc()
	if outcome.Decision.Park {
		s.rows[payment.Parked].Inc()
	}
}

// weighed counts the rows of the slow path, except for verdict IN. A row that an earlier try wrote
// was counted then, and repeated evidence makes no row.
func (s *Set) weighed(outcome payment.Outcome, verdict payment.Verdict) {
	switch verdict {
	case payment.VerdictSettled:
		// A repair brings no evidence of its own: its only row is the end of the payment.
		if outcome.Result == "" {
			s.rows[payment.Dispatched].Inc()
			return
		}
		s.rows[payment.LateOutcome].Inc()
		if outcome.Decision.State == payment.Failed {
			s.rows[payment.Failed].Inc()
		} else {
			s.rows[payment.Dispatched].Inc()
		}
	case payment.VerdictLate, payment.VerdictConflict:
		s.rows[payment.LateOutcome].Inc()
	}
}
