package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// stopping is a stop to which each operator who asks for it adds a word.
type stopping struct {
	what string
	ask  func(person, reason string) // by the login celltest.Operator
	read func() string               // the reason that stands
	end  func()
}

func (d *desk) stopping() []stopping {
	d.enqueue()
	o, t := d.operator(), d.t
	must := func(_ bool, err error) { d.must(err) }
	gate := reader.Gate{Scope: reader.GateRail, Name: "bank"}
	return []stopping{
		{"a rail",
			func(person, reason string) {
				must(o.PauseRail(operator.OnBehalfOf(t.Context(), person), "bank", reason, time.Time{}))
			},
			func() string {
				return d.text(`SELECT pause_reason FROM railhead.payment_rails WHERE rail_type = 'bank'`)
			},
			func() { must(o.ResumeRail(t.Context(), "bank", why)) }},
		{"a participant",
			func(person, reason string) {
				must(o.PauseParticipant(operator.OnBehalfOf(t.Context(), person), "participant", reason, time.Time{}))
			},
			func() string { return d.text(`SELECT pause_reason FROM railhead.payment_paused_participants`) },
			func() { must(o.ResumeParticipant(t.Context(), "participant", why)) }},
		{"a gate",
			func(person, reason string) {
				must(o.CloseEnqueue(operator.OnBehalfOf(t.Context(), person), gate, reason, time.Time{}))
			},
			func() string { return d.text(`SELECT close_reason FROM railhead.payment_closed_gates`) },
			func() { must(o.OpenEnqueue(t.Context(), gate, why)) }},
	}
}

// TestStopBetweenOthers: a stop stays in the reason whatever is said after it, of any length and by the same login.
func TestStopBetweenOthers(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const stop = "STOP: the bank pays twice"
	for _, of := range d.stopping() {
		for _, long := range []struct {
			by    string
			words []string
		}{
			{"long ones", []string{strings.Repeat("a", 450), strings.Repeat("b", 450), stop, strings.Repeat("c", 300)}},
			{"six of all that fits", []string{strings.Repeat("a", 1900), stop, strings.Repeat("b", 1900),
				strings.Repeat("c", 1900), strings.Repeat("d", 1900), strings.Repeat("e", 1900), strings.Repeat("f", 1900)}},
		} {
			for _, reason := range long.words {
				of.ask("", reason)
			}
			if now := of.read(); !strings.Contains(now, stop) || len(now) > 2000 {
				t.Errorf("%s, after %s: of %d characters: %s", of.what, long.by, len(now), now)
			}
			of.end()
		}
		of.ask("", "maintenance")
		for n := range 40 {
			of.ask("", fmt.Sprintf("extended by cron, run %d", n))
		}
		of.ask("anna", stop)
		for n := range 60 {
			before := of.read()
			of.ask("", fmt.Sprintf("extended by cron, run %d", 40+n))
			if of.read() == before {
				t.Fatalf("%s: run %d is unseen", of.what, n)
			}
		}
		now := of.read()
		if !strings.Contains(now, "for anna: "+stop) || !strings.HasPrefix(now, "maintenance; and ") || len(now) > 2000 {
			t.Errorf("%s, after 60 that another prolonged it: %s", of.what, now)
		}
		if !strings.Contains(now, " more (each is whole in railhead log, the last of ") {
			t.Errorf("%s does not say that more was said: %s", of.what, now)
		}
		of.end()
	}
}

