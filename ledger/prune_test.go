package ledger_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// prune prunes dead letters that were closed more than 8 days ago.
func (d *desk) prune(dryRun bool) operator.Pruned {
	d.t.Helper()
	done, err := d.operator().Prune(d.t.Context(), operator.Pruning{What: operator.PruneLetters, Age: 8 * 24 * time.Hour,
		Reason: why, DryRun: dryRun})
	d.must(err)
	return done
}

// closedAgo makes the letter of an instruction one that was last changed 30 days ago.
func (d *desk) closedAgo(id payment.ID) {
	d.t.Helper()
	d.do(`UPDATE railhead.payment_dead_letters SET updated_at = now() - interval '30 days' WHERE outbox_id = $1`,
		[16]byte(id))
}

// said is everything that is decided and shown of an instruction apart from a closed letter.
func (d *desk) said(id payment.ID) string {
	d.t.Helper()
	letter := d.letter(id)
	if isEnded(letter) {
		letter = ""
	}
	return strings.Join([]string{d.rows(id), d.waiting(id), letter, string(d.certainty(id)), d.contract(id)}, "; ")
}

// TestPruneChangesNothing brings instructions to every state, closes their letters by every
// act that does, prunes the letter of one and not of its twin, and then lets evidence come
// late: what is recorded, opened and shown of both is the same. Failed payments keep their
// letters, and so does what was quarantined.
func TestPruneChangesNothing(t *testing.T) {
	t.Parallel()
	for name, bring := range plights {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
			o := d.operator()
			for _, hand := range append(slices.Clone(hands[:1]), hands[3:]...) { // those that may close a letter
				for _, late := range append(slices.Clone(comesLate[:1]), comesLate[2:4]...) {
					pruned, twin := bring(d), bring(d)
					if hand.do(o, t, pruned) != nil || hand.do(o, t, twin) != nil {
						break
					}
					before := d.said(pruned)
					d.closedAgo(pruned)
					if letter := d.letter(pruned); letter == "" || !isEnded(letter) {
						if done := d.prune(false); done.Pruned != 0 {
							t.Errorf("%s: letter %q was pruned", hand.name, letter)
						}
						break
					}
					last := d.text(`SELECT coalesce((SELECT state::text FROM railhead.payment_outbox_attempts WHERE outbox_id = $1
						AND state <> 'LATE_OUTCOME' ORDER BY attempt_no DESC LIMIT 1), '')`, [16]byte(pruned))
					goes := (last == "DISPATCHED" || last == "CANCELLED") && !strings.HasPrefix(d.letter(pruned), "UNCLAIMABLE") &&
						d.waiting(pruned) == ""
					would := d.prune(true)
					done := d.prune(false)
					if would != done {
						t.Errorf("%s: pruned %+v, and would have %+v", hand.name, done, would)
					}
					same(t, hand.name+": a letter is left", d.letter(pruned) == "", goes)
					same(t, hand.name+": what is said", d.said(pruned), before)
					verdict := d.late(late.of(pruned))
					same(t, hand.name+", then "+late.name, verdict, d.late(late.of(twin)))
					same(t, hand.name+", then "+late.name+": rows", d.said(pruned), d.said(twin))
				}
			}
			d.gapless()
		})
	}
}

