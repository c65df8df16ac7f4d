package relayer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Limits of the recovery from a failed turn.
const (
	poisonHeads  = 3   // heads of each priority that must fail before rows behind them are tried
	behindHeads  = 500 // heads of each priority behind which no row is tried
	behindMax    = 50  // of those, rows that one turn tries, and that must fail before the lane is at fault
	putBackHeads = 500 // heads of each priority that are checked for rows that were put back
	stuckMax     = 5   // outcomes of one turn that may run into another session's lock
	turnShare    = 3   // divisor of what is left of a turn's time that gives how long it may try rows of one kind
)

// fallBack runs after a failed turn. It first records the outcomes without a claim, and one by one
// if they fail together. Then it claims each lane by itself, halving the number of rows after each
// failure, so that one row that can't be claimed stops no other, and last it looks for such rows. It claims no lane of
// which too many outcomes are unrecorded. No lane may use up the time of the turn, nor stop the others.
func (l *loop) fallBack(ctx, sends context.Context, reserved map[string]*reservation, cause error) (int, error) {
	defer func() { releaseAll(reserved) }()
	if deniesLogin(cause) {
		return 0, cause // each further try is one more failed login
	}
	if err := l.recordAlone(ctx); err != nil {
		return 0, err
	}
	if unavailable(cause) {
		return 0, cause
	}
	total := 0
	var failing []failingLane
	var locked error
	names, last := l.inTurn(reserved), l.endedAt
	l.endedAt = ""
	for _, name := range names {
		if !l.mayGoOn(name, reserved[name].lane) {
			continue
		}
		if name == last { // it may use up the rest of the time again
			if err := l.isolateAll(ctx, sends, reserved, failing); err != nil {
				return total, err
			}
			failing = nil
		}
		claimed, part, err := l.claimHalves(ctx, sends, name, reserved[name])
		total += claimed
		if err != nil {
			l.log.WarnContext(ctx, "lane can't be claimed", "rail_type", name, "error", err)
			if errors.Is(err, outbox.ErrLockTimeout) { // another session's lock, which need not delay the other lanes
				l.endedAt, locked = name, err
				continue
			}
			if !rejectedByServer(err) {
				l.endedAt = name
				return total, err
			}
		} else if !part || claimed == 0 {
			continue
		}
		// Some rows were claimed and others not: a bad row would fail the next turn too.
		failing = append(failing, failingLane{name: name, works: err == nil})
	}
	if err := l.isolateAll(ctx, sends, reserved, failing); err != nil {
		return total, err
	}
	return total, locked
}

// isolateAll looks for single rows at fault in lanes that can't be claimed as they are, and stops those of which none
// can.
func (l *loop) isolateAll(
	ctx, sends context.Context, reserved map[string]*reservation, failing []failingLane,
) error {
	for _, one := range failing {
		switch tried, err := l.isolate(ctx, sends, one.name, reserved[one.name], one.works); {
		case rejectedByServer(err):
			wait, says := l.lanes.stop(one.name, time.Now(), err), "none of its rows that were tried can be claimed"
			if tried == 0 {
				says = "no row could be looked for"
			}
			l.log.ErrorContext(ctx, "lane stopped: "+says,
				"rail_type", one.name, "tried", tried, "for", wait.String(), "error", service.Explained(err))
		case err != nil:
			l.endedAt = one.name
			return err
		}
	}
	return nil
}

// failingLane is a lane that can't be claimed, or not all that was asked for.
type failingLane struct {
	name  string
	works bool // some of its rows were claimed
}

// inTurn returns the lanes in the order in which they are claimed: by name, and first those behind the lane at which
// the last recovery ended, so that a lane that uses up the time of each turn hides none.
func (l *loop) inTurn(reserved map[string]*reservation) []string {
	names := slices.Sorted(maps.Keys(reserved))
	first := slices.IndexFunc(names, func(name string) bool { return name > l.endedAt })
	if l.endedAt == "" || first < 0 {
		return names
	}
	return append(names[first:], names[:first]...)
}

