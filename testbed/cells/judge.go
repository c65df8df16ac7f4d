package cells

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// facts are what a run is judged by.
type facts struct {
	Orders  []*order
	Rows    []row
	Read    time.Time        // when Rows were, after all had ended
	Moved   []railsim.Record // of all banks, in the order of each
	Changes []change
	Done    map[string]int
}

// row is a payment, as a cell has it.
type row struct {
	Cell                        string
	Participant, InstructionID  string
	OutboxID                    payment.ID
	SequenceID                  int64
	State, LetterStatus, Reason string
}

// open reports whether the row has an open dead letter.
func (r row) open() bool {
	return r.LetterStatus != "" && !payment.LetterStatus(r.LetterStatus).IsClosed()
}

// change is a gift of a bucket.
type change struct {
	Bucket, Version int
	Cell            string
	At              time.Time
}

// facts reads the witnesses.
func (w *world) facts(ctx context.Context) (f facts, err error) {
	f = facts{Orders: w.orders, Read: time.Now(), Done: w.done}
	if f.Moved, err = w.moved(); err != nil {
		return f, err
	}
	for _, c := range w.cells {
		rows, err := c.admin.Query(ctx, `SELECT $1, participant_id, instruction_id, outbox_id, sequence_id, coalesce(state, ''),
			coalesce(dead_letter_status::text, ''), coalesce(dead_letter_reason::text, '') FROM supervisor_outbox_status`, c.name)
		if err != nil {
			return f, err
		}
		some, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
		if err != nil {
			return f, err
		}
		f.Rows = append(f.Rows, some...)
		rows, err = c.admin.Query(ctx, `SELECT bucket, version, cell, changed_at FROM payment_cell_changes
			WHERE changed_at > $1`, w.begun)
		if err != nil {
			return f, err
		}
		changes, err := pgx.CollectRows(rows, pgx.RowToStructByPos[change])
		if err != nil {
			return f, err
		}
		for _, one := range changes {
			if !slices.ContainsFunc(f.Changes, func(c change) bool {
				return c.Bucket == one.Bucket && c.Version == one.Version && c.Cell == one.Cell
			}) {
				f.Changes = append(f.Changes, one)
			}
		}
	}
	return f, nil
}

// Count is the result of a run.
type Count struct {
	Moves       int // buckets that changed their cell with participants in them
	Assignments int // other buckets that did
	Payments    int // that callers were told to be accepted
	Lost        int // of these and of the cells' rows: neither executed nor with an open dead letter, or in no cell
	Doubled     int // executed more than once, with two outbox ids, or a payment of two cells
	False       int // of which a caller or a cell says what the bank's ledger contradicts
	Overtaken   int // executed before one of a lower number, on the rail that keeps the order
	Unaccepted  int // instructions that were never accepted
	Letters     int // dead letters that are still open
	Late        int // answers to repetitions after the participant had moved
	Done        map[string]int

	wrong []string // the first of what is wrong
}

// String returns the counts that a run is judged by.
func (c Count) String() string {
	return fmt.Sprintf("cells=%d clusters=%d moves=%d payments=%d lost=%d doubled=%d false=%d", len(layout), clusters,
		c.Moves, c.Payments, c.Lost, c.Doubled, c.False)
}

// Faults describes what was done, and what else came of it.
func (c Count) Faults() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c.Done)) {
		all = append(all, fmt.Sprintf("%s: %d", name, c.Done[name]))
	}
	return fmt.Sprintf("%s; assignments=%d late=%d letters=%d overtaken=%d", strings.Join(all, ", "), c.Assignments,
		c.Late, c.Letters, c.Overtaken)
}

// leastPayments is how many a run must have to prove anything.
const leastPayments = 100

func (c Count) verdict(never []string) error {
	switch {
	case c.Lost+c.Doubled+c.False+c.Overtaken+c.Unaccepted > 0:
		return fmt.Errorf("%w: %q", ErrCount, c.wrong)
	case len(never) > 0 || c.Payments < leastPayments || c.Assignments == 0 || c.Moves == 0 || c.Late == 0:
		return fmt.Errorf("%w: %d payments, %d assignments, %d moves and %d late answers are too few, or something never "+
			"happened: %q", ErrCount, c.Payments, c.Assignments, c.Moves, c.Late, never)
	default:
		return nil
	}
}

