package ledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

const order1050 = `{"amount": "10.50", "currency": "EUR"}`

// TestRevealIsLogged: an operator gets the payload of an instruction in every state, and the operator
// log has who, for whom and why.
func TestRevealIsLogged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx := operator.OnBehalfOf(t.Context(), "amy@example.org")
	for n, id := range []payment.ID{
		plights["pending, never sent"](d), plights["claimed"](d), plights["DISPATCHED"](d), plights["FAILED"](d),
	} {
		found, err := d.operator().RevealPayload(ctx, id, why)
		d.must(err)
		same(t, "payload", string(found.Payload), order1050)
		same(t, "headers", len(found.Headers) >= len("{}"), true)
		same(t, "the act", d.text(`SELECT concat_ws(' | ', actor, person, act, subject, reason)
			FROM railhead.payment_operator_log WHERE act_id = $1 AND outbox_id = $2`, [16]byte(found.ActID), [16]byte(id)),
			celltest.Operator+" | amy@example.org | REVEAL_PAYLOAD | "+d.text(`SELECT instruction_id
			FROM railhead.payment_outbox_keys WHERE outbox_id = $1`, [16]byte(id))+" | "+why)
		same(t, "acts", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'REVEAL_PAYLOAD'`), n+1)
	}
}

// TestRevealNeedsTheLog: the database gives a payload to the login whose act is in the operator log,
// committed and at most a minute old, and not otherwise.
func TestRevealNeedsTheLog(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	conn := d.Conn(t, celltest.Operator)
	const request, read = `SELECT railhead.reveal_payload($1, 'a test')`, `SELECT payload::text
		FROM railhead.revealed_payload($1)`
	var act [16]byte
	within := func(what string, steps func(tx pgx.Tx) error) {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		d.must(err)
		defer func() { d.must(tx.Rollback(t.Context())) }()
		same(t, what, ledger.SQLState(steps(tx)), "RH020")
	}
	revealed := func(tx pgx.Tx) error {
		var payload string
		return tx.QueryRow(t.Context(), read, act).Scan(&payload)
	}
	within("in one transaction", func(tx pgx.Tx) error {
		d.must(tx.QueryRow(t.Context(), request, [16]byte(id)).Scan(&act))
		return revealed(tx)
	})
	within("after a savepoint", func(tx pgx.Tx) error {
		inner, err := tx.Begin(t.Context())
		d.must(err)
		d.must(inner.QueryRow(t.Context(), request, [16]byte(id)).Scan(&act))
		d.must(inner.Commit(t.Context()))
		return revealed(tx)
	})
	within("after it was rolled back", revealed)
	same(t, "acts", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'REVEAL_PAYLOAD'`), 0)

	for what, row := range map[string]string{
		"of another login": `('ops_9', now(), 'REVEAL_PAYLOAD')`,
		"too old":          `('` + celltest.Operator + `', now() - interval '61 seconds', 'REVEAL_PAYLOAD')`,
		"another act":      `('` + celltest.Operator + `', now(), 'CANCEL')`,
	} {
		d.must(d.super.QueryRow(t.Context(), `INSERT INTO railhead.payment_operator_log
			(actor, acted_at, act, subject, reason, outbox_id)
			SELECT v.actor, v.at, v.act, 'x', 'planted', $1 FROM (VALUES `+row+`) v (actor, at, act) RETURNING act_id`, [16]byte(id)).Scan(&act))
		within(what, revealed)
	}
	d.must(conn.QueryRow(t.Context(), request, [16]byte(id)).Scan(&act))
	var payload string
	d.must(conn.QueryRow(t.Context(), read, act).Scan(&payload))
	same(t, "payload", payload, order1050)
	for login := range celltest.Logins() {
		if login == celltest.Operator {
			continue
		}
		other := d.Conn(t, login)
		same(t, login, ledger.SQLState(other.QueryRow(t.Context(), read, act).Scan(&payload)), "42501")
	}
}

