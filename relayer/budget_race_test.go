package relayer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// longestCall is the longest call of the only rail in the race.
const longestCall = 10 * time.Second

// race is a cell, one sender and one reaper in virtual time, step by step. The reaper's rule is
// that of ledger/sql/stale_claims.sql, which TestStaleByTheLongerBudget compares with the rows.
type race struct {
	fault  string            // what must not be, and was
	cell   outbox.TimeBudget // the setting
	row    outbox.TimeBudget // what the sender's heartbeat says
	tickAt time.Time         // when it said so
	reaper outbox.TimeBudget // the setting as the reaper read it last
	sender *Relayer
	claims []*raceClaim
}

type raceClaim struct {
	begun   clock.Moment
	at      time.Time
	by      outbox.TimeBudget
	finish  time.Duration // the longest that recording an answer could take, until there was one
	started time.Time
	taken   bool
}

func drawBudget(t *rapid.T) outbox.TimeBudget {
	span := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(1, 40).Draw(t, name)) * time.Second
	}
	b := outbox.TimeBudget{
		StartWithin: span("start_within"), RecordWithin: span("record_within"), Drain: span("drain"),
		HeartbeatStale: span("heartbeat_stale"),
	}
	b.ClaimTimeout = b.StartWithin + longestCall + b.RecordWithin + b.Drain + span("claim timeout beyond that")
	if err := b.Holds(longestCall); err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *race) set(next outbox.TimeBudget) {
	next.Version = r.cell.Version + 1
	r.cell = next
}

// beat is sendBeat with a heartbeat statement.
func (r *race) beat() {
	at := clock.Now()
	r.row, r.tickAt = r.sender.budget.reported().Longest(r.cell), time.Now()
	r.sender.beatAt.Store(&at)
	r.sender.budget.offer(r.cell)
}

func (r *race) adopt() {
	r.sender.budget.putInForce(r.sender.budget.next())
}

// finishing records in every claim how long its outcome may take to be recorded, if the sender is
// stopped now.
func (r *race) finishing() {
	now := r.sender.budget.finishing()
	for _, c := range r.claims {
		if c.started.IsZero() || time.Since(c.started) < longestCall+now.record {
			c.finish = max(c.finish, now.record+now.drain)
		}
	}
}

func (r *race) claim() {
	r.claims = append(r.claims, &raceClaim{begun: clock.Now(), at: time.Now(), by: r.sender.budget.current()})
}

// start makes the last check, and sends what may be sent.
func (r *race) start() {
	for _, c := range r.claims {
		if !c.started.IsZero() || r.sender.preflight(rails.Profile{}, payment.Claim{}, c.begun, c.by) != nil {
			continue
		}
		if c.taken {
			r.fault = fmt.Sprintf("a claim is sent %s after it was made, and the reaper has taken it", time.Since(c.at))
		}
		c.started = time.Now()
	}
}

// reap takes what is due, by the setting that the reaper has read some time ago.
func (r *race) reap() {
	w := r.row.Longest(r.reaper)
	for _, c := range r.claims {
		age := time.Since(c.at)
		alive := time.Since(r.tickAt) < w.HeartbeatStale
		if c.taken || age < w.StartWithin+longestCall || age < w.ClaimTimeout && alive {
			continue
		}
		c.taken = true
		over := longestCall
		if alive {
			over += c.finish
		}
		if !c.started.IsZero() && time.Since(c.started) < over {
			r.fault = fmt.Sprintf("the reaper takes a claim %s old that was sent %s ago and may be on its way, or to be "+
				"recorded, for %s", age, time.Since(c.started), over)
		}
	}
}

