package proofs

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/payment"
)

// contentProofs are about the content of an instruction, and that it exists once.
func contentProofs() []Proof {
	return []Proof{
		overInstructions(Proof{
			Name: "identity", Promise: paidOnce,
			Shows: "Every row of pending and archive names the instruction, key, participant and number that the registry " +
				"has under its outbox_id",
			Expected: "no row that differs, none without a row of the registry",
			Counts:   "rows of the archive and of pending",
		}, proveIdentity),
		{
			Name: "fingerprints", Promise: paidOnce,
			Shows: "Participant, rail and payload, with amount and payee, of each instruction, and of each pending and each " +
				"claimed row of it, are as enqueued: " +
				"the fingerprint is recomputed here, over the stored text, and by the database",
			Expected: "three equal fingerprints a row",
			Counts:   "payloads",
			Reads: []string{"payment_outbox_keys", "payment_outbox_instructions.payload", "v_outbox_pending.payload",
				"v_outbox_attempts.payload"},
			Executes: []string{"payment_outbox_fingerprint"}, Statements: []string{"sql/fingerprints.sql"},
			Ledger: true, page: proveFingerprints, script: violations("fingerprints"),
		},
		{
			Name: "rail-keys", Promise: paidOnce,
			Shows: "The key by which a rail de-duplicates an instruction is the one that is derived from its caller's key: " +
				"it is derived here, " +
				"so that the rail recognises a repeated enqueue that a restore lost",
			Expected: "every stored rail key is the derived one",
			Counts:   "rail keys",
			Reads:    []string{"payment_outbox_keys", "payment_outbox_settings"}, Statements: []string{"sql/rail_keys.sql"},
			Ledger: true, page: proveRailKeys, script: violations("rail_keys"),
		},
		{
			Name: "idempotency", Promise: paidOnce,
			Shows: "One instruction_id and idempotency_key stand for one outbox_id, in the registry, in pending and in " +
				"the archive; a key that came over HTTP is recorded with its caller, and is the only one of its instruction",
			Expected: "no pair with two, no key over HTTP without its call",
			Counts:   "pairs of keys",
			Reads: []string{"payment_outbox_keys", "payment_outbox_pending.instruction_id",
				"payment_outbox_attempts.instruction_id", "payment_api_calls"},
			Statements: []string{"sql/idempotency.sql"},
			Ledger:     true, page: proveIdempotency, script: violations("idempotency"),
		},
		{
			Name: "callers", Promise: roles,
			Shows: "Every instruction that came over HTTP names a token of this cell that may enqueue for its participant, " +
				"and that was in force when it was enqueued",
			Expected: "no other token, none before it was created or more than a minute after its end",
			Counts:   "instructions that came over HTTP",
			Reads:    []string{"payment_outbox_keys", "payment_api_calls"}, Executes: []string{"api_tokens"},
			Statements: []string{"sql/callers.sql"},
			Ledger:     true, page: proveCallers, script: callers,
		},
		{
			Name: "carried-keys", Promise: paidOnce,
			Shows: "A participant that came from another cell has all of its keys here, as they were packed there, and none " +
				"stands for one payment here and another one there",
			Expected: "the SHA-256 with which its bucket was given",
			Reads: []string{"payment_arrived_keys", "payment_arrivals", "payment_outbox_keys", "payment_buckets",
				"payment_cell_changes", "payment_cells"},
			Statements: []string{"sql/carried_keys.sql"},
			whole:      judged("carried_keys"), script: judgement("carried_keys", nil),
		},
	}
}

func proveIdentity(i *instruction, _ Options, t *tally) {
	compare := func(where string, is identity) {
		t.rows++
		switch {
		case i.key == nil:
			t.offend("%s: %s has it and the registry does not", i.id, where)
		case is != *i.key:
			t.offend("%s: %s has instruction %s, key %s, number %d of %s; the registry has instruction %s, key %s, number %d "+
				"of %s",
				i.id, where, is.InstructionID, is.IdempotencyKey, is.SequenceID, is.ParticipantID,
				i.key.InstructionID, i.key.IdempotencyKey, i.key.SequenceID, i.key.ParticipantID)
		}
	}
	rail := ""
	sameRail := func(where, is string) {
		if rail == "" {
			rail = is
		}
		if is != rail {
			t.offend("%s: %s has rail %s, earlier rows have %s", i.id, where, is, rail)
		}
	}
	for _, r := range i.rows {
		where := fmt.Sprintf("row %d of the archive", r.no)
		compare(where, r.identity)
		sameRail(where, r.rail)
	}
	if i.pending != nil {
		compare("pending", i.pending.identity)
		sameRail("pending", i.pending.rail)
	}
}

