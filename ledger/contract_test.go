package ledger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/payment"
)

// contractOf is what the contract view says of every plight: its status, its last_error,
// and which of available_at, locked_by, locked_at and delivered_at it has.
var contractOf = map[string]string{
	"pending, never sent":          "PENDING - available",
	"pending, refused for now":     "PENDING REFUSED_TRANSIENT available",
	"pending, outcome unknown":     "DELIVERING WORKER_LOST available",
	"pending, to be asked about":   "DELIVERING UNKNOWN available",
	"claimed":                      "DELIVERING - locked",
	"DISPATCHED":                   "DELIVERED - delivered",
	"FAILED":                       "DEAD REFUSED_FINAL",
	"EXPIRED":                      "DEAD EXPIRED",
	"PARKED, outcome unknown":      "DEAD OUTCOME_UNKNOWN",
	"PARKED, just not found":       "DEAD OUTCOME_UNKNOWN",
	"CONFLICT after FAILED":        "DEAD CONFLICT",
	"CONFLICT after DISPATCHED":    "DEAD CONFLICT",
	"CONFLICT after CANCELLED":     "DEAD CONFLICT",
	"TAMPERED, proven executed":    "DELIVERED - delivered",
	"TAMPERED":                     "DEAD TAMPERED",
	"UNCLAIMABLE":                  "DEAD UNCLAIMABLE",
	"UNCLAIMABLE, outcome unknown": "DEAD UNCLAIMABLE",
	"CANCELLED":                    "DEAD CANCELLED",
	"REPLAYED":                     "PENDING - available",
}

// contract is a row of the view in short, as the role of its readers sees it.
func (d *desk) contract(id payment.ID) string {
	d.t.Helper()
	var text string
	conn := d.Conn(d.t, celltest.Contract)
	defer conn.Close(d.t.Context())
	d.must(conn.QueryRow(d.t.Context(), `
		SELECT coalesce(status, 'null') || ' ' || coalesce(last_error, '-')
			|| CASE WHEN available_at IS NULL THEN '' ELSE ' available' END
			|| CASE WHEN locked_by = 'worker' AND locked_at IS NOT NULL THEN ' locked' ELSE
				concat(' ' || locked_by, ' ' || locked_at) END
			|| CASE WHEN delivered_at BETWEEN created_at AND clock_timestamp() THEN ' delivered' ELSE
				coalesce(' ' || delivered_at, '') END
		FROM railhead.outbox_contract WHERE event_id = $1`, [16]byte(id)).Scan(&text))
	return text
}