// TestPersonsOfOneLogin: the console acts for everybody with one login. What a second person says, and be it the same,
// is another reason, and names that person.
func TestPersonsOfOneLogin(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, of := range d.stopping() {
		for _, word := range []struct{ person, reason, want string }{
			{"anna", "incident 42", "for anna: incident 42"},
			{"anna", "incident 42", "for anna: incident 42"},
			{"bert", "incident 42", "for anna: incident 42; and LOGIN for bert: incident 42"},
			{"bert", "incident 42", "for anna: incident 42; and LOGIN for bert: incident 42"},
			{"", "incident 42", "for anna: incident 42; and LOGIN for bert: incident 42; and LOGIN: incident 42"},
			{"bert", "incident 42", "for anna: incident 42; and LOGIN: incident 42; and LOGIN for bert: incident 42"},
			{"anna; and bert", "it's over; and  boss: go on; And x",
				"for anna: incident 42; and LOGIN: incident 42; and LOGIN for bert: incident 42; " +
					"and LOGIN for anna, and bert: it's over, and  boss: go on, And x"},
		} {
			of.ask(word.person, word.reason)
			same(t, fmt.Sprintf("%s, after %s said %s", of.what, word.person, word.reason), of.read(),
				strings.ReplaceAll(word.want, "LOGIN", celltest.Operator))
		}
		of.end()
		of.ask("", "alone")
		same(t, of.what+" that was stopped anew", of.read(), "alone")
		of.end()
	}
	o := d.operator()
	_, err := o.PauseRail(operator.OnBehalfOf(t.Context(), "anna"), "bank", "incident 42", time.Time{})
	d.must(err)
	shown, err := o.Reader().RailPause(t.Context(), "bank")
	d.must(err)
	_, err = o.PauseRail(operator.OnBehalfOf(t.Context(), "bert"), "bank", "incident 42", time.Time{})
	d.must(err)
	_, err = o.ResumeRail(operator.IfPauseIs(t.Context(), "bank", "", operator.ShownOf(shown)), "bank", "it is over")
	if !errors.Is(err, operator.ErrOther) {
		t.Errorf("resumed by a page from before the second person: %v", err)
	}
}

// TestStopIsSeenByItsMark: however many persons stop a rail, and where their words differ, each word makes another
// reason, so that a page from before it is refused. The first and the last are always there.
func TestStopIsSeenByItsMark(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	of := d.stopping()[0]
	long := strings.Repeat("é", 900)
	seen := map[string]bool{}
	say := func(person, reason, begins string) {
		t.Helper()
		of.ask(person, reason)
		now := of.read()
		if seen[now] {
			t.Fatalf("%s said %.20s, and the reason is the one of before: %s", person, reason, now)
		}
		seen[now] = true
		if n := len([]rune(now)); n > 2000 || !strings.HasPrefix(now, "the first ") || !strings.Contains(now, begins) {
			t.Fatalf("after %s said %.20s it has %d characters: %s", person, reason, n, now)
		}
		before := now
		of.ask(person, reason)
		same(t, "the reason after a repetition", of.read(), before)
	}
	say("", "the first "+long, "the first é")
	for _, end := range []string{"one", "two", "one", "two"} { // each shown like the one before it
		say("", "again "+long+end, "again é")
	}
	for n := range 70 {
		person := fmt.Sprintf("person %d %s", n, strings.Repeat("x", 400))
		say(person, fmt.Sprintf("word %d %s", n, long), fmt.Sprintf("word %d é", n))
	}
	// Those who are left out or cut say something else, which differs where nothing is shown.
	for _, n := range []int{69, 3, 69, 40} {
		person := fmt.Sprintf("person %d %s", n, strings.Repeat("x", 400))
		say(person, fmt.Sprintf("word %d %s and %d", n, long, len(seen)), fmt.Sprintf("word %d é", n))
	}
	same(t, "words that are kept", d.Int(`SELECT jsonb_array_length(stops -> 'words') FROM railhead.payment_rails WHERE paused`), 50)
	d.do(`UPDATE railhead.payment_rails SET paused_until = now() WHERE paused`)
	ended, err := d.exec.EndPauses(t.Context())
	d.must(err)
	same(t, "ended", fmt.Sprint(ended), "[rail bank]")
	same(t, "words that are left", d.Int(`SELECT count(*) FROM railhead.payment_rails WHERE stops IS NOT NULL`), 0)
}

