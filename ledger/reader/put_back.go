package reader

import "github.com/railhead-pay/railhead/payment"

// PutBackAfter returns the state of the instruction's last row if its row in pending was not
// written by Railhead, so that a claim or the reaper quarantines it. It returns "" if it may
// wait. The SQL function put_back_after has the same rule.
func (t Timeline) PutBackAfter() payment.State {
	if len(t.Attempts) == 0 {
		return ""
	}
	state := payment.LateOutcome
	if last := t.last(); last != nil {
		state = last.State
		if !state.Waits() {
			return state
		}
	}
	if t.Pending != nil && t.Pending.AttemptCount < t.Attempts[len(t.Attempts)-1].AttemptNo {
		return state
	}
	return ""
}

// IsOver reports whether a waiting instruction has expired and its outcome is not unknown:
// no claim takes it, and the reaper ends it, even while it is paused or not yet due.
func (t Timeline) IsOver() bool {
	p := t.Pending
	return p != nil && !p.Quarantine && !p.OutcomeUnknown && t.IsLate()
}

// IsLate reports whether its expiry has passed, by the database's clock.
func (t Timeline) IsLate() bool { return !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(t.Now) }
