package model

import (
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// backup is an earlier state of the database: the rows of a history, and the model of its
// instructions.
type backup struct {
	rows  string // a JSON object
	taken time.Time
	all   []*instruction
	model []*model
}

const backUpSQL = `
	SELECT clock_timestamp(), jsonb_build_object(
	  'keys', (SELECT coalesce(jsonb_agg(k.outbox_id), '[]') FROM railhead.payment_outbox_keys k
	  WHERE starts_with(k.instruction_id, $1 || '-')),
	  'attempts', (SELECT coalesce(jsonb_agg(a.attempt_id), '[]') FROM railhead.payment_outbox_attempts a
	  WHERE a.rail_type = $1),
	  'pending', (SELECT coalesce(jsonb_agg(to_jsonb(p)), '[]') FROM railhead.payment_outbox_pending p
	  WHERE p.rail_type = $1),
	  'letters', (SELECT coalesce(jsonb_agg(to_jsonb(d)), '[]') FROM railhead.payment_dead_letters d
	  WHERE d.rail_type = $1),
	  'claims', (SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]') FROM railhead.payment_outbox_claims f
	  WHERE starts_with(f.worker_id, $1 || '-')),
	  'sequences', (SELECT coalesce(jsonb_agg(to_jsonb(s)), '[]') FROM railhead.participant_outbox_sequences s
	  WHERE starts_with(s.participant_id, $1 || '-'))
	)::text`

// restoreSQL puts the rows back. $1 is the rail, $2 the backup.
var restoreSQL = []string{
	`DELETE FROM railhead.payment_outbox_attempts a WHERE a.rail_type = $1
	  AND NOT a.attempt_id IN (SELECT x::uuid FROM jsonb_array_elements_text($2::jsonb -> 'attempts') x)`,
	`DELETE FROM railhead.payment_outbox_pending p WHERE p.rail_type = $1 AND $2::text <> ''`,
	`DELETE FROM railhead.payment_dead_letters d WHERE d.rail_type = $1 AND $2::text <> ''`,
	`DELETE FROM railhead.payment_outbox_claims f WHERE starts_with(f.worker_id, $1 || '-') AND $2::text <> ''`,
	`DELETE FROM railhead.participant_outbox_sequences s WHERE starts_with(s.participant_id, $1 || '-') AND $2::text <> ''`,
	`DELETE FROM railhead.payment_outbox_instructions i WHERE i.rail_type = $1
	  AND NOT i.outbox_id IN (SELECT x::uuid FROM jsonb_array_elements_text($2::jsonb -> 'keys') x)`,
	`DELETE FROM railhead.payment_outbox_keys k WHERE starts_with(k.instruction_id, $1 || '-')
	  AND NOT k.outbox_id IN (SELECT x::uuid FROM jsonb_array_elements_text($2::jsonb -> 'keys') x)`,
	`INSERT INTO railhead.payment_outbox_pending SELECT r.* FROM jsonb_populate_recordset(NULL::railhead.payment_outbox_pending, $2::jsonb -> 'pending') r
	  WHERE r.rail_type = $1`,
	`INSERT INTO railhead.payment_dead_letters SELECT r.* FROM jsonb_populate_recordset(NULL::railhead.payment_dead_letters, $2::jsonb -> 'letters') r
	  WHERE r.rail_type = $1`,
	`INSERT INTO railhead.payment_outbox_claims SELECT r.* FROM jsonb_populate_recordset(NULL::railhead.payment_outbox_claims, $2::jsonb -> 'claims') r
	  WHERE starts_with(r.worker_id, $1 || '-')`,
	`INSERT INTO railhead.participant_outbox_sequences SELECT r.*
	  FROM jsonb_populate_recordset(NULL::railhead.participant_outbox_sequences, $2::jsonb -> 'sequences') r
	  WHERE starts_with(r.participant_id, $1 || '-')`,
}

// backUp keeps the present state for a later restore.
func (w *world) backUp(t *rapid.T) {
	if w.suspended {
		t.Skip("a backup of suspended lanes is restored as such")
	}
	b := &backup{all: slices.Clone(w.all)}
	must(t, w.looker.QueryRow(w.ctx(), backUpSQL, w.name).Scan(&b.taken, &b.rows))
	for _, one := range w.all {
		b.model = append(b.model, one.model.clone())
	}
	w.backup = b
}

func (m *model) clone() *model {
	c := *m
	c.sends, c.answers, c.claimedAt, c.stored = maps.Clone(m.sends), maps.Clone(m.answers), maps.Clone(m.claimedAt),
		maps.Clone(m.stored)
	c.lates, c.words, c.claimSent = slices.Clone(m.lates), slices.Clone(m.words), maps.Clone(m.claimSent)
	return &c
}

// restore puts the database back. Rails and workers stay as they are: a worker may hold claims
// that no longer exist. The first service that notices suspends the lanes.
func (w *world) restore(t *rapid.T) {
	if w.backup == nil {
		t.Skip("there is no backup")
	}
	must(t, w.unguarded(func(tx pgx.Tx) error {
		for _, sql := range restoreSQL {
			if _, err := tx.Exec(w.ctx(), sql, w.name, w.backup.rows); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, one := range w.all {
		if n := slices.Index(w.backup.all, one); n < 0 {
			w.gone = append(w.gone, one)
		} else {
			if w.backup.model[n].rows != one.rows {
				one.rewound = w.backup.model[n].rows
			}
			one.model = w.backup.model[n].clone()
		}
	}
	// A call that was repeated replaces the one that was forgotten.
	w.gone = slices.DeleteFunc(w.gone, func(one *instruction) bool {
		return slices.ContainsFunc(w.backup.all, func(kept *instruction) bool { return kept.rail == one.rail })
	})
	w.all = slices.Clone(w.backup.all)
	w.suspended, w.restored = true, true

	var now time.Time
	must(t, w.looker.QueryRow(w.ctx(), `SELECT clock_timestamp()`).Scan(&now))
	must(t, w.executor.Suspend(w.ctx(), w.workerID(0), outbox.CauseRowsMissing, "a restore", now))
	// The server was not restarted, so no heartbeat shows up to when the data reaches.
	_, err := w.looker.Exec(w.ctx(), `UPDATE railhead.payment_outbox_suspensions SET known_until = $1
		WHERE accepted_at IS NULL AND (known_until = '-infinity' OR known_until > $1)`, w.backup.taken)
	must(t, err)
	must(t, w.looker.QueryRow(w.ctx(), `SELECT max(opened_at) FROM railhead.payment_outbox_suspensions`).Scan(&w.noticed))
}

// unguarded changes append-only tables. Outside of tests only a change of the server's files does
// that.
func (w *world) unguarded(do func(pgx.Tx) error) error {
	return pgx.BeginFunc(w.ctx(), w.looker, func(tx pgx.Tx) error {
		var guard string
		err := tx.QueryRow(w.ctx(), `SELECT pg_get_functiondef('railhead.refuse_change'::regproc)`).Scan(&guard)
		if err != nil {
			return err
		}
		const open = `CREATE OR REPLACE FUNCTION railhead.refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'`
		if _, err := tx.Exec(w.ctx(), open); err != nil {
			return err
		}
		if err := do(tx); err != nil {
			return err
		}
		_, err = tx.Exec(w.ctx(), guard)
		return err
	})
}

// goesOn reports whether lanes are claimed although they are suspended.
func (w *world) goesOn() bool { return w.profile.ResendOnUnknown == payment.ResendSameKey }

// weigh adds to a claim what workers know about suspensions.
func (w *world) weigh(t *rapid.T, c payment.Claim) payment.Claim {
	if !w.restored {
		return c
	}
	rows, err := w.looker.Query(w.ctx(), `
		SELECT s.opened_at, coalesce(s.accepted_at, 'epoch'), s.known_until, coalesce(s.accepted_at, 'epoch') + g.repeated_within
		FROM railhead.payment_outbox_suspensions s CROSS JOIN railhead.payment_outbox_settings g
		ORDER BY s.suspension_id DESC`)
	must(t, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s payment.Suspension, err error) {
		err = row.Scan(&s.OpenedAt, &s.AcceptedAt, &s.KnownUntil, &s.DoubtedUntil)
		if s.AcceptedAt.Unix() == 0 {
			s.AcceptedAt = time.Time{}
		}
		return s, err
	})
	must(t, err)
	return c.Weigh(all)
}

// forgot reports whether a restore has forgotten the claim of a job.
func (w *world) forgot(j *job) bool {
	one := w.byID(j.claim.OutboxID)
	return one == nil || one.number(j.claim) == 0
}

// onItsWay reports whether the rail may still execute an instruction without another claim of it.
func (w *world) onItsWay(one *instruction) bool {
	if one.rail.flying > 0 || one.rail.taken {
		return true
	}
	for n := range w.workers {
		if slices.ContainsFunc(w.workers[n].jobs, func(j *job) bool {
			return j.outcome == nil && j.instruction.rail == one.rail && w.forgot(j)
		}) {
			return true
		}
	}
	return false
}

// accept accepts the timeline as an operator does: nothing is on its way any more, the pending
// instructions that were executed are ended with the rail's statement, and then sending may go on.
func (w *world) accept(t *rapid.T) {
	if !w.suspended || slices.ContainsFunc(slices.Concat(w.all, w.gone), w.onItsWay) {
		t.Skip("there is nothing to accept yet")
	}
	for _, one := range w.all {
		if !one.waiting || one.rail.executed == 0 {
			continue
		}
		reference := one.rail.reference(payment.ResultExecuted)
		_, err := w.operator.ResolvePayment(w.ctx(), one.id, operator.Evidence{
			Executed: true, RailReference: reference, Date: time.Now(), Document: "statement", Reason: "a proof",
		})
		must(t, err)
		one.resolved(payment.Dispatched, payment.ResultExecuted, reference)
		one.waiting, one.letter, one.judgedPaidAt = false, "", one.rows
	}
	var since time.Time
	must(t, w.looker.QueryRow(w.ctx(), `SELECT opened_at FROM railhead.payment_outbox_suspensions
		WHERE accepted_at IS NULL`).Scan(&since))
	_, err := w.operator.AcceptTimeline(w.ctx(), since, "a proof")
	must(t, err)
	w.suspended = false
}

// enqueueAnew repeats a caller's call that a restore has forgotten, if the rail de-duplicates or
// has not executed it.
func (w *world) enqueueAnew(t *rapid.T) {
	n := slices.IndexFunc(w.gone, func(one *instruction) bool {
		return one.rail.dedupes || one.rail.executed == 0 && !w.onItsWay(one)
	})
	if n < 0 || len(w.all) >= instructionsMax || w.suspended && w.gone[n].rail.executed == 0 && !w.gone[n].rail.dedupes {
		t.Skip("no call was forgotten that may be repeated")
	}
	old := w.gone[n]
	w.gone = slices.DeleteFunc(w.gone, func(other *instruction) bool { return other.rail == old.rail })
	one := &instruction{model: enqueued(w.profile.Policy, &w.past), rail: old.rail, order: old.order, repeated: true}
	one.expires = !one.order.ExpiresAt.IsZero()
	receipt, err := w.ingest.Enqueue(w.ctx(), one.order)
	must(t, err)
	if receipt.Replayed || receipt.State != "PENDING" || receipt.OutboxID == old.id {
		t.Fatalf("a call that was forgotten: %+v", receipt)
	}
	one.id = receipt.OutboxID
	same(t, "its rail key", w.railKey(t, one.id), old.rail.key)
	w.all = append(w.all, one)
}

// replayable is the design's rule for a replay. In these histories a rail's index is never old
// enough to count.
func (m *model) replayable() bool {
	if m.letter != payment.DeadFailed && m.letter != payment.DeadExpired || m.state != payment.Failed || m.dispatched {
		return false
	}
	if m.endedBy != payment.ResultRefused || m.evident {
		for _, l := range m.lates {
			// An operator's evidence after that closes the letter, and does not permit the replay again.
			if l.no > m.last && (l.result == payment.ResultUnknown || l.result == payment.ResultAccepted ||
				l.unknown && !m.unknown) {
				return false
			}
		}
	}
	// A replay keeps the key, which a refusal may have used up although a worker reports late that
	// nothing of its claim has left.
	for claim, counts := range m.sends {
		if counts && m.claimSent[claim] && !m.again {
			return false
		}
	}
	return m.again || m.sent() == 0
}
