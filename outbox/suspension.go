package outbox

import (
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// Suspension is a payment.Suspension with its id, its cause, and the server on which it
// was noticed. See docs/decisions/0002.
type Suspension struct {
	payment.Suspension
	ID     payment.ID
	Cause  SuspensionCause
	Detail string // a sentence for operators
	// ServerStartedAt and Timeline are of the server on which it was opened, or taken over.
	ServerStartedAt time.Time
	Timeline        int64
}

// SuspensionCause is why a suspension was opened.
type SuspensionCause string

// The causes of a suspension.
const (
	CauseNewServer   SuspensionCause = "NEW_SERVER"    // another system identifier
	CauseNewTimeline SuspensionCause = "NEW_TIMELINE"  // a failover or a restore to a point in time
	CauseLogWentBack SuspensionCause = "LOG_WENT_BACK" // the write-ahead log is shorter than remembered
	CauseRowsMissing SuspensionCause = "ROWS_MISSING"  // confirmed rows are missing
	CauseNoMemory    SuspensionCause = "NO_MEMORY"     // the server was started again, and no component has a memory
)

// OpenSuspension returns the suspension that is open, if there is one.
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

// Weigh adds to a claim the sends that, by the latest suspensions, may have been made
// without a row: see payment.Claim.Weigh.
func (s Server) Weigh(claim payment.Claim) payment.Claim {
	times := make([]payment.Suspension, len(s.Suspensions))
	for i, each := range s.Suspensions {
		times[i] = each.Suspension
	}
	return claim.Weigh(times)
}
