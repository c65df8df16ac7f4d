package ledger_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// TestReferencesThatLookAlike: one reference of the rail ends one payment, whatever is around or within it that a
// reader does not see.
func TestReferencesThatLookAlike(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	answered(d, payment.ResultAccepted) // its reference is ref
	for _, padded := range []string{"ref\r", "ref\t", "\nref", "ref\u00a0", "\u2003ref\u3000", "ref\u0085", " ref "} {
		_, err := o.ResolvePayment(t.Context(), parked(d), stated(padded))
		refusedWith(t, padded, err, "RH020", "the rail's reference is that of")
	}
	for _, hidden := range []string{"ref\u200b", "\ufeffref", "r\u00adef", "ref\U000e0041", "\u2060 ref \u200d"} {
		_, err := o.ResolvePayment(t.Context(), parked(d), stated(hidden))
		refusedWith(t, hidden, err, "RH020", "the rail's reference is that of")
	}
	for _, executed := range []bool{true, false} {
		evidence := stated("re\tf")
		evidence.Executed = executed
		_, err := o.ResolvePayment(t.Context(), parked(d), evidence)
		refusedWith(t, "a tab within", err, "RH002", "has a control character")
	}

	// A rail may group its references by blanks of any kind: they are stored as they are typed.
	d.record(told(never, d.claimOne(d.enqueue()), payment.ResultAccepted, rails.CleanReference("REF\u00a0123")))
	for _, typed := range []string{"REF 123", "REF\u00a0123", "REF\u2007123", "REF\u200b\u202f123"} {
		_, err := o.ResolvePayment(t.Context(), parked(d), stated(typed))
		refusedWith(t, typed, err, "RH020", "the rail's reference is that of")
	}

	id := parked(d)
	_, err := o.ResolvePayment(t.Context(), id, operator.Evidence{Executed: true, RailReference: "\u00a0REF 9/3\r\n",
		Date: stated("").Date, Document: "\tstatement 9\u00a0", Reason: why})
	d.must(err)
	same(t, "what is stored", d.text(`SELECT a.rail_reference || '|' || (l.detail ->> 'rail_reference') || '|' ||
		(l.detail ->> 'document') FROM railhead.payment_outbox_attempts a JOIN railhead.payment_operator_log l
		USING (outbox_id) WHERE outbox_id = $1 AND a.error_code = 'RESOLVED' AND l.act = 'RESOLVE'`, [16]byte(id)),
		"REF 9/3|REF 9/3|statement 9")
}

// TestReferencesOfOlderBuilds: what a rail named is found as it was stored by a build that kept characters which are
// not seen, and what it named for the payment itself is its word, typed or pasted.
func TestReferencesOfOlderBuilds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	d.record(told(never, d.claimOne(d.enqueue()), payment.ResultAccepted, "REF\u00a0123"))
	_, err := o.ResolvePayment(t.Context(), parked(d), stated(" REF\u00a0123"))
	refusedWith(t, "pasted", err, "RH020", "the rail's reference is that of")

	for _, named := range []string{"REF\u00a0777", "REF 777"} {
		own := answered(d, payment.ResultRefusedFinal)
		same(t, "late", d.late(callback(own.OutboxID, payment.ResultExecuted, "REF\u00a0777")), payment.VerdictConflict)
		_, err = o.ResolvePayment(t.Context(), own.OutboxID, stated(named))
		d.must(err)
		same(t, named, d.text(`SELECT rail_reference || ' ' || (error_message LIKE 'against%')::text
			FROM railhead.payment_outbox_attempts WHERE outbox_id = $1 AND error_code = 'RESOLVED'`, [16]byte(own.OutboxID)),
			"REF 777 false")
	}
}

// TestEvidenceThatIsNotSeen: a reference and a document of which nothing is seen are none.
func TestEvidenceThatIsNotSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, nothing := range []string{"\u200b", "\u00a0", "\t\r\n", " \u2060\ufeff", "\u3164"} {
		_, err := d.operator().ResolvePayment(t.Context(), parked(d), stated(nothing))
		refusedWith(t, nothing, err, "RH002", "evidence is incomplete")
		for _, executed := range []bool{true, false} {
			evidence := stated("ref-of-its-own")
			evidence.Executed, evidence.Document = executed, nothing
			_, err = d.operator().ResolvePayment(t.Context(), parked(d), evidence)
			refusedWith(t, nothing, err, "RH002", "evidence is incomplete")
		}
	}
	// One that proves that nothing was executed needs no reference, and has none then.
	id, evidence := parked(d), notExecuted()
	evidence.RailReference = "\u00a0"
	_, err := d.operator().ResolvePayment(t.Context(), id, evidence)
	d.must(err)
	same(t, "reference", d.text(`SELECT coalesce(rail_reference, 'none') FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 AND error_code = 'RESOLVED'`, [16]byte(id)), "none")
}

// TestPersonThatIsNotSeen: a name of which nothing is seen is none, and the blanks around one are not part of it.
func TestPersonThatIsNotSeen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	conn := d.Conn(t, celltest.Operator)
	for name, want := range map[string]string{"\u200b\u00a0": "-", "\t": "-", " ben\u00a0": "ben", "\r\nben": "ben"} {
		mustExec(t, conn, `SELECT set_config('railhead.person', $1, false)`, name)
		mustExec(t, conn, `SELECT railhead.close_enqueue('rail', 'bank', 'a test', NULL)`)
		same(t, name, d.text(`SELECT coalesce(person, '-') FROM railhead.payment_operator_log ORDER BY act_id DESC LIMIT 1`), want)
		mustExec(t, conn, `SELECT railhead.open_enqueue('rail', 'bank', 'a test')`)
	}
}

// TestSameReferenceInGoAndSQL: rails.CleanReference and clean_reference keep the same of every text.
func TestSameReferenceInGoAndSQL(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	agree := func(t interface {
		Fatalf(string, ...any)
	}, texts []string) {
		var kept []string
		if err := d.super.QueryRow(d.t.Context(), `SELECT array_agg(coalesce(railhead.clean_reference(x), '') ORDER BY n)
			FROM unnest($1::text[]) WITH ORDINALITY AS u(x, n)`, texts).Scan(&kept); err != nil {
			t.Fatalf("%v", err)
		}
		for n, text := range texts {
			if want := rails.CleanReference(text); kept[n] != want {
				t.Fatalf("%q is kept as %q in SQL, %q in Go", text, kept[n], want)
			}
		}
	}
	var texts []string
	for r := rune(1); r <= 0xE1000; r++ {
		if r == 0x10000 {
			r = 0x1B000
		}
		if r == 0x1E000 {
			r = 0xDFFF0
		}
		if utf8.ValidRune(r) {
			texts = append(texts, "a"+string(r)+"b", string(r)+"a"+string(r))
		}
	}
	agree(t, texts)
	agree(t, []string{"", " ", strings.Repeat("r", rails.MaxReference), strings.Repeat("r", rails.MaxReference+1),
		strings.Repeat("é", rails.MaxReference/2) + " ", strings.Repeat("é", rails.MaxReference/2) + "r",
		strings.Repeat("\u0958", 42), strings.Repeat("\u0958", 43)})
	const among = "ae\u0301\u0307\u0323é 9/\t\r\u0085\u00a0\u00ad\u200b\u2003\u202e\u3000\ufeff\U000e0041"
	some := rapid.StringOf(rapid.SampledFrom([]rune(among)))
	rapid.Check(t, func(t *rapid.T) { agree(t, []string{some.Draw(t, "text")}) })
}
