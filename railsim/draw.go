package railsim

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// subject is what a fault rule is matched against and drawn by.
type subject struct {
	key, reference, creditor string
	nth                      int64 // which send (or inquiry, or connection) of this key it is, from 1
	arrival                  int64 // running number over all
	replay                   bool  // the key is already known
}

// RuleState is a rule with its counters, as GET /admin/faults shows it.
type RuleState struct {
	Fault
	// Matched counts the events that the rule was drawn for; Injected those that it hit.
	Matched  int64 `json:"matched"`
	Injected int64 `json:"injected"`
}

// UnmarshalJSON reads what GET /admin/faults shows. Without it the rule's own would be promoted and drop the counters.
func (r *RuleState) UnmarshalJSON(data []byte) error {
	if err := r.Fault.UnmarshalJSON(data); err != nil {
		return err
	}
	var counters struct{ Matched, Injected int64 }
	if err := json.Unmarshal(data, &counters); err != nil {
		return err
	}
	r.Matched, r.Injected = counters.Matched, counters.Injected
	return nil
}

// FaultState is the answer of GET /admin/faults.
type FaultState struct {
	Seed  uint64      `json:"seed"`
	Rules []RuleState `json:"rules"`
	// Totals counts injections by kind since the bank started; a change of rules does not reset it.
	Totals map[FaultKind]int64 `json:"totals"`
}

// faultTable holds the rules in force and counts what they did.
type faultTable struct {
	seed uint64
	draw Draw

	mu     sync.Mutex
	rules  []RuleState
	totals map[FaultKind]int64
}

func newFaultTable(seed uint64, draw Draw, rules []Fault) *faultTable {
	t := &faultTable{seed: seed, draw: draw, totals: map[FaultKind]int64{}}
	t.replace(rules)
	return t
}

func (t *faultTable) replace(rules []Fault) {
	states := make([]RuleState, len(rules))
	for i, f := range rules {
		states[i].Fault = f
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rules = states
}

func (t *faultTable) state() FaultState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := FaultState{Seed: t.seed, Rules: append([]RuleState{}, t.rules...), Totals: map[FaultKind]int64{}}
	maps.Copy(s.Totals, t.totals)
	return s
}

// hits are the rules that apply to one event: any number of delays and at most one other.
type hits []Fault

// apply draws the rules of one stage for one event and counts what hits.
func (t *faultTable) apply(at stage, on subject) hits {
	t.mu.Lock()
	defer t.mu.Unlock()
	var hit hits
	done := false
	for i := range t.rules {
		r := &t.rules[i]
		s, _ := shapeOf(r.Kind)
		if s.stage != at || (s.fresh && on.replay) || (done && !s.delay) || !r.Match.fits(on) {
			continue
		}
		r.Matched++
		if (r.Limit > 0 && r.Injected >= r.Limit) || t.chance(i, on) >= r.Probability {
			continue
		}
		r.Injected++
		t.totals[r.Kind]++
		hit = append(hit, r.Fault)
		done = done || !s.delay
	}
	return hit
}

func (m Match) fits(on subject) bool {
	return strings.HasPrefix(on.key, m.KeyPrefix) &&
		strings.HasPrefix(on.reference, m.ReferencePrefix) &&
		(m.Creditor == "" || m.Creditor == on.creditor) &&
		(m.Nth == 0 || m.Nth == on.nth)
}

// chance returns a number in [0, 1) that depends only on seed, rule and subject.
func (t *faultTable) chance(rule int, on subject) float64 {
	h := fnv.New64a()
	if t.draw == DrawByArrival {
		h.Write(strconv.AppendInt(nil, on.arrival, 10))
	} else {
		h.Write([]byte(on.key))
		h.Write([]byte{0})
		h.Write(strconv.AppendInt(nil, on.nth, 10))
	}
	h.Write([]byte{0, byte(rule), byte(rule >> 8)})
	return rand.New(rand.NewPCG(t.seed, h.Sum64())).Float64()
}

// total adds up the delays of one kind.
func (h hits) total(kind FaultKind) time.Duration {
	var sum time.Duration
	for _, f := range h {
		if f.Kind == kind {
			sum += f.delay()
		}
	}
	return sum
}

// other returns the hit that is not a delay; its Kind is empty if there is none.
func (h hits) other() Fault {
	for _, f := range h {
		if s, _ := shapeOf(f.Kind); !s.delay {
			return f
		}
	}
	return Fault{}
}

func (f Fault) delay() time.Duration { return time.Duration(f.DelayMS) * time.Millisecond }