// TestRevealOfNothing: an instruction that is unknown, and one whose payload is in a month that was
// detached, are refused with what to do, and no row of the log says that they were revealed.
func TestRevealOfNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, o := d.enqueue(), d.operator()
	_, err := o.RevealPayload(t.Context(), payment.ID{1}, why)
	same(t, "unknown", errors.Is(err, outbox.ErrNotFound), true)
	_, err = o.RevealPayload(t.Context(), id, " ")
	same(t, "no reason", errors.Is(err, outbox.ErrInvalid), true)
	d.do(`ALTER TABLE railhead.payment_outbox_instructions DETACH PARTITION ` + d.text(`SELECT tableoid::regclass::text
		FROM railhead.payment_outbox_instructions WHERE outbox_id = $1`, [16]byte(id)))
	_, err = o.RevealPayload(t.Context(), id, why)
	same(t, "its month is gone", errors.Is(err, outbox.ErrNoPayload), true)
	refusedWith(t, "its month is gone", err, "RH016", "attach it again")
	same(t, "acts", d.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'REVEAL_PAYLOAD'`), 0)
}

// TestPersonIsLogged: an act names the person of its context, whatever function writes the row, and the
// next act on the connection does not.
func TestPersonIsLogged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o, looker := d.operator(), openReader(t, d.Cell)
	amy, ben := operator.OnBehalfOf(t.Context(), "amy"), operator.OnBehalfOf(t.Context(), " ben, on call ")
	id := d.enqueue()
	_, err := o.PauseRail(amy, "bank", "paused for amy", time.Time{})
	d.must(err)
	_, err = o.ResumeRail(t.Context(), "bank", "without a person")
	d.must(err)
	_, _, err = o.ApplyRailProfile(ben, "bank", []byte(inVain), "a profile for ben")
	d.must(err)
	_, err = o.CancelPayment(ben, id, "cancelled for ben")
	d.must(err)

	byPerson := func(filter reader.LogFilter, want ...string) []reader.LoggedAct {
		t.Helper()
		acts, _, err := looker.OperatorLog(t.Context(), filter)
		d.must(err)
		var got []string
		for _, act := range acts {
			got = append(got, act.By()+": "+act.Reason)
		}
		same(t, "acts", strings.Join(got, "\n"), strings.Join(want, "\n"))
		return acts
	}
	login := celltest.Operator
	byPerson(reader.LogFilter{Person: "amy"}, login+" for amy: paused for amy")
	acts := byPerson(reader.LogFilter{Person: "ben, on call"}, login+" for ben, on call: a profile for ben",
		login+" for ben, on call: cancelled for ben")
	byPerson(reader.LogFilter{Act: "RESUME_RAIL"}, login+": without a person")
	byPerson(reader.LogFilter{Before: acts[0].ActID, Limit: 2}, login+" for amy: paused for amy",
		login+": without a person")
	line, err := looker.Timeline(t.Context(), id)
	d.must(err)
	same(t, "acts on it", len(line.Acts), 1)
	same(t, "its act", line.Acts[0].By(), login+" for ben, on call")
}

// TestPersonIsChecked: a name that the log does not hold refuses the act; a setting of the session is a
// claim like any other.
func TestPersonIsChecked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	for _, name := range []string{"a\nb", "a\x7f", strings.Repeat("x", 513)} {
		_, err := o.PauseRail(operator.OnBehalfOf(t.Context(), name), "bank", why, time.Time{})
		refusedWith(t, name, err, "RH002", "railhead.person")
	}
	_, err := o.PauseRail(operator.OnBehalfOf(t.Context(), strings.Repeat("x", 512)), "bank", why, time.Time{})
	d.must(err)
	conn := d.Conn(t, celltest.Operator)
	mustExec(t, conn, `SET railhead.person = 'ben'`)
	mustExec(t, conn, `SELECT railhead.close_enqueue('rail', 'bank', 'a test', NULL)`)
	mustExec(t, conn, `RESET railhead.person`)
	mustExec(t, conn, `SELECT railhead.open_enqueue('rail', 'bank', 'a test')`)
	same(t, "persons", d.text(`SELECT string_agg(act || ' ' || coalesce(person, '-'), ', ' ORDER BY act_id)
		FROM railhead.payment_operator_log WHERE act LIKE '%ENQUEUE'`), "CLOSE_ENQUEUE ben, OPEN_ENQUEUE -")
}
