package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// inTheLogAlone is an instruction that the rail has executed and then refused, and that an operator resolved as
// executed with a reference of the statement: what agrees with the state of a payment appends no row.
func inTheLogAlone(d *desk, railSaid, statement string) payment.ID {
	d.t.Helper()
	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultAccepted, railSaid))
	same(d.t, "a refusal of it", d.late(callback(claim.OutboxID, payment.ResultRefused, "")), payment.VerdictConflict)
	_, err := d.operator().ResolvePayment(d.t.Context(), claim.OutboxID, stated(statement))
	d.must(err)
	same(d.t, "rows with the reference", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_attempts
		WHERE rail_reference = $1`, statement), "0")
	return claim.OutboxID
}

// TestOneLineOfAStatement: one reference is evidence of one payment, also where that of the first one is in the log of
// operators alone, and after its month has left the archive. That of a payment of another rail is another line.
func TestOneLineOfAStatement(t *testing.T) {
	t.Parallel()
	for _, railSaid := range []string{"", "ref-a"} {
		d := newDesk(t)
		first := inTheLogAlone(d, railSaid, "STMT-78")
		second := parked(d)
		for _, again := range []string{"STMT-78", " STMT-78\u200b"} {
			_, err := d.operator().ResolvePayment(t.Context(), second, stated(again))
			refusedWith(t, again, err, "RH020", "the rail's reference is that of "+first.String())
		}
		_, err := d.operator().ResolvePayment(t.Context(), second, stated("STMT-78/2"))
		d.must(err)
	}

	d := newDesk(t)
	first := inTheLogAlone(d, "", "STMT-78")
	r := newRetention(d, first)
	r.age()
	d.do(r.Detach)
	second := d.enqueue()
	_, err := d.operator().ResolvePayment(t.Context(), second, stated("STMT-78"))
	refusedWith(t, "its month has left", err, "RH020", "the rail's reference is that of "+first.String())
	d.do(`DELETE FROM railhead.payment_dead_letters WHERE outbox_id = $1`, [16]byte(first))
	_, err = d.operator().ResolvePayment(t.Context(), second, stated("STMT-78"))
	refusedWith(t, "no row names its rail", err, "RH020", "the rail's reference is that of "+first.String())
	d.do(`INSERT INTO railhead.payment_dead_letters (outbox_id, instruction_id, participant_id, rail_type, reason, status)
		VALUES ($1, 'i', 'p', 'another', 'CONFLICT', 'resolved')`, [16]byte(first))
	_, err = d.operator().ResolvePayment(t.Context(), second, stated("STMT-78"))
	d.must(err)
}

// TestAgainstNoReference: an execution that the rail reported without a reference is no word against the evidence of an
// operator, who found the reference in a statement.
func TestAgainstNoReference(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	own := answered(d, payment.ResultRefusedFinal)
	same(t, "late", d.late(callback(own.OutboxID, payment.ResultExecuted, "")), payment.VerdictConflict)
	_, err := d.operator().ResolvePayment(t.Context(), own.OutboxID, stated("STMT-77"))
	d.must(err)
	same(t, "against", d.text(`SELECT coalesce(detail ->> 'against_row', 'none') FROM railhead.payment_operator_log
		WHERE outbox_id = $1 AND act = 'RESOLVE'`, [16]byte(own.OutboxID)), "none")
	same(t, "rows that say so", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1 AND error_message LIKE '%against the rail%'`, [16]byte(own.OutboxID)), "0")
}

