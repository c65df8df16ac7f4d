package proofs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// page is a range of instructions that one snapshot reads: first <= id <= last.
//
// A page is short on purpose. All rows that are compared belong to one
// instruction, so a snapshot for each page is consistent; one snapshot
// for hours would keep the dead rows of pending from vacuum and slow every claim.
type page struct {
	first, last pgtype.UUID
}

// lastOfAll ends the open last page, so that rows of no known instruction,
// wherever they are, belong to some page.
var lastOfAll = [16]byte(bytes.Repeat([]byte{0xff}, 16))

// sinceID is the lowest id of an instruction enqueued at a moment: ids are
// UUIDv7, and begin with their time.
func sinceID(moment time.Time) pgtype.UUID {
	id := pgtype.UUID{Valid: true}
	if ms := moment.UnixMilli(); !moment.IsZero() && ms > 0 {
		for n := range 6 {
			id.Bytes[n] = byte(ms >> (8 * (5 - n)))
		}
	}
	return id
}

// sharedWithin is how long before a page instructions are looked for that were dispatched under the references of the
// page's: each partition of the archive has an index of references of its own, so the time bounds how many are probed.
const sharedWithin = 31 * 24 * time.Hour

// before is the lowest id of an instruction enqueued so long before another one.
func before(id pgtype.UUID, d time.Duration) pgtype.UUID {
	var ms int64
	for _, part := range id.Bytes[:6] {
		ms = ms<<8 | int64(part)
	}
	return sinceID(time.UnixMilli(max(ms-d.Milliseconds(), 0)))
}

// next is the id after another one. None follows the last of all.
func next(id pgtype.UUID) pgtype.UUID {
	for n := range slices.Backward(id.Bytes[:]) {
		if id.Bytes[n]++; id.Bytes[n] != 0 {
			break
		}
	}
	return id
}

// walk reads all instructions in pages, once, for all proofs that need it.
func (s *session) walk(ctx context.Context, picked []Proof, which []int, tallies []tally) error {
	if err := s.conn.QueryRow(ctx, s.sql("horizon")).Scan(&s.horizon); err != nil {
		return fmt.Errorf("reading the archive's partitions: %w", err)
	}
	whole := slices.ContainsFunc(which, func(n int) bool { return picked[n].instruction != nil })
	o := s.options
	if whole && o.InFlightMax <= 0 {
		var seconds float64
		if err := s.conn.QueryRow(ctx, s.sql("in_flight")).Scan(&seconds); err != nil {
			return fmt.Errorf("reading the claim timeouts: %w", err)
		}
		o.InFlightMax = time.Duration(seconds * float64(time.Second))
	}
	p := page{first: sinceID(s.options.Since)}
	var done int64
	for open := true; open; {
		err := s.read(ctx, func(tx pgx.Tx) error {
			var n int64
			if err := tx.QueryRow(ctx, s.sql("page"), p.first, s.options.PageSize).Scan(&p.last, &n); err != nil {
				return fmt.Errorf("looking for the next page: %w", err)
			}
			if open = p.last.Valid && p.last.Bytes != lastOfAll; !open {
				p.last = pgtype.UUID{Bytes: lastOfAll, Valid: true}
			}
			done += n
			for _, n := range which {
				if picked[n].page != nil {
					if err := picked[n].page(ctx, s, tx, p, &tallies[n]); err != nil {
						return fmt.Errorf("%s: %w", picked[n].Name, err)
					}
				}
			}
			if !whole {
				return nil
			}
			instructions, err := s.load(ctx, tx, p)
			if err != nil {
				return err
			}
			for _, i := range instructions {
				for _, n := range which {
					if picked[n].instruction != nil {
						picked[n].instruction(i, o, &tallies[n])
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		p.first = next(p.last)
		s.options.Progress("instructions", done)
	}
	return nil
}

// identity has the fields that are equal in every row of an instruction.
type identity struct {
	InstructionID, IdempotencyKey, ParticipantID string
	SequenceID                                   int64
}

// instruction has all rows of one instruction, in one snapshot.
type instruction struct {
	id        payment.ID
	key       *identity // nil: the registry has no row of it
	pending   *waiting
	letter    *letter
	rows      []row
	conflicts []conflict
	numbered  []numbered
	flying    []int          // attempt numbers that are in flight, as the reaper would find them
	acts      map[string]int // of operators, by kind
	retired   bool           // its month has left the archive
	backdated bool           // its id is of a time long before it was enqueued, so that it may look retired
	// evidence is that of each resolution, oldest first.
	evidence []evidence
	shared   *shared // nil: no earlier instruction was dispatched under its reference
}

// shared is a reference of a rail under which an earlier instruction was dispatched as well.
type shared struct {
	rail, reference string
	earlier         payment.ID
}

// conflict is a row that contradicts earlier ones. settled: an operator's act came since.
type conflict struct {
	no      int
	settled bool
}

// numbered is an act of an operator that names a row, and the state of that row.
type numbered struct {
	act   string
	no    int
	state payment.State
}

// evidence is the evidence by which an operator resolved an instruction.
type evidence struct {
	login, document string
	executed        bool
	silent          bool   // the rail's answer was missing
	appended        bool   // it differed from the state before it, so that it has a row
	against         int    // the row in which the rail reported the opposite; 0: there is none
	alsoOf          string // another payment that was executed under the reference of the evidence; empty: none
}

// waiting is a row of pending.
type waiting struct {
	identity
	rail           string
	attemptCount   int
	outcomeUnknown bool
	aside          bool   // quarantined: never due again automatically
	payload        bool   // it carries one, or payment_outbox_instructions has it
	tooLate        string // the day on which it is due, if nothing can have set that; else empty
}

// letter is a dead letter. closedByAct: an operator closed it, after it was opened last. misstated: it is open, and its
// amount is that of no payload of the instruction.
type letter struct {
	reason, status, instruction, participant, rail string
	misstated, closedByAct, reopened               bool
}

func (l *letter) open() bool {
	return l != nil && l.status != "manual_replay" && l.status != "resolved"
}

// row is a row of the archive.
type row struct {
	identity
	rail           string
	no             int
	state          payment.State
	answers        int // 0: no claim
	result         payment.Result
	errorCode      string
	outcomeUnknown bool
	payload        bool // the row holds it
	claimedAgo     time.Duration
}

// asks reports whether the row returns an instruction to pending for an inquiry that an
// operator requested.
func (r row) asks() bool {
	return r.state == payment.Unknown && r.answers == 0 && r.errorCode == payment.CodeAsked
}

// last is the last row that is not LATE_OUTCOME.
func (i *instruction) last() *row {
	for n := range slices.Backward(i.rows) {
		if i.rows[n].state != payment.LateOutcome {
			return &i.rows[n]
		}
	}
	return nil
}

// at is the row with a number.
func (i *instruction) at(no int) *row {
	for n := range i.rows {
		if i.rows[n].no == no {
			return &i.rows[n]
		}
	}
	return nil
}
