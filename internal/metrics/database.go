package metrics

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Source reads the database.
type Source interface {
	Gauges(ctx context.Context, query reader.GaugeQuery) (reader.Gauges, error)
}

// DatabaseConfig configures the readings of the database.
type DatabaseConfig struct {
	Every     time.Duration // between readings, at least 10 ms; 0 is 5 s
	Timeout   time.Duration // of one reading; 0 is 5 s
	SizeLimit int64         // bytes that the disk can hold; 0: not known
	Query     reader.GaugeQuery
}

// Database caches the last reading of the database. Run reads.
type Database struct {
	config DatabaseConfig
	source Source
	log    *slog.Logger
	begun  time.Time

	mu      sync.Mutex
	last    *reader.Gauges // nil: no reading has succeeded yet
	readAt  time.Time
	up      bool
	holders map[holder]time.Time // first seen
}

type holder struct{ holder, xid string }

// Database returns the metrics of the database.
func (s *Set) Database(config DatabaseConfig, source Source, log *slog.Logger) (*Database, error) {
	if config.Every == 0 {
		config.Every = 5 * time.Second
	}
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Second
	}
	if config.Every < 10*time.Millisecond || config.Every > 10*time.Minute {
		return nil, errors.New("the database must be read every 10 ms to 10 min")
	}
	if config.SizeLimit < 0 {
		return nil, errors.New("the limit of the database's size must not be negative")
	}
	d := &Database{config: config, source: source, log: log, begun: time.Now(), holders: make(map[holder]time.Time)}
	s.to.MustRegister(d)
	return d, nil
}

