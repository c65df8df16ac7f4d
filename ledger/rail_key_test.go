package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// TestForgottenEnqueueKeepsItsRailKey: a caller repeats a call that a restore has
// forgotten. The repetition is another row with another outbox id, and the rail
// must know it by the key of the first one.
func TestForgottenEnqueueKeepsItsRailKey(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	ingest := cell.Conn(t, celltest.Ingest)
	enqueue := func(batch bool, participant, instruction, key string) (outboxID payment.ID, railKey string) {
		t.Helper()
		var id [16]byte
		sql := `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, $2, $3, 'bank', '{"amount": "10.50", "currency": "EUR"}')`
		if batch {
			sql = `SELECT outbox_id FROM railhead.enqueue_payment_outbox_batch(jsonb_build_array(jsonb_build_object('instruction_id', $1::text,
				'participant_id', $2::text, 'idempotency_key', $3::text, 'rail_type', 'bank', 'payload', '{"amount": "10.50", "currency": "EUR"}'::jsonb)))`
		}
		if err := ingest.QueryRow(t.Context(), sql, instruction, participant, key).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return payment.ID(id), cell.RailKey(id)
	}
	var namespace [16]byte
	cell.QueryRow(`SELECT rail_key_namespace FROM railhead.payment_outbox_settings`, nil, &namespace)
	for _, batch := range []bool{false, true} {
		first, firstKey := enqueue(batch, "participant-1", "INV-1", "key-1")
		derived := payment.RailKey(payment.DeriveRailKey(payment.ID(namespace), "participant-1", "INV-1", "key-1"))
		same(t, "rail key", firstKey, derived)
		cell.Exec(`SET session_replication_role = replica;
			ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER ALL;
			DELETE FROM railhead.payment_outbox_keys; DELETE FROM railhead.payment_outbox_pending;
			ALTER TABLE railhead.payment_outbox_keys ENABLE ALWAYS TRIGGER payment_outbox_keys_append_only`)
		again, againKey := enqueue(!batch, "participant-1", "INV-1", "key-1")
		if again == first {
			t.Errorf("the repetition has outbox id %s of the first", again)
		}
		same(t, "rail key of the repetition", againKey, firstKey)
		for what, other := range map[string][3]string{
			"another participant": {"participant-2", "INV-1", "key-2"}, "another instruction": {"participant-1", "INV-2", "key-1"},
			"another key": {"participant-2", "INV-3", "key-1"}, "parts shifted": {"participant-1", "INV-1k", "ey-1"},
		} {
			if _, key := enqueue(batch, other[0], other[1], other[2]); key == firstKey {
				t.Errorf("%s has the same rail key", what)
			}
		}
		cell.Exec(`ALTER TABLE railhead.payment_outbox_keys DISABLE TRIGGER ALL;
			DELETE FROM railhead.payment_outbox_keys; DELETE FROM railhead.payment_outbox_pending;
			ALTER TABLE railhead.payment_outbox_keys ENABLE ALWAYS TRIGGER payment_outbox_keys_append_only`)
	}
}

// TestRailKeyNamespaceIsConstant: under another namespace a payment that is
// repeated would be paid twice.
func TestRailKeyNamespaceIsConstant(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	super := cell.Conn(t, "")
	_, err := openIngest(t, cell, 1).Enqueue(t.Context(), order(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE railhead.payment_outbox_settings SET rail_key_namespace = gen_random_uuid()`,
		`DELETE FROM railhead.payment_outbox_settings`,
		`TRUNCATE railhead.payment_outbox_settings`,
	} {
		if _, err := super.Exec(t.Context(), sql); ledger.SQLState(err) != "P0001" {
			t.Errorf("%s: %v, want P0001", sql, err)
		}
	}
}
