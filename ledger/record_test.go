package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// prior brings an instruction to the claim whose answer is under test.
type prior func(*desk) payment.Claim

func firstSend(d *desk) payment.Claim { return d.claimOne(d.enqueue()) }

// secondSend: the first one was refused for now.
func secondSend(d *desk) payment.Claim {
	claim := firstSend(d)
	d.record(told(sameKey, claim, payment.ResultRefusedTransient, ""))
	return d.claimOne(claim.OutboxID)
}

// thirdSend is the last one that the default policy allows.
func thirdSend(d *desk) payment.Claim {
	claim := secondSend(d)
	d.record(told(sameKey, claim, payment.ResultRefusedTransient, ""))
	return d.claimOne(claim.OutboxID)
}

// resend: the first one is unknown.
func resend(d *desk) payment.Claim {
	_, claim := thenClaimed(d)
	return claim
}

// inquiry: the first send is unknown and the rail is asked.
func inquiry(d *desk) payment.Claim {
	claim := firstSend(d)
	d.record(told(asks, claim, payment.ResultUnknown, ""))
	return d.claimOne(claim.OutboxID)
}

// lastInquiry is the last one that the policy allows.
func lastInquiry(d *desk) payment.Claim {
	claim := inquiry(d)
	d.record(told(asks, claim, payment.ResultUnavailable, ""))
	return d.claimOne(claim.OutboxID)
}

// taken: the rail took it for now and is asked.
func taken(d *desk) payment.Claim {
	claim := firstSend(d)
	d.record(told(provisional, claim, payment.ResultAccepted, "ref"))
	return d.claimOne(claim.OutboxID)
}

