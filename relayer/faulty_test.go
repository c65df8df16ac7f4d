package relayer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/relayer"
)

// way is how a call to the store is lost.
type way int

const (
	lostBefore way = iota // nothing happened
	lostAfter             // it happened, and the answer was lost
	lostMidway            // nothing happened, and that is not known
)

func (w way) String() string { return [...]string{"lost before", "lost after", "lost midway"}[w] }

// faulty is a store whose calls get lost. A turn or a claim that may have committed is a commit of
// unknown result; every other loss is a broken connection.
type faulty struct {
	relayer.Store
	mu   sync.Mutex
	ways map[string]way
	left map[string]int // calls to be lost; -1: all
	lost map[string]int
	// refusal is the server's error in place of a loss; for a lock timeout it is the ledger's
	// error.
	refusal error
}

func newFaulty(store relayer.Store) *faulty {
	return &faulty{Store: store, ways: map[string]way{}, left: map[string]int{}, lost: map[string]int{}}
}

// fail loses every call of this name from now on.
func (f *faulty) fail(call string, how way) { f.failNext(call, how, -1) }

func (f *faulty) failNext(call string, how way, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ways[call], f.left[call] = how, times
}

func (f *faulty) heal(call string) { f.failNext(call, 0, 0) }

// count is how often a call was lost.
func (f *faulty) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost[call]
}

// refuse turns lost calls into errors of the server.
func (f *faulty) refuse(refusal *pgconn.PgError) {
	f.refusal = refusal
	if refusal.Code == "55P03" {
		f.refusal = fmt.Errorf("%w: %w", outbox.ErrLockTimeout, refusal)
	}
}

func (f *faulty) loses(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left[call] != 0
}

var errLink = errors.New("the link is broken")

// around makes a call, or loses it.
func (f *faulty) around(call string, do func() error) error {
	f.mu.Lock()
	how, lose, cause := f.ways[call], f.left[call] != 0, errLink
	if f.refusal != nil {
		cause = f.refusal
	}
	if lose {
		f.left[call]--
		f.lost[call]++
	}
	f.mu.Unlock()
	if !lose {
		return do()
	}
	err := fmt.Errorf("%s %s: %w", call, how, cause)
	if how == lostBefore {
		return err
	}
	if how == lostAfter {
		if done := do(); done != nil {
			return done
		}
	}
	if strings.HasPrefix(call, "Turn") || call == "ClaimOnly" {
		return fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, err)
	}
	return err
}

func (f *faulty) CheckServer(ctx context.Context) (server outbox.Server, err error) {
	err = f.around("CheckServer", func() (err error) { server, err = f.Store.CheckServer(ctx); return err })
	return server, err
}

func (f *faulty) Rails(ctx context.Context) (rows []outbox.RailRow, err error) {
	err = f.around("Rails", func() (err error) { rows, err = f.Store.Rails(ctx); return err })
	return rows, err
}

func (f *faulty) Heartbeat(ctx context.Context, beat outbox.Heartbeat) (pulse outbox.Pulse, err error) {
	err = f.around("Heartbeat", func() (err error) {
		pulse, err = f.Store.Heartbeat(ctx, beat)
		return err
	})
	return pulse, err
}

func (f *faulty) Turn(ctx context.Context, turn outbox.Turn) (result outbox.TurnResult, err error) {
	call := "Turn"
	if len(turn.Outcomes) > 0 && f.loses("Turn with outcomes") {
		call = "Turn with outcomes"
	}
	err = f.around(call, func() (err error) { result, err = f.Store.Turn(ctx, turn); return err })
	if err != nil {
		return outbox.TurnResult{}, err
	}
	return result, nil
}

func (f *faulty) ClaimOnly(
	ctx context.Context, claim outbox.ClaimRequest, only []payment.ID,
) (claims []payment.Claim, err error) {
	err = f.around("ClaimOnly", func() (err error) { claims, err = f.Store.ClaimOnly(ctx, claim, only); return err })
	if err != nil {
		return nil, err
	}
	return claims, nil
}