func (c *Count) note(counter *int, format string, args ...any) {
	*counter++
	if len(c.wrong) < 20 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// judge compares the witnesses.
func judge(f facts) Count {
	c := Count{Done: f.Done}
	rows, moved := make(map[string][]row), make(map[string][]railsim.Record)
	for _, r := range f.Rows {
		rows[r.InstructionID] = append(rows[r.InstructionID], r)
		if r.open() {
			c.Letters++
		}
	}
	for _, record := range f.Moved {
		if record.Kind == railsim.Executed {
			moved[record.Reference] = append(moved[record.Reference], record)
		}
	}
	for _, o := range f.Orders {
		c.order(o, rows[o.InstructionID], moved[o.InstructionID], f.Read)
		delete(moved, o.InstructionID)
		delete(rows, o.InstructionID)
	}
	for id := range moved {
		c.note(&c.False, "%s was executed and never called for", id)
	}
	for id := range rows {
		c.note(&c.False, "%s is in a cell and was never called for", id)
	}
	c.numbers(f)
	c.changes(f)
	return c
}

// order judges one instruction.
func (c *Count) order(o *order, rows []row, moved []railsim.Record, read time.Time) {
	ids, accepted, open, homes := make(map[payment.ID]bool), len(o.Receipts) > 0, false, 0
	bad := slices.Clone(o.Wrong)
	said := slices.Clone(o.Said)
	for _, r := range rows {
		ids[r.OutboxID] = true
		open = open || r.open()
		if r.State != "" { // of a payment elsewhere a cell has the key alone
			homes++
		}
		said = append(said, saying{r.State, "", read, read})
	}
	for _, told := range o.Receipts {
		ids[payment.ID(told.OutboxID)] = true
		if told.SequenceID != o.Receipts[0].SequenceID {
			bad = append(bad, "it was given two numbers")
		}
	}
	for _, one := range said {
		if why := contradicted(one, moved); why != "" {
			bad = append(bad, why)
		}
	}
	for _, record := range moved {
		if record.Amount != o.Amount || record.Debtor != o.ParticipantID {
			bad = append(bad, "the bank executed something else")
		}
	}
	who := fmt.Sprintf("%s of %s on %s, in %v", o.InstructionID, o.ParticipantID, o.RailType, rows)
	if accepted {
		c.Payments++
	} else {
		c.note(&c.Unaccepted, "%s was never accepted", who)
	}
	if len(moved) > 1 || len(ids) > 1 || homes > 1 {
		c.note(&c.Doubled, "%s was executed %d times, and has %d outbox ids", who, len(moved), len(ids))
	}
	if accepted && homes == 0 || (accepted || len(rows) > 0) && len(moved) == 0 && !open {
		c.note(&c.Lost, "%s was executed %d times, and no dead letter is open", who, len(moved))
	}
	if len(bad) > 0 {
		c.note(&c.False, "%s: %s", who, bad[0])
	}
}

// What says that a payment was executed, and that it was not executed so far.
var (
	executed = []string{string(payment.Dispatched), string(reader.ExecutedByEvidence)}
	unpaid   = []string{string(payment.Failed), string(payment.Cancelled), "PENDING", string(reader.NotSent),
		string(reader.RailRefused), string(reader.NotExecutedByEvidence)}
)

// contradicted says why the bank's ledger contradicts what was said of a payment; empty: it does not.
func contradicted(said saying, moved []railsim.Record) string {
	before := func(at time.Time) bool {
		return slices.ContainsFunc(moved, func(r railsim.Record) bool { return r.Time.Before(at) })
	}
	for _, word := range []string{said.State, said.Certainty} {
		if slices.Contains(executed, word) && !before(said.To) {
			return "it was called " + word + ", and not executed by then"
		}
		if slices.Contains(unpaid, word) && before(said.From) {
			return "it was called " + word + ", and executed before"
		}
	}
	return ""
}

// numbers judges the numbers of each participant over all cells, and the order of executions.
func (c *Count) numbers(f facts) {
	numbers, number, seen := make(map[string][]int64), make(map[string]int64), make(map[payment.ID]bool)
	for _, r := range f.Rows {
		if !seen[r.OutboxID] { // another cell may have the key of a payment that is here
			numbers[r.Participant] = append(numbers[r.Participant], r.SequenceID)
		}
		seen[r.OutboxID], number[r.InstructionID] = true, r.SequenceID
	}
	for participant, all := range numbers {
		slices.Sort(all)
		if all[0] != 1 || all[len(all)-1] != int64(len(all)) || len(slices.Compact(all)) != int(all[len(all)-1]) {
			c.note(&c.False, "%s has %d payments with the numbers %d to %d", participant, len(all), all[0],
				all[len(all)-1])
		}
	}
	rail := make(map[string]string)
	for _, o := range f.Orders {
		rail[o.InstructionID] = o.RailType
	}
	last := make(map[string]int64)
	for _, record := range f.Moved {
		n := number[record.Reference]
		if n == 0 || record.Kind != railsim.Executed || rail[record.Reference] != railOrdered || n == last[record.Debtor] {
			continue
		}
		if n < last[record.Debtor] {
			c.note(&c.Overtaken, "%s is number %d of %s, and came behind number %d", record.Reference, n, record.Debtor,
				last[record.Debtor])
		}
		last[record.Debtor] = max(last[record.Debtor], n)
	}
}

// changes counts the buckets that changed their cell. It had participants if a caller was told before that a
// payment of it was accepted.
func (c *Count) changes(f facts) {
	to := make(map[[2]int]string)
	for _, change := range f.Changes {
		at := [2]int{change.Bucket, change.Version}
		if other, twice := to[at]; twice && other != change.Cell {
			c.note(&c.False, "version %d of bucket %d is that of two cells", change.Version, change.Bucket)
		}
		to[at] = change.Cell
		inhabited := false
		for _, o := range f.Orders {
			if outbox.BucketOf(o.ParticipantID) != change.Bucket || len(o.Receipts) == 0 || o.Receipts[0].To.After(change.At) {
				continue
			}
			inhabited = true
			for _, told := range o.Receipts[1:] {
				if told.From.After(change.At) {
					c.Late++
				}
			}
		}
		if inhabited {
			c.Moves++
		} else {
			c.Assignments++
		}
	}
}