// recordTable is the design's table "from result to rows": what each answer
// appends, what waits then, and which letter is open.
var recordTable = []struct {
	name   string
	bring  prior
	policy payment.Policy
	result payment.Result
	want   string // the rows since the claim; pending; letter
}{
	{"accepted", firstSend, sameKey, payment.ResultAccepted, "DISPATCHED(1)"},
	{"accepted for now", firstSend, provisional, payment.ResultAccepted, "ACCEPTED(1), INQUIRE sends=1 asked=0 count=2 unknown provisional"},
	{"refused for good", firstSend, sameKey, payment.ResultRefusedFinal, "FAILED(1), letter FAILED pending"},
	{"refused for now", firstSend, sameKey, payment.ResultRefusedTransient, "RETRYABLE(1), SEND sends=1 asked=0 count=2"},
	{"refused for now, a new id is wanted", firstSend, coversKey, payment.ResultRefusedTransient, "FAILED(1), letter FAILED pending"},
	{"the rail is busy", firstSend, never, payment.ResultRefusedLater, "RETRYABLE(1), SEND sends=0 asked=0 count=2"},
	{"the rail refuses us", firstSend, sameKey, payment.ResultRefusedRail, "RETRYABLE(1), SEND sends=0 asked=0 count=2"},
	{"nothing left", firstSend, sameKey, payment.ResultNotSent, "RETRYABLE(1), SEND sends=0 asked=0 count=2"},
	{"no answer, same key", firstSend, sameKey, payment.ResultUnknown, "UNKNOWN(1), SEND sends=1 asked=0 count=2 unknown"},
	{"no answer, to be asked", firstSend, asks, payment.ResultUnknown, "UNKNOWN(1), INQUIRE sends=1 asked=0 count=2 unknown"},
	{"no answer, no recovery", firstSend, never, payment.ResultUnknown, "UNKNOWN(1) PARKED, letter OUTCOME_UNKNOWN pending"},
	{"a check failed", firstSend, sameKey, payment.ResultCheckFailed, "FAILED(1), letter FAILED pending"},
	{"tampered", firstSend, sameKey, payment.ResultTampered, "PARKED(1), letter TAMPERED pending"},
	{"a word that is none", firstSend, never, "FINE", "UNKNOWN(1) PARKED, letter OUTCOME_UNKNOWN pending"},

	{"second send accepted", secondSend, sameKey, payment.ResultAccepted, "DISPATCHED(3)"},
	{"second send refused for now", secondSend, sameKey, payment.ResultRefusedTransient, "RETRYABLE(3), SEND sends=2 asked=0 count=4"},
	{"ceiling of sends", thirdSend, sameKey, payment.ResultRefusedTransient, "FAILED(5), letter FAILED pending"},
	{"rendered otherwise", secondSend, sameKey, payment.ResultRenderChanged, "FAILED(3), letter FAILED pending"},

	{"re-send accepted", resend, sameKey, payment.ResultAccepted, "DISPATCHED(3)"},
	{"re-send refused, first still unknown", resend, sameKey, payment.ResultRefusedFinal, "PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{"re-send refused, one outcome a key", resend, coversKey, payment.ResultRefusedFinal, "FAILED(3), letter FAILED pending"},
	{"re-send refused for now", resend, sameKey, payment.ResultRefusedTransient, "RETRYABLE(3), SEND sends=2 asked=0 count=4 unknown"},
	{"re-send refused for now, a new id is wanted", resend, coversKey, payment.ResultRefusedTransient, "PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{"re-send unknown", resend, sameKey, payment.ResultUnknown, "UNKNOWN(3), SEND sends=2 asked=0 count=4 unknown"},
	{"re-send not sent", resend, sameKey, payment.ResultNotSent, "RETRYABLE(3), SEND sends=1 asked=0 count=4 unknown"},
	{"re-send, and the rail is busy", resend, sameKey, payment.ResultRefusedLater, "RETRYABLE(3), SEND sends=1 asked=0 count=4 unknown"},
	{"re-send too late", resend, sameKey, payment.ResultWindowClosed, "PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{"re-send rendered otherwise", resend, sameKey, payment.ResultRenderChanged, "PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{"re-send fails a check", resend, sameKey, payment.ResultCheckFailed, "PARKED(3), letter OUTCOME_UNKNOWN pending"},
	{"the profile was changed to never", resend, never, payment.ResultNotSent, "PARKED(3), letter OUTCOME_UNKNOWN pending"},

	{"asked: executed", inquiry, asks, payment.ResultExecuted, "DISPATCHED(3)"},
	{"asked: refused", inquiry, asks, payment.ResultRefused, "FAILED(3), letter FAILED pending"},
	{"asked: not found, old enough", inquiry, asks, payment.ResultNotFound, "RETRYABLE(3), SEND sends=1 asked=1 count=4 unknown"},
	{"asked: in progress", inquiry, asks, payment.ResultInProgress, "UNKNOWN(3), INQUIRE sends=1 asked=1 count=4 unknown"},
	{"asked: no answer", inquiry, asks, payment.ResultUnavailable, "UNKNOWN(3), INQUIRE sends=1 asked=1 count=4 unknown"},
	{"asked: nothing left", inquiry, asks, payment.ResultNotSent, "RETRYABLE(3), INQUIRE sends=1 asked=0 count=4 unknown"},
	{"asked: the rail is busy", inquiry, asks, payment.ResultRefusedLater, "RETRYABLE(3), INQUIRE sends=1 asked=0 count=4 unknown"},
	{"asked: the rail refuses us", inquiry, asks, payment.ResultRefusedRail, "RETRYABLE(3), INQUIRE sends=1 asked=0 count=4 unknown"},
	{"asked for the last time", lastInquiry, asks, payment.ResultInProgress, "UNKNOWN(5) PARKED, letter OUTCOME_UNKNOWN pending"},

	{"taken: executed", taken, provisional, payment.ResultExecuted, "DISPATCHED(3)"},
	{"taken: refused", taken, provisional, payment.ResultRefused, "FAILED(3), letter FAILED pending"},
	{"taken: not found", taken, provisional, payment.ResultNotFound, "UNKNOWN(3), INQUIRE sends=1 asked=1 count=4 unknown provisional"},
	{"taken: in progress", taken, provisional, payment.ResultInProgress, "UNKNOWN(3), INQUIRE sends=1 asked=1 count=4 unknown provisional"},
}

func TestRecord(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, c := range recordTable {
		claim := c.bring(d)
		before := d.rows(claim.OutboxID)
		if n := d.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`); n != 1 {
			t.Fatalf("%s: %d claims in flight before", c.name, n)
		}
		o := told(c.policy, claim, c.result, "ref")
		o.Decision.Delay = time.Hour
		d.record(o)
		same(t, c.name, d.fate(claim.OutboxID, before), c.want)
		same(t, c.name+": claims in flight", d.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`), 0)
		same(t, c.name+": result", d.text(`SELECT result FROM railhead.payment_outbox_attempts
			WHERE attempt_id = $1`, [16]byte(o.AttemptID)), string(c.result))
	}
	d.gapless()
}

// fate tells the rows since before, what waits, and the letter.
func (d *desk) fate(id payment.ID, before string) string {
	d.t.Helper()
	fate := strings.TrimSpace(strings.TrimPrefix(d.rows(id), before))
	if waiting := d.waiting(id); waiting != "" {
		fate += ", " + waiting
	}
	if letter := d.letter(id); letter != "" {
		fate += ", letter " + letter
	}
	return fate
}

// TestWhatIsCarriedOn follows one instruction through sends of every kind: the
// first send's time is set once, the last one's by each send that may have left,
// the render version with the first.
func TestWhatIsCarriedOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue(`priority => 2`, `expires_at => '2100-01-01'`, `headers => '{"traceparent": "x"}'`)
	created := d.text(`SELECT created_at::text FROM railhead.payment_outbox_pending`)
	var first, last time.Time
	for n, step := range []struct {
		result payment.Result
		counts bool
	}{
		{payment.ResultNotSent, false}, {payment.ResultRefusedLater, false}, {payment.ResultRefusedTransient, true}, {payment.ResultRefusedLater, false}, {payment.ResultRefusedRail, false}, {payment.ResultUnknown, true}, {payment.ResultNotSent, false},
	} {
		claim := d.claimOne(id)
		if step.counts {
			last = claim.ClaimedAt
			if first.IsZero() {
				first = last
			}
		}
		o := told(sameKey, claim, step.result, "")
		o.Decision.Delay = 90 * time.Second
		d.record(o)
		got := d.text(`
			SELECT concat_ws(' ', first_sent_at IS NOT DISTINCT FROM $2,
			last_sent_at IS NOT DISTINCT FROM $3, coalesce(render_version, 'none'),
				payload = '{"amount": "10.50", "currency": "EUR"}', headers, priority, expires_at = '2100-01-01', created_at::text = $4,
				next_attempt_at - clock_timestamp() BETWEEN '80 s'
				AND '90 s', instruction_id, participant_id, sequence_id, rail_type)
			FROM railhead.v_outbox_pending WHERE outbox_id = $1`, [16]byte(id), orNull(first), orNull(last), created)
		render := "none"
		if !first.IsZero() {
			render = "render/1"
		}
		same(t, fmt.Sprintf("pending after answer %d, %s", n+1, step.result), got,
			"t t "+render+` t {"traceparent": "x"} 2 t t t instruction-1 participant 1 bank`)
	}
}

