package ha

import (
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/testbed/faults"
)

// TestChapter reads the page as the run does, without running it.
func TestChapter(t *testing.T) {
	t.Parallel()
	blocks, err := readPage("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var steps, services []string
	for _, b := range blocks {
		steps = append(steps, b.step)
		if b.verb == "service" && !slices.Contains(services, b.service) {
			services = append(services, b.service)
		}
	}
	if want := []string{"2", "3", "4", "5", "6", "7", "8"}; !slices.Equal(slices.Compact(steps), want) {
		t.Errorf("the steps with blocks are %q, want %q", steps, want)
	}
	if want := []string{"etcd", "patroni", "haproxy", "railhead"}; !slices.Equal(services, want) {
		t.Errorf("the services are %q, want %q", services, want)
	}
}

// TestGood holds every bound that a run may miss.
func TestGood(t *testing.T) {
	t.Parallel()
	well := func() Report {
		r := Report{Failovers: 2, Unavailable: []time.Duration{time.Second, UnavailableMax}}
		r.Hit = 1
		return r
	}
	if r := well(); !r.Good(2) {
		t.Errorf("%s is not good", r)
	}
	for name, spoil := range map[string]func(*Report){
		"a failover too few": func(r *Report) { r.Failovers = 1 },
		"too long without writes": func(r *Report) {
			r.Unavailable = append(r.Unavailable, UnavailableMax+time.Millisecond)
		},
		"no figure":     func(r *Report) { r.Unavailable = r.Unavailable[:1] },
		"lost":          func(r *Report) { r.Verdict.Lost = 1 },
		"doubled":       func(r *Report) { r.Verdict.Doubled = 1 },
		"false":         func(r *Report) { r.Verdict.FalseFailed = 1 },
		"a broken rule": func(r *Report) { r.Verdict.Broken = []string{"a rule"} },
		"an error":      func(r *Report) { r.Error = "an error" },
	} {
		r := well()
		spoil(&r)
		if r.Good(2) {
			t.Errorf("%s: %s is good", name, r)
		}
	}
}

// TestOptions holds the installation to times that a real one accepts.
func TestOptions(t *testing.T) {
	t.Parallel()
	o := Options{Seed: 1}.installation()
	if o.StartWithin+o.RecordWithin+o.Drain+o.Span(2100) >= o.ClaimTimeout {
		t.Errorf("the time budget of %s is used up", o)
	}
	for _, rail := range []string{faults.Keyed, faults.Bare} {
		if !slices.Contains(o.Rails, rail) {
			t.Errorf("no payment goes by the rail %s", rail)
		}
	}
}

// TestLongest counts the time in which an old primary went on as available, and not the
// time after it.
func TestLongest(t *testing.T) {
	t.Parallel()
	from := time.Now()
	at := func(seconds ...int) (all []time.Time) {
		for _, s := range seconds {
			all = append(all, from.Add(time.Duration(s)*time.Second))
		}
		return all
	}
	led := from.Add(20 * time.Second)
	for _, c := range []struct {
		acknowledged []time.Time
		want         time.Duration
		ok           bool
	}{
		{nil, 0, false}, {at(1, 5), 4 * time.Second, false}, {at(23), 23 * time.Second, true},
		{at(22, 6, 3), 16 * time.Second, true}, {at(1, 2, 24, 60), 22 * time.Second, true},
	} {
		if got, ok := longest(from, led, c.acknowledged); got != c.want || ok != c.ok {
			t.Errorf("longest of %v is %s, %t, want %s, %t", c.acknowledged, got, ok, c.want, c.ok)
		}
	}
}
