package reader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/payment"
)

// Status is the state of a cell, in one snapshot.
type Status struct {
	Now        time.Time    `json:"now"`        // database clock
	Everything *Pause       `json:"everything"` // nil: not everything is paused
	Rails      []RailStatus `json:"rails"`
	// Participants are the pauses of participants, the latest first.
	Participants []Pause `json:"paused_participants"`
	// ClosedGates are the closed gates, the latest first.
	ClosedGates []ClosedGate `json:"closed_gates"`
	Heartbeats  []Beat       `json:"heartbeats"`
	// CutShort has the parts of which there is more than is listed or counted here.
	CutShort []Part `json:"cut_short"`
}

// Part is a part of a Status that has a bound.
type Part string

// The parts and their bounds: how many are listed or counted.
const (
	PartRails        Part = "rails"               // 1,000
	PartInFlight     Part = "in_flight"           // 20,000 claimed instructions, the oldest first
	PartDeadLetters  Part = "dead_letters"        // CountMax, shared by the rails and reasons that have some
	PartParticipants Part = "paused_participants" // 100
	PartGates        Part = "closed_gates"        // 100
	PartLanes        Part = "lanes"               // 1,000
	PartHeartbeats   Part = "heartbeats"          // 200
)

// IsCutShort reports whether there is more of a part than the status has.
func (s Status) IsCutShort(part Part) bool { return slices.Contains(s.CutShort, part) }

// RailStatus is the state of one rail. It counts at most CountMax waiting instructions: then
// Capped is set, and the true numbers are at least those.
type RailStatus struct {
	RailType       string `json:"rail_type"`
	ProfileVersion int    `json:"profile_version"`
	Pending        int64  `json:"pending"`
	Due            int64  `json:"due"`
	OldestDueMS    int64  `json:"oldest_due_ms"` // for how long the oldest due one has been due; 0: none is due
	Capped         bool   `json:"capped"`
	InFlight       int64  `json:"in_flight"`
	OldestClaimMS  int64  `json:"oldest_claim_ms"` // 0: none is in flight
	// OutcomeUnknown counts the instructions with a send that has no trustworthy
	// answer: waiting, in flight, and in open dead letters of that reason.
	OutcomeUnknown int64         `json:"outcome_unknown"`
	DeadLetters    []LetterCount `json:"dead_letters"`
	Pause          *Pause        `json:"paused"` // of the rail itself
	// OrderBlocked are the heads of lines that wait for an operator; nil: there is none.
	OrderBlocked *BlockedHeads `json:"order_blocked,omitempty"`
	// Lanes are the running relayers that serve the rail. NotClaimed is why none of them can
	// claim at the moment.
	Lanes      []Lane   `json:"lanes"`
	NotClaimed []string `json:"not_claimed,omitempty"`
}

// LetterCount counts the open dead letters of one reason.
type LetterCount struct {
	Reason   payment.DeadReason `json:"reason"`
	Open     int64              `json:"open"`
	OldestMS int64              `json:"oldest_ms"`
	asked    int64              // of them, those that wait in pending for a requested inquiry
}

