package reader

import (
	"encoding/json"
	"fmt"

	"github.com/railhead-pay/railhead/payment"
)

// Testimony is an operator's evidence by which an instruction was resolved. It is not an
// answer of the rail.
type Testimony struct {
	Login    string `json:"login"`
	Document string `json:"document"`
	Date     string `json:"evidence_date,omitempty"` // as 2026-07-30; empty if the log was not read

	reference string // the rail's reference in the evidence
}

// String returns "by evidence of LOGIN, DOCUMENT".
func (e Testimony) String() string {
	return fmt.Sprintf("by evidence of %s, %s", e.Login, e.Document)
}

// testimonyOf returns the evidence on which a row rests: the latest resolution after the row
// and before the next one that is not LATE_OUTCOME. A resolution that confirms the recorded
// outcome appends no row; from then on that outcome rests on it, because the rail had
// contradicted itself. Nil: the row rests on no resolution.
func (t Timeline) testimonyOf(row *AttemptRow) *Testimony {
	var until *AttemptRow
	for n := range t.Attempts {
		if next := &t.Attempts[n]; next.AttemptNo > row.AttemptNo && next.State != payment.LateOutcome {
			until = next
			break
		}
	}
	var found *Testimony
	for _, act := range t.Acts {
		if act.Act == "RESOLVE" && !act.At.Before(row.CreatedAt) && (until == nil || act.At.Before(until.CreatedAt)) {
			var detail struct {
				Document string `json:"document"`
				Date     string `json:"evidence_date"`
				// of an execution
				Reference string `json:"rail_reference"`
			}
			if json.Unmarshal(act.Detail, &detail) == nil {
				found = &Testimony{
					Login: act.Actor, Document: detail.Document, Date: detail.Date, reference: detail.Reference,
				}
			}
		}
	}
	if found == nil && row.ErrorCode == payment.CodeResolved {
		found = &Testimony{Login: row.Actor, Document: row.ErrorMessage}
	}
	return found
}