// TestPruneKeeps: what is open, recent, in pending, unregistered or without a payload stays;
// of a month that has left the archive nothing closed does.
func TestPruneKeeps(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	o := d.operator()
	opened := plights["FAILED"](d)
	d.closedAgo(opened)
	recent := plights["PARKED, outcome unknown"](d)
	d.must(hands[5].do(o, t, recent))
	waits := plights["CONFLICT after DISPATCHED"](d)
	d.must(hands[5].do(o, t, waits))
	d.closedAgo(waits)
	forged := payment.NewID()
	d.do(`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason, status, updated_at)
		VALUES ($1, 'none', 'participant', 'bank', 'TAMPERED', 'resolved', now() - interval '30 days')`, [16]byte(forged))
	bare := plights["PARKED, outcome unknown"](d)
	d.must(hands[5].do(o, t, bare))
	d.closedAgo(bare)
	d.do(`ALTER TABLE railhead.payment_outbox_instructions DISABLE TRIGGER ALL`)
	partition := d.text(`SELECT tableoid::regclass::text FROM railhead.payment_outbox_instructions WHERE outbox_id = $1`,
		[16]byte(bare))
	d.do(`ALTER TABLE ` + partition + ` DISABLE TRIGGER ALL`)
	d.do(`DELETE FROM railhead.payment_outbox_instructions WHERE outbox_id = $1`, [16]byte(bare))
	failed := plights["FAILED"](d)
	d.must(hands[3].do(o, t, failed))
	d.closedAgo(failed)
	d.putBack(waits)
	same(t, "pruned", d.prune(false), operator.Pruned{Seen: 6, Open: 1, Recent: 1, Needed: 4})

	d.do(`ALTER TABLE railhead.payment_outbox_attempts DETACH PARTITION ` + d.text(`SELECT tableoid::regclass::text
		FROM railhead.payment_outbox_attempts WHERE outbox_id = $1 LIMIT 1`, [16]byte(failed)))
	same(t, "pruned of a month that has left", d.prune(false),
		operator.Pruned{Seen: 6, Pruned: 2, Open: 1, Recent: 1, Needed: 2})
	same(t, "what the month's FAILED one has", d.letter(failed), "")
	same(t, "late", d.late(callback(failed, payment.ResultExecuted, "ref")), payment.VerdictRetired)
	same(t, "what is logged", d.text(`SELECT actor || ' ' || act || ' ' || subject || ' ' || reason || ' ' || (detail ->> 'pruned')
		|| ' ' || ((detail ->> 'before')::timestamptz BETWEEN now() - interval '9 days' AND now() - interval '7 days')
		FROM railhead.payment_operator_log WHERE act = 'PRUNE'`), celltest.Operator+" PRUNE dead-letters "+why+" 2 true")
}