// recordAlone records outcomes without a claim: first all of them, then one by one. An outcome that
// fails by itself is left to the slow path, later, so that it delays no other.
func (l *loop) recordAlone(ctx context.Context) error {
	outcomes, finished := l.flight.collect(l.config.RecordMax)
	if len(outcomes) == 0 {
		return nil
	}
	begun := time.Now()
	ordered := l.lanes.ordered()
	result, err := l.store.Turn(ctx, outbox.Turn{Outcomes: outcomes, Finished: finished, Ordered: ordered})
	if err == nil {
		l.noteRecorded(outcomes, result.Late)
		l.watch.Turn(len(outcomes), time.Since(begun))
		return nil
	}
	l.doubt(err)
	if unavailable(err) {
		l.flight.back(outcomes)
		return err
	}
	stuck, until := 0, service.Share(ctx, turnShare)
	for n, outcome := range outcomes {
		one := []payment.Outcome{outcome}
		result, err := l.store.Turn(ctx, outbox.Turn{Outcomes: one, Ordered: ordered})
		l.doubt(err)
		switch {
		case err == nil:
			// The reaper closes its claim row, after a check of each member.
			l.flight.lost(one)
			l.noteRecorded(one, result.Late)
		case unavailable(err):
			l.flight.back(outcomes[n:])
			return err
		default:
			l.log.ErrorContext(ctx, "an outcome can't be recorded now and is kept", "outbox_id", outcome.Claim.OutboxID,
				"claim", outcome.Claim.AttemptNo, "result", outcome.Result,
				"rail_reference", outcome.RailReference, "error", err)
			l.flight.lost(one)
			l.keep(lateOutcome{outcome: outcome, at: time.Now().Add(stuckWait), tries: 1})
			if stuck++; stuck == stuckMax || time.Now().After(until) {
				l.flight.back(outcomes[n+1:]) // each may cost a lock timeout of one second
				return nil
			}
		}
	}
	return nil
}

// claimHalves claims one lane, with half as many rows after each failure, until its share of the turn's time is used.
// It returns how many it claimed, and whether that is less than it first asked for.
func (l *loop) claimHalves(
	ctx, sends context.Context, name string, slots *reservation,
) (claimed int, part bool, err error) {
	one := map[string]*reservation{name: slots}
	claim := l.request(one)
	until := service.Share(ctx, turnShare)
	for ; ; part = true {
		begun := clock.Now()
		claims, err := l.claimOnce(ctx, claim, nil)
		if err == nil {
			l.launch(sends, one, claims, begun)
			return len(claims), part, nil
		}
		if !rejectedByServer(err) || claim.Lanes[0].Free == 1 || time.Now().After(until) {
			return 0, part, err
		}
		claim.Lanes[0].Free /= 2
		claim.Lanes[0].Oldest = min(claim.Lanes[0].Oldest, claim.Lanes[0].Free)
	}
}

func (l *loop) claimOnce(ctx context.Context, claim outbox.ClaimRequest, only []payment.ID) ([]payment.Claim, error) {
	claim.ClaimID = payment.NewID()
	claims, err := l.store.ClaimOnly(ctx, claim, only)
	l.doubt(err)
	if errors.Is(err, outbox.ErrCommitUnknown) {
		l.doubts = append(l.doubts, doubt{claim: claim.ClaimID, since: clock.Now()})
	}
	return claims, err
}

// eachAlone is what became of rows of which each was claimed by itself.
type eachAlone struct {
	failed  []service.Failed
	untried []payment.ID
	works   bool // rows could be claimed
	unclear bool // another session has locked a row, or rows were put back
}