// Beat is the last heartbeat of a component.
type Beat struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`
	Host      string    `json:"host"`
	Version   string    `json:"version"`
	Status    string    `json:"status"`
	Activity  string    `json:"activity"`
	StartedAt time.Time `json:"started_at"`
	AgeMS     int64     `json:"age_ms"`
	// ClockOffsetMS is the database's clock minus the host's, at the last heartbeat.
	ClockOffsetMS int64 `json:"clock_offset_ms"`
	// StaleAfterMS is the age of its heartbeat from which it counts as dead.
	StaleAfterMS int64 `json:"stale_after_ms"`
	// BudgetVersion is the oldest time budget under which claims of it may still be open.
	BudgetVersion int       `json:"budget_version"`
	Freshness     Freshness `json:"freshness"`
}

// Freshness classifies the age of a heartbeat.
type Freshness string

// The classes. A stale component no longer sends, and the reaper may take its claims.
const (
	Fresh   Freshness = "fresh"   // up to half of the time after which it is stale
	Warning Freshness = "warning" // older than that
	Stale   Freshness = "stale"
	Stopped Freshness = "stopped" // its last heartbeat reported that it stopped
)

// FreshnessOf classifies an age; staleAfter is the heartbeat_stale setting of the component.
func FreshnessOf(status string, age, staleAfter time.Duration) Freshness {
	switch {
	case status == "stopped":
		return Stopped
	case age >= staleAfter:
		return Stale
	case age >= staleAfter/2:
		return Warning
	default:
		return Fresh
	}
}

// CountMax is the maximum of the counts of a Status: so many are read within StatementTimeout.
const CountMax = 100_000

const (
	railsMax        = 1001 // including "*", for everything
	membersMax      = 20_000
	participantsMax = 100
	statusGatesMax  = 100
	beatsMax        = 200
	lettersPairsMax = 6 * railsMax // rails and reasons that have open dead letters
)

// atMost cuts a list of which one more than its bound was read.
func atMost[T any](s *Status, part Part, list *[]T, most int) {
	if len(*list) > most {
		*list = (*list)[:most]
		s.CutShort = append(s.CutShort, part)
	}
}

// Status reads the state of the cell: up to CountMax rows of pending for each rail, claims
// in flight, open dead letters and heartbeats. It never reads the archive.
func (r *Reader) Status(ctx context.Context) (Status, error) {
	s := Status{CutShort: []Part{}}
	var moreFlights, moreLetters bool
	flights := map[string]flight{}
	letters := map[string][]LetterCount{}
	blocked := map[string]*BlockedHeads{}
	var lanes []Lane
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue("SELECT clock_timestamp()").QueryRow(func(row pgx.Row) error { return row.Scan(&s.Now) })
		batch.Queue(r.db.SQL["status_rails"], CountMax, railsMax+1).Query(store.Collect(&s.Rails, scanRailStatus))
		batch.Queue(r.db.SQL["status_flight"], membersMax).Query(store.Each(func(row pgx.CollectableRow) error {
			var rail pgtype.Text
			var members, unknown, oldest pgtype.Int8
			err := row.Scan(&rail, &members, &unknown, &oldest, &moreFlights)
			flights[rail.String] = flight{members.Int64, unknown.Int64, oldest.Int64}
			return err
		}))
		queued := batch.Queue(r.db.SQL["status_letters"], CountMax, lettersPairsMax)
		queued.Query(store.Each(func(row pgx.CollectableRow) error {
			var rail, reason pgtype.Text
			var open, oldest, asked pgtype.Int8
			err := row.Scan(&rail, &reason, &open, &oldest, &asked, &moreLetters)
			if rail.Valid {
				count := LetterCount{payment.DeadReason(reason.String), open.Int64, oldest.Int64, asked.Int64}
				letters[rail.String] = append(letters[rail.String], count)
			}
			return err
		}))
		batch.Queue(r.db.SQL["status_order"], BlockedMax, railsMax+1).Query(store.Each(func(row pgx.CollectableRow) error {
			return scanBlocked(row, blocked)
		}))
		batch.Queue(r.db.SQL["status_participants"], participantsMax+1).Query(store.Collect(&s.Participants, scanPause))
		batch.Queue(r.db.SQL["closed_gates"], nil, nil, statusGatesMax+1).
			Query(store.Collect(&s.ClosedGates, scanClosedGate))
		batch.Queue(r.db.SQL["lanes"], nil, lanesMax+1).Query(store.Collect(&lanes, scanLane))
		batch.Queue(r.db.SQL["status_heartbeats"], beatsMax+1).Query(store.Collect(&s.Heartbeats, scanBeat))
	})
	if err != nil {
		return Status{}, fmt.Errorf("reading the status: %w", err)
	}
	atMost(&s, PartRails, &s.Rails, railsMax)
	atMost(&s, PartParticipants, &s.Participants, participantsMax)
	atMost(&s, PartGates, &s.ClosedGates, statusGatesMax)
	atMost(&s, PartLanes, &lanes, lanesMax)
	atMost(&s, PartHeartbeats, &s.Heartbeats, beatsMax)
	if moreFlights {
		s.CutShort = append(s.CutShort, PartInFlight)
	}
	if moreLetters {
		s.CutShort = append(s.CutShort, PartDeadLetters)
	}
	for n := range s.Rails {
		s.Rails[n].serve(lanes, s.IsCutShort(PartLanes))
		s.Rails[n].OrderBlocked = blocked[s.Rails[n].RailType]
		s.Rails[n].add(flights[s.Rails[n].RailType], letters[s.Rails[n].RailType])
	}
	s.Rails = slices.DeleteFunc(s.Rails, func(rail RailStatus) bool {
		if rail.RailType != "*" {
			return false
		}
		s.Everything = rail.Pause
		return true
	})
	for n := range s.Heartbeats {
		beat := &s.Heartbeats[n]
		age := time.Duration(beat.AgeMS) * time.Millisecond
		beat.Freshness = FreshnessOf(beat.Status, age, time.Duration(beat.StaleAfterMS)*time.Millisecond)
	}
	return s, nil
}

// serve sets the rail's lanes. If there are more lanes than were read, NotClaimed stays
// empty, because one of the others could claim.
func (rail *RailStatus) serve(lanes []Lane, more bool) {
	rail.Lanes = []Lane{}
	for _, lane := range lanes {
		if lane.RailType == rail.RailType {
			rail.Lanes = append(rail.Lanes, lane)
		}
	}
	if rail.Pause == nil && !more {
		rail.NotClaimed = WhyNotClaimed(rail.RailType, rail.Lanes)
	}
}

type flight struct{ members, unknown, oldestMS int64 }

func (rail *RailStatus) add(f flight, letters []LetterCount) {
	rail.InFlight, rail.OldestClaimMS = f.members, f.oldestMS
	rail.OutcomeUnknown += f.unknown
	rail.DeadLetters = append([]LetterCount{}, letters...)
	for _, count := range letters {
		if count.Reason == payment.DeadOutcomeUnknown {
			rail.OutcomeUnknown += count.Open - count.asked // which count as waiting
		}
	}
}

func scanRailStatus(row pgx.CollectableRow) (RailStatus, error) {
	var rail RailStatus
	var version pgtype.Int4
	var paused bool
	var by, reason pgtype.Text
	var at, until pgtype.Timestamptz
	var oldest pgtype.Int8
	err := row.Scan(&rail.RailType, &version, &paused, &by, &at, &reason, &until,
		&rail.Pending, &rail.Due, &rail.OutcomeUnknown, &oldest)
	rail.ProfileVersion, rail.OldestDueMS, rail.Capped = int(version.Int32), oldest.Int64, rail.Pending >= CountMax
	if paused {
		rail.Pause = &Pause{
			What: "rail " + rail.RailType, By: by.String, At: store.OrZero(at),
			Reason: reason.String, Until: store.OrZero(until),
		}
		if rail.RailType == "*" {
			rail.Pause.What = "everything"
		}
	}
	return rail, err
}

func scanPause(row pgx.CollectableRow) (Pause, error) {
	var p Pause
	var until pgtype.Timestamptz
	err := row.Scan(&p.What, &p.By, &p.At, &p.Reason, &until)
	p.Until = store.OrZero(until)
	return p, err
}

func scanBeat(row pgx.CollectableRow) (Beat, error) {
	var b Beat
	err := row.Scan(&b.Name, &b.Kind, &b.Host, &b.Version, &b.Status, &b.Activity, &b.StartedAt, &b.AgeMS,
		&b.ClockOffsetMS, &b.StaleAfterMS, &b.BudgetVersion)
	return b, err
}

// RailPause returns the pause of a rail, or of Everything, that is in force; nil: none.
func (r *Reader) RailPause(ctx context.Context, railType string) (*Pause, error) {
	return r.pause(ctx, railType, "")
}

// ParticipantPause returns the pause of a participant that is in force; nil: none.
func (r *Reader) ParticipantPause(ctx context.Context, participantID string) (*Pause, error) {
	return r.pause(ctx, "", participantID)
}

func (r *Reader) pause(ctx context.Context, railType, participantID string) (*Pause, error) {
	var found []Pause
	err := r.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(r.db.SQL["pause_in_force"], store.Text(railType), store.Text(participantID)).
			Query(store.Collect(&found, scanPause))
	})
	if err != nil {
		return nil, fmt.Errorf("reading pauses: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return &found[0], nil
}
