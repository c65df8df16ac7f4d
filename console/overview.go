package console

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// tile is a number of the first page, with the metric that has it and the runbook of its alert.
type tile struct {
	Name, Value, Note string
	Tone              explain.Tone
	Metric, Alert     string
	Link              string // to the payments that it counts; empty: none
}

// railRow is a rail on the first page.
type railRow struct {
	reader.RailStatus
	Calls, Slots int
	Breaker      string
	Tone         explain.Tone // of the breaker
	Pause        string       // why and by whom; empty: it runs
	Letters      int64

	// A plus after counts that ended at their bound: of waiting instructions, of those in flight, of
	// unknown outcomes and of dead letters.
	More, MoreInFlight, MoreUnknown, MoreLetters string
}

// overviewBody is the body of the first page.
type overviewBody struct {
	Tiles  []tile
	Rails  []railRow
	Groups []failureGroup
	More   bool // there are more dead letters
	Pauses []string
	// Expiring are the payments that expire soon; MoreExpiring says that there are more.
	Expiring     []reader.Expiring
	MoreExpiring bool
	Now          string
}

// overview shows the state of the cell.
func (c *Console) overview(w http.ResponseWriter, r *http.Request, _ Person) {
	seen := c.stateFor(w, r)
	if seen == nil {
		return
	}
	c.show(w, r, "overview.html", page{Title: "Overview", Body: bodyOf(seen)})
}

// stateFor returns the state of the cell that pages share. If it returns nil, it has answered that
// the state was not read yet.
func (c *Console) stateFor(w http.ResponseWriter, r *http.Request) *seen {
	seen := c.state.seen.Load()
	if seen == nil {
		c.fail(w, r, problem{http.StatusServiceUnavailable, "The state of the cell was not read yet",
			"The database does not answer, or the console has just started. Reload in a few seconds."})
	}
	return seen
}

// oldestDueMaxMS is the age from which on the oldest due payment is an alarm, as in the alerts.
const oldestDueMaxMS = 300_000

func bodyOf(s *seen) overviewBody {
	body := overviewBody{Groups: groupsOf(s.Groups, s.More, ""), More: s.More, Now: explain.Clock(s.Now),
		Expiring: s.Expiring, MoreExpiring: s.MoreExpiring}
	var waiting, due, unknown, inFlight, oldest int64
	var calls, slots, open int
	capped := false
	for _, rail := range s.Rails {
		row := railOf(rail, s)
		body.Rails = append(body.Rails, row)
		waiting, due, unknown = waiting+rail.Pending, due+rail.Due, unknown+rail.OutcomeUnknown
		inFlight, oldest = inFlight+rail.InFlight, max(oldest, rail.OldestDueMS)
		calls, slots, capped = calls+row.Calls, slots+row.Slots, capped || rail.Capped
		if row.Tone == explain.Alarm {
			open++
		}
		if rail.Pause != nil {
			body.Pauses = append(body.Pauses, explain.SayPause(*rail.Pause))
		}
	}
	if s.Everything != nil {
		body.Pauses = append([]string{explain.SayPause(*s.Everything)}, body.Pauses...)
	}
	for _, pause := range s.Participants {
		body.Pauses = append(body.Pauses, explain.SayPause(pause))
	}
	more := plus(capped)
	uncounted := plus(capped || s.IsCutShort(reader.PartInFlight) || s.IsCutShort(reader.PartDeadLetters))
	body.Tiles = []tile{
		{Name: "waiting", Value: count(waiting) + more, Note: count(due) + more + " due", Metric: "outbox_pending_depth",
			Alert: "RailheadOldestPendingTooOld", Link: "/payments?state=PENDING"},
		{Name: "oldest due", Value: age(oldest), Tone: toneIf(oldest > oldestDueMaxMS, explain.Alarm),
			Metric: "oldest_pending_age_seconds", Alert: "RailheadOldestPendingTooOld", Link: "/payments?state=PENDING"},
		throughput(s.Pace), latency(s.Pace),
		{Name: "in flight", Value: count(inFlight) + plus(s.IsCutShort(reader.PartInFlight)),
			Note:   fmt.Sprintf("%d calls of %d", calls, slots),
			Metric: "stuck_dispatching_count", Alert: "RailheadStuckDispatching"},
		{Name: "outcome unknown", Value: count(unknown) + uncounted, Tone: toneIf(unknown > 0, explain.Alarm),
			Metric: "railhead_unknown_open", Alert: "RailheadUnknownsGrowing", Link: "/payments?state=UNKNOWN"},
		{Name: "expire soon", Value: strconv.Itoa(len(s.Expiring)) + plus(s.MoreExpiring), Note: "within 15 minutes",
			Tone: toneIf(len(s.Expiring) > 0, explain.Alarm), Metric: "railhead_expiring_soon",
			Alert: "RailheadPaymentNearExpiry", Link: "#expiring"},
		{Name: "dead letters", Value: count(s.Letters()) + plus(s.More), Tone: toneIf(s.Letters() > 0, explain.Alarm),
			Metric: "dlq_depth", Alert: "RailheadDeadLettersGrowing", Link: "/dead-letters"},
		{Name: "breakers open", Value: strconv.Itoa(open), Tone: toneIf(open > 0, explain.Alarm),
			Metric: "railhead_rail_breaker_state", Alert: "RailheadBreakerOpen", Link: "#rails"},
		{Name: "paused", Value: strconv.Itoa(len(body.Pauses)), Tone: toneIf(len(body.Pauses) > 0, explain.Warn),
			Metric: "railhead_rail_paused", Alert: "RailheadRailPausedItself", Link: "#pauses"},
		componentsTile(s.Heartbeats),
	}
	return body
}