// TestPruneRefuses meets the refusals, none of which removes or logs anything.
func TestPruneRefuses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := plights["PARKED, outcome unknown"](d)
	d.must(hands[5].do(d.operator(), t, id))
	d.closedAgo(id)
	conn := d.Conn(t, celltest.Operator)
	for call, want := range map[string]string{
		`'dead-letters', now() + interval '1 hour', 'why', NULL, 10, false`:          "RH002 the time before which is pruned is missing, infinite or in the future",
		`'dead-letters', 'infinity', 'why', NULL, 10, false`:                         "RH002 the time before which is pruned is missing, infinite or in the future",
		`'dead-letters', '-infinity', 'why', NULL, 10, false`:                        "RH002 the time before which is pruned is missing, infinite or in the future",
		`'dead-letters', NULL, 'why', NULL, 10, false`:                               "RH002 the time before which is pruned is missing, infinite or in the future",
		`'dead-letters', now() - interval '6 days 23 hours', 'why', NULL, 10, false`: "RH002 the time before which is pruned is within the last 7 days",
		`'dead-letters', now() - interval '8 days', ' ', NULL, 10, false`:            "RH002 a reason of 1 to 2000 bytes is required",
		`'dead-letters', now() - interval '8 days', 'why', NULL, 10001, false`:       "RH002 a batch has 1 to 10000 rows",
		`'dead-letters', now() - interval '8 days', 'why', NULL, NULL, false`:        "RH002 a batch has 1 to 10000 rows",
		`'attempts', now() - interval '8 days', 'why', NULL, 10, false`:              "RH002 attempts: the archive is append-only, and nothing in it is pruned",
		`NULL, now() - interval '8 days', 'why', NULL, 10, false`:                    "RH002 dead-letters and heartbeats can be pruned, and nothing else",
	} {
		_, err := conn.Exec(t.Context(), `SELECT railhead.prune(`+call+`)`)
		if err == nil || !strings.Contains(err.Error(), want[6:]) || ledger.SQLState(err) != want[:5] {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
	for _, login := range []string{
		celltest.Relayer, celltest.Readonly, celltest.Auditor, celltest.Contract, celltest.Ingest,
	} {
		_, err := d.Conn(t, login).Exec(t.Context(), `SELECT railhead.prune('dead-letters', now() - interval '8 days', 'w', NULL, 10, true)`)
		same(t, login, ledger.SQLState(err), "42501")
	}
	_, err := d.exec.Heartbeat(t.Context(), outbox.Heartbeat{Name: "a", Kind: "relayer", Host: "h", Version: "v",
		Status: "running"})
	d.must(err)
	_, err = d.operator().Prune(t.Context(),
		operator.Pruning{What: operator.PruneLetters, Age: 8 * 24 * time.Hour, Reason: why})
	if !errors.Is(err, outbox.ErrNotAllowed) {
		t.Errorf("on a server that was not compared: %v", err)
	}
	same(t, "letters and acts", d.text(`SELECT (SELECT count(*) FROM railhead.payment_dead_letters) || ' '
		|| (SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'PRUNE')`), "1 0")
}

// TestPruneInBatches prunes more than a batch by two operators at once, while one letter is
// locked by another transaction and payments live on; each letter is counted and logged once.
// What a third one had done when it was stopped stays done.
func TestPruneInBatches(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	model := plights["PARKED, outcome unknown"](d)
	d.must(hands[5].do(d.operator(), t, model))
	const n = 2500
	d.do(`INSERT INTO railhead.payment_outbox_keys (outbox_id, rail_key, sequence_id, instruction_id, idempotency_key, participant_id, fingerprint)
		SELECT railhead.uuidv7(), gen_random_uuid(), i, 'many-' || i, 'k', 'many', sha256('') FROM generate_series(1, $1) i`, n)
	d.do(`INSERT INTO railhead.payment_outbox_instructions (outbox_id, priority, rail_type, headers, payload)
		SELECT outbox_id, 1, 'bank', '{}', '{}' FROM railhead.payment_outbox_keys WHERE participant_id = 'many'`)
	d.do(`INSERT INTO railhead.payment_outbox_attempts (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, result, outcome_unknown, provisional)
		SELECT gen_random_uuid(), outbox_id, 'bank', 1, 'DISPATCHED', now(), 'EXECUTED', false, false
		FROM railhead.payment_outbox_keys WHERE participant_id = 'many'`)
	d.do(`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason, status, updated_at)
		SELECT outbox_id, instruction_id, 'many', 'bank', 'OUTCOME_UNKNOWN', 'resolved', now() - interval '30 days'
		FROM railhead.payment_outbox_keys WHERE participant_id = 'many'`)
	tx, err := d.Conn(t, "").Begin(t.Context())
	d.must(err)
	_, err = tx.Exec(t.Context(), `SELECT FROM railhead.payment_dead_letters WHERE instruction_id = 'many-1' FOR UPDATE`)
	d.must(err)

	pruning := operator.Pruning{What: operator.PruneLetters, Age: 8 * 24 * time.Hour, Reason: why}
	stopped, stop := context.WithCancel(t.Context())
	pruning.Progress = func(operator.Pruned) { stop() }
	half, err := d.operator().Prune(stopped, pruning)
	if !errors.Is(err, context.Canceled) || half.Seen != operator.PruneBatch {
		t.Errorf("stopped after the first batch: %+v, %v", half, err)
	}
	pruning.Progress = nil
	var sums [2]operator.Pruned
	var over sync.WaitGroup
	for i := range sums {
		o := openOperator(t, d.Cell)
		over.Go(func() {
			var err error
			if sums[i], err = o.Prune(t.Context(), pruning); err != nil {
				t.Error(err)
			}
		})
	}
	over.Go(func() {
		for range 5 { // a relayer at work
			_ = plights["PARKED, outcome unknown"](d)
		}
	})
	over.Wait()
	same(t, "pruned by the three", half.Pruned+sums[0].Pruned+sums[1].Pruned, n-1)
	same(t, "logged", d.Int(`SELECT sum((detail ->> 'pruned')::integer) FROM railhead.payment_operator_log WHERE act = 'PRUNE'`), n-1)
	same(t, "left", d.Int(`SELECT count(*) FROM railhead.payment_dead_letters`), 2+5)
	d.must(tx.Rollback(t.Context()))
}

// TestPruneHeartbeats: what ended long ago goes; what is recent, holds a claim, or is the
// last relayer stays.
func TestPruneHeartbeats(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, beat := range []outbox.Heartbeat{
		{Name: "old", Kind: "reaper", Status: "stopped"}, {Name: "old relayer", Kind: "relayer", Status: "stopped"},
		{Name: "worker", Kind: "reaper", Status: "stopped"}, {Name: "recent", Kind: "reaper", Status: "stopped"},
		{Name: "relayer", Kind: "relayer", Status: "stopped"},
	} {
		beat.Host, beat.Version = "h", "v"
		_, err := d.exec.Heartbeat(t.Context(), beat)
		d.must(err)
	}
	d.claimOne(d.enqueue())
	d.do(`UPDATE railhead.outbox_heartbeats SET vouched = name = 'recent'`)
	d.do(`UPDATE railhead.outbox_heartbeats SET last_tick_at = now() - CASE name WHEN 'relayer' THEN interval '29 days'
		ELSE interval '30 days' END WHERE name <> 'recent'`)
	done, err := d.operator().Prune(t.Context(),
		operator.Pruning{What: operator.PruneHeartbeats, Age: 8 * 24 * time.Hour, Reason: why})
	d.must(err)
	same(t, "pruned", done.Pruned, 2)
	same(t, "left", d.text(`SELECT string_agg(name, ', ' ORDER BY name) FROM railhead.outbox_heartbeats
		WHERE name IN ('old', 'old relayer', 'worker', 'recent', 'relayer')`), "recent, relayer, worker")
}

// TestPruneKeepsTheVoucher: a cell on which everything has been silent for long is settled by a
// heartbeat of a reaper alone. It stays, and the operator log names what went.
func TestPruneKeepsTheVoucher(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`DELETE FROM railhead.outbox_heartbeats`)
	for _, beat := range []outbox.Heartbeat{
		{Name: "relayer", Kind: "relayer", Status: "stopped"}, {Name: "voucher", Kind: "reaper", Status: "stopped"},
		{Name: "callback:1", Kind: "callback", Status: "stopped"}, {Name: "later", Kind: "reaper", Status: "stopped"},
	} {
		beat.Host, beat.Version = "h", "v"
		_, err := d.exec.Heartbeat(t.Context(), beat)
		d.must(err)
	}
	d.do(`UPDATE railhead.outbox_heartbeats SET vouched = name <> 'later', last_tick_at = now() - interval '30 days'
		+ CASE name WHEN 'later' THEN interval '2 days' WHEN 'voucher' THEN interval '1 day' ELSE interval '0' END,
		server_started_at = server_started_at - CASE name WHEN 'relayer' THEN interval '1 day' ELSE interval '0' END`)
	same(t, "settled before", d.text(`SELECT railhead.server_is_settled()::text`), "true")
	done, err := d.operator().Prune(t.Context(),
		operator.Pruning{What: operator.PruneHeartbeats, Age: 8 * 24 * time.Hour, Reason: why})
	d.must(err)
	same(t, "pruned", done.Pruned, 2)
	same(t, "left", d.text(`SELECT string_agg(name, ', ' ORDER BY name) FROM railhead.outbox_heartbeats`), "relayer, voucher")
	same(t, "settled after", d.text(`SELECT railhead.server_is_settled()::text`), "true")
	same(t, "log", d.text(`SELECT detail ->> 'removed' FROM railhead.payment_operator_log WHERE act = 'PRUNE'`),
		`["callback:1", "later"]`)
}
