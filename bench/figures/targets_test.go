package figures

import "testing"

func TestJudge(t *testing.T) {
	row := Row{RatioRiver: new(1.5), RatioFloor: new(0.5)}
	for _, c := range []struct {
		target Target
		want   Verdict
	}{
		{Target{Against: ToRiver, AtLeast: 1.5}, Met},
		{Target{Against: ToRiver, AtLeast: 1.51}, Missed},
		{Target{Against: ToFloor, AtMost: 0.5}, Met},
		{Target{Against: ToFloor, AtMost: 0.49}, Missed},
		{Target{Against: ToSelf, AtLeast: 0.1}, NotMeasured},
	} {
		if got, _ := c.target.Judge(row); got != c.want {
			t.Errorf("%s: %s, want %s", c.target, got, c.want)
		}
	}
}
