package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestStopSaidAgain: a stop that is asked for again is the newest word, once anything was said since: a page of before
// it ends no pause. Repeated at once, it is the same call.
func TestStopSaidAgain(t *testing.T) {
	t.Parallel()
	const stop, harmless = "STOP: the bank pays twice", "it was a false alarm, bob may resume"
	for name, test := range map[string]struct {
		says []string // person: reason
		want string   // the last part
	}{
		"of the person itself, the first of all": {[]string{"ada: " + stop, "ada: " + harmless}, "for ada: " + stop},
		"of the person itself":                   {[]string{"cy: maintenance", "ada: " + stop, "ada: " + harmless}, "for ada: " + stop},
		"of another person":                      {[]string{"ada: " + stop, "cy: " + harmless}, "for ada: " + stop},
		"of another person, not the first": {[]string{"dan: maintenance", "ada: " + stop, "cy: " + harmless},
			"for ada: " + stop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			o := d.operator()
			pause := func(person, reason string) {
				t.Helper()
				_, err := o.PauseRail(operator.OnBehalfOf(t.Context(), person), "bank", reason, time.Time{})
				d.must(err)
			}
			reason := func() string {
				return d.text(`SELECT pause_reason FROM railhead.payment_rails WHERE rail_type = 'bank'`)
			}
			for _, word := range test.says {
				person, said, _ := strings.Cut(word, ": ")
				pause(person, said)
			}
			var seen reader.Pause
			d.must(d.super.QueryRow(t.Context(), `SELECT paused_at, pause_reason FROM railhead.payment_rails
				WHERE rail_type = 'bank'`).Scan(&seen.At, &seen.Reason))
			pause("ada", stop)
			if got := reason(); !strings.HasSuffix(got, test.want) {
				t.Errorf("the reason is %q, and its newest part is not %q", got, test.want)
			}
			after := reason()
			pause("ada", stop)
			same(t, "the reason after the call was repeated", reason(), after)
			bob := operator.IfPauseIs(operator.OnBehalfOf(t.Context(), "bob"), "bank", "", operator.ShownOf(&seen))
			if _, err := o.ResumeRail(bob, "bank", "ada says it was a false alarm"); err == nil {
				t.Error("a page of before the last stop has resumed the rail")
			}
		})
	}
}

// TestNoPartIsImitated: nothing in a reason or in a name looks like what separates the words of two operators.
func TestNoPartIsImitated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	for _, separator := range []string{
		"; and", ";" + strings.Repeat(" ", 21) + "and", "\u037e and", "; a\u00adnd", "\u061b and", "\u204f and", "\u2e35 and",
		"\ufe14 and", "\ufe54 and", "\uff1b and",
	} {
		_, err := o.PauseRail(operator.OnBehalfOf(t.Context(), "mallory"), "bank",
			"maintenance"+separator+" ops for carla: checked, resume it", time.Time{})
		d.must(err)
		got := d.text(`SELECT pause_reason FROM railhead.payment_rails WHERE rail_type = 'bank'`)
		if strings.ContainsAny(got, ";\u037e\u061b\u204f\u2e35\ufe14\ufe54\uff1b") {
			t.Errorf("%q looks like the words of two operators", got)
		}
		_, err = o.ResumeRail(t.Context(), "bank", why)
		d.must(err)
	}
}

// TestRefusalNamesNoPerson: a caller who may not read the log of operators' acts learns from a refusal which logins
// have closed enqueue and why, and not for which persons.
func TestRefusalNamesNoPerson(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	for _, person := range []string{"ada.lovelace@bank.example", "grace.hopper@bank.example"} {
		_, err := o.CloseEnqueue(operator.OnBehalfOf(t.Context(), person), reader.Gate{Scope: reader.GateRail, Name: "bank"},
			"closed by "+person[:3], time.Time{})
		d.must(err)
	}
	_, err := d.ingest.Exec(t.Context(), `SELECT railhead.enqueue_payment_outbox('i-1', 'p-1', 'k-1', 'bank',
		'{"amount": "1.00", "currency": "EUR"}')`)
	same(t, "state", ledger.SQLState(err), "RH014")
	for _, part := range []string{"closed by ada", "; and " + celltest.Operator + ": closed by gra"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: %q is missing", err, part)
		}
	}
	if strings.Contains(err.Error(), "@") {
		t.Errorf("%v names a person", err)
	}
}

// TestFirstReportDuringAnAcceptance: a component that reports for the first time while an operator accepts the server
// opens no suspension anew: what it has seen was accepted.
func TestFirstReportDuringAnAcceptance(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"NEW_TIMELINE", "NO_MEMORY"} {
		d := newDesk(t)
		d.do(`SELECT railhead.suspend_outbox('a', $1, 'a test', clock_timestamp())`, first)
		tx, err := d.Conn(t, celltest.Operator).Begin(t.Context())
		d.must(err)
		_, err = tx.Exec(t.Context(), `SELECT railhead.accept_timeline('compared',
			(SELECT max(s.opened_at) FROM railhead.payment_outbox_suspensions s))`)
		d.must(err)
		worker := d.Conn(t, celltest.Relayer)
		pid := worker.PgConn().PID()
		done := make(chan error, 1)
		go func() {
			_, err := worker.Exec(t.Context(), `SELECT railhead.suspend_outbox('b', 'ROWS_MISSING', 'rows missing',
				(SELECT max(s.opened_at) FROM railhead.latest_suspensions(1) s))`)
			done <- err
		}()
		await(t, "the report waits", func() bool {
			return d.Int(`SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'`, pid) == 1
		})
		d.must(tx.Commit(t.Context()))
		d.must(<-done)
		same(t, "open", d.Int(`SELECT count(*) FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`), 0)
	}
}
