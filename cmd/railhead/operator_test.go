package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// enqueued enqueues instructions with these names through the command.
func enqueued(who command, names ...string) {
	who.t.Helper()
	for _, name := range names {
		who.want(exitOK, "enqueue", "--instruction-id", name, "--participant-id", "p1", "--idempotency-key", name+"-key",
			"--rail", celltest.Bank, "--amount", "10.50", "--currency", "EUR")
	}
}

// TestPauses: a paused lane is shown as paused, with login and reason, and is not
// claimed until it is resumed.
func TestPauses(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	enqueued(who, "INV-1")
	for _, test := range []struct {
		pause, resume, holds string
	}{
		{"rail pause bank", "rail resume bank", "rail bank is paused by railhead_operator_login"},
		{"rail pause --everything", "rail resume --everything", "everything is paused by railhead_operator_login"},
		{"participant pause p1", "participant resume p1", "participant p1 is paused by railhead_operator_login"},
	} {
		said := who.want(exitOK, append(strings.Fields(test.pause), "--reason", "their maintenance")...).out
		again := who.want(exitOK, append(strings.Fields(test.pause), "--reason", "their maintenance")...).out
		if !strings.HasSuffix(said, " paused\n") || !strings.Contains(again, "was paused already") {
			t.Errorf("%s said %q, and again %q", test.pause, said, again)
		}
		if shown := who.want(exitOK, "payment", "show", "INV-1").out; !strings.Contains(shown, test.holds) {
			t.Errorf("after %s payment show lacks %q:\n%s", test.pause, test.holds, shown)
		}
		if claims := works.claim(); len(claims) != 0 {
			t.Errorf("after %s %d were claimed", test.pause, len(claims))
		}
		who.want(exitOK, append(strings.Fields(test.resume), "--reason", "they are back")...)
		again = who.want(exitOK, append(strings.Fields(test.resume), "--reason", "they are back")...).out
		if !strings.Contains(again, "was not paused") {
			t.Errorf("%s again said %q", test.resume, again)
		}
	}
	if claims := works.claim(); len(claims) != 1 {
		t.Errorf("after all was resumed %d were claimed, want 1", len(claims))
	}
	var done act
	if err := json.Unmarshal([]byte(who.want(exitOK, "rail", "pause", "bank", "--reason", "x", "-o", "json").out),
		&done); err != nil {
		t.Fatal(err)
	}
	if done.InForce == nil || done.InForce.Reason != "x" {
		t.Errorf("JSON says of the pause %+v", done.InForce)
	}
	done.InForce = nil
	if want := (act{Act: "PAUSE_RAIL", RailType: "bank", Now: "paused", Changed: true}); !reflect.DeepEqual(done, want) {
		t.Errorf("JSON says %+v, want %+v", done, want)
	}
	who.want(exitNotFound, "rail", "pause", "bnak", "--reason", "x")
	who.want(exitNotFound, "participant", "pause", "unknown", "--reason", "x")
	who.want(exitUsage, "rail", "pause", "bank")
	who.want(exitUsage, "rail", "pause", "--reason", "x")
	who.want(exitUsage, "rail", "pause", "bank", "--everything", "--reason", "x")
	who.want(exitUsage, "rail", "pause", "bank", "--reason", " ")
}

// TestPausesWithAnEnd: a pause prints its end, a second one does not change the
// first, and a resumption names the pause that still stops claims.
func TestPausesWithAnEnd(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1")
	for _, what := range []string{"rail pause bank", "rail pause --everything", "participant pause p1"} {
		run := func(more ...string) string { return who.want(exitOK, append(strings.Fields(what), more...)...).out }
		first := run("--reason", "their maintenance", "--until", "2026-12-31T09:00:00+01:00", "--reason", "their maintenance")
		if time.Now().Before(time.Date(2026, 12, 31, 8, 0, 0, 0, time.UTC)) &&
			!strings.HasSuffix(first, " paused until 2026-12-31T08:00:00.000Z\n") {
			t.Errorf("%s: %q", what, first)
		}
		shorter := run("--reason", "mine", "--for", "1m")
		if !strings.Contains(shorter, "was paused already by railhead_operator_login since ") ||
			!strings.Contains(shorter, "ends at 2026-12-31T08:00:00.000Z: their maintenance") {
			t.Errorf("%s, a shorter one: %q", what, shorter)
		}
		if endless := run("--reason", "mine"); !strings.Contains(endless, "has no end: their maintenance") {
			t.Errorf("%s, without an end: %q", what, endless)
		}
		if later := run("--reason", "mine", "--for", "9000s"); !strings.Contains(later, "has no end: their maintenance") {
			t.Errorf("%s, an end after that: %q", what, later)
		}
		for _, wrong := range [][]string{
			{"--for", "1m", "--until", "2026-12-31T09:00:00Z"}, {"--for", "-1m"}, {"--until", "tomorrow"},
			{"--until", "2026-01-01T00:00:00Z"}, {"--for", "9000h"},
		} {
			who.want(exitUsage, append(append(strings.Fields(what), "--reason", "x"), wrong...)...)
		}
	}
	for command, want := range map[string]string{
		"rail resume bank": "rail bank resumed: it was paused by railhead_operator_login since ", "participant resume p1": "participant p1 resumed: it was paused by railhead_operator_login since ",
	} {
		said := who.want(exitOK, append(strings.Fields(command), "--reason", "x")...).out
		if !strings.HasPrefix(said, want) ||
			!strings.Contains(said, "; everything is paused by railhead_operator_login since ") {
			t.Errorf("%s: %q", command, said)
		}
	}
	who.want(exitOK, "rail", "resume", "--everything", "--reason", "x")
	if said := who.want(exitOK, "rail", "resume", "bank", "--reason", "x").out; said != "rail bank was not paused\n" {
		t.Errorf("resumed again: %q", said)
	}
}

