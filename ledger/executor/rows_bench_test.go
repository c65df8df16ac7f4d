package executor

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/ledger/internal/store"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// BenchmarkRecordArguments is what the client's side of recording 500 outcomes costs.
func BenchmarkRecordArguments(b *testing.B) {
	const outcomes = 500
	turn := outbox.Turn{Finished: []payment.ID{payment.NewID()}}
	for range outcomes {
		turn.Outcomes = append(turn.Outcomes, payment.Outcome{
			AttemptID: payment.NewID(), Claim: payment.Claim{OutboxID: payment.NewID(), AttemptNo: 1, ClaimedAt: time.Now()},
			Result: payment.ResultAccepted, Decision: payment.Decision{State: payment.Dispatched},
			RailReference: "RS0001234567890",
			CodeTable:     "noop/1", WorkerID: "host-1234567", RenderVersion: "noop/1", ProfileVersion: 1,
		})
	}
	oids := map[string]uint32{
		"uuid": pgtype.UUIDArrayOID, "text": pgtype.TextArrayOID, "integer": pgtype.Int4ArrayOID,
		"bigint": pgtype.Int8ArrayOID, "timestamptz": pgtype.TimestamptzArrayOID, "boolean": pgtype.BoolArrayOID,
	}
	types, columns, buffer := pgtype.NewMap(), store.Recorded["record_done"], []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buffer = buffer[:0]
		for n, argument := range recordArguments(turn, columns) {
			oid := uint32(pgtype.UUIDArrayOID) // of the claims that are finished
			if n > 0 {
				oid = oids[columns[n-1].SQLType]
			}
			var err error
			if buffer, err = types.Encode(oid, pgtype.BinaryFormatCode, argument, buffer); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/outcomes, "ns/outcome")
}

// BenchmarkScanClaim is what reading one row of a claim costs, without its network.
func BenchmarkScanClaim(b *testing.B) {
	var targets claimTargets
	now, types := time.Now(), pgtype.NewMap()
	id := pgtype.UUID{Bytes: payment.NewID(), Valid: true}
	payload := `{"amount": "12.34", "currency": "EUR", "creditor": {"name": "Example GmbH", "account": "x"}, "end_to_end_id": "E2E-1", "note": "invoice"}`
	row := []any{
		id, id, int32(1), "SEND", "instruction-1", "participant-1", int64(7), "key-1", "noop", payload, "{}",
		make([]byte, 32), id,
		int32(1), now, now, nil, nil, nil, false, false, int32(0), int32(0), nil, nil, false, false, false, nil, nil,
	}
	oids := []uint32{
		pgtype.UUIDOID, pgtype.UUIDOID, pgtype.Int4OID, pgtype.TextOID, pgtype.TextOID, pgtype.TextOID, pgtype.Int8OID,
		pgtype.TextOID, pgtype.TextOID,
		pgtype.TextOID, pgtype.TextOID, pgtype.ByteaOID, pgtype.UUIDOID, pgtype.Int4OID, pgtype.TimestamptzOID,
		pgtype.TimestamptzOID,
		pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.TimestamptzOID, pgtype.BoolOID, pgtype.BoolOID, pgtype.Int4OID,
		pgtype.Int4OID,
		pgtype.TextOID, pgtype.TextOID, pgtype.BoolOID, pgtype.BoolOID, pgtype.BoolOID, pgtype.TimestamptzOID,
		pgtype.TimestamptzArrayOID,
	}
	written, plans, columns := make([][]byte, len(row)), make([]pgtype.ScanPlan, len(row)), targets.columns()
	for n, value := range row {
		format := types.FormatCodeForOID(oids[n])
		plans[n] = types.PlanScan(oids[n], format, columns[n])
		if value == nil {
			continue
		}
		var err error
		if written[n], err = types.Encode(oids[n], format, value, []byte{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for n := range plans {
			if err := plans[n].Scan(written[n], columns[n]); err != nil {
				b.Fatal(err)
			}
		}
		if targets.value().RailType != "noop" {
			b.Fatal("the row is another one")
		}
	}
}
