package reader

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
)

// Lane is the state of a rail on one running relayer, as of its last heartbeat.
type Lane struct {
	RailType       string `json:"rail_type"`
	WorkerID       string `json:"worker_id"`
	Host           string `json:"host"`
	ProfileVersion int    `json:"profile_version"`
	// ProfileInForce is the version of the rail. A relayer with another version claims
	// nothing.
	ProfileInForce int    `json:"profile_in_force"`
	Slots          int    `json:"slots"` // the maximum of calls in flight
	Calls          int    `json:"calls"` // calls in flight
	Breaker        string `json:"breaker"`
	// BreakerOpenUntil is when an open breaker lets a probe through.
	BreakerOpenUntil time.Time `json:"breaker_open_until,omitzero"`
	Rate             float64   `json:"rate,omitempty"` // calls that may start per second; 0: no bound
	// Suspended is the relayer's reason not to claim the rail: the database may have lost
	// sends, or was not compared yet, too many outcomes are not recorded, or it can't use the
	// profile in force.
	Suspended string `json:"suspended,omitempty"`
	// StoppedUntil is when a lane whose rows could not be claimed is tried again.
	StoppedUntil time.Time `json:"stopped_until,omitzero"`
}

// lanesMax bounds the lanes that are read. If there are more, NotClaimed is empty: one that
// was not read could claim.
const lanesMax = 1000

func scanLane(row pgx.CollectableRow) (Lane, error) {
	var l Lane
	var version, inForce, slots, calls pgtype.Int4
	var open, stopped pgtype.Timestamptz
	err := row.Scan(&l.RailType, &l.WorkerID, &l.Host, &version, &inForce, &slots, &calls,
		&l.Breaker, &open, &l.Rate, &l.Suspended, &stopped)
	l.ProfileVersion, l.ProfileInForce = int(version.Int32), int(inForce.Int32)
	l.Slots, l.Calls = int(slots.Int32), int(calls.Int32)
	l.BreakerOpenUntil, l.StoppedUntil = store.OrZero(open), store.OrZero(stopped)
	return l, err
}

// WhyNotClaimed returns why due instructions of a rail are not claimed, by the last
// heartbeats of its relayers. It returns nothing if at least one of them could claim. All
// lanes must be of this rail.
func WhyNotClaimed(railType string, lanes []Lane) []string {
	if len(lanes) == 0 {
		return []string{"no running relayer serves rail " + railType}
	}
	var opened, stopped time.Time
	var open, suspended, behind, halted, busy, slots int
	var because string
	for _, lane := range lanes {
		switch {
		case lane.Suspended != "":
			suspended, because = suspended+1, lane.Suspended
		case lane.ProfileVersion != lane.ProfileInForce:
			behind++
		case !lane.StoppedUntil.IsZero():
			halted++
			stopped = sooner(stopped, lane.StoppedUntil)
		case lane.Breaker == "OPEN":
			open++
			opened = sooner(opened, lane.BreakerOpenUntil)
		case lane.Calls >= lane.Slots:
			busy, slots = busy+1, slots+lane.Slots
		default:
			return nil
		}
	}
	var all []string
	of := func(n int) string {
		if len(lanes) == 1 {
			return "its only relayer"
		}
		return fmt.Sprintf("%d of %d relayers", n, len(lanes))
	}
	if suspended > 0 {
		all = append(all, fmt.Sprintf("rail %s is not claimed on %s: %s", railType, of(suspended), because))
	}
	if behind > 0 {
		all = append(all, fmt.Sprintf("rail %s is not claimed on %s, for want of version %d of its profile, "+
			"which is in force: if that lasts, the relayer's log says why",
			railType, of(behind), lanes[0].ProfileInForce))
	}
	if halted > 0 {
		all = append(all, fmt.Sprintf("rows of rail %s could not be claimed on %s, which tries again at %s: "+
			"its log says why", railType, of(halted), stopped.UTC().Format(time.TimeOnly)))
	}
	if open > 0 {
		all = append(all, fmt.Sprintf("breaker of rail %s is open on %s until %s",
			railType, of(open), opened.UTC().Format(time.TimeOnly)))
	}
	if busy > 0 {
		all = append(all, fmt.Sprintf("all %d slots of rail %s are busy on %s", slots, railType, of(busy)))
	}
	return all
}

// sooner returns the earlier of two times; a zero time is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