// TestSecondStopIsTold: who resumes what two have paused is told of both, in words and as data; so is who opens a gate.
func TestSecondStopIsTold(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	enqueued(who, "INV-1")
	const both = "maintenance; and " + celltest.Operator + ": STOP: they are paid twice"
	for _, what := range []struct{ stop, end string }{
		{"rail pause bank", "rail resume bank"}, {"rail pause --everything", "rail resume --everything"},
		{"participant pause p1", "participant resume p1"}, {"intake close bank", "intake open bank"},
	} {
		run := func(command, reason string, more ...string) string {
			return who.want(exitOK, append(append(strings.Fields(command), "--reason", reason), more...)...).out
		}
		asData := func(command, reason string) (done act) {
			if err := json.Unmarshal([]byte(run(command, reason, "-o", "json")), &done); err != nil {
				t.Fatal(err)
			}
			return done
		}
		for _, words := range []bool{true, false} {
			run(what.stop, "maintenance")
			if words {
				if said := run(what.stop, "STOP: they are paid twice"); !strings.HasSuffix(said, ": "+both+"\n") {
					t.Errorf("%s a second time says %q", what.stop, said)
				}
				if said := run(what.end, "maintenance is over"); !strings.HasSuffix(said, ": "+both+"\n") {
					t.Errorf("%s says %q", what.end, said)
				}
				continue
			}
			if done := asData(what.stop, "STOP: they are paid twice"); done.InForce == nil || done.Changed ||
				done.InForce.Reason != both || done.InForce.By != celltest.Operator || done.InForce.At.IsZero() {
				t.Errorf("%s a second time is as data %+v, %+v", what.stop, done, done.InForce)
			}
			if done := asData(what.end, "maintenance is over"); done.Ended == nil || !done.Changed ||
				done.Ended.Reason != both || done.Ended.By != celltest.Operator || done.Ended.At.IsZero() {
				t.Errorf("%s is as data %+v, %+v", what.end, done, done.Ended)
			}
			if done := asData(what.end, "once more"); done.Ended != nil || done.Changed {
				t.Errorf("%s of what runs is as data %+v, %+v", what.end, done, done.Ended)
			}
		}
	}
}

