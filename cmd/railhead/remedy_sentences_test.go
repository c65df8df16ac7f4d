package main

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// sentenceScenes are histories that are rare at random. The rows after the last of them
// can't be distinguished from those of a restore that lost sends.
var sentenceScenes = []func(*teller){
	func(w *teller) {
		w.putBack(func() { w.step(w.claim); w.record(w.outcome(*w.held, payment.ResultAccepted)) })
	},
	func(w *teller) {
		w.putBack(func() { w.step(w.claim); w.record(w.outcome(*w.held, payment.ResultUnknown)) })
	},
	func(w *teller) { w.putBack(func() { w.step(w.cancel) }) },
	func(w *teller) { w.lose() },
	func(w *teller) {
		w.step(w.claim)
		w.record(w.outcome(*w.held, payment.ResultNotSent))
		w.lose()
	},
	(*teller).forge, (*teller).overtake, (*teller).askAgain, (*teller).suspend, (*teller).setBudget,
	(*teller).doubtAndQuarantine, (*teller).doubtAndForge, (*teller).quarantineAndOvertake,
}

// step does what has to be possible.
func (w *teller) step(act func() string) {
	w.Helper()
	if act() == "" {
		w.Fatalf("after %s: the next step is not possible", strings.Join(w.story, "; "))
	}
}

// paused checks the sentences while the rail is paused.
func (w *teller) paused(what string) {
	_, err := w.operator.PauseRail(w.Context(), celltest.Bank, "a test", time.Time{})
	w.must(err)
	w.look(what + ", and paused")
	_, err = w.operator.ResumeRail(w.Context(), celltest.Bank, "a test")
	w.must(err)
}

// putBack puts an older copy of the row back in pending, as a restore of that table does.
func (w *teller) putBack(meanwhile func()) {
	var copied string
	w.cell.QueryRow(`SELECT to_jsonb(p) FROM railhead.payment_outbox_pending p
		WHERE outbox_id = $1`, []any{[16]byte(w.id)}, &copied)
	meanwhile()
	w.cell.Exec(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(w.id))
	w.cell.Exec(`INSERT INTO railhead.payment_outbox_pending
		SELECT (jsonb_populate_record(NULL::railhead.payment_outbox_pending, $1::jsonb)).*`, copied)
	w.look("put back")
	w.paused("put back")
	_, err := w.executor.Quarantine(w.Context(), []payment.ID{w.id}, outbox.StatePutBack)
	w.must(err)
	w.look("quarantined as put back")
}

// lose quarantines the row, and removes it.
func (w *teller) lose() {
	w.step(w.quarantine)
	w.cell.Exec(`DELETE FROM railhead.payment_outbox_pending WHERE outbox_id = $1`, [16]byte(w.id))
	w.look("quarantined, and removed")
}

const forgery = `UPDATE railhead.payment_outbox_pending p SET payload = i.payload || '{"creditor": "another"}'
	FROM railhead.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id AND p.outbox_id = $1`

// forge changes what is sent, which an operator then finds not to be executed.
func (w *teller) forge() {
	w.cell.Exec(forgery, [16]byte(w.id))
	w.step(w.claim)
	w.record(w.outcome(*w.held, payment.ResultTampered))
	w.look("forged")
	_, err := w.operator.ResolvePayment(w.Context(), w.id,
		operator.Evidence{Date: time.Now(), Document: "ticket 1", Reason: "a test", RailSilent: true})
	w.must(err)
	w.look("resolved as not executed")
}

// doubtAndQuarantine quarantines what may have been paid, where the rail lets it wait.
func (w *teller) doubtAndQuarantine() {
	w.step(w.claim)
	w.record(w.outcome(*w.held, payment.ResultUnknown))
	if w.quarantine() != "" {
		w.look("unknown, and quarantined")
	}
}

