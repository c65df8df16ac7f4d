package figures

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := Median(c.in); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.in, got, c.want)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v, want NaN", got)
	}
	in := []float64{3, 1, 2}
	Median(in)
	if in[0] != 3 {
		t.Error("median sorted its argument: the order of the rounds is lost")
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct{ p, want float64 }{{50, 50}, {99, 99}, {100, 100}, {1, 1}, {0, 1}} {
		if got := Percentile(hundred, c.p); got != c.want {
			t.Errorf("p%v of 1 to 100 is %v, want %v", c.p, got, c.want)
		}
	}
	if got := Percentile([]float64{7}, 99); got != 7 {
		t.Errorf("p99 of one value is %v, want 7", got)
	}
}

func sample(system, mode string, round int, value float64) Sample {
	return Sample{System: system, Mode: mode, Unit: "1/s", Better: Higher, Round: round, Value: value}
}

// TestRatiosAreTakenWithinARound: the ratio is the median of the rounds' ratios. The ratio of the
// medians would be 3/2 here, and would compare rounds in which the machine was not the same.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	rows := Rows([]Sample{
		sample(River, "drain", 0, 1), sample("railhead", "drain", 0, 4),
		sample("railhead", "drain", 1, 3), sample(River, "drain", 1, 3),
		sample(River, "drain", 2, 2), sample("railhead", "drain", 2, 2),
	}, nil)
	if len(rows) != 2 {
		t.Fatalf("%d rows, want 2", len(rows))
	}
	mine := rows[1]
	if mine.System != "railhead" || mine.Median != 3 || mine.Min != 2 || mine.Max != 4 {
		t.Errorf("row is %+v", mine)
	}
	if mine.RatioRiver == nil || *mine.RatioRiver != 1 {
		t.Errorf("ratio to river is %v, want 1: the median of 4, 1 and 1", mine.RatioRiver)
	}
	if mine.RatioFloor != nil {
		t.Errorf("ratio to a floor that was not measured is %v, want none", *mine.RatioFloor)
	}
	if rows[0].RatioRiver != nil {
		t.Error("river is compared with itself")
	}
}

func TestRatioOfRoundsThatBothHave(t *testing.T) {
	rows := Rows([]Sample{
		sample("railhead", "e2e", 0, 10), sample("railhead", "e2e", 1, 20), sample(Floor, "e2e", 1, 40),
	}, nil)
	if got := rows[0].RatioFloor; got == nil || *got != 0.5 {
		t.Errorf("ratio is %v, want 0.5 of round 1 alone", got)
	}
}

func TestSelfRatioIsOfTheSameSystem(t *testing.T) {
	rows := Rows([]Sample{
		sample("railhead", "free", 0, 10), sample(Floor, "free", 0, 100),
		sample("railhead", "held", 0, 8), sample(Floor, "held", 0, 30),
	}, map[string]string{"held": "free"})
	for _, row := range rows {
		switch {
		case row.Mode == "free" && row.RatioSelf != nil:
			t.Errorf("%s free has a ratio to itself", row.System)
		case row.Mode == "held" && row.System == "railhead" && *row.RatioSelf != 0.8:
			t.Errorf("railhead held is %v of free, want 0.8", *row.RatioSelf)
		case row.Mode == "held" && row.System == Floor && *row.RatioSelf != 0.3:
			t.Errorf("floor held is %v of free, want 0.3", *row.RatioSelf)
		}
	}
}

func TestShort(t *testing.T) {
	for in, want := range map[float64]string{0.123: "0.12", 12.34: "12.3", 123.4: "123", 1234.5: "1,235",
		1234567: "1,234,567"} {
		if got := Short(in); got != want {
			t.Errorf("%v is written %q, want %q", in, got, want)
		}
	}
}
