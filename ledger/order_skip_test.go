package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// skipRefused is the message with which a skip is refused; empty if it was done.
func (q *queue) skipRefused(id payment.ID) string {
	q.t.Helper()
	_, err := q.super.Exec(q.t.Context(), `SELECT railhead.skip_in_order($1, 'a test')`, [16]byte(id))
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if err != nil && (!ok || refused.Code != "RH020") {
		q.t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return refused.Message
}

// TestOrderSkipOfALineThatIsNotAdvanced: while a rail is paused, its lines don't show what has ended since. A skip says
// so, and not that none waits.
func TestOrderSkipOfALineThatIsNotAdvanced(t *testing.T) {
	t.Parallel()
	const (
		notAdvanced = "no turn has advanced the line"
		noHead      = "is not the head of a line"
		already     = "was skipped already"
	)
	q := newQueue(t, strictProfile)
	says := func(what string, id payment.ID, want string) {
		t.Helper()
		if got := q.skipRefused(id); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: refused with %q, want %q", what, got, want)
		}
	}
	expired := func(id payment.ID) {
		t.Helper()
		q.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(id))
		ended, err := q.exec.Expire(t.Context(), "reaper", 10)
		q.must(err)
		same(t, "expired", len(ended), 1)
	}
	first := q.put("p1", "expires_at => now() + interval '1 hour'")
	second, third := q.put("p1", "expires_at => now() + interval '1 hour'"), q.put("p1")
	q.do(`SELECT railhead.pause_rail('bank', 'a test')`)
	expired(first)
	says("without a line", first, notAdvanced)
	says("in pending", second, noHead)

	q.do(`SELECT railhead.resume_rail('bank', 'a test')`)
	q.none("the first has a bad end, and BLOCK")
	same(t, "head", q.head("p1"), "1 EXPIRED")
	q.do(`SELECT railhead.pause_rail('bank', 'a test')`)
	says("the head", first, "")
	says("the head again", first, already)
	expired(second)
	says("behind the head that was skipped", second, notAdvanced)

	q.do(`SELECT railhead.resume_rail('bank', 'a test')`)
	q.none("the second has a bad end, and BLOCK")
	says("the second", second, "")
	says("skipped before", first, already)
	claim := q.only("the third", third)
	q.none("the end", done(claim))
	says("of one that was executed", third, noHead)
}

// TestSkippedAndPutBack: an instruction that was skipped, and whose row was then put back in pending, holds its line
// again. A skip says why it can't be skipped, and not that it holds nothing back.
func TestSkippedAndPutBack(t *testing.T) {
	t.Parallel()
	q := newQueue(t, strictProfile)
	first, second := q.put("p1"), q.put("p1")
	q.none("refused", refusedFor(q.only("the first", first)))
	q.do(`SELECT railhead.skip_in_order($1, 'a test')`, [16]byte(first))
	claim := q.only("the second", second)
	third := q.put("p1")
	q.putBack(first)
	q.do(advanceRows)
	q.do(advanceMarked)
	_, err := q.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{done(claim)},
		Finished: []payment.ID{claim.ClaimID}, Ordered: []string{"bank"}})
	q.must(err)
	q.do(advanceMarked)
	_, err = q.exec.Turn(t.Context(), outbox.Turn{Claim: request(q.lane(10, 0)), Ordered: []string{"bank"}})
	if got := ledger.SQLState(err); got != outbox.StatePutBack {
		t.Fatalf("a claim of what was put back: %s", got)
	}
	q.must(q.quarantine(first, outbox.QuarantineCode(outbox.StatePutBack)))
	q.do(advanceMarked)
	q.none("the third waits")
	if got := q.skipRefused(first); !strings.Contains(got, "only one that has ended or is parked can be skipped") {
		t.Errorf("a skip of what holds the line: %q", got)
	}
	q.do(`SELECT railhead.triage_dead_letter($1, 'resolved', 'a test')`, [16]byte(first))
	q.only("its letter is closed", third)
}
