package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
)

// Blocker is a session that held a lock for which an operator's act waited. PostgreSQL
// shows the last three fields only to a superuser, a member of pg_read_all_stats, or a
// login with the rights of the session's own; otherwise they are empty.
type Blocker struct {
	PID         int32 // 0: a prepared transaction, which has no session
	Login       string
	Application string // its application_name
	State       string // as in pg_stat_activity
	Open        time.Duration
	Statement   string // the beginning of its latest statement, up to the first literal
}

func (b Blocker) String() string {
	if b.PID == 0 {
		return "a prepared transaction, see pg_prepared_xacts"
	}
	facts := []string{"login " + cmp.Or(b.Login, "unknown"), "application " + strconv.Quote(b.Application)}
	if b.State == "" {
		facts = append(facts, "its state is not shown to this login")
	} else {
		open := "transaction open for " + b.Open.Round(time.Second).String()
		facts = append(facts, b.State, open, "latest statement: "+b.Statement)
	}
	return fmt.Sprintf("pid %d (%s)", b.PID, strings.Join(facts, ", "))
}

// BlockedError is the error of an operator's act that waited 5 s for a lock and did
// nothing. It is outbox.ErrLockTimeout.
type BlockedError struct {
	// Blockers are the last sessions that were seen to hold the lock, at most five. It is
	// empty if they could not be read.
	Blockers []Blocker
	err      error
}

func (e *BlockedError) Error() string {
	if len(e.Blockers) == 0 {
		return "nothing was done: " + e.err.Error()
	}
	names := make([]string, len(e.Blockers))
	for n, blocker := range e.Blockers {
		names[n] = blocker.String()
	}
	return "nothing was done: the lock is held by " + strings.Join(names, "; ")
}

// Unwrap returns the error of the server.
func (e *BlockedError) Unwrap() error { return e.err }

// Is reports whether the target is outbox.ErrLockTimeout.
func (e *BlockedError) Is(target error) bool { return target == outbox.ErrLockTimeout }

// blockersEvery is how often the blockers of a waiting act are read. After the wait the
// server no longer has them.
const blockersEvery = 500 * time.Millisecond

// The bounds of an act, from its connection to the answer to its commit. They hold for a server that does not answer
// any more, which keeps no bound of its own.
const (
	actWithin  = 15 * time.Second // on one payment, rail, participant, gate or token, or on a batch that is carried
	bulkWithin = 30 * time.Minute // whose work grows with the cell
	// Of the preparation of what is carried, which may discard what an earlier move has left. No cell takes the
	// participants meanwhile.
	prepareWithin = 2 * time.Minute
)

// ErrNoAnswer is the error of an act that the server did not answer in time. Nothing was done: the commit was not sent,
// and a server that goes on rolls back. If the commit was sent, the error is outbox.ErrCommitUnknown instead.
var ErrNoAnswer = errors.New("nothing was done: the server did not answer")

// step is a part of an act, in its transaction. The context has the act's bound.
type step = func(ctx context.Context, tx pgx.Tx) error

// decide runs a function of the schema in a transaction of its own, which waits for each lock for
// at most 5 s. If a wait times out, the error is a *BlockedError.
func (o *Operator) decide(ctx context.Context, call step) error {
	return o.decideWithin(ctx, actWithin, call)
}

func (o *Operator) decideWithin(ctx context.Context, within time.Duration, call step) error {
	return o.transactWithin(ctx, within, ErrNoAnswer, call)
}

// transactWithin returns none if the server has not answered in time, and the commit was not sent.
func (o *Operator) transactWithin(ctx context.Context, within time.Duration, none error, call step) error {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := o.transact(bounded, none == ErrNoAnswer, call)
	switch {
	case err == nil || bounded.Err() == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, outbox.ErrCommitUnknown):
		return fmt.Errorf("the server did not answer the commit within %s: %w", within, err)
	default:
		return fmt.Errorf("%w within %s: %w", none, within, err)
	}
}