// proveFingerprints computes the fingerprint itself and has the database compute it: a
// function that was replaced could agree with a forged row.
func proveFingerprints(ctx context.Context, s *session, tx pgx.Tx, p page, t *tally) error {
	rows, err := tx.Query(ctx, s.sql("fingerprints"), p.first, p.last)
	if err != nil {
		return err
	}
	var source, participant, rail string
	var id pgtype.UUID
	var no int
	var payload, recomputed, registered []byte
	_, err = pgx.ForEachRow(rows, []any{&source, &id, &no, &participant, &rail, &payload, &recomputed, &registered},
		func() error {
			t.rows++
			where := source
			if no > 0 {
				where = fmt.Sprintf("row %d (%s)", no, source)
			}
			here := payment.Fingerprint(participant, rail, payload)
			switch outbox := payment.ID(id.Bytes); {
			case registered == nil:
				t.offend("%s: %s has a payload without a fingerprint in the registry", outbox, where)
			case !bytes.Equal(here[:], registered):
				t.offend("%s: %s is not what was enqueued: its fingerprint is %x, the registry's %x", outbox, where, here[:8],
					registered[:8])
			case !bytes.Equal(recomputed, registered):
				t.offend("%s: %s: the database's own function returns %x, and the registry has %x", outbox, where,
					recomputed[:min(8, len(recomputed))], registered[:8])
			}
			return nil
		})
	return err
}

// proveRailKeys derives the rail keys itself, and not by a function of the database.
func proveRailKeys(ctx context.Context, s *session, tx pgx.Tx, p page, t *tally) error {
	rows, err := tx.Query(ctx, s.sql("rail_keys"), p.first, p.last)
	if err != nil {
		return err
	}
	var id, stored, namespace pgtype.UUID
	var participant, instructionID, key string
	_, err = pgx.ForEachRow(rows, []any{&id, &participant, &instructionID, &key, &stored, &namespace}, func() error {
		t.rows++
		derived := payment.DeriveRailKey(payment.ID(namespace.Bytes), participant, instructionID, key)
		if derived != payment.ID(stored.Bytes) {
			t.offend("%s: its rail key is %s, and %s is derived from its caller's key: the rail may have received another",
				payment.ID(id.Bytes), payment.RailKey(payment.ID(stored.Bytes)), payment.RailKey(derived))
		}
		return nil
	})
	return err
}

func proveCallers(ctx context.Context, s *session, tx pgx.Tx, p page, t *tally) error {
	rows, err := tx.Query(ctx, s.sql("callers"), p.first, p.last)
	if err != nil {
		return err
	}
	var id pgtype.UUID
	var violation *string
	_, err = pgx.ForEachRow(rows, []any{&id, &violation}, func() error {
		t.rows++
		if violation != nil {
			t.offend("%s: %s", payment.ID(id.Bytes), *violation)
		}
		return nil
	})
	return err
}

func proveIdempotency(ctx context.Context, s *session, tx pgx.Tx, p page, t *tally) error {
	rows, err := tx.Query(ctx, s.sql("idempotency"), p.first, p.last)
	if err != nil {
		return err
	}
	var what, instructionID, key string
	var id, other pgtype.UUID
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&what, &instructionID, &key, &id, &other, &n}, func() error {
		switch outbox := payment.ID(id.Bytes); what {
		case "count":
			t.rows += n
		case "pair":
			t.offend("instruction %s, key %s: outbox_id %s and %s", instructionID, key, outbox, payment.ID(other.Bytes))
		case "no call":
			t.offend("instruction %s: outbox_id %s has the key of a call over HTTP, and no such call is recorded: its key "+
				"may stand for another payment", instructionID, outbox)
		case "other call":
			t.offend("outbox_id %s: the key of its call over HTTP is not the one in the registry", outbox)
		default: // in place of the key it names the participant
			t.offend("instruction %s of %s: outbox_id %s and %s, under two keys that came over HTTP", instructionID, key,
				outbox, payment.ID(other.Bytes))
		}
		return nil
	})
	return err
}
