package proofs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs"
)

// meddlings are changes of a row, or of one instruction, that no product makes. {row} picks the row,
// and {n}, {state}, {result}, {reason} and {code} are drawn.
var meddlings = []string{
	`UPDATE railhead.payment_outbox_attempts SET state = {state} WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET state = 'DISPATCHED' WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET state = 'DISPATCHED' WHERE outbox_id = (
		SELECT min(a.outbox_id::text)::uuid FROM railhead.payment_outbox_attempts a WHERE a.state = 'DISPATCHED')`,
	`UPDATE railhead.payment_outbox_attempts SET result = {result} WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET error_code = {code} WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET answers_attempt_no = nullif({n}, 0) WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET outcome_unknown = NOT outcome_unknown WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET attempt_no = attempt_no + {n} WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET payload = NULL WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET payload = '{"amount": "9.00"}' WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET participant_id = 'mallory' WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET instruction_id = 'instruction-{n}', idempotency_key = 'instruction-{n}' WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET rail_type = 'other' WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET claimed_at = claimed_at - interval '1 hour' WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts a SET claimed_at = a.claimed_at - interval '1 hour' FROM railhead.payment_outbox_keys k
		WHERE k.outbox_id = a.outbox_id AND k.participant_id = 'in-order' AND k.sequence_id = 2 AND a.state = 'DISPATCHING'`,
	`DELETE FROM railhead.payment_outbox_attempts WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET state = 'FAILED' WHERE (outbox_id, attempt_no) = (
		SELECT a.outbox_id, max(a.attempt_no)
		FROM railhead.payment_outbox_pending p
		JOIN railhead.payment_outbox_attempts a ON a.outbox_id = p.outbox_id
		GROUP BY a.outbox_id
		ORDER BY a.outbox_id
		LIMIT 1)`,
	`UPDATE railhead.payment_outbox_pending SET outcome_unknown = NOT outcome_unknown WHERE {row}`,
	`UPDATE railhead.payment_outbox_pending SET attempt_count = {n} WHERE {row}`,
	`UPDATE railhead.payment_outbox_pending SET first_sent_at = now(), send_count = {n} WHERE {row}`,
	`UPDATE railhead.payment_outbox_attempts SET first_sent_at = now(), send_count = {n} WHERE {row}`,
	`UPDATE railhead.payment_outbox_instructions SET send_once = true, expires_at = '2000-01-01' WHERE {row}`,
	`UPDATE railhead.payment_outbox_pending SET next_attempt_at = 'infinity' WHERE {row}`,
	`UPDATE railhead.payment_outbox_pending SET sequence_id = 100 WHERE {row}`,
	`UPDATE railhead.payment_outbox_pending SET participant_id = 'mallory' WHERE {row}`,
	`UPDATE railhead.payment_outbox_instructions SET payload = '{"amount": "9.00"}' WHERE {row}`,
	`UPDATE railhead.payment_outbox_instructions SET rail_type = 'other' WHERE {row}`,
	`DELETE FROM railhead.payment_outbox_instructions WHERE {row}`,
	`DELETE FROM railhead.payment_outbox_pending WHERE {row}`,
	`DELETE FROM railhead.payment_outbox_keys WHERE {row}`,
	`UPDATE railhead.payment_outbox_keys SET sequence_id = sequence_id + {n} WHERE {row}`,
	`UPDATE railhead.payment_outbox_keys SET fingerprint = sha256('') WHERE {row}`,
	`UPDATE railhead.payment_outbox_keys SET instruction_id = 'mallory' WHERE {row}`,
	`DELETE FROM railhead.payment_dead_letters WHERE {row}`,
	`UPDATE railhead.payment_dead_letters SET status = 'resolved' WHERE {row}`,
	`UPDATE railhead.payment_dead_letters SET reason = {reason} WHERE {row}`,
	`UPDATE railhead.payment_dead_letters SET reason = {reason} WHERE {row}`,
	`UPDATE railhead.payment_dead_letters SET amount = {n}, currency = 'USD', status = 'pending' WHERE {row}`,
	`UPDATE railhead.payment_dead_letters SET participant_id = 'mallory' WHERE {row}`,
	`UPDATE railhead.payment_outbox_contradictions SET attempt_no = attempt_no + {n} WHERE {row}`,
	`UPDATE railhead.payment_operator_log SET detail = detail || '{"attempt_no": {n}}' WHERE {row}`,
	`UPDATE railhead.payment_operator_log SET detail = detail || '{"was": "PARKED"}' WHERE {row}`,
	`UPDATE railhead.payment_outbox_contradictions SET opened_at = opened_at + '2 hours' WHERE {row}`,
	`DELETE FROM railhead.payment_operator_log WHERE {row}`,
	`UPDATE railhead.payment_operator_log SET act = 'CANCEL' WHERE {row}`,
	`DELETE FROM railhead.payment_outbox_claims WHERE {row}`,
	`DELETE FROM railhead.payment_api_calls WHERE {row}`,
	`UPDATE railhead.payment_api_calls SET idempotency_key = 'key {n}' WHERE {row}`,
	`UPDATE railhead.payment_api_calls SET token_id = 'feedfeedfeedfeed' WHERE {row}`,
	`UPDATE railhead.payment_outbox_keys SET created_at = created_at + (5 - {n}) * interval '1 hour'
		WHERE instruction_id LIKE 'over-http-%'`,
	`UPDATE railhead.payment_outbox_keys SET participant_id = 'mallory' WHERE instruction_id LIKE 'over-http-%'`,
	`UPDATE railhead.payment_outbox_keys SET instruction_id = 'over-http-2' WHERE instruction_id = 'over-http-1'`,
}

