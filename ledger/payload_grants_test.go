package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// traceParent is the trace context of a caller, in its form.
const traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// What is in each payload and in each caller's headers of a cell, and nowhere else.
const (
	secretValue  = "DE02-SECRET-ACCOUNT"
	secretHeader = "SECRET-BAGGAGE"
)

// secretCell is a cell with payments in several states, in rows of both shapes, and their ids.
func secretCell(t *testing.T) (*desk, []payment.ID) {
	t.Helper()
	d := newDesk(t)
	enqueueWith := func(trace string) payment.ID {
		d.n++
		var id [16]byte
		d.must(d.ingest.QueryRow(t.Context(), `SELECT outbox_id FROM railhead.enqueue_payment_outbox($1, 'p1', $1, 'bank',
			$2, headers => $3)`, fmt.Sprint("S-", d.n), `{"amount": "10.50", "currency": "EUR", "creditor": {"account": "`+
			secretValue+`", "tags": ["x", 7, true, null]}}`, `{"traceparent": "`+trace+`", "baggage": "`+
			secretHeader+`"}`).Scan(&id))
		return payment.ID(id)
	}
	enqueue := func() payment.ID { return enqueueWith(traceParent) }
	all := func() []payment.ID {
		waits, paid, failed, flies := enqueue(), enqueue(), enqueue(), enqueue()
		d.record(told(sameKey, d.claimOne(paid), payment.ResultAccepted, ""))
		d.record(told(sameKey, d.claimOne(failed), payment.ResultRefusedFinal, ""))
		d.claimOne(flies)
		enqueueWith(secretHeader) // a trace context in no form of one
		return []payment.ID{waits, paid, failed, flies}
	}
	ids := all()
	d.age() // these rows carry their own payloads
	return d, append(ids, all()...)
}

// TestPayloadsByRevealAlone: no login but those that send payments and those that audit them reads a payload,
// or its fingerprint, from any column of any relation or by any function; and no login but those that send
// reads a caller's headers.
func TestPayloadsByRevealAlone(t *testing.T) {
	t.Parallel()
	d, ids := secretCell(t)
	d.do(`ANALYZE`) // statistics have values, too
	for login, role := range celltest.Logins() {
		if role == "railhead_executor" || role == "railhead_contract" { // a view with payloads is what it is for
			continue
		}
		secrets := []string{secretHeader, secretValue}
		if login == celltest.Auditor {
			secrets = secrets[:1]
		}
		conn := d.Conn(t, login)
		read := func(what, statement string, args ...any) bool {
			tx, err := conn.Begin(t.Context())
			d.must(err)
			defer func() { d.must(tx.Rollback(t.Context())) }()
			rows, err := tx.Query(t.Context(), statement, args...)
			d.must(err)
			texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
			for _, secret := range secrets {
				if found := strings.Join(texts, " ") + fmt.Sprint(err); strings.Contains(found, secret) {
					t.Errorf("%s reads %s by %s", login, secret, what)
				}
			}
			return err == nil
		}
		for _, relation := range d.lines(`SELECT oid::regclass::text FROM pg_class
			WHERE relnamespace = 'railhead'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')`) {
			read(relation, `SELECT r::text FROM `+relation+` r`)
			for _, column := range d.lines(`SELECT quote_ident(attname) FROM pg_attribute
				WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`, relation) {
				could := read(relation+"."+column, `SELECT coalesce(`+column+`::text, '') FROM `+relation)
				if could && column == "fingerprint" && login != celltest.Auditor {
					t.Errorf("%s reads the fingerprints of payloads in %s", login, relation)
				}
			}
			read("the statistics of "+relation, `SELECT concat(most_common_vals, histogram_bounds) FROM pg_stats
				WHERE schemaname = 'railhead' AND tablename = $1`, strings.TrimPrefix(relation, "railhead."))
		}
		for _, function := range d.lines(`SELECT oid::regproc::text FROM pg_proc
			WHERE pronamespace = 'railhead'::regnamespace AND proargtypes = '2950'::oidvector AND prokind = 'f'`) {
			for _, id := range ids {
				read(function, `SELECT coalesce(f::text, '') FROM `+function+`($1) f`, [16]byte(id))
			}
		}
	}
}

// TestReadersSeeTheRest: readers and operators see amount, currency, the trace of the enqueue and the form of
// the payload of a payment in every state, and the auditor's login the payloads that it judges.
func TestReadersSeeTheRest(t *testing.T) {
	t.Parallel()
	d, ids := secretCell(t)
	r, err := reader.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Readonly), Cell: d.Schema})
	d.must(err)
	t.Cleanup(r.Close)
	for _, id := range ids {
		line, err := r.Timeline(t.Context(), id)
		d.must(err)
		same(t, "the timeline", line.Amount+" "+line.Currency+" "+line.TraceParent, "10.50 EUR "+traceParent)
		form, err := r.PayloadForm(t.Context(), id)
		d.must(err)
		same(t, "the form", fmt.Sprint(form), "[{0  object} {1 amount text} {1 creditor object} {2 tags list} {3  text} "+
			"{3  number} {3  true or false} {3  null} {2 account text} {1 currency text}]")
	}
	d.do(`UPDATE railhead.payment_outbox_pending SET payload = jsonb_build_object('many', (SELECT jsonb_agg(n)
		FROM generate_series(1, 500) n)) WHERE outbox_id = $1`, [16]byte(ids[0]))
	form, err := r.PayloadForm(t.Context(), ids[0])
	d.must(err)
	same(t, "values of a long one", len(form), reader.FormLinesMax+1)
	form, err = r.PayloadForm(t.Context(), payment.ID{1})
	d.must(err)
	same(t, "values of none", len(form), 0)
	for _, relation := range []string{"payment_outbox_instructions", "v_outbox_pending", "v_outbox_attempts"} {
		auditor := d.Conn(t, celltest.Auditor)
		var payload string
		d.must(auditor.QueryRow(t.Context(), `SELECT payload::text FROM railhead.`+relation+`
			WHERE payload ? 'creditor' LIMIT 1`).Scan(&payload))
		same(t, relation, strings.Contains(payload, secretValue), true)
	}
}

// lines reads a column of texts as the superuser.
func (d *desk) lines(sql string, args ...any) []string {
	d.t.Helper()
	rows, err := d.super.Query(d.t.Context(), sql, args...)
	d.must(err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	d.must(errors.Join(err, rows.Err()))
	return all
}