// TestEndpointActsSayWhatTheyEnd: a redelivery names the pause of the endpoint that it ends, and a discard which events
// are given up; the operator log has them, too.
func TestEndpointActsSayWhatTheyEnd(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	cell.Exec(`INSERT INTO railhead.payment_event_endpoints (endpoint_id, place_xact, place_system, paused_at, pause_reason)
		VALUES ('shop', '0', '', '2026-11-01T10:00:00Z', 'it answered 410 Gone')`)
	const give = `INSERT INTO railhead.payment_event_retries (endpoint_id, outbox_id, attempt_no, attempt_id, event_type, created_at,
		tries, next_at, last_status, failed_at)
		SELECT 'shop', ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 7, gen_random_uuid(), 'payment.dispatched',
			'2026-11-01T10:00:00Z'::timestamptz + n * interval '1 second', 3, 'infinity', '500', now()
		FROM generate_series(1, %d) AS g(n)`
	run := func(command string, more ...string) string {
		return who.want(exitOK, append(strings.Fields("events "+command+" --endpoint shop --reason x"), more...)...).out
	}
	asData := func(command string) (done act) {
		if err := json.Unmarshal([]byte(run(command, "-o", "json")), &done); err != nil {
			t.Fatal(err)
		}
		return done
	}
	if said := run("redeliver"); said != "endpoint shop: 0 waiting events are due now; it was paused since "+
		"2026-11-01T10:00:00.000Z: it answered 410 Gone\n" {
		t.Errorf("a redelivery says %q", said)
	}
	if said := run("redeliver"); said != "endpoint shop: 0 waiting events are due now\n" {
		t.Errorf("a second one says %q", said)
	}
	cell.Exec(`UPDATE railhead.payment_event_endpoints SET paused_at = '2026-11-01T10:00:00Z', pause_reason = 'it is gone'`)
	if done := asData("redeliver"); done.Ended == nil || done.Ended.Reason != "it is gone" || *done.Events != 0 {
		t.Errorf("a redelivery is as data %+v, %+v", done, done.Ended)
	}

	cell.Exec(fmt.Sprintf(give, 2))
	if said := run("discard"); said != "endpoint shop: 2 events are given up for good: "+
		"00000000-0000-7000-8000-000000000001 row 7, 00000000-0000-7000-8000-000000000002 row 7\n" {
		t.Errorf("a discard says %q", said)
	}
	if said := run("discard"); said != "endpoint shop: 0 events are given up for good\n" {
		t.Errorf("a second one says %q", said)
	}
	cell.Exec(fmt.Sprintf(give, 120))
	done := asData("discard")
	if *done.Events != 120 || len(done.Discarded) != 100 || done.Discarded[99].AttemptNo != 7 ||
		done.Discarded[99].OutboxID.String() != "00000000-0000-7000-8000-000000000100" {
		t.Errorf("a discard of 120 is as data %+v", done)
	}
	if n := cell.Int(`SELECT count(*) FROM railhead.payment_operator_log WHERE act = 'DISCARD_EVENTS'
		AND detail ->> 'events' = '120' AND jsonb_array_length(detail -> 'first') = 100`); n != 1 {
		t.Errorf("%d rows of the log have the events", n)
	}
	cell.Exec(fmt.Sprintf(give, 12))
	if said := run("discard"); !strings.HasSuffix(said, "000000000010 row 7 and 2 more\n") {
		t.Errorf("a discard of 12 says %q", said)
	}
}