// quarantineAndOvertake lets the deadline of a quarantined payment pass, of one that was never sent, and, where the
// rail lets it wait, of one that may have been paid.
func (w *teller) quarantineAndOvertake() {
	overtaken := func() {
		w.cell.Exec(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 hour'
			WHERE outbox_id = $1`, [16]byte(w.id))
		w.look("its deadline passed")
	}
	w.step(w.quarantine)
	overtaken()
	_, err := w.operator.ReplayPayment(w.Context(), w.id, operator.NeverExpires, "a test")
	w.must(err)
	w.step(w.claim)
	w.record(w.outcome(*w.held, payment.ResultUnknown))
	if w.quarantine() != "" {
		overtaken()
	}
}

// doubtAndForge changes what may have been paid before it is sent again, where the rail
// lets it be.
func (w *teller) doubtAndForge() {
	w.step(w.claim)
	w.record(w.outcome(*w.held, payment.ResultUnknown))
	w.cell.Exec(forgery, [16]byte(w.id))
	if w.claim() == string(payment.ActionSend) {
		w.record(w.outcome(*w.held, payment.ResultTampered))
		w.look("unknown, and forged")
	}
}

// overtake checks the sentences of an expired instruction before the reaper ends it.
func (w *teller) overtake() {
	w.cell.Exec(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 hour'
		WHERE outbox_id = $1`, [16]byte(w.id))
	w.look("it is over")
	w.step(w.expire)
	w.look("expired")
}

// rowNamed is the row that a command names as the last one that was seen.
var rowNamed = regexp.MustCompile(`--row (\d+)`)

// names holds each row that a remedy names to the rows.
func (w *teller) names(said string) {
	w.Helper()
	last := w.cell.Int(`SELECT coalesce(max(attempt_no), 0) FROM railhead.payment_outbox_attempts WHERE outbox_id = $1`,
		[16]byte(w.id))
	for _, named := range rowNamed.FindAllStringSubmatch(said, -1) {
		if named[1] != strconv.Itoa(last) {
			w.Errorf("after %s the last row is %d: %s", strings.Join(w.story, "; "), last, said)
		}
	}
	if strings.Contains(said, "--reason WHY") && !strings.Contains(said, "--row ") {
		w.Errorf("after %s no row is named: %s", strings.Join(w.story, "; "), said)
	}
}

// over reports whether the payment ends as EXPIRED without another send (ledger/sql/expire.sql).
func (w *teller) over(tx pgx.Tx) (over bool) {
	w.Helper()
	w.must(tx.QueryRow(w.Context(), `SELECT EXISTS (SELECT FROM railhead.v_outbox_pending p
		WHERE p.outbox_id = $1 AND p.expires_at <= clock_timestamp() AND NOT p.outcome_unknown
			AND p.next_attempt_at < 'infinity')`, [16]byte(w.id)).Scan(&over))
	return over
}

// obey runs each command that a remedy names, alone and after its prerequisites,
// and rolls it back: none is refused. A replay that the remedy excludes is refused.
func (w *teller) obey(line reader.Timeline) {
	w.Helper()
	said := explain.Remedy(line)
	id := [16]byte(w.id)
	w.names(said)
	var first []string
	if strings.Contains(said, "railhead timeline accept") {
		first = append(first, `SELECT railhead.accept_timeline('a test', (SELECT s.opened_at
			FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
	}
	if strings.Contains(said, "no relayer has confirmed") { // one starts, and does
		w.cell.Exec(`UPDATE railhead.outbox_heartbeats SET vouched = true`)
		defer w.cell.Exec(`UPDATE railhead.outbox_heartbeats SET vouched = false`)
	}
	replay := `SELECT railhead.replay_payment($1, 'a test')`
	if strings.Contains(said, "--expires-at TIME") {
		replay = `SELECT railhead.replay_payment($1, 'a test', now() + interval '1 hour')`
	}
	if strings.Contains(said, "resume that") {
		first = append(first, `SELECT railhead.resume_rail('*', 'a test'), railhead.resume_rail('bank', 'a test')`, `SELECT railhead.resume_participant('p', 'a test')`)
	}
	for _, act := range []struct {
		names, sql string
		args       []any
	}{
		{"railhead dead-letter replay ", replay, []any{id}},
		{"railhead dead-letter close ", `SELECT railhead.triage_dead_letter($1, 'resolved', 'a test')`, []any{id}},
		{"railhead dead-letter escalate ", `SELECT railhead.triage_dead_letter($1, 'escalated', 'a test')`, []any{id}},
		{"railhead payment cancel ", `SELECT railhead.cancel_payment($1, 'a test')`, []any{id}},
		{"railhead payment inquire ", `SELECT railhead.inquire_payment($1, 'a test')`, []any{id}},
		{" --executed ", `SELECT railhead.resolve_payment($1, true, $2, current_date, 'a document', 'a test')`, []any{id, "ref-1/" + w.id.String()}},
		{"--not-executed", `SELECT railhead.resolve_payment($1, false, NULL, current_date, 'a document', 'a test', true)`, []any{id}},
		{"It is not replayed", `SELECT railhead.replay_payment($1, 'a test')`, []any{id}},
	} {
		if !strings.Contains(said, act.names) {
			continue
		}
		tx, err := w.onCall.Begin(w.Context())
		w.must(err)
		for _, sql := range first {
			_, err := tx.Exec(w.Context(), sql)
			w.must(err)
		}
		_, refused := tx.Exec(w.Context(), act.sql, act.args...)
		if refused == nil && act.sql == replay && w.over(tx) {
			w.Errorf("after %s the replay of the remedy ends as EXPIRED: %s", strings.Join(w.story, "; "), said)
		}
		w.must(tx.Rollback(w.Context()))
		switch not := strings.HasPrefix(act.names, "It is not"); {
		case not == (refused != nil):
		case not:
			w.Errorf("after %s the remedy says %q, and a replay is taken", strings.Join(w.story, "; "), said)
		// which the one who compares finds out
		case !strings.Contains(refused.Error(), "the rail reported that it executed the payment"):
			w.Errorf("after %s the remedy names %q, which is refused: %v\n%s", strings.Join(w.story, "; "), act.names, refused,
				said)
		}
	}
}
