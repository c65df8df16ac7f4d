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

// page is a run of instructions that one snapshot looks at: after < id <= last.
//
// A page is short on purpose. Everything that is compared belongs to one
// instruction, so a snapshot a page is consistent where it matters; one snapshot
// for hours would keep the dead rows of pending alive and slow every claim.
type page struct {
	after, last pgtype.UUID
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

// walk goes over all instructions in pages, once, for all proofs that need it.
func (s *session) walk(ctx context.Context, picked []Proof, which []int, tallies []tally) error {
	if err := s.conn.QueryRow(ctx, s.sql("horizon")).Scan(&s.horizon); err != nil {
		return fmt.Errorf("reading the archive's partitions: %w", err)
	}
	whole := slices.ContainsFunc(which, func(n int) bool { return picked[n].instruction != nil })
	p := page{after: sinceID(s.options.Since)}
	var done int64
	for open := true; open; {
		err := s.read(ctx, func(tx pgx.Tx) error {
			var n int64
			if err := tx.QueryRow(ctx, s.sql("page"), p.after, s.options.PageSize).Scan(&p.last, &n); err != nil {
				return fmt.Errorf("looking for the next page: %w", err)
			}
			if open = p.last.Valid; !open {
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
						picked[n].instruction(i, s.options, &tallies[n])
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		p.after = p.last
		s.options.Progress("instructions", done)
	}
	return nil
}

// identity is what every row of an instruction repeats, and may never differ in.
type identity struct {
	InstructionID, IdempotencyKey, ParticipantID string
	SequenceID                                   int64
}

// instruction is everything that the cell holds of one, in one snapshot.
type instruction struct {
	id      payment.ID
	key     *identity // nil: the registry does not know it
	pending *waiting
	letter  *letter
	rows    []row
	flying  []int          // attempt numbers that are in flight, as the reaper would find them
	acts    map[string]int // of people, by kind
	retired bool           // its month has left the archive
	// evidence is that of each resolution, oldest first.
	evidence []evidence
}

// evidence is what a person resolved an instruction by.
type evidence struct {
	login, document string
	executed        bool
	silent          bool   // the rail's word was missing
	against         int    // the row by which the rail said the opposite; 0: it did not
	alsoOf          string // another payment that is executed by the reference which it names; empty: none
}

// waiting is a row of pending.
type waiting struct {
	identity
	rail           string
	attemptCount   int
	outcomeUnknown bool
	aside          bool // never due again by itself
	payload        bool // it carries one, or payment_outbox_instructions has it
}

type letter struct{ reason, status string }

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

// asks reports whether the row puts an instruction out for an inquiry that an operator
// asked for.
func (r row) asks() bool {
	return r.state == payment.Unknown && r.answers == 0 && r.errorCode == payment.CodeAsked
}

// last is the last row that is not LATE_OUTCOME, which changes nothing by itself.
func (i *instruction) last() *row {
	for n := range slices.Backward(i.rows) {
		if i.rows[n].state != payment.LateOutcome {
			return &i.rows[n]
		}
	}
	return nil
}

// at is the row of a number.
func (i *instruction) at(no int) *row {
	for n := range i.rows {
		if i.rows[n].no == no {
			return &i.rows[n]
		}
	}
	return nil
}
