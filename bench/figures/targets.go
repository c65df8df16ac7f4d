package figures

import "fmt"

// Target is a number that a figure should reach.
type Target struct {
	System  string  `json:"system"`
	Mode    string  `json:"mode"`
	Against Against `json:"against"`
	AtLeast float64 `json:"at_least,omitempty"`
	AtMost  float64 `json:"at_most,omitempty"`
}

// Against is what a target's ratio is relative to.
type Against string

// The values of Against.
const (
	ToRiver Against = "river"
	ToFloor Against = "floor"
	ToSelf  Against = "self"
)

func (t Target) String() string {
	if t.AtLeast > 0 {
		return fmt.Sprintf(">= %.2f x %s", t.AtLeast, t.Against)
	}
	return fmt.Sprintf("<= %.2f x %s", t.AtMost, t.Against)
}

// Verdict is whether a target was met by the row that it is about.
type Verdict string

// The verdicts. A target whose ratio was not measured never counts as met.
const (
	Met         Verdict = "met"
	Missed      Verdict = "MISSED"
	NotMeasured Verdict = "not measured"
)

// Judge compares a row with the target.
func (t Target) Judge(row Row) (Verdict, float64) {
	ratio := map[Against]*float64{ToRiver: row.RatioRiver, ToFloor: row.RatioFloor, ToSelf: row.RatioSelf}[t.Against]
	switch {
	case ratio == nil:
		return NotMeasured, 0
	case t.AtLeast > 0 && *ratio < t.AtLeast, t.AtMost > 0 && *ratio > t.AtMost:
		return Missed, *ratio
	default:
		return Met, *ratio
	}
}
