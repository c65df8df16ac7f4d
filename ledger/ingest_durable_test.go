package ledger_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestRepeatWaitsForTheStandby: the server makes a commit wait for its standby
// only if the transaction wrote something. A repeated call finds a row that may
// be on this server alone; its own commit has to wait for it.
func TestRepeatWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	const item = `"instruction_id": "i", "participant_id": "p", "idempotency_key": "k", "rail_type": "bank",
	  "payload": {"amount": "1.00", "currency": "EUR"}`
	for name, call := range map[string]string{
		"one":  `SELECT replayed FROM railhead.enqueue_payment_outbox('i', 'p', 'k', 'bank', '{"amount": "1.00", "currency": "EUR"}')`,
		"many": `SELECT replayed FROM railhead.enqueue_payment_outbox_batch('[{` + item + `}]')`,
		// Of what would be refused no number is taken.
		"many, one forbidden since": `SELECT replayed FROM railhead.enqueue_payment_outbox_batch('[{` + item + `}]')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cell := celltest.New(t)
			conn := cell.Conn(t, celltest.Ingest)
			for repeat := range 2 {
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					var replayed, writes bool
					if err := tx.QueryRow(t.Context(), call).Scan(&replayed); err != nil {
						return err
					}
					if err := tx.QueryRow(t.Context(), `SELECT pg_current_xact_id_if_assigned() IS NOT NULL`).Scan(&writes); err != nil {
						return err
					}
					if replayed != (repeat == 1) || !writes {
						t.Errorf("call %d: replayed %v, writes %v", repeat+1, replayed, writes)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if repeat == 0 && strings.HasSuffix(name, "since") {
					cell.Exec(`INSERT INTO railhead.payment_forbidden_keys (key) VALUES ('amount')`)
				}
			}
		})
	}
}