func orNull(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at
}

// TestClaimsRowGoesWithTheLastAnswer: not earlier, and not by an answer that lost.
func TestClaimsRowGoesWithTheLastAnswer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for range 3 {
		d.enqueue()
	}
	var claims []payment.Claim
	for _, claim := range d.claim(lane("bank", 3, 0)) {
		claims = append(claims, claim)
	}
	inFlight := func() int { return d.Int(`SELECT count(*) FROM railhead.payment_outbox_claims`) }
	turn := func(finished bool, outcomes ...payment.Outcome) {
		t.Helper()
		turn := outbox.Turn{Outcomes: outcomes}
		if finished {
			turn.Finished = []payment.ID{claims[0].ClaimID}
		}
		if _, err := d.exec.Turn(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	turn(false, told(sameKey, claims[0], payment.ResultAccepted, "a"))
	same(t, "after one of three", inFlight(), 1)
	d.late(callback(claims[1].OutboxID, payment.ResultExecuted, "b"))
	turn(true, told(sameKey, claims[1], payment.ResultAccepted, "b"),
		told(sameKey, claims[2], payment.ResultAccepted, "c"))
	same(t, "after the last, one of which was late", inFlight(), 1)
	if closed, err := d.exec.CloseClaims(t.Context(), []payment.ID{claims[0].ClaimID}); err != nil || closed != 1 {
		t.Errorf("the look closed %d, %v", closed, err)
	}
}

// TestBounds: what comes from outside is cut at a character's edge and never
// refused by the archive, for then a true outcome would be lost.
func TestBounds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	huge := strings.Repeat("é€😀", 2000)
	for name, record := range map[string]func(payment.Outcome){
		"fast": func(o payment.Outcome) { d.record(o) },
		"slow": func(o payment.Outcome) { same(t, "verdict", d.late(o), payment.VerdictIn) },
	} {
		o := told(sameKey, firstSend(d), payment.ResultRefusedFinal, "")
		o.RailReference, o.RailCode, o.ErrorMessage, o.Decision.ErrorCode = huge, huge, huge, huge
		o.Latency = 1 << 62
		record(o)
		same(t, name+": bytes", d.text(`
			SELECT format('%s %s %s %s %s', octet_length(rail_reference) BETWEEN 253 AND 256, octet_length(rail_code) BETWEEN 97
			AND 100,
				octet_length(error_message) BETWEEN 1997 AND 2000, octet_length(error_code) BETWEEN 97 AND 100, latency_ms)
			FROM railhead.payment_outbox_attempts WHERE attempt_id = $1`, [16]byte(o.AttemptID)), "t t t t 2147483647")

		o = told(sameKey, firstSend(d), payment.ResultRefusedFinal, "")
		o.ErrorMessage, o.RailReference, o.RailCode = "a\x00b\xff\xfec", "\x00", "\xc3"
		record(o)
		same(t, name+": what no text can hold", d.text(`
			SELECT format('%s|%s|%s', error_message, rail_reference, rail_code) FROM railhead.payment_outbox_attempts
			WHERE attempt_id = $1`,
			[16]byte(o.AttemptID)), "ab\uFFFDc||\uFFFD")
	}
}