// underReferences are courses of a payment in which the rail names it twice. What follows depends on whether that is
// one reference.
var underReferences = map[string]func(d *desk, one, other string) []payment.Verdict{
	"executed, reported again": func(d *desk, one, other string) []payment.Verdict {
		claim := d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultAccepted, one))
		return []payment.Verdict{d.late(callback(claim.OutboxID, payment.ResultExecuted, other))}
	},
	"refused, reported again": func(d *desk, one, other string) []payment.Verdict {
		claim := d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultRefusedFinal, one))
		d.late(callback(claim.OutboxID, payment.ResultRefused, one))
		return []payment.Verdict{d.late(callback(claim.OutboxID, payment.ResultRefused, other))}
	},
	"refused, told again by its worker": func(d *desk, one, other string) []payment.Verdict {
		claim := d.claimOne(d.enqueue())
		d.record(told(sameKey, claim, payment.ResultRefusedFinal, one))
		return []payment.Verdict{d.late(told(sameKey, claim, payment.ResultRefusedFinal, other))}
	},
	"a send and an inquiry": func(d *desk, one, other string) []payment.Verdict {
		first, second := thenClaimed(d)
		d.record(told(asksInVain, second, payment.ResultUnknown, ""))
		inquiry := d.claimOne(first.OutboxID)
		return []payment.Verdict{d.late(told(sameKey, first, payment.ResultAccepted, one)),
			d.late(told(asksInVain, inquiry, payment.ResultExecuted, other))}
	},
	"refused while the send is out, and executed": func(d *desk, one, other string) []payment.Verdict {
		first, second := thenClaimed(d)
		d.record(lost(sameKey, second))
		d.late(callback(first.OutboxID, payment.ResultRefused, one))
		third := d.claimOne(first.OutboxID)
		d.late(callback(first.OutboxID, payment.ResultRefused, one))
		return []payment.Verdict{d.late(told(sameKey, third, payment.ResultAccepted, other))}
	},
	"two sends on a rail that keeps no keys": func(d *desk, one, other string) []payment.Verdict {
		d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'a test')`, sameSend)
		first := d.replayed()
		second := d.claimOne(first.OutboxID)
		d.record(told(never, second, payment.ResultAccepted, one))
		return []payment.Verdict{d.late(told(never, first, payment.ResultAccepted, other))}
	},
}

// TestReferenceOfAnOlderBuild: builds of before migration 65 stored a reference as the rail gave it. What follows from
// the same one, reported by this build, is what follows where both were stored by this build.
func TestReferenceOfAnOlderBuild(t *testing.T) {
	t.Parallel()
	const older, newer = "R\u00c9F\u00a0777", "RE\u0301F 777"
	for name, course := range underReferences {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := func(one, other string) []payment.Verdict {
				d := newDesk(t)
				return course(d, one, rails.CleanReference(other))
			}
			plain := run(rails.CleanReference(newer), newer)
			same(t, "verdicts", fmt.Sprint(run(older, newer)), fmt.Sprint(plain))
			if apart := run(older, newer+"8"); slices.Equal(apart, plain) {
				t.Errorf("another reference changes nothing: %v", apart)
			}
		})
	}
	d := newDesk(t)
	claim := d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultAccepted, older))
	same(t, "none after one", d.late(callback(claim.OutboxID, payment.ResultExecuted, "")), payment.VerdictRepeated)
	claim = d.claimOne(d.enqueue())
	d.record(told(sameKey, claim, payment.ResultAccepted, ""))
	same(t, "one after none", d.late(callback(claim.OutboxID, payment.ResultExecuted, newer)), payment.VerdictLate)
}

// TestFoundAsItWasPasted: a reference is found by what a person copies from the bank's own page.
func TestFoundAsItWasPasted(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	stored := d.claimOne(d.enqueue())
	d.record(told(sameKey, stored, payment.ResultAccepted, rails.CleanReference("REF\u00a0777")))
	older := d.claimOne(d.enqueue())
	d.record(told(sameKey, older, payment.ResultAccepted, "REF\u00a0778"))
	r, err := reader.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Operator), Cell: d.Schema, MaxConns: 2})
	d.must(err)
	defer r.Close()
	for pasted, want := range map[string]payment.ID{
		"REF 777": stored.OutboxID, "REF\u00a0777": stored.OutboxID, " REF 777\u200b": stored.OutboxID,
		"REF\u00a0778": older.OutboxID,
	} {
		found, err := r.Find(t.Context(), pasted)
		if err != nil || len(found) != 1 || found[0].OutboxID != want {
			t.Errorf("%q: %v, %v", pasted, found, err)
		}
	}
}