// isolate determines whether single rows are at fault. It claims each of the rows that a claim
// takes first by itself and, if none of them can be claimed, some of the rows behind them, others in each turn, all
// within the lane's share of the turn's time. If one can be claimed, or works is set because others could, those that
// failed for what they have (outbox.IsOfRow) are quarantined for an operator; those that failed for
// another reason are tried again. If none can, the lane is at fault, and isolate returns the cause, and how many
// failed. A row that another session has locked proves neither; the next turn tries it again. A
// row that was put back after its payment ended is quarantined in any case: the fault is its own.
func (l *loop) isolate(
	ctx, sends context.Context, name string, slots *reservation, works bool,
) (tried int, err error) {
	heads, err := l.store.DueIDs(ctx, name, poisonHeads)
	if err != nil {
		return 0, err
	}
	suspects := l.suspects[name]
	if suspects == nil {
		suspects = &service.Suspects{After: l.config.FaultyAfter}
		l.suspects[name] = suspects
	}
	turn := eachAlone{works: works}
	// The first rows get half of the time, so that some behind them are tried in each turn.
	half, until := service.Share(ctx, 2*turnShare), service.Share(ctx, turnShare)
	err = l.claimEach(ctx, sends, name, slots, heads, half, &turn)
	if err == nil && !turn.works && len(turn.failed) > 0 {
		var behind []payment.ID
		if behind, err = l.store.DueIDs(ctx, name, behindHeads); err != nil {
			return 0, err
		}
		behind = suspects.Behind(behind, heads, &turn.untried, behindMax)
		err = l.claimEach(ctx, sends, name, slots, behind, until, &turn)
	}
	if turn.works {
		l.lanes.works(name)
	}
	// Also if the turn ends here: the next one goes on behind the row at which it did.
	faulty, rest := suspects.Judge(turn.failed, turn.untried, turn.works)
	if err != nil {
		return 0, err
	}
	for _, each := range faulty {
		if err := l.quarantine(ctx, []payment.ID{each.ID}, each.Err); err != nil {
			return 0, err
		}
	}
	if turn.works || turn.unclear || len(rest) == 0 {
		return 0, nil
	}
	return len(turn.failed), rest[0].Err
}

// claimEach claims each of these rows by itself, while there are free slots, and the first one whenever that is. It
// tries no further one after that time.
func (l *loop) claimEach(
	ctx, sends context.Context, name string, slots *reservation, ids []payment.ID, until time.Time, turn *eachAlone,
) error {
	one := map[string]*reservation{name: slots}
	for n, id := range ids {
		claim := l.request(one)
		if len(slots.permits) == 0 || n > 0 && time.Now().After(until) {
			turn.untried = append(turn.untried, ids[n:]...)
			return nil
		}
		claim.Lanes[0].Free, claim.Lanes[0].Oldest = 1, 0
		begun := clock.Now()
		claims, err := l.claimOnce(ctx, claim, []payment.ID{id})
		switch {
		case err == nil:
			turn.works, turn.unclear = turn.works || len(claims) > 0, turn.unclear || len(claims) == 0
			l.launch(sends, one, claims, begun)
		case outbox.IsPutBack(service.SQLState(err)):
			if err := l.quarantinePutBack(ctx, name, err); err != nil {
				return err
			}
			turn.unclear = true
		case rejectedByServer(err):
			turn.failed = append(turn.failed, service.Failed{ID: id, Err: err})
		default:
			turn.untried = append(turn.untried, ids[n+1:]...)
			return err
		}
	}
	return nil
}

// quarantinePutBack quarantines many rows at once: a restore of the pending table alone puts them
// all back.
func (l *loop) quarantinePutBack(ctx context.Context, name string, cause error) error {
	heads, err := l.store.DueIDs(ctx, name, putBackHeads)
	if err != nil {
		return err
	}
	return l.quarantine(ctx, heads, cause)
}

func (l *loop) quarantine(ctx context.Context, ids []payment.ID, cause error) error {
	if len(ids) == 0 {
		return nil
	}
	moved, err := l.store.Quarantine(ctx, ids, outbox.QuarantineCode(service.SQLState(cause)))
	if err != nil {
		return err
	}
	for _, id := range moved {
		l.log.ErrorContext(ctx, "instruction quarantined: it can't be claimed", "outbox_id", id, "error", cause)
	}
	return nil
}

// unavailable reports whether the server can't be used, or the answer to a commit was lost. Trying
// parts of the same turn now would fail too, or act on a guess.
func unavailable(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, outbox.ErrCommitUnknown) {
		return true
	}
	state := service.SQLState(err)
	// Lost races, and cancelled statements.
	return outbox.IsAway(state) || state[:2] == "40" || state[:2] == "57"
}

// deniesLogin reports whether the server refuses the login of this process, as after a change of its password.
func deniesLogin(err error) bool { return strings.HasPrefix(service.SQLState(err), "28") }

// rejectedByServer reports whether the server rejected the statement, so that other rows may
// succeed.
func rejectedByServer(err error) bool {
	return err != nil && !unavailable(err) && !errors.Is(err, outbox.ErrLockTimeout)
}
