package reader

import "github.com/railhead-pay/railhead/payment"

// PutBackAfter is the state of the row over which what stands in pending was put back
// past the product, so that a claim and the reaper set it aside. Empty: it may wait.
// The function put_back_after has the same rule.
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

// IsOver reports whether what waits has expired with nothing unknown: no claim takes it,
// and the reaper ends it, also while it is paused or not due yet.
func (t Timeline) IsOver() bool {
	p := t.Pending
	return p != nil && !p.Quarantine && !p.OutcomeUnknown && !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(t.Now)
}
