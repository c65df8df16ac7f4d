package outbox

import (
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Suspension is a payment.Suspension as services and operators know it: which one it is,
// and what was noticed on which server. See docs/decisions/0002.
type Suspension struct {
	payment.Suspension
	ID     payment.ID
	Cause  SuspensionCause
	Detail string // a sentence for operators
	// ServerStartedAt and Timeline are of the server on which it was opened, or taken over.
	ServerStartedAt time.Time
	Timeline        int64
}

// SuspensionCause says what was noticed.
type SuspensionCause string

// The causes.
const (
	CauseNewServer   SuspensionCause = "NEW_SERVER"    // another system identifier
	CauseNewTimeline SuspensionCause = "NEW_TIMELINE"  // a failover or a restore to a point in time
	CauseLogWentBack SuspensionCause = "LOG_WENT_BACK" // the write-ahead log is shorter than remembered
	CauseRowsMissing SuspensionCause = "ROWS_MISSING"  // what was confirmed is not there
	CauseNoMemory    SuspensionCause = "NO_MEMORY"     // the server was started again, and nothing remembers it
)

// OpenSuspension is the one that is open, if there is one.
func (s Server) OpenSuspension() (Suspension, bool) {
	for _, each := range s.Suspensions {
		if each.Open() {
			return each, true
		}
	}
	return Suspension{}, false
}

// Has reports whether this suspension is among the latest, open or not.
func (s Server) Has(id payment.ID) bool {
	return slices.ContainsFunc(s.Suspensions, func(each Suspension) bool { return each.ID == id })
}

// HasAccepted reports whether an operator has ended this suspension.
func (s Server) HasAccepted(id payment.ID) bool {
	for _, each := range s.Suspensions {
		if each.ID == id {
			return !each.Open()
		}
	}
	return false
}

// Weigh adds to a claim what the latest suspensions say of the sends that its rows do not
// know: see payment.Claim.Weigh.
func (s Server) Weigh(claim payment.Claim) payment.Claim {
	times := make([]payment.Suspension, len(s.Suspensions))
	for i, each := range s.Suspensions {
		times[i] = each.Suspension
	}
	return claim.Weigh(times)
}