// TestPauseBehindAnOpenTransaction: the act ends soon, and names the session to end.
func TestPauseBehindAnOpenTransaction(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	holder := cell.Conn(t, celltest.Operator)
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for _, statement := range []string{`SET LOCAL idle_in_transaction_session_timeout = '20s'`, `SELECT railhead.resume_rail('bank', 'left open')`} {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	said := who.want(exitFailure, "rail", "pause", "bank", "--reason", "their maintenance").errors
	if took := time.Since(begun); took > 7*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, want := range []string{
		fmt.Sprintf("nothing was done: the lock is held by pid %d (login railhead_operator_login, ", holder.PgConn().PID()),
		"idle in transaction, transaction open for ", "latest statement: SELECT railhead.resume_rail(...)",
		fmt.Sprintf("SELECT pg_terminate_backend(%d)", holder.PgConn().PID()), "run the same command again",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	who.want(exitOK, "rail", "pause", "bank", "--reason", "their maintenance")
}

// TestDeadLetters applies the operators' acts to a dead letter of each kind.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who, works := at(t, cell), newWorker(t, cell)
	cell.ApplyProfile(celltest.Bank, `{"resend_on_unknown": "NEVER", "id_after_refusal": "SAME"}`)
	enqueued(who, "INV-1", "INV-2", "INV-3", "INV-4")
	for _, claim := range works.claim() {
		switch claim.InstructionID {
		case "INV-1":
			works.answer(claim, payment.ResultRefusedFinal,
				payment.Outcome{RailCode: "AC04", CodeTable: "iso20022@1", ErrorMessage: "closed account"})
		case "INV-2", "INV-3":
			works.park(claim)
		case "INV-4":
			works.answer(claim, payment.ResultRefusedTransient, payment.Outcome{RailCode: "AM04"})
		}
	}
	listed := who.want(exitOK, "dead-letter", "list").out
	golden(t, "dead_letters", listed)
	cell.ApplyProfile("another", celltest.BankProfile)
	if none := who.want(exitOK, "dead-letter", "list", "--rail", "another").out; none != "no dead letter\n" {
		t.Errorf("a list of another rail: %q", none)
	}
	var letters []reader.Letter
	read := func(args ...string) int {
		t.Helper()
		letters = nil
		if err := json.Unmarshal([]byte(who.want(exitOK,
			append([]string{"dead-letter", "list", "-o", "json"}, args...)...).out), &letters); err != nil {
			t.Fatal(err)
		}
		return len(letters)
	}
	if n := read("--reason", "OUTCOME_UNKNOWN", "--status", "pending", "--rail", "bank"); n != 2 ||
		letters[0].ErrorCode != "NO_SAFE_RECOVERY" {
		t.Errorf("listed %+v", letters)
	}
	golden(t, "dead_letter_show", who.want(exitOK, "dead-letter", "show", "INV-2").out)
	who.want(exitNotFound, "dead-letter", "show", "INV-4")

	// A payment that may have been made is neither replayed nor closed, and the refusal names the act.
	for _, refused := range [][]string{
		{"dead-letter", "replay", "INV-2", "--reason", "try again"},
		{"dead-letter", "close", "INV-2", "--reason", "never mind"},
		{"payment", "cancel", "INV-2", "--reason", "never mind"},
		{"dead-letter", "resolve", "INV-1", "--not-executed", "--evidence-date", time.Now().UTC().Format(time.DateOnly), "--document", "d", "--reason", "x"},
	} {
		if got := who.want(exitNotAllowed, refused...); !strings.Contains(got.errors, "(RH020)") || got.out != "" {
			t.Errorf("%v said %q and %q", refused, got.out, got.errors)
		}
	}
	who.want(exitOK, "dead-letter", "acknowledge", "INV-2", "--reason", "I ask the bank")
	acknowledged := regexp.MustCompile(`OUTCOME_UNKNOWN \(NO_SAFE_RECOVERY\), opened \S+; acknowledged by railhead_operator_login at \S+: I ask the bank\n`)
	if shown := who.want(exitOK, "payment", "show", "INV-2").out; !acknowledged.MatchString(shown) {
		t.Errorf("payment show does not say who has it:\n%s", shown)
	}
	who.want(exitOK, "dead-letter", "escalate", "INV-2", "--reason", "they don't answer")
	if n := read("--status", "escalated"); n != 1 || letters[0].Actor != celltest.Operator ||
		letters[0].Note != "they don't answer" {
		t.Errorf("listed %+v", letters)
	}
	evidence := []string{"--evidence-date", time.Now().UTC().Format(time.DateOnly), "--document",
		"statement 146, line 9", "--reason", "on the statement"}
	who.want(exitUsage, append([]string{"dead-letter", "resolve", "INV-2"}, evidence...)...)
	who.want(exitUsage, append([]string{"dead-letter", "resolve", "INV-2", "--executed"}, evidence...)...)
	who.want(exitUsage, append([]string{"dead-letter", "resolve", "INV-2", "--executed", "--not-executed"},
		evidence...)...)
	who.want(exitOK, append([]string{"dead-letter", "resolve", "INV-2", "--executed", "--rail-reference", "RS42"},
		evidence...)...)
	who.want(exitOK, append([]string{"dead-letter", "resolve", "INV-3", "--not-executed"}, evidence...)...)
	who.want(exitUsage, "dead-letter", "replay", "INV-3", "--expires-at", "tomorrow", "--reason", "x")
	who.want(exitUsage, "dead-letter", "replay", "INV-3", "--expires-at", "2001-01-01T00:00:00Z", "--reason", "x")
	who.want(exitOK, "dead-letter", "replay", "INV-3", "--expires-at", "2099-01-01T00:00:00Z", "--reason", "try again")
	who.want(exitOK, "dead-letter", "close", "INV-1", "--reason", "the participant pays in another way")
	if said := who.want(exitOK, "payment", "cancel", "INV-4", "--reason",
		"asked by the participant").out; !strings.HasPrefix(said, "cancelled: ") {
		t.Errorf("cancel said %q", said)
	}
	who.want(exitNotFound, "payment", "cancel", "nothing", "--reason", "x")

	states := map[string]string{"INV-1": "FAILED", "INV-2": "DISPATCHED", "INV-3": "PENDING", "INV-4": "CANCELLED"}
	for name, want := range states {
		if shown := who.want(exitOK, "payment", "show", name).out; !strings.Contains(shown, "  state        "+want+"\n") {
			t.Errorf("%s is not %s:\n%s", name, want, shown)
		}
	}
	if n := read(); n != 0 {
		t.Errorf("%d dead letters are left", n)
	}
	if n := read("--status", "resolved"); n != 2 {
		t.Errorf("%d dead letters are resolved, want 2", n)
	}
	asReader := command{t: t, env: []string{"DATABASE_URL=" + cell.URL(celltest.Readonly)}}
	asReader.want(exitDenied, "payment", "cancel", "INV-3", "--reason", "x")
}

// park records a send without an answer on a rail that can't be asked.
func (w worker) park(claim payment.Claim) {
	w.t.Helper()
	outcome := payment.Outcome{
		AttemptID: payment.NewID(), ParkAttemptID: payment.NewID(), Claim: claim, Result: payment.ResultUnknown,
		Decision: payment.Policy{}.WithDefaults().Decide(claim, payment.Answer{Result: payment.ResultUnknown}),
		WorkerID: "relayer-1", ProfileVersion: 1, RenderVersion: "r1",
	}
	if _, err := w.executor.Turn(w.t.Context(), outbox.Turn{Outcomes: []payment.Outcome{outcome}}); err != nil {
		w.t.Fatal(err)
	}
}