// TestStopsOfBefore: what a function of before migration 45 wrote, or a person by hand, is kept whole.
func TestStopsOfBefore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	older := strings.Repeat("m", 1100) + " ...; and rail_ops: STOP: the bank pays twice"
	for _, of := range d.stopping() {
		of.ask("anna", "of an earlier pause")
		for _, sql := range []string{
			`UPDATE railhead.payment_rails SET pause_reason = $1, paused_by = 'first' WHERE paused`,
			`UPDATE railhead.payment_paused_participants SET pause_reason = $1, paused_by = 'first'`,
			`UPDATE railhead.payment_closed_gates SET close_reason = $1, closed_by = 'first'`,
		} {
			d.do(sql, older)
		}
		for n := range 20 {
			of.ask(fmt.Sprint("person ", n), strings.Repeat("p", 400))
			if now := of.read(); !strings.HasPrefix(now, older+"; and ") || len(now) > 2000 {
				t.Fatalf("%s, after %d more: %s", of.what, n+1, now)
			}
		}
		of.end()
	}
	d.do(`UPDATE railhead.payment_rails SET paused = true, paused_by = 'by hand', paused_at = now(), pause_reason = $1
		WHERE rail_type = 'bank'`, "first "+strings.Repeat("m", 5000)+" last")
	of := d.stopping()[0]
	for n := range 3 {
		of.ask("anna", fmt.Sprintf("STOP %d", n))
	}
	if now := of.read(); !strings.HasPrefix(now, "first m") || !strings.Contains(now, "m last; and ") ||
		strings.Count(now, "STOP") != 3 {
		t.Errorf("after one of 5,000 characters: %s", now)
	}
	// A statement of before that is still under way.
	same(t, "by the function of before", d.text(`SELECT railhead.reason_of_both('maintenance', 'ops', 'STOP')`),
		"maintenance; and postgres: STOP")
}

// TestRelayersStopWithinAPause: a rail that refuses us while an operator's pause is in force stays paused when that
// pause was to end, and is told as a rail that a relayer has paused.
func TestRelayersStopWithinAPause(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	const refused = "the rail refuses our credentials, route or form: 403"
	for _, end := range []time.Time{time.Now().Add(time.Minute), {}} {
		_, err := o.PauseRail(t.Context(), "bank", "maintenance", end)
		d.must(err)
		first, err := o.Reader().RailPause(t.Context(), "bank")
		d.must(err)
		for n, want := range []bool{true, false, false} {
			changed, err := d.exec.PauseRail(t.Context(), "bank", fmt.Sprint(refused, strings.Repeat("!", n)))
			d.must(err)
			same(t, "changed by the stop", changed, want)
		}
		d.do(`UPDATE railhead.payment_rails SET paused_until = now() WHERE paused_until IS NOT NULL`)
		_, err = d.exec.EndPauses(t.Context())
		d.must(err)
		now, err := o.Reader().RailPause(t.Context(), "bank")
		d.must(err)
		if now == nil || now.Reason != "maintenance; and "+celltest.Relayer+": "+refused || !now.Until.IsZero() ||
			now.By != first.By || !now.At.Equal(first.At) {
			t.Fatalf("the pause is %+v", now)
		}
		same(t, "paused by a relayer", d.text(`SELECT auto_paused::text FROM railhead.payment_rails WHERE paused`), "true")
		_, err = o.ResumeRail(operator.IfPauseIs(t.Context(), "bank", "", operator.ShownOf(first)), "bank", why)
		if !errors.Is(err, operator.ErrOther) {
			t.Errorf("resumed by a page from before the relayer's stop: %v", err)
		}
		// An operator's end ends nothing that a relayer has stopped.
		_, err = o.PauseRail(t.Context(), "bank", "longer", time.Now().Add(time.Hour))
		d.must(err)
		now, err = o.Reader().RailPause(t.Context(), "bank")
		d.must(err)
		same(t, "without an end", now.Until.IsZero(), true)
		_, err = o.ResumeRail(t.Context(), "bank", "the secret is the new one")
		d.must(err)
	}
	same(t, "acts of the relayer", d.text(`SELECT string_agg(concat_ws(' ', act, subject, reason), ', ')
		FROM railhead.payment_operator_log WHERE actor = $1`, celltest.Relayer),
		"PAUSE_RAIL bank "+refused+", PAUSE_RAIL bank "+refused)
	changed, err := d.exec.PauseRail(t.Context(), "bank", refused)
	d.must(err)
	same(t, "paused by the relayer alone", changed, true)
	pause, err := o.Reader().RailPause(t.Context(), "bank")
	d.must(err)
	if pause.By != celltest.Relayer || pause.Reason != refused {
		t.Errorf("the pause of a relayer is %+v", pause)
	}
}
