package proofs

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// load reads everything about the instructions of a page, also those that are in only
// one of the tables, in the order of their ids.
func (s *session) load(ctx context.Context, tx pgx.Tx, p page) ([]*instruction, error) {
	l := loader{all: make(map[payment.ID]*instruction), horizon: s.horizon}
	batch := &pgx.Batch{}
	for _, part := range []struct {
		file string
		each func() ([]any, func())
	}{
		{"page_keys", l.keys}, {"page_pending", l.pending}, {"page_attempts", l.attempts},
		{"page_letters", l.letters}, {"page_claims", l.claims}, {"page_acts", l.acts},
		{"page_evidence", l.evidence}, {"page_conflicts", l.conflicts}, {"page_numbered", l.numbered}, {"page_references", l.references},
	} {
		into, take := part.each()
		args := []any{p.first, p.last}
		if part.file == "page_references" {
			args = append(args, before(p.first, sharedWithin))
		}
		batch.Queue(s.sql(part.file), args...).Query(func(rows pgx.Rows) error {
			if _, err := pgx.ForEachRow(rows, into, func() error { take(); return nil }); err != nil {
				return fmt.Errorf("%s: %w", part.file, err)
			}
			return nil
		})
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("reading a page of instructions: %w", err)
	}
	return slices.SortedFunc(maps.Values(l.all), func(a, b *instruction) int {
		return bytes.Compare(a.id[:], b.id[:])
	}), nil
}

// loader collects the rows of a page by instruction.
type loader struct {
	all     map[payment.ID]*instruction
	horizon pgtype.UUID
}

func (l *loader) of(id pgtype.UUID) *instruction {
	known, there := l.all[id.Bytes]
	if !there {
		known = &instruction{id: id.Bytes, acts: make(map[string]int), retired: left(id, l.horizon)}
		l.all[id.Bytes] = known
	}
	return known
}

// left reports whether an instruction is older than the oldest partition.
func left(id, horizon pgtype.UUID) bool {
	return horizon.Valid && bytes.Compare(id.Bytes[:], horizon.Bytes[:]) < 0
}

// Each of these methods returns the targets of one statement's columns, and a function
// that takes the values of a row from them.

func (l *loader) keys() ([]any, func()) {
	var id pgtype.UUID
	var k identity
	var backdated bool
	return []any{&id, &k.InstructionID, &k.IdempotencyKey, &k.ParticipantID, &k.SequenceID, &backdated}, func() {
		i := l.of(id)
		i.key, i.backdated = new(k), backdated
	}
}

func (l *loader) pending() ([]any, func()) {
	var id pgtype.UUID
	var w waiting
	return []any{
		&id, &w.InstructionID, &w.IdempotencyKey, &w.ParticipantID, &w.SequenceID, &w.rail,
		&w.attemptCount, &w.outcomeUnknown, &w.aside, &w.payload, &w.tooLate,
	}, func() { l.of(id).pending = new(w) }
}

func (l *loader) attempts() ([]any, func()) {
	var id pgtype.UUID
	var r row
	var seconds float64
	return []any{
			&id, &r.InstructionID, &r.IdempotencyKey, &r.ParticipantID, &r.SequenceID, &r.rail,
			&r.no, (*string)(&r.state), &r.answers, (*string)(&r.result), &r.errorCode, &r.outcomeUnknown, &r.payload, &seconds,
		}, func() {
			r.claimedAgo = time.Duration(seconds * float64(time.Second))
			i := l.of(id)
			i.rows = append(i.rows, r)
		}
}

func (l *loader) letters() ([]any, func()) {
	var id pgtype.UUID
	var d letter
	return []any{
		&id, &d.reason, &d.status, &d.instruction, &d.participant, &d.rail, &d.misstated, &d.closedByAct,
		&d.reopened,
	}, func() { l.of(id).letter = new(d) }
}

func (l *loader) claims() ([]any, func()) {
	var id pgtype.UUID
	var no int
	return []any{&id, &no}, func() { i := l.of(id); i.flying = append(i.flying, no) }
}

func (l *loader) conflicts() ([]any, func()) {
	var id pgtype.UUID
	var c conflict
	return []any{&id, &c.no, &c.settled}, func() { i := l.of(id); i.conflicts = append(i.conflicts, c) }
}

func (l *loader) numbered() ([]any, func()) {
	var id pgtype.UUID
	var n numbered
	return []any{&id, &n.act, &n.no, (*string)(&n.state)}, func() { i := l.of(id); i.numbered = append(i.numbered, n) }
}

func (l *loader) references() ([]any, func()) {
	var id, earlier pgtype.UUID
	var s shared
	return []any{&id, &s.rail, &s.reference, &earlier}, func() {
		s.earlier = earlier.Bytes
		l.of(id).shared = new(s)
	}
}

func (l *loader) evidence() ([]any, func()) {
	var id pgtype.UUID
	var e evidence
	var other pgtype.UUID
	return []any{&id, &e.login, &e.executed, &e.document, &e.silent, &e.against, &e.appended, &other}, func() {
		e.alsoOf = ""
		if other.Valid {
			e.alsoOf = payment.ID(other.Bytes).String()
		}
		i := l.of(id)
		i.evidence = append(i.evidence, e)
	}
}

func (l *loader) acts() ([]any, func()) {
	var id pgtype.UUID
	var act string
	var n int
	return []any{&id, &act, &n}, func() { l.of(id).acts[act] = n }
}
