package reader

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Gauges is the state of a cell, for metrics that are read every few seconds. The cost does
// not depend on the size of the archive or on the number of pending instructions.
type Gauges struct {
	Now         time.Time     // database clock
	ClockOffset time.Duration // the database's clock minus this host's
	// Rails includes the row "*", whose only meaning is whether everything is paused.
	Rails      []RailGauges
	Letters    []LetterGauge
	Components []ComponentGauge
	Holders    []Holder
	// ClosedGates counts the closed gates; a scope without a closed gate is absent.
	ClosedGates map[GateScope]int64
	Stuck       int64 // claimed, unanswered, older than the claim timeout; at most StuckMax
	// ExpiringSoon are pending, certain, and expire within 15 minutes; at most DepthMax.
	ExpiringSoon      int64
	PendingDeadTuples int64
	DatabaseBytes     int64
	DefaultRows       int64 // estimate of the rows in the archive's DEFAULT partition
	Suspended         bool  // a suspension is open
	Unconfirmed       bool  // the cell takes no instruction: its map was not compared since the server was started
	Untaken           int64 // buckets whose participants the cell should take, and does not: see MapState
	// EventsHeld is the age of the oldest row that is not delivered yet, because a
	// transaction that began before it is in progress on the server; 0: there is none.
	EventsHeld  time.Duration
	MonthsAhead int // months after this one that have a partition, without a gap
	Wraparound  Wraparound
}

// Wraparound is how much of the ids that PostgreSQL can number has passed since the oldest ones that vacuum has not
// freed in some database of the server: from 0 to 1. Just before 1 the server refuses every statement that writes.
type Wraparound struct {
	Transactions float64
	Multixacts   float64
}

// RailGauges is the state of one rail.
type RailGauges struct {
	RailType       string
	Depth          int64 // pending instructions: exact up to DepthMax, above it an estimate
	Unknown        int64 // of them, those of unknown outcome; at most DepthMax
	OldestDue      time.Duration
	OldestFree     time.Duration // of those that no pause of their participant and no blocked line holds
	Paused         bool
	PausedByItself bool
	Relayers       int // running ones that serve it
	// OrderBlocked counts its lines of strict order whose head waits for an operator, at most DepthMax;
	// OrderBlockedFor is for how long the oldest of them has.
	OrderBlocked    int64
	OrderBlockedFor time.Duration
}

// LetterGauge counts the open dead letters of a rail and reason.
type LetterGauge struct {
	RailType string
	Reason   payment.DeadReason
	Open     int64
	OpenedAt time.Time // when the youngest of them was opened, by the database's clock
}

// ComponentGauge counts the components of a kind with the same freshness.
type ComponentGauge struct {
	Kind     string
	Status   Freshness
	Count    int64
	Youngest time.Duration // age of the youngest heartbeat among them
}

// Holder is a transaction, a slot or a standby that prevents VACUUM from removing dead rows.
// Known is for how long, as far as this role may see. The same Holder and XID in a later
// reading means that it still does.
type Holder struct {
	Holder, XID string
	Known       time.Duration
}

// GaugeQuery has the options of Gauges.
type GaugeQuery struct {
	Timeout time.Duration // of each statement; 0 is 2 s
	// OpenLetters is the most open dead letters of a reason that are counted, shared by the rails that have some; 0 is
	// OpenLettersMax. When the youngest was opened is read of every rail.
	OpenLetters int
}

// The maxima of the counts in Gauges.
const (
	DepthMax       = 10_000  // instructions of a rail
	OpenLettersMax = 100_000 // open dead letters of a reason, with 100 of each rail at least
	StuckMax       = 5_000   // members of old claims
)

const (
	gaugeRailsMax      = 1001
	gaugeLettersMax    = 6 * gaugeRailsMax // rails that have open dead letters of a reason
	gaugeComponentsMax = 10_000
	gaugeHoldersMax    = 50
	gaugeTimeout       = 2 * time.Second
)