// contractAgrees compares the view, as its readers see it, with the registry, with the
// status of each instruction and of the cell, and with the rows that prove a delivery.
func (d *desk) contractAgrees(t testing.TB) {
	t.Helper()
	for what, sql := range map[string]string{
		"not each instruction once": `SELECT coalesce(string_agg(k.outbox_id::text, ' '), '') FROM railhead.payment_outbox_keys k
			WHERE (SELECT count(*) FROM railhead.outbox_contract c WHERE c.event_id = k.outbox_id) <> 1`,
		"another number of rows": `SELECT CASE WHEN (SELECT count(*) FROM railhead.outbox_contract)
			<> (SELECT count(*) FROM railhead.payment_outbox_keys) THEN 'differs' ELSE '' END`,
		"another state than the status of it": `SELECT coalesce(string_agg(s.outbox_id || ' ' || s.state || ' ' || c.status, ', '), '')
			FROM railhead.supervisor_outbox_status s JOIN railhead.outbox_contract c ON c.event_id = s.outbox_id
			WHERE c.status IS DISTINCT FROM CASE
				WHEN s.next_attempt_at = 'infinity' AND s.state <> 'CONFLICT' THEN 'DEAD'
				WHEN s.state = 'PENDING' THEN 'PENDING'
				WHEN s.state IN ('UNKNOWN', 'ACCEPTED', 'DISPATCHING', 'INQUIRING') THEN 'DELIVERING'
				WHEN s.state = 'DISPATCHED' THEN 'DELIVERED'
				ELSE 'DEAD' END`,
		"a delivery that no row proves": `SELECT coalesce(string_agg(c.event_id::text, ' '), '') FROM railhead.outbox_contract c
			WHERE (c.status = 'DELIVERED') <> (c.delivered_at IS NOT NULL) OR c.status = 'DELIVERED' AND NOT EXISTS (
				SELECT FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = c.event_id AND a.state = 'DISPATCHED'
					AND coalesce(a.completed_at, a.created_at) = c.delivered_at)`,
		"a lock that no claim holds": `SELECT coalesce(string_agg(c.event_id::text, ' '), '') FROM railhead.outbox_contract c
			WHERE (c.locked_by IS NOT NULL) <> EXISTS (
				SELECT FROM railhead.payment_outbox_claims f, unnest(f.outbox_ids, f.attempt_nos) m(id, no)
				WHERE m.id = c.event_id AND f.worker_id = c.locked_by AND NOT EXISTS (
					SELECT FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = m.id AND a.attempt_no > m.no
						AND a.state <> 'LATE_OUTCOME'))`,
		"other content than was enqueued": `SELECT coalesce(string_agg(c.event_id::text, ' '), '') FROM railhead.outbox_contract c
			JOIN railhead.payment_outbox_keys k ON k.outbox_id = c.event_id
			WHERE c.payload IS DISTINCT FROM '{"amount": "10.50", "currency": "EUR"}' OR c.headers IS NULL
				OR c.partition_key <> k.participant_id OR c.event_type IS DISTINCT FROM 'instruction.bank'`,
		"a refusal of what is not proven to be refused": `
			SELECT coalesce(string_agg(c.event_id || ' ' || c.last_error, ', '), '') FROM railhead.outbox_contract c
			WHERE c.status = 'DEAD' AND c.last_error NOT IN ('OUTCOME_UNKNOWN', 'TAMPERED', 'CONFLICT', 'UNCLAIMABLE', 'LOST')
				AND coalesce((SELECT a.state NOT IN ('FAILED', 'CANCELLED') FROM railhead.payment_outbox_attempts a
					WHERE a.outbox_id = c.event_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1), true)`,
		"an error that is no code": `SELECT coalesce(string_agg(c.event_id::text, ' '), '') FROM railhead.outbox_contract c
			WHERE c.last_error !~ '^[A-Z][A-Z0-9_]{0,63}$'`,
		"times out of order": `SELECT coalesce(string_agg(c.event_id::text, ' '), '') FROM railhead.outbox_contract c
			WHERE c.updated_at < greatest(c.created_at, c.locked_at, (SELECT max(a.created_at)
				FROM railhead.payment_outbox_attempts a WHERE a.outbox_id = c.event_id)) OR c.updated_at > clock_timestamp()`,
	} {
		if got := d.text(sql); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
	var pending, delivering, locked, aside, delivered int64
	d.must(d.super.QueryRow(d.t.Context(), `
		SELECT count(*) FILTER (WHERE status = 'PENDING'), count(*) FILTER (WHERE status = 'DELIVERING' AND locked_by IS NULL),
			count(*) FILTER (WHERE status = 'DELIVERING' AND locked_by IS NOT NULL),
			count(*) FILTER (WHERE status = 'DEAD' AND last_error = 'UNCLAIMABLE'), count(*) FILTER (WHERE status = 'DELIVERED')
		FROM railhead.outbox_contract`).Scan(&pending, &delivering, &locked, &aside, &delivered))
	looks := d.reader()
	defer looks.Close()
	status, err := looks.Status(d.t.Context())
	d.must(err)
	var waits, flies int64
	for _, rail := range status.Rails {
		waits += rail.Pending
		flies += rail.InFlight
	}
	if pending+delivering+aside != waits || locked != flies {
		t.Errorf("pending %d, delivering %d and unclaimable %d are %d in the status; locked %d are %d in flight there",
			pending, delivering, aside, waits, locked, flies)
	}
}

// TestContract meets every state with the contract view, as the role of its readers.
func TestContract(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	same(t, "states", len(contractOf), len(plights))
	for _, name := range slices.Sorted(maps.Keys(plights)) {
		same(t, name, d.contract(plights[name](d)), contractOf[name])
	}
	d.contractAgrees(t)

	// The answer to a re-send settles that send alone: the one before may have been executed.
	doubted := d.enqueue()
	d.record(lost(sameKey, d.claimOne(doubted)))
	d.record(told(sameKey, d.claimOne(doubted), payment.ResultRefusedFinal, ""))
	same(t, "its last row", d.text(`SELECT state || ' ' || result FROM railhead.payment_outbox_attempts
		WHERE outbox_id = '`+doubted.String()+`' ORDER BY attempt_no DESC LIMIT 1`), "PARKED REFUSED_FINAL")
	same(t, "a re-send that was refused", d.contract(doubted), "DEAD OUTCOME_UNKNOWN")

	asked := plights["PARKED, outcome unknown"](d)
	_, err := d.operator().InquirePayment(t.Context(), asked, why)
	d.must(err)
	same(t, "asked about", d.contract(asked), "DELIVERING ASKED available")
	acknowledged := plights["FAILED"](d)
	d.must(hands[1].do(d.operator(), t, acknowledged))
	same(t, "acknowledged", d.contract(acknowledged), "DEAD REFUSED_FINAL")
	closed := plights["FAILED"](d)
	d.must(hands[3].do(d.operator(), t, closed))
	same(t, "closed", d.contract(closed), "DEAD REFUSED_FINAL")
	settled := plights["CONFLICT after DISPATCHED"](d)
	before := d.updated(settled)
	d.must(hands[5].do(d.operator(), t, settled))
	same(t, "a conflict that was resolved", d.contract(settled), "DELIVERED - delivered")
	same(t, "its change is seen", d.updated(settled).After(before), true)
	before = d.updated(settled)
	_, err = d.operator().RevealPayload(t.Context(), settled, why)
	d.must(err)
	same(t, "a reveal is no change", d.updated(settled), before)
	held := d.enqueue(`not_before => now() + interval '1 day'`)
	same(t, "held until tomorrow", d.text(`SELECT status || ' ' || (available_at > now() + interval '23 hours')
		FROM railhead.outbox_contract WHERE event_id = $1`, [16]byte(held)), "PENDING true")
	d.contractAgrees(t)

	// What the tables should never hold.
	lost := sentOnce(d).OutboxID
	d.do(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(lost))
	same(t, "lost", d.contract(lost), "DEAD LOST")
	nowhere := d.enqueue()
	d.do(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(nowhere))
	same(t, "in the registry alone", d.contract(nowhere), "null -")
	same(t, "its rail", d.text(`SELECT event_type FROM railhead.outbox_contract WHERE event_id = $1`, [16]byte(nowhere)),
		"instruction.bank")
	older := sentOnce(d).OutboxID
	d.do(`UPDATE railhead.payment_outbox_pending SET attempt_count = 0 WHERE outbox_id = $1`, [16]byte(older))
	same(t, "put back by an older copy", d.contract(older), "DEAD UNCLAIMABLE")
	prose, back := plights["FAILED"](d), plights["DISPATCHED"](d)
	d.putBack(back)
	same(t, "put back over an execution", d.contract(back), "DELIVERED - delivered")
	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_outbox_attempts SET error_code = 'Bearer 4711 is wrong' WHERE outbox_id = $1`, [16]byte(prose))
	same(t, "text of a rail as a code", d.contract(prose), "DEAD REFUSED_FINAL")
}

func (d *desk) updated(id payment.ID) (at time.Time) {
	d.t.Helper()
	d.QueryRow(`SELECT updated_at FROM railhead.outbox_contract WHERE event_id = $1`, []any{[16]byte(id)}, &at)
	return at
}

// TestContractOfRandomHistories lets instructions live at random, and compares the view with
// the status and the rows after every few steps.
func TestContractOfRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
			random := rand.New(rand.NewPCG(seed, 7))
			names := slices.Sorted(maps.Keys(plights))
			var ids []payment.ID
			updated := make(map[payment.ID]time.Time)
			for step := range 60 {
				if len(ids) == 0 || random.IntN(3) == 0 {
					ids = append(ids, plights[names[random.IntN(len(names))]](d))
				} else if id := ids[random.IntN(len(ids))]; random.IntN(2) == 0 {
					_ = hands[random.IntN(len(hands))].do(d.operator(), t, id) // a refusal changes nothing
				} else {
					d.late(comesLate[random.IntN(len(comesLate))].of(id))
				}
				if step%6 != 5 {
					continue
				}
				d.contractAgrees(t)
				for _, id := range ids {
					at := d.updated(id)
					if at.Before(updated[id]) {
						t.Errorf("step %d: updated_at of %s went back", step, id)
					}
					updated[id] = at
				}
			}
		})
	}
}

// TestContractOfBothShapes shows the content of rows that carry their own copies, and of
// those that do not.
func TestContractOfBothShapes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, inVain)
	wants := make(map[payment.ID]string)
	for _, name := range []string{"pending, never sent", "pending, outcome unknown", "claimed", "DISPATCHED", "FAILED",
		"PARKED, outcome unknown", "CANCELLED"} {
		wants[plights[name](d)] = contractOf[name]
	}
	d.age()
	same(t, "rows without a copy of their own", d.Int(`SELECT count(*) FROM railhead.payment_outbox_instructions`), 0)
	d.enqueue()
	d.contractAgrees(t)
	for id, want := range wants {
		same(t, "aged", d.contract(id), want)
	}
}

// TestContractPlans: a range of event_id, one instruction and one partition_key are read by
// indexes, whatever the size of the archive.
func TestContractPlans(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	conn := d.Conn(t, "")
	mustExec(t, conn, `SET enable_seqscan = off`)
	leads := leadingColumns(t, conn)
	for _, where := range []string{
		`event_id = '01a1fc73-aff9-7502-8d08-fd696734c959'`, `partition_key = 'p1'`,
		`event_id >= '01a1fc73-aff9-7000-8000-000000000000' AND event_id < '01a2fc73-aff9-7000-8000-000000000000'`,
	} {
		var plan string
		d.must(conn.QueryRow(t.Context(), `EXPLAIN (FORMAT JSON) SELECT * FROM railhead.outbox_contract WHERE `+where).Scan(&plan))
		var tree any
		d.must(json.Unmarshal([]byte(plan), &tree))
		nodes := 0
		for _, scan := range scans(tree, leads, &nodes) {
			t.Errorf("%s: %s", where, scan)
		}
		if nodes == 0 || !strings.Contains(plan, "payment_outbox_keys") {
			t.Errorf("%s: %d nodes were looked at", where, nodes)
		}
	}
}