// TestRecordIsRepeatable: after a commit of unknown result the same outcomes are
// recorded again. The fast path calls them late, the slow path knows them.
func TestRecordIsRepeatable(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim := firstSend(d)
	o := told(never, claim, payment.ResultUnknown, "")
	d.record(o)
	result, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{o},
		Finished: []payment.ID{claim.ClaimID}})
	if err != nil || len(result.Late) != 1 || result.Late[0].AttemptID != o.AttemptID {
		t.Fatalf("late %v, %v", result.Late, err)
	}
	same(t, "slow path", d.late(o), payment.VerdictMine)
	same(t, "fate", d.fate(claim.OutboxID, ""), "DISPATCHING UNKNOWN(1) PARKED, letter OUTCOME_UNKNOWN pending")
}

// TestOneLateOutcomeHarmsNoOther: the rest of its turn goes in, also where the
// index of executions is what refuses it.
func TestOneLateOutcomeHarmsNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	beaten, fine := firstSend(d), firstSend(d)
	d.late(callback(beaten.OutboxID, payment.ResultExecuted, "ref"))
	// The same number, and the one-DISPATCHED index as well.
	result, err := d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{
		told(sameKey, beaten, payment.ResultAccepted, "ref"), told(sameKey, fine, payment.ResultAccepted, "ref"),
	}})
	if err != nil || len(result.Late) != 1 || result.Late[0].Claim.OutboxID != beaten.OutboxID {
		t.Fatalf("late %v, %v", result.Late, err)
	}
	same(t, "the other", d.rows(fine.OutboxID), "DISPATCHING DISPATCHED(1)")

	// A turn without a late one, and the next is recorded by the cheap statement again.
	d.record(told(sameKey, firstSend(d), payment.ResultAccepted, "ref"))

	// A number of its own, and that index alone: rows that no code of ours writes.
	planted := firstSend(d)
	columns := `outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, outcome_unknown, provisional`
	d.do(`INSERT INTO railhead.payment_outbox_attempts (attempt_id, attempt_no, state, `+columns+`)
		SELECT gen_random_uuid(), 9, 'DISPATCHED', `+columns+` FROM railhead.payment_outbox_attempts
		WHERE outbox_id = $1`, [16]byte(planted.OutboxID))
	result, err = d.exec.Turn(t.Context(), outbox.Turn{Outcomes: []payment.Outcome{told(sameKey, planted,
		payment.ResultAccepted, "ref")}})
	if err != nil || len(result.Late) != 1 {
		t.Errorf("late %v, %v", result.Late, err)
	}
}
