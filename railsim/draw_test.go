package railsim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// drawn lists which of n keys a rule of probability p hits.
func drawn(seed uint64, draw Draw, p float64, n int, backwards bool) map[string]bool {
	table := newFaultTable(seed, draw, []Fault{{Kind: DelayAfter, Probability: 0.5, DelayMS: 1},
		{Kind: DropAfter, Probability: p}})
	hit := map[string]bool{}
	for i := range n {
		if backwards {
			i = n - 1 - i
		}
		key := fmt.Sprintf("k%d", i)
		if table.apply(stagePayment, subject{key: key, nth: 1, arrival: int64(i + 1)}).other().Kind != "" {
			hit[key] = true
		}
	}
	return hit
}

func TestDrawsRepeat(t *testing.T) {
	for _, draw := range []Draw{DrawByKey, DrawByArrival} {
		a := drawn(1, draw, 0.3, 1000, false)
		if !reflect.DeepEqual(a, drawn(1, draw, 0.3, 1000, true)) {
			t.Errorf("%s: the same seed hits others in another order", draw)
		}
		if reflect.DeepEqual(a, drawn(2, draw, 0.3, 1000, false)) {
			t.Errorf("%s: another seed hits the same", draw)
		}
		if len(a) < 250 || len(a) > 350 {
			t.Errorf("%s: probability 0.3 hits %d of 1000", draw, len(a))
		}
		if n := len(drawn(1, draw, 0, 1000, false)); n != 0 {
			t.Errorf("%s: probability 0 hits %d", draw, n)
		}
		if n := len(drawn(1, draw, 1, 1000, false)); n != 1000 {
			t.Errorf("%s: probability 1 hits %d of 1000", draw, n)
		}
	}
}

func TestMatch(t *testing.T) {
	on := subject{key: "key-1", reference: "ref-1", creditor: "B", nth: 2}
	for _, c := range []struct {
		match Match
		want  bool
	}{
		{Match{}, true},
		{Match{KeyPrefix: "key-", ReferencePrefix: "ref-", Creditor: "B", Nth: 2}, true},
		{Match{KeyPrefix: "ref-"}, false},
		{Match{ReferencePrefix: "key-"}, false},
		{Match{Creditor: "BB"}, false},
		{Match{Nth: 1}, false},
	} {
		if got := c.match.fits(on); got != c.want {
			t.Errorf("%+v: %v", c.match, got)
		}
	}
}

// Delays add up and let the first other rule through; the rules after that one are not drawn.
func TestRulesCombine(t *testing.T) {
	table := newFaultTable(0, DrawByKey, []Fault{
		{Kind: DelayAfter, Probability: 1, DelayMS: 5},
		{Kind: Refuse, Probability: 1, Limit: 1},
		{Kind: DropAfter, Probability: 1},
		{Kind: DelayAfter, Probability: 1, DelayMS: 6},
	})
	first := table.apply(stagePayment, subject{key: "a", nth: 1})
	if first.other().Kind != Refuse || first.total(DelayAfter).Milliseconds() != 11 {
		t.Errorf("first %+v", first)
	}
	if second := table.apply(stagePayment, subject{key: "a", nth: 2}); second.other().Kind != DropAfter {
		t.Errorf("second %+v", second)
	}
	// A replay is not refused any more, so its rule is not even drawn.
	table.replace([]Fault{{Kind: Refuse, Probability: 1}, {Kind: DropAfter, Probability: 1}})
	if third := table.apply(stagePayment, subject{key: "a", nth: 3, replay: true}); third.other().Kind != DropAfter {
		t.Errorf("third %+v", third)
	}
	s := table.state()
	if s.Totals[DelayAfter] != 4 || s.Totals[Refuse] != 1 || s.Totals[DropAfter] != 2 || s.Rules[0].Matched != 0 {
		t.Errorf("state %+v", s)
	}
}

func TestFaultStateSurvivesJSON(t *testing.T) {
	table := newFaultTable(3, DrawByKey, []Fault{{Kind: StatusBefore, Probability: 0.25, Match: Match{Nth: 1}, Status: 503,
		RetryAfterS: 2}})
	table.apply(stagePayment, subject{nth: 1})
	data, err := json.Marshal(table.state())
	if err != nil {
		t.Fatal(err)
	}
	var back FaultState
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, table.state()) {
		t.Errorf("%+v became %+v", table.state(), back)
	}
}