// TestBudgetRace changes the time budget of the cell up and down repeatedly, while a sender claims,
// beats, adopts and sends in any order and with any pause between two of these (it may stall), and
// a reaper repairs by a setting that it may have read long ago. No claim is sent that the reaper
// has taken, and none is taken whose call is under way, or whose worker is alive and has time left
// to record. The absence of some guards shows in one history of a few hundred: a single series of a
// hundred would miss it from time to time.
func TestBudgetRace(t *testing.T) {
	t.Parallel()
	history := func(rt *rapid.T) {
		first := drawBudget(rt)
		var steps []func(*race)
		for range rapid.IntRange(10, 600).Draw(rt, "steps") {
			steps = append(steps, drawStep(rt))
		}
		r := &race{sender: &Relayer{}}
		synctest.Test(t, func(*testing.T) {
			r.set(first)
			r.reaper = r.cell
			r.beat()
			r.adopt()
			for _, step := range steps {
				step(r)
				if r.finishing(); r.fault != "" {
					return
				}
			}
		})
		if r.fault != "" {
			rt.Fatal(r.fault)
		}
	}
	for range 12 {
		rapid.Check(t, history)
	}
}

func drawStep(t *rapid.T) func(*race) {
	switch rapid.SampledFrom([]string{"set", "beat", "adopt", "claim", "start", "reap", "reap", "the reaper reads",
		"later", "later"}).Draw(t, "step") {
	case "set":
		next := drawBudget(t)
		return func(r *race) { r.set(next) }
	case "beat":
		return (*race).beat
	case "adopt":
		return (*race).adopt
	case "claim":
		return (*race).claim
	case "start":
		return (*race).start
	case "reap":
		return (*race).reap
	case "the reaper reads":
		return func(r *race) { r.reaper = r.cell }
	default:
		wait := time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second
		return func(*race) { time.Sleep(wait) }
	}
}

// TestShorterBudgetIsSaidLater tests that a sender acknowledges a shorter budget when no earlier
// claim can be open, and reports a longer one with the next heartbeat.
func TestShorterBudgetIsSaidLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		long := outbox.DefaultTimeBudget()
		short := outbox.TimeBudget{
			Version: 2, ClaimTimeout: time.Minute, StartWithin: time.Second, RecordWithin: time.Second, Drain: time.Second,
			HeartbeatStale: 3 * time.Second,
		}
		var b budget
		take := func(next outbox.TimeBudget) {
			if !b.offer(next) {
				t.Errorf("version %d is nothing new", next.Version)
			}
			b.putInForce(next)
			if b.offer(next) {
				t.Errorf("version %d is new again", next.Version)
			}
		}
		says := func(what string, want outbox.TimeBudget) {
			t.Helper()
			if said := b.reported(); said != want {
				t.Errorf("%s: says %+v, want %+v", what, said, want)
			}
		}
		take(long)
		says("the first", long)
		take(short)
		if b.current() != short {
			t.Errorf("in force is %+v", b.current())
		}
		says("shorter, at once", long)
		time.Sleep(long.ClaimTimeout)
		says("as long as a claim may be open", long)
		time.Sleep(time.Nanosecond)
		says("after that", short)
		long.Version = 3
		take(long)
		said := long
		said.Version = 2
		says("longer, at once", said)
		if got := b.finishing(); got != (finish{time.Second, time.Second}) {
			t.Errorf("answers are recorded within %v, want what holds for every open claim", got)
		}
		time.Sleep(short.ClaimTimeout + 1)
		says("longer, acknowledged", long)
	})
}

// TestLongerBudgetIsNotForOldClaims tests that a claim is sent by the shorter start_within of the
// budget that it was made by and the present one.
func TestLongerBudgetIsNotForOldClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		short, long := outbox.DefaultTimeBudget(), outbox.DefaultTimeBudget()
		long.Version, long.StartWithin = 2, time.Minute
		for name, c := range map[string]struct {
			by, now outbox.TimeBudget
			starts  bool
		}{
			"made by the longer, still in force":       {long, long, true},
			"made by the shorter, the longer came":     {short, long, false},
			"made by the longer, the shorter came":     {long, short, false},
			"made by the shorter, which is still that": {short, short, false},
		} {
			r := &Relayer{}
			r.budget.offer(c.now)
			r.budget.putInForce(c.now)
			begun := clock.Now()
			time.Sleep(short.StartWithin + time.Second)
			r.beatAt.Store(new(clock.Now()))
			if err := r.preflight(rails.Profile{}, payment.Claim{}, begun, c.by); (err == nil) != c.starts {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