// transact does an act, or reads.
func (o *Operator) transact(ctx context.Context, act bool, call step) error {
	transact := o.db.Transact
	if by, given := ctx.Value(guardKey{}).(guard); given && by.snapshot {
		transact = o.db.TransactSnapshot
	}
	var refusal error
	err := transact(ctx, func(tx pgx.Tx) error {
		refusal = nil
		var pid int32
		if err := tx.QueryRow(ctx, o.db.SQL["begin_act"], store.Text(personOf(ctx))).Scan(&pid, nil, nil); err != nil {
			return fmt.Errorf("beginning the act: %w", err)
		}
		stop := o.watchBlockers(ctx, pid)
		var err error
		if act {
			refusal, err = o.settled(ctx, tx, call)
		} else {
			err = call(ctx, tx)
		}
		blockers := stop()
		if ledger.SQLState(err) == store.StateLockTimeout {
			return &BlockedError{Blockers: blockers, err: err}
		}
		return err
	})
	switch {
	case refusal == nil:
		return err
	case err == nil:
		return refusal
	default:
		return unsettled(refusal, err)
	}
}

// errRead ends a transaction that has only read: it is rolled back, so that no answer to a commit can be lost.
var errRead = errors.New("only read")

// errNotRead is the error of a reading that the server did not answer in time.
var errNotRead = errors.New("the server did not answer")

// read reads in a transaction with the bounds of an act.
func (o *Operator) read(ctx context.Context, call step) error {
	return o.readWithin(ctx, actWithin, call)
}

func (o *Operator) readWithin(ctx context.Context, within time.Duration, call step) error {
	err := o.transactWithin(ctx, within, errNotRead, func(ctx context.Context, tx pgx.Tx) error {
		if err := call(ctx, tx); err != nil {
			return err
		}
		return errRead
	})
	if errors.Is(err, errRead) {
		return nil
	}
	return err
}

// watchBlockers reads the blockers of a session on another connection, until the function
// that it returns is called. That function returns the last ones.
func (o *Operator) watchBlockers(ctx context.Context, pid int32) (stop func() []Blocker) {
	ctx, cancel := context.WithCancel(ctx)
	last := make(chan []Blocker, 1)
	go func() {
		var seen []Blocker
		defer func() { last <- seen }()
		tick := time.NewTicker(blockersEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// After an error the earlier ones stay: the act itself returns its error.
			if found, err := o.blockers(ctx, pid); err == nil && len(found) > 0 {
				seen = found
			}
		}
	}()
	return func() []Blocker {
		cancel()
		return <-last
	}
}

func (o *Operator) blockers(ctx context.Context, pid int32) ([]Blocker, error) {
	rows, err := o.db.Pool.Query(ctx, o.db.SQL["blockers"], pid)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Blocker, error) {
		var b Blocker
		var open float64
		err := row.Scan(&b.PID, &b.Login, &b.Application, &b.State, &open, &b.Statement)
		b.Open, b.Statement = time.Duration(open*float64(time.Second)), statementHead(b.Statement)
		return b, err
	})
}

// statementHeadMax bounds statementHead, in runes.
const statementHeadMax = 100

// statementHead returns the beginning of a statement in one line, up to its first literal
// or comment: those may contain amounts, accounts and keys.
func statementHead(sql string) string {
	var head []rune
	before := ' '
	for n, r := range sql {
		rest := sql[n:]
		digit := unicode.IsDigit(r) && !unicode.IsLetter(before) && !unicode.IsDigit(before) &&
			before != '_' && before != '$'
		dollar := r == '$' && (len(rest) < 2 || rest[1] < '1' || rest[1] > '9')
		comment := strings.HasPrefix(rest, "--") || strings.HasPrefix(rest, "/*")
		if r == '\'' || digit || dollar || comment || len(head) == statementHeadMax {
			return strings.TrimSpace(string(head)) + "..."
		}
		if unicode.IsSpace(r) {
			r = ' '
		}
		if r != ' ' || before != ' ' {
			head = append(head, r)
		}
		before = r
	}
	return strings.TrimSpace(string(head))
}