func (f *faulty) DueIDs(ctx context.Context, railType string, heads int) (ids []payment.ID, err error) {
	err = f.around("DueIDs", func() (err error) { ids, err = f.Store.DueIDs(ctx, railType, heads); return err })
	return ids, err
}

func (f *faulty) Quarantine(ctx context.Context, ids []payment.ID, code string) (aside []payment.ID, err error) {
	err = f.around("Quarantine", func() (err error) { aside, err = f.Store.Quarantine(ctx, ids, code); return err })
	return aside, err
}

func (f *faulty) FindClaim(ctx context.Context, id payment.ID) (claims []payment.Claim, err error) {
	err = f.around("FindClaim", func() (err error) { claims, err = f.Store.FindClaim(ctx, id); return err })
	if err != nil {
		return nil, err
	}
	return claims, nil
}

func (f *faulty) RecordLate(ctx context.Context, outcome payment.Outcome) (verdict payment.Verdict, err error) {
	err = f.around("RecordLate", func() (err error) { verdict, err = f.Store.RecordLate(ctx, outcome); return err })
	if err != nil {
		return "", err
	}
	return verdict, nil
}

func (f *faulty) CloseClaims(ctx context.Context, ids []payment.ID) (n int64, err error) {
	err = f.around("CloseClaims", func() (err error) { n, err = f.Store.CloseClaims(ctx, ids); return err })
	return n, err
}

func (f *faulty) PauseRail(ctx context.Context, railType, reason string) (paused bool, err error) {
	err = f.around("PauseRail", func() (err error) { paused, err = f.Store.PauseRail(ctx, railType, reason); return err })
	return paused, err
}

// forgetful is a store that has lost one instruction, or rejects its outcomes: the fast path finds
// no claim, the slow path fails.
type forgetful struct {
	relayer.Store
	instruction string
	err         error
	asked       atomic.Int64
}

func (f *forgetful) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	var late, rest []payment.Outcome
	for _, outcome := range turn.Outcomes {
		if outcome.Claim.InstructionID == f.instruction {
			late = append(late, outcome)
		} else {
			rest = append(rest, outcome)
		}
	}
	turn.Outcomes = rest
	result, err := f.Store.Turn(ctx, turn)
	if err == nil {
		result.Late = append(result.Late, late...)
	}
	return result, err
}

func (f *forgetful) RecordLate(ctx context.Context, outcome payment.Outcome) (payment.Verdict, error) {
	if outcome.Claim.InstructionID != f.instruction {
		return f.Store.RecordLate(ctx, outcome)
	}
	f.asked.Add(1)
	return "", f.err
}

// unsure loses the commits of n turns that claim: before they happened, or after those that claimed
// something.
type unsure struct {
	relayer.Store
	committed bool
	left      atomic.Int64
}

func (u *unsure) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	unknown := fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, errLink)
	if !u.committed && len(turn.Claim.Lanes) > 0 && u.left.Add(-1) >= 0 {
		return outbox.TurnResult{}, unknown
	}
	result, err := u.Store.Turn(ctx, turn)
	if u.committed && err == nil && len(result.Claims) > 0 && u.left.Add(-1) >= 0 {
		return outbox.TurnResult{}, unknown
	}
	return result, err
}

// overtaken breaks the connection of the first turns that claim, while the server executes them.
type overtaken struct {
	relayer.Store
	left atomic.Int64
	work sync.WaitGroup
}

func (o *overtaken) Turn(ctx context.Context, turn outbox.Turn) (outbox.TurnResult, error) {
	if len(turn.Outcomes) > 0 || len(turn.Claim.Lanes) == 0 || o.left.Add(-1) < 0 {
		return o.Store.Turn(ctx, turn)
	}
	o.work.Go(func() { _, _ = o.Store.Turn(context.WithoutCancel(ctx), turn) })
	return outbox.TurnResult{}, fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, errLink)
}