// TestFormsAgree changes rows at random, with every guard of the archive but its fence
// off: what a run finds, psql must find by the printed form, no more and no less.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	list, err := proofs.Named(ledgerProofs)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(map[string]int)
	for seed := range uint64(10) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			db := database(t, nil)
			super := db.Conn(t, "")
			if err := unguarded(t, super, func() error {
				return meddle(t, super,
					rand.New(rand.NewPCG(seed, 17)))
			}); err != nil {
				t.Fatal(err)
			}
			o := proofs.Options{Names: ledgerProofs, PageSize: 5}
			for n, result := range prove(t, db.Conn(t, celltest.Auditor), o.ShowingAll()).Proofs {
				sameByHand(t, db, list[n], o, result)
				failed[result.Name] += result.Offences
			}
		})
	}
	t.Logf("violations that both forms found: %v", failed)
	for _, proof := range list {
		if failed[proof.Name] == 0 {
			t.Errorf("no change broke what %s shows: nothing was compared", proof.Name)
		}
	}
}

const meddled = 40

// meddle makes changes until enough of them were taken. One that a constraint
// refuses is undone.
func meddle(t *testing.T, conn *pgx.Conn, draw *rand.Rand) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), `
		DO $$ DECLARE c record; BEGIN
			FOR c IN SELECT conrelid::regclass AS relation, conname FROM pg_constraint
				WHERE connamespace = 'railhead'::regnamespace AND coninhcount = 0
					AND (contype IN ('c', 'f') OR conname IN ('payment_outbox_keys_once', 'payment_outbox_keys_sequence')) LOOP
				EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I CASCADE', c.relation, c.conname);
			END LOOP;
		END $$;
		DROP INDEX railhead.payment_outbox_attempts_one_dispatched`)
	if err != nil {
		return err
	}
	pick := func(texts []string) string { return "'" + texts[draw.IntN(len(texts))] + "'" }
	var states, results []string
	for _, state := range payment.States() {
		states = append(states, string(state))
	}
	for _, result := range append(payment.SendResults(), payment.InquiryResults()...) {
		results = append(results, string(result))
	}
	for done := 0; done < meddled; {
		sql := meddlings[draw.IntN(len(meddlings))]
		table := sql[strings.Index(sql, "railhead."):]
		table, _, _ = strings.Cut(table, " ")
		row := fmt.Sprintf(`(tableoid, ctid) = (SELECT tableoid, ctid FROM %s
			ORDER BY md5(ctid::text || '%d') LIMIT 1)`, table, draw.Int64())
		sql = strings.NewReplacer("{row}", row, "{n}", fmt.Sprint(draw.IntN(4)), "{state}", pick(states), "{result}",
			pick(results),
			"{reason}", pick([]string{"FAILED", "EXPIRED", "OUTCOME_UNKNOWN", "CONFLICT"}),
			"{code}", pick([]string{"RESOLVED", "EXPIRED", "NEW_ID_NEEDED", "BUSINESS_REFUSED"})).Replace(sql)
		_, err := conn.Exec(t.Context(), sql)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && strings.HasPrefix(pgErr.Code, "23") {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		done++
	}
	return nil
}
