package reader

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

const (
	// logOverlap is more than the time between the id of an act and its transaction's number: by as
	// much the server's clock may be set back.
	logOverlap = 15 * time.Second
	// logDepth is how many acts from before it began a LogTail reads again while a transaction is in
	// progress that had a number then. On a standby, which does not know that, it reads them again each
	// time, and what came since.
	logDepth = 5_000
)

// LogTail follows the operator log. An act gets its id before it commits and becomes visible. So a
// LogTail reads again what is younger than each transaction in progress, and leaves out the acts
// that it has emitted.
type LogTail struct {
	reader  *Reader
	filter  LogFilter
	from    payment.ID
	emitted map[payment.ID]bool
	mark    logLook
}

// logLook is a moment of the database and the transactions at it.
type logLook struct {
	at     time.Time
	oldest int64 // no lower number is in progress
	next   int64 // this and higher numbers are given after the moment
}

// LogTail returns a LogTail that has not begun. Before is not for a LogTail.
func (r *Reader) LogTail(filter LogFilter) (*LogTail, error) {
	if filter.Limit == 0 {
		filter.Limit = logLimitDefault
	}
	if filter.Limit < 0 || filter.Limit > logLimitMax || filter.Since < 0 || !filter.Before.IsZero() {
		return nil, fmt.Errorf("%w: limit is %d and since %s, must be 1 to %d and not negative, and no act to end before",
			outbox.ErrUnanswerable, filter.Limit, filter.Since, logLimitMax)
	}
	kind, err := kindOf(filter.Act)
	if err != nil {
		return nil, err
	}
	filter.Act = kind
	return &LogTail{reader: r, filter: filter, emitted: make(map[payment.ID]bool)}, nil
}

// Begin reads the newest acts as OperatorLog does. Call it once, before Read.
func (t *LogTail) Begin(ctx context.Context) (acts []LoggedAct, cutShort bool, err error) {
	if t.mark, err = t.look(ctx); err != nil {
		return nil, false, err
	}
	depth := max(logDepth, t.filter.Limit+1)
	if acts, err = t.reader.logged(ctx, t.filter, payment.ID{}, depth); err != nil {
		return nil, false, err
	}
	for _, act := range acts {
		t.emitted[act.ActID] = true
	}
	if len(acts) >= logDepth {
		t.from = acts[len(acts)-logDepth].ActID
	}
	if t.filter.Since > 0 {
		since := payment.FloorID(t.mark.at.Add(-t.filter.Since))
		acts = slices.DeleteFunc(acts, func(act LoggedAct) bool { return slices.Compare(act.ActID[:], since[:]) < 0 })
	}
	if cutShort = len(acts) > t.filter.Limit; cutShort {
		acts = acts[len(acts)-t.filter.Limit:]
	}
	return acts, cutShort, nil
}

// Read calls emit for the acts that have become visible since the last Read, in the order of
// their ids. It reads the newest 10,000 at most, and reports that older ones may be left out: those that
// came since the last Read, if there are so many. An act that becomes visible only after 10,000 newer ones is not
// emitted, and not reported.
func (t *LogTail) Read(ctx context.Context, emit func(LoggedAct) error) (fellBehind bool, err error) {
	look, err := t.look(ctx) // before the acts: what is not visible then is of a transaction that look counts
	if err != nil {
		return false, err
	}
	acts, err := t.reader.logged(ctx, t.filter, t.from, logLimitMax)
	if err != nil {
		return false, err
	}
	full := len(acts) == logLimitMax
	// If the oldest was emitted, all that came since the last Read are among these.
	fellBehind = full && !t.emitted[acts[0].ActID]
	for _, act := range acts {
		if t.emitted[act.ActID] {
			continue
		}
		t.emitted[act.ActID] = true
		if err := emit(act); err != nil {
			return false, err
		}
	}
	t.advance(look)
	if full {
		t.readFrom(acts[0].ActID) // the next Read reads nothing older
	}
	return fellBehind, nil
}

// advance moves the beginning of the next Read up to the mark once every transaction that was in
// progress at the mark has ended. Whatever becomes visible later got its number, and so its id,
// after the mark.
func (t *LogTail) advance(look logLook) {
	if look.oldest < t.mark.next {
		return
	}
	from := payment.FloorID(t.mark.at.Add(-logOverlap))
	t.mark = look
	t.readFrom(from)
}

// readFrom moves the beginning of the next Read up, and forgets the acts before it.
func (t *LogTail) readFrom(from payment.ID) {
	if slices.Compare(from[:], t.from[:]) <= 0 {
		return
	}
	t.from = from
	for id := range t.emitted {
		if slices.Compare(id[:], from[:]) < 0 {
			delete(t.emitted, id)
		}
	}
}

func (t *LogTail) look(ctx context.Context) (look logLook, err error) {
	err = t.reader.read(ctx, func(batch *pgx.Batch) {
		batch.Queue(t.reader.db.SQL["log_look"]).QueryRow(func(row pgx.Row) error {
			return row.Scan(&look.at, &look.oldest, &look.next)
		})
	})
	if err != nil {
		return look, fmt.Errorf("following the operator log: %w", err)
	}
	return look, nil
}