// railOf adds up the lanes of a rail. Its breaker is the worst one of its relayers'.
func railOf(rail reader.RailStatus, s *seen) railRow {
	flights, letters := s.IsCutShort(reader.PartInFlight), s.IsCutShort(reader.PartDeadLetters)
	row := railRow{
		RailStatus: rail, Breaker: "-", More: plus(rail.Capped), MoreInFlight: plus(flights), MoreLetters: plus(letters),
		MoreUnknown: plus(rail.Capped || flights || letters),
	}
	rank := map[string]int{"-": 0, "CLOSED": 1, "HALF_OPEN": 2, "OPEN": 3}
	for _, lane := range rail.Lanes {
		row.Calls, row.Slots = row.Calls+lane.Calls, row.Slots+lane.Slots
		if rank[lane.Breaker] > rank[row.Breaker] {
			row.Breaker = lane.Breaker
		}
	}
	row.Tone = toneOfBreaker(row.Breaker)
	for _, letters := range rail.DeadLetters {
		row.Letters += letters.Open
	}
	switch {
	case rail.Pause != nil:
		row.Pause = explain.SayPause(*rail.Pause)
	case s.Everything != nil:
		row.Pause = explain.SayPause(*s.Everything)
	}
	return row
}

// throughput is what was dispatched per second.
func throughput(pace *reader.Pace) tile {
	one := tile{
		Name: "dispatched per second", Value: "-", Note: notRead, Metric: "attempts_total",
		Alert: "RailheadDispatchSuccessBudgetBurn", Link: "/payments?state=DISPATCHED",
	}
	if pace != nil {
		lastMinute, all := pace.PerSecond()
		span := pace.Now.Sub(pace.Since)
		one.Value = rate(lastMinute)
		one.Note = fmt.Sprintf("in the last %s; %s in the last %s", explain.Span(min(span, time.Minute)), rate(all),
			explain.Span(span))
	}
	return one
}

// latency is how long payments took from the enqueue, or from not_before.
func latency(pace *reader.Pace) tile {
	one := tile{
		Name: "enqueue to dispatched, p50", Value: "-", Note: notRead, Metric: "dispatch_latency_ms",
		Alert: "RailheadDispatchLatencyBudgetBurn",
	}
	switch {
	case pace == nil:
	case pace.Measured == 0:
		one.Note = "no rail took a payment in the last " + explain.Span(pace.Now.Sub(pace.Since))
	default:
		one.Value = explain.Span(pace.P50)
		one.Note = fmt.Sprintf("p95 %s, p99 %s of the last %d; the metric begins with the claim", explain.Span(pace.P95),
			explain.Span(pace.P99), pace.Measured)
	}
	return one
}

// notRead is the note of a tile without its number.
const notRead = "it could not be read"

// rate is a number per second.
func rate(perSecond float64) string {
	if perSecond >= 10 || perSecond == 0 {
		return strconv.FormatFloat(perSecond, 'f', 0, 64)
	}
	return strconv.FormatFloat(perSecond, 'f', 2, 64)
}

// toneOfBreaker returns the tone of the state of a breaker.
func toneOfBreaker(state string) explain.Tone {
	return map[string]explain.Tone{"CLOSED": explain.Good, "HALF_OPEN": explain.Warn, "OPEN": explain.Alarm}[state]
}

// componentsTile counts those whose heartbeat is old.
func componentsTile(beats []reader.Beat) tile {
	var late []string
	running := 0
	for _, beat := range beats {
		switch beat.Freshness {
		case reader.Stale:
			late = append(late, beat.Kind)
		case reader.Fresh, reader.Warning:
			running++
		}
	}
	note := "no heartbeat is stale"
	switch {
	case len(late) == 0 && running == 0:
		note = "no component runs"
	case len(late) > 0:
		note = "stale: " + explain.Bounded(strings.Join(late, ", "), 60)
	}
	return tile{
		Name: "components", Value: strconv.Itoa(running), Note: note,
		Tone:   toneIf(len(late) > 0 || running == 0, explain.Alarm),
		Metric: "railhead_components", Alert: "RailheadComponentStale", Link: "/components",
	}
}

func toneIf(is bool, tone explain.Tone) explain.Tone {
	if is {
		return tone
	}
	return explain.Plain
}

// plus follows a number that may be higher, because the count ended at its bound.
func plus(more bool) string {
	if more {
		return "+"
	}
	return ""
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func age(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return explain.Span(explain.Millis(ms))
}