// Run reads until the context ends.
func (d *Database) Run(ctx context.Context) {
	tick := time.NewTicker(d.config.Every)
	defer tick.Stop()
	for {
		d.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read caches one reading. A failed reading changes only up.
func (d *Database) read(ctx context.Context) {
	one, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	g, err := d.source.Gauges(one, d.config.Query)
	if ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if d.up || d.last == nil {
			d.log.WarnContext(ctx, "the database can't be read for metrics; gauges keep their values", "error", err)
		}
		d.up = false
		return
	}
	d.up, d.last, d.readAt = true, &g, time.Now()
	d.follow(g.Holders, d.readAt)
}

// follow records since when each holder of old rows has existed: the server shows a plain role the
// age of a snapshot in transactions, but not in time.
func (d *Database) follow(now []reader.Holder, at time.Time) {
	seen := make(map[holder]time.Time, len(now))
	for _, each := range now {
		key := holder{each.Holder, each.XID}
		since := at.Add(-each.Known)
		if before, ok := d.holders[key]; ok && before.Before(since) {
			since = before
		}
		seen[key] = since
	}
	d.holders = seen
}

// oldestHolder returns how long vacuum has been held back.
func (d *Database) oldestHolder() time.Duration {
	var oldest time.Duration
	for _, since := range d.holders {
		oldest = max(oldest, d.readAt.Sub(since))
	}
	return oldest
}

var (
	depth        = desc("outbox_pending_depth", "Instructions that wait in pending.", "rail")
	railRelayers = desc("railhead_rail_relayers", "Running relayers that serve the rail by the profile in force.", "rail")
	oldestDue    = desc("oldest_pending_age_seconds", "How long the longest due instruction has been due.", "rail")
	oldestFree   = desc("railhead_oldest_claimable_age_seconds",
		"How long the longest due instruction that is held by no pause of its participant and no blocked line has been due.",
		"rail")
	letters      = desc("dlq_depth", "Open dead letters.", "reason")
	stuck        = desc("stuck_dispatching_count", "Instructions claimed, unanswered, and older than the claim timeout.")
	unknown      = desc("railhead_unknown_open", "Instructions in pending with an unknown outcome.", "rail")
	orderBlocked = desc("railhead_order_blocked_heads",
		"Participants of a rail with strict order whose head waits for an operator.", "rail")
	orderBlockedAge = desc("railhead_order_blocked_age_seconds",
		"How long the longest blocked head of a rail with strict order has waited for an operator.", "rail")
	lettersOpened = desc("railhead_dead_letter_opened_timestamp_seconds",
		"When the youngest open dead letter was opened, by the database's clock in Unix time; 0: none is open.", "reason")
	railLetters = desc("railhead_dead_letters_open", "Open dead letters by rail.", "rail", "reason")
	conflicts   = desc("railhead_conflicts_open", "Open contradictions between the record and a rail.")
	paused      = desc("railhead_rail_paused", "Whether the rail is paused, and by whom.", "rail", "by")
	closedGates = desc("railhead_enqueue_closed",
		"Gates that are closed: new instructions of so many rails, participants or of everything are refused.", "scope")
	components = desc("railhead_components", "Running components by the age of their heartbeat.", "kind", "status")
	heartbeat  = desc("railhead_component_heartbeat_age_seconds",
		"Age of the youngest heartbeat of a running component.", "kind")
	deadTuples   = desc("railhead_pending_dead_tuples", "Dead rows of pending that vacuum has not removed.")
	oldestHolder = desc("railhead_oldest_transaction_age_seconds", "How long vacuum has been held back.")
	monthsAhead  = desc("railhead_partition_months_ahead", "Months after this one that have a partition.")
	defaultRows  = desc("railhead_partition_default_rows", "Estimate of the rows in the archive's DEFAULT partition.")
	size         = desc("railhead_database_size_bytes", "Size of the database.")
	sizeLimit    = desc("railhead_database_size_limit_bytes",
		"Size that the disk can hold, as configured; 0 if it is not.")
	expiring = desc("railhead_expiring_soon",
		"Instructions that have been in pending for half a minute and expire within 15 minutes.")
	suspended   = desc("railhead_suspension_open", "Whether a suspension is open.")
	unconfirmed = desc("railhead_map_unconfirmed",
		"Whether the cell takes no instruction, because its map was not compared since its server was started or promoted, "+
			"or a dump was loaded into it.")
	untaken = desc("railhead_buckets_untaken",
		"Buckets whose participants this cell should take, and does not: they are being moved, have not arrived, or maps "+
			"contradict each other about them.")
	eventsHeld = desc("railhead_events_held_seconds",
		"Age of the oldest row that callers are not told of yet, because an older transaction is under way.")
	wraparound = desc("railhead_wraparound_ratio",
		"Share of the server's ids that has passed since the oldest one not frozen; just before 1 it refuses writes.", "ids")
	clockOffset = desc("railhead_clock_offset_seconds", "The database's clock minus this host's.")
	up          = desc("railhead_database_up", "Whether the last reading of the database worked.")
	statsAge    = desc("railhead_database_stats_age_seconds", "Time since the last reading of the database that worked.")
)

// Describe implements prometheus.Collector.
func (d *Database) Describe(ch chan<- *prometheus.Desc) {
	for _, each := range []*prometheus.Desc{
		depth, railRelayers, oldestDue, oldestFree, letters, lettersOpened, stuck, unknown, orderBlocked, orderBlockedAge,
		railLetters, conflicts, paused, closedGates, components, heartbeat, deadTuples,
		oldestHolder, monthsAhead, defaultRows, size, sizeLimit, expiring, suspended, unconfirmed, untaken, eventsHeld,
		wraparound, clockOffset, up, statsAge,
	} {
		ch <- each
	}
}

// Collect implements prometheus.Collector with the last reading.
func (d *Database) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	g, readAt, isUp, held := d.last, d.readAt, d.up, d.oldestHolder()
	d.mu.Unlock()
	gauge(ch, up, flag(isUp))
	gauge(ch, sizeLimit, float64(d.config.SizeLimit))
	if g == nil {
		gauge(ch, statsAge, time.Since(d.begun).Seconds())
		return
	}
	gauge(ch, statsAge, time.Since(readAt).Seconds())
	gauge(ch, clockOffset, g.ClockOffset.Seconds())
	gauge(ch, stuck, float64(g.Stuck))
	gauge(ch, expiring, float64(g.ExpiringSoon))
	gauge(ch, suspended, flag(g.Suspended))
	gauge(ch, unconfirmed, flag(g.Unconfirmed))
	gauge(ch, untaken, float64(g.Untaken))
	gauge(ch, eventsHeld, g.EventsHeld.Seconds())
	gauge(ch, wraparound, g.Wraparound.Transactions, "transaction")
	gauge(ch, wraparound, g.Wraparound.Multixacts, "multixact")
	gauge(ch, deadTuples, float64(g.PendingDeadTuples))
	gauge(ch, oldestHolder, held.Seconds())
	gauge(ch, monthsAhead, float64(g.MonthsAhead))
	gauge(ch, defaultRows, float64(g.DefaultRows))
	gauge(ch, size, float64(g.DatabaseBytes))
	collectRails(ch, g.Rails)
	for _, scope := range reader.GateScopes() {
		gauge(ch, closedGates, float64(g.ClosedGates[scope]), string(scope))
	}
	collectLetters(ch, g)
	collectComponents(ch, g.Components)
}