// Gauges reads the gauges in one snapshot, by index and with bounded counts.
func (r *Reader) Gauges(ctx context.Context, query GaugeQuery) (Gauges, error) {
	g, err := r.clock(ctx)
	if err != nil {
		return Gauges{}, fmt.Errorf("reading the database's clock: %w", err)
	}
	timeout := query.Timeout
	if timeout == 0 {
		timeout = gaugeTimeout
	}
	openLetters := cmp.Or(query.OpenLetters, OpenLettersMax)
	reasons := make([]string, 0, 6)
	for _, reason := range payment.DeadReasons() {
		reasons = append(reasons, string(reason))
	}
	g.ClosedGates = make(map[GateScope]int64)
	var live int64
	var attempts, instructions []string // the bounds of their partitions
	err = r.readWithin(ctx, timeout, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["gauges_rails"], DepthMax, gaugeRailsMax).Query(store.Collect(&g.Rails, scanRailGauges))
		batch.Queue(r.db.SQL["gauges_letters"], reasons, openLetters, gaugeLettersMax).
			Query(store.Collect(&g.Letters, pgx.RowToStructByPos[LetterGauge]))
		batch.Queue(r.db.SQL["gauges_gates"]).Query(store.Each(func(row pgx.CollectableRow) error {
			var scope GateScope
			var closed int64
			err := row.Scan(&scope, &closed)
			g.ClosedGates[scope] = closed
			return err
		}))
		batch.Queue(r.db.SQL["gauges_components"], gaugeComponentsMax).
			Query(store.Collect(&g.Components, scanComponentGauge))
		batch.Queue(r.db.SQL["gauges_stuck"], StuckMax).
			QueryRow(func(row pgx.Row) error { return row.Scan(&g.Stuck) })
		batch.Queue(r.db.SQL["gauges_server"], DepthMax).QueryRow(func(row pgx.Row) error {
			var heldMS int64
			err := row.Scan(&g.Now, &g.DatabaseBytes, &live, &g.PendingDeadTuples, &g.ExpiringSoon, &g.DefaultRows,
				&g.Suspended, &g.Unconfirmed, &g.Untaken, &heldMS, &g.Wraparound.Transactions, &g.Wraparound.Multixacts,
				&attempts, &instructions)
			g.EventsHeld = max(time.Duration(heldMS)*time.Millisecond, 0)
			return err
		})
		batch.Queue(r.db.SQL["gauges_holders"], gaugeHoldersMax).Query(store.Collect(&g.Holders, scanHolder))
	})
	if err != nil {
		return Gauges{}, fmt.Errorf("reading gauges: %w", err)
	}
	estimateDepths(g.Rails, live)
	g.MonthsAhead = min(monthsAhead(attempts, g.Now), monthsAhead(instructions, g.Now))
	return g, nil
}

// clock reads both clocks. It assumes that the database's was read halfway between two
// readings of this host's.
func (r *Reader) clock(ctx context.Context) (Gauges, error) {
	conn, err := r.db.Pool.Acquire(ctx)
	if err != nil {
		return Gauges{}, err
	}
	defer conn.Release()
	var g Gauges
	before := time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&g.Now); err != nil {
		return Gauges{}, err
	}
	g.ClockOffset = g.Now.Sub(before.Add(time.Since(before) / 2).Round(0))
	return g, nil
}

// estimateDepths distributes the rows that the server's statistics have beyond the counts
// among the rails whose count reached DepthMax.
func estimateDepths(rails []RailGauges, live int64) {
	capped := int64(0)
	for _, rail := range rails {
		live -= rail.Depth
		if rail.Depth >= DepthMax {
			capped++
		}
	}
	for n := range rails {
		if rails[n].Depth >= DepthMax && live > 0 {
			rails[n].Depth += live / capped
		}
	}
}

var boundShape = regexp.MustCompile(`FROM \('([0-9a-f-]{36})'\) TO \('([0-9a-f-]{36})'\)`)

// monthsAhead counts the months after the one of now that have partitions. The bounds of
// a partition are the lowest UUIDv7 of a month.
func monthsAhead(bounds []string, now time.Time) int {
	type span struct{ from, to time.Time }
	var spans []span
	for _, bound := range bounds {
		if parts := boundShape.FindStringSubmatch(bound); parts != nil {
			spans = append(spans, span{uuidTime(parts[1]), uuidTime(parts[2])})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	now = now.UTC()
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	until := month
	for _, each := range spans {
		if !each.from.After(until) && each.to.After(until) {
			until = each.to
		}
	}
	return max((until.Year()-month.Year())*12+int(until.Month()-month.Month())-1, 0)
}

// uuidTime returns the time of a UUIDv7.
func uuidTime(text string) time.Time {
	var millis [8]byte
	if _, err := hex.Decode(millis[2:], []byte(strings.ReplaceAll(text, "-", "")[:12])); err != nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(millis[:]))).UTC()
}

func scanRailGauges(row pgx.CollectableRow) (RailGauges, error) {
	var g RailGauges
	var oldestMS, freeMS, blockedMS int64
	err := row.Scan(&g.RailType, &g.Paused, &g.PausedByItself, &g.Depth, &g.Unknown, &oldestMS, &freeMS, &g.Relayers,
		&g.OrderBlocked, &blockedMS)
	g.OldestFree = time.Duration(freeMS) * time.Millisecond
	g.OldestDue = time.Duration(oldestMS) * time.Millisecond
	g.OrderBlockedFor = time.Duration(blockedMS) * time.Millisecond
	return g, err
}

func scanComponentGauge(row pgx.CollectableRow) (ComponentGauge, error) {
	var g ComponentGauge
	var youngestMS int64
	err := row.Scan(&g.Kind, &g.Status, &g.Count, &youngestMS)
	g.Youngest = time.Duration(youngestMS) * time.Millisecond
	return g, err
}

func scanHolder(row pgx.CollectableRow) (Holder, error) {
	var h Holder
	var knownMS int64
	err := row.Scan(&h.Holder, &h.XID, &knownMS)
	h.Known = time.Duration(knownMS) * time.Millisecond
	return h, err
}