func collectRails(ch chan<- prometheus.Metric, all []reader.RailGauges) {
	for _, rail := range boundRails(all) {
		gauge(ch, paused, flag(rail.Paused && !rail.PausedByItself), rail.RailType, "person")
		gauge(ch, paused, flag(rail.PausedByItself), rail.RailType, "itself")
		if rail.RailType == everyRail {
			continue
		}
		gauge(ch, depth, float64(rail.Depth), rail.RailType)
		gauge(ch, railRelayers, float64(rail.Relayers), rail.RailType)
		gauge(ch, oldestDue, rail.OldestDue.Seconds(), rail.RailType)
		gauge(ch, oldestFree, rail.OldestFree.Seconds(), rail.RailType)
		gauge(ch, unknown, float64(rail.Unknown), rail.RailType)
		gauge(ch, orderBlocked, float64(rail.OrderBlocked), rail.RailType)
		gauge(ch, orderBlockedAge, rail.OrderBlockedFor.Seconds(), rail.RailType)
	}
}

// boundRails adds up the rails beyond the bound. Of relayers and ages the worst one counts: the fewest, the highest.
func boundRails(all []reader.RailGauges) []reader.RailGauges {
	var bounded []reader.RailGauges
	var rest *reader.RailGauges
	for _, rail := range all {
		if rail.RailType == everyRail || len(bounded) < railsMax && rail.RailType != otherRail &&
			railShape.MatchString(rail.RailType) {
			bounded = append(bounded, rail)
			continue
		}
		if rest == nil {
			rest = &reader.RailGauges{RailType: otherRail, Relayers: rail.Relayers}
		}
		rest.Relayers = min(rest.Relayers, rail.Relayers)
		rest.Depth += rail.Depth
		rest.Unknown += rail.Unknown
		rest.OrderBlocked += rail.OrderBlocked
		rest.OrderBlockedFor = max(rest.OrderBlockedFor, rail.OrderBlockedFor)
		rest.OldestDue = max(rest.OldestDue, rail.OldestDue)
		rest.OldestFree = max(rest.OldestFree, rail.OldestFree)
		rest.Paused = rest.Paused || rail.Paused
		rest.PausedByItself = rest.PausedByItself || rail.PausedByItself
	}
	if rest != nil {
		bounded = append(bounded, *rest)
	}
	return bounded
}

func collectLetters(ch chan<- prometheus.Metric, g *reader.Gauges) {
	type key struct {
		rail   string
		reason payment.DeadReason
	}
	known := make(map[string]bool)
	byRail := make(map[key]int64)
	for _, rail := range boundRails(g.Rails) {
		if rail.RailType == everyRail {
			continue
		}
		known[rail.RailType] = true
		for _, reason := range payment.DeadReasons() {
			byRail[key{rail.RailType, reason}] = 0
		}
	}
	byReason, openedAt := make(map[payment.DeadReason]int64), make(map[payment.DeadReason]float64)
	for _, each := range g.Letters {
		byReason[each.Reason] += each.Open
		openedAt[each.Reason] = max(openedAt[each.Reason], float64(each.OpenedAt.UnixMilli())/1000)
		rail := each.RailType
		if !known[rail] {
			rail = otherRail
		}
		byRail[key{rail, each.Reason}] += each.Open
	}
	for _, reason := range payment.DeadReasons() {
		gauge(ch, letters, float64(byReason[reason]), string(reason))
		gauge(ch, lettersOpened, openedAt[reason], string(reason))
	}
	for at, open := range byRail {
		gauge(ch, railLetters, float64(open), at.rail, string(at.reason))
	}
	gauge(ch, conflicts, float64(byReason[payment.DeadConflict]))
}

func collectComponents(ch chan<- prometheus.Metric, all []reader.ComponentGauge) {
	for _, kind := range outbox.ComponentKinds() {
		youngest := math.Inf(1)
		counts := map[reader.Freshness]int64{reader.Fresh: 0, reader.Warning: 0, reader.Stale: 0}
		for _, each := range all {
			if each.Kind == kind {
				counts[each.Status] += each.Count
				youngest = min(youngest, each.Youngest.Seconds())
			}
		}
		for status, n := range counts {
			gauge(ch, components, float64(n), kind, string(status))
		}
		gauge(ch, heartbeat, youngest, kind)
	}
}
