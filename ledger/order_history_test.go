package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/proofs"
)

// history is a random history of participants whose instructions are ordered: enqueues, claims by
// two relayers that crash, repairs, late answers, reports, and operators' acts. An oracle of its
// own, which reads no line, looks at every claim.
type history struct {
	*queue
	random    *rand.Rand
	relayers  [2]*executor.Executor
	skips     bool // order_on_bad_end SKIP
	name      string
	ids       []payment.ID
	flying    map[payment.ID]payment.Claim // claimed and not recorded
	ready     [2][]payment.Outcome         // answers that a relayer has and has not recorded
	lostTo    []payment.Outcome            // answers of relayers that were repaired meanwhile
	passed    map[payment.ID]bool          // an operator let the line go on past it
	followed  int                          // claims that were looked at
	histories []string
}

const historyParticipants = 3

func (h *history) note(format string, args ...any) {
	h.histories = append(h.histories, fmt.Sprintf(format, args...))
}

func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\nhistory %s:\n%s\n%s", fmt.Sprintf(format, args...), h.name, strings.Join(h.histories, "\n"), h.lines())
}

// step does one thing.
func (h *history) step() {
	switch n := h.random.IntN(100); {
	case n < 15:
		h.enqueueSome()
	case n < 62:
		h.relay(h.random.IntN(2))
	case n < 66:
		h.crash(h.random.IntN(2))
	case n < 73:
		h.repair()
	case n < 78:
		h.answerLate()
	case n < 86:
		h.becomeDue()
	default:
		h.act()
	}
}

func (h *history) enqueueSome() {
	for range 1 + h.random.IntN(3) {
		more := []string{fmt.Sprintf("priority => %d", h.random.IntN(3))}
		if h.random.IntN(6) == 0 {
			more = append(more, "not_before => now() + interval '1 hour'")
		}
		participant := fmt.Sprintf("%s-p%d", h.name, h.random.IntN(historyParticipants))
		id := h.put(participant, more...)
		h.ids = append(h.ids, id)
		h.note("enqueue %s of %s %s", id, participant, more)
	}
}

// relay is a turn of a relayer: it records what it has, and claims. Every claim is looked at, and
// gets an answer that the same relayer records in its next turn.
func (h *history) relay(n int) {
	outcomes := h.ready[n]
	h.ready[n] = nil
	turn := outbox.Turn{Outcomes: outcomes, Ordered: []string{"bank"},
		Claim: request(h.lane(1+h.random.IntN(4), h.random.IntN(2)))}
	result, err := h.relayers[n].Turn(h.t.Context(), turn)
	h.must(err)
	for _, o := range outcomes {
		h.note("relayer %d records %s of %s", n, o.Result, o.Claim.OutboxID)
		h.answered(o.Claim)
	}
	for _, late := range result.Late {
		h.recordLate(h.relayers[n], late)
	}
	for _, claim := range result.Claims {
		h.note("relayer %d claims %s, %s number %d, to %s", n, claim.OutboxID, claim.ParticipantID, claim.SequenceID,
			claim.Action)
		h.judge(claim)
		h.flying[claim.OutboxID] = claim
	}
	for _, claim := range result.Claims {
		h.ready[n] = append(h.ready[n], told(h.policy(), claim, h.answer(claim), "ref-"+claim.OutboxID.String()))
	}
}

func (h *history) policy() payment.Policy {
	p := asks
	p.IDAfterRefusal, p.AnswerCoversKey = payment.IDSame, false
	if h.random.IntN(2) == 0 {
		p.Inquiry = payment.InquiryPolicy{}
		p.Retry.MaxSends = 2
	}
	return p
}

func (h *history) answer(claim payment.Claim) payment.Result {
	answers := []payment.Result{payment.ResultAccepted, payment.ResultAccepted, payment.ResultAccepted,
		payment.ResultRefusedFinal, payment.ResultUnknown, payment.ResultRefusedTransient}
	if claim.Action == payment.ActionInquire {
		answers = []payment.Result{payment.ResultExecuted, payment.ResultNotFound, payment.ResultUnknown,
			payment.ResultRefused}
	}
	return answers[h.random.IntN(len(answers))]
}

// judge is the oracle: no other instruction of the participant is in flight, and none with a lower
// number is unresolved, by the rows of pending, the archive and the dead letters.
func (h *history) judge(claim payment.Claim) {
	h.t.Helper()
	h.followed++
	for id, other := range h.flying {
		if id != claim.OutboxID && other.ParticipantID == claim.ParticipantID {
			h.fail("%s was claimed while %s was in flight", claim.OutboxID, id)
		}
	}
	ahead := h.text(`
		SELECT coalesce(string_agg(u.outbox_id::text, ' '), '')
		FROM (
			SELECT k.outbox_id, (
				SELECT a.state::text FROM railhead.payment_outbox_attempts a
				WHERE a.outbox_id = k.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) AS state,
				EXISTS (SELECT FROM railhead.payment_outbox_pending p WHERE p.outbox_id = k.outbox_id) AS waits,
				EXISTS (SELECT FROM railhead.payment_dead_letters d WHERE d.outbox_id = k.outbox_id
					AND d.status IN ('pending', 'acknowledged', 'escalated')) AS open
			FROM railhead.payment_outbox_keys k
			WHERE k.participant_id = $1 AND k.sequence_id < $2) u
		WHERE u.waits OR u.state IS NULL OR u.state NOT IN ('DISPATCHED', 'FAILED', 'CANCELLED') OR u.open AND NOT $3`,
		claim.ParticipantID, claim.SequenceID, h.skips)
	for id := range strings.FieldsSeq(ahead) {
		lower, err := payment.ParseID(id)
		h.must(err)
		if !h.passed[lower] {
			h.fail("%s, number %d, overtook %s: %s", claim.OutboxID, claim.SequenceID, id, h.rows(lower))
		}
	}
}

// answered forgets a claim.
func (h *history) answered(claim payment.Claim) {
	if now, ok := h.flying[claim.OutboxID]; ok && now.AttemptNo == claim.AttemptNo {
		delete(h.flying, claim.OutboxID)
	}
}

// crash makes a relayer forget its answers. Another process has its place, with no memory.
func (h *history) crash(n int) {
	h.note("relayer %d crashes", n)
	h.lostTo = append(h.lostTo, h.ready[n]...)
	h.ready[n] = nil
	if h.random.IntN(4) == 0 {
		h.relayers[n].Close()
		h.relayers[n] = openExecutor(h.t, h.Cell)
	}
}

// repair is the reaper: it answers claims whose relayer has crashed.
func (h *history) repair() {
	for _, o := range h.lostTo {
		claim, ok := h.flying[o.Claim.OutboxID]
		if !ok || claim.AttemptNo != o.Claim.AttemptNo {
			continue
		}
		h.note("the reaper repairs %s", claim.OutboxID)
		result, err := h.exec.Turn(h.t.Context(), outbox.Turn{Outcomes: []payment.Outcome{lost(h.policy(), claim)},
			Ordered: []string{"bank"}})
		h.must(err)
		for _, late := range result.Late {
			h.recordLate(h.exec, late)
		}
		h.answered(claim)
	}
}

// answerLate records the answer of a relayer that was believed dead.
func (h *history) answerLate() {
	if len(h.lostTo) == 0 {
		return
	}
	n := h.random.IntN(len(h.lostTo))
	o := h.lostTo[n]
	h.lostTo = append(h.lostTo[:n:n], h.lostTo[n+1:]...)
	verdict := h.recordLate(h.exec, o)
	h.note("late %s of %s: %s", o.Result, o.Claim.OutboxID, verdict)
	if claim, ok := h.flying[o.Claim.OutboxID]; ok && !h.claimed(claim.OutboxID) {
		delete(h.flying, claim.OutboxID)
	}
}

// recordLate records evidence that comes late. Where the instruction is resolved, and its line has passed it, evidence
// that contradicts its end opens a dead letter and does not stop the line: what was passed stays passed.
func (h *history) recordLate(by *executor.Executor, o payment.Outcome) payment.Verdict {
	h.t.Helper()
	if h.text(`SELECT (last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED')
			AND NOT EXISTS (SELECT FROM railhead.payment_outbox_pending p WHERE p.outbox_id = $1)
			AND ($2 OR NOT EXISTS (SELECT FROM railhead.payment_dead_letters d
				WHERE d.outbox_id = $1 AND d.status IN ('pending', 'acknowledged', 'escalated')))
			AND EXISTS (SELECT FROM railhead.payment_outbox_keys k
				JOIN railhead.payment_order_lines h ON h.participant_id = k.participant_id AND h.floor > k.sequence_id
				WHERE k.outbox_id = $1 AND h.rail_type = 'bank' AND h.head IS DISTINCT FROM k.outbox_id))::text
		FROM (SELECT a.state::text FROM railhead.payment_outbox_attempts a
			WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) last`,
		[16]byte(o.Claim.OutboxID), h.skips) == "true" {
		h.passed[o.Claim.OutboxID] = true
	}
	verdict, err := by.RecordLate(h.t.Context(), o)
	h.must(err)
	return verdict
}

// claimed reports whether an instruction has an open claim.
func (h *history) claimed(id payment.ID) bool {
	return h.text(`SELECT coalesce((SELECT (a.state IN ('DISPATCHING', 'INQUIRING'))::text
		FROM railhead.payment_outbox_attempts a
		WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1), 'false')`, [16]byte(id)) == "true"
}

// becomeDue makes some of what waits for its time due, as time would.
func (h *history) becomeDue() {
	h.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = clock_timestamp()
		WHERE participant_id LIKE $1 AND next_attempt_at < 'infinity' AND next_attempt_at > now() AND random() < 0.5`, h.name+"-%")
	h.do(`INSERT INTO railhead.payment_order_marks (rail_type, participant_id)
		SELECT rail_type, participant_id FROM railhead.payment_order_lines WHERE participant_id LIKE $1`, h.name+"-%")
}

// act is an operator's act on some instruction; most are refused.
func (h *history) act() {
	if len(h.ids) == 0 {
		return
	}
	id := h.ids[h.random.IntN(len(h.ids))]
	acts := []string{
		`SELECT railhead.cancel_payment($1, 'a test')`,
		`SELECT railhead.replay_payment($1, 'a test')`,
		`SELECT railhead.replay_payment($1, 'a test')`,
		`SELECT railhead.triage_dead_letter($1, 'acknowledged', 'a test')`,
		`SELECT railhead.triage_dead_letter($1, 'resolved', 'a test')`,
		`SELECT railhead.inquire_payment($1, 'a test')`,
		`SELECT railhead.reschedule_payment($1, NULL, 'a test')`,
		`SELECT railhead.resolve_payment($1, true, 'ref-' || $1::uuid, current_date, 'a statement', 'a test')`,
		`SELECT railhead.skip_in_order($1, 'a test')`,
	}
	act := acts[h.random.IntN(len(acts))]
	if _, err := h.super.Exec(h.t.Context(), act, [16]byte(id)); err != nil {
		if !strings.Contains(err.Error(), "SQLSTATE RH") {
			h.fail("%s of %s: %v", act, id, err)
		}
		return
	}
	h.note("%s of %s", act, id)
	switch {
	case strings.Contains(act, "skip_in_order"):
		h.passed[id] = true
	case strings.Contains(act, "replay_payment"), strings.Contains(act, "inquire_payment"):
		delete(h.passed, id)
	}
}

// drain ends the history: whatever can be sent is sent, so nothing is left behind a line that has
// nothing ahead of it.
func (h *history) drain() {
	h.crash(0)
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		h.repair()
		h.do(`UPDATE railhead.payment_outbox_pending SET next_attempt_at = clock_timestamp()
			WHERE participant_id LIKE $1 AND next_attempt_at < 'infinity' AND next_attempt_at > now()`, h.name+"-%")
		for range 2 {
			turn := outbox.Turn{Outcomes: h.ready[1], Ordered: []string{"bank"}, Claim: request(h.lane(20, 0))}
			h.ready[1] = nil
			result, err := h.relayers[1].Turn(h.t.Context(), turn)
			h.must(err)
			for _, late := range result.Late {
				h.recordLate(h.relayers[1], late)
			}
			for _, o := range turn.Outcomes {
				h.answered(o.Claim)
			}
			for _, claim := range result.Claims {
				h.judge(claim)
				h.flying[claim.OutboxID] = claim
				result := payment.ResultAccepted
				if claim.Action == payment.ActionInquire {
					result = payment.ResultExecuted
				}
				h.ready[1] = append(h.ready[1], told(asks, claim, result, "ref-"+claim.OutboxID.String()))
			}
		}
		if len(h.ready[1]) > 0 {
			continue
		}
		for _, id := range h.stuck() {
			for _, act := range []string{
				`SELECT railhead.resolve_payment($1, true, 'ref-' || $1::uuid, current_date, 'a statement', 'a test')`,
				`SELECT railhead.triage_dead_letter($1, 'resolved', 'a test')`,
				`SELECT railhead.skip_in_order($1, 'a test')`,
			} {
				if _, err := h.super.Exec(h.t.Context(), act, [16]byte(id)); err == nil && strings.Contains(act, "skip") {
					h.passed[id] = true
				}
			}
		}
		if h.text(`SELECT count(*)::text FROM railhead.payment_outbox_pending WHERE participant_id LIKE $1`, h.name+"-%") == "0" {
			return
		}
	}
	h.fail("not drained: %s", h.text(`SELECT string_agg(p::text, E'\n') FROM railhead.payment_outbox_pending p`))
}

// stuck are the instructions that wait for an operator.
func (h *history) stuck() []payment.ID {
	var ids []payment.ID
	for id := range strings.FieldsSeq(h.text(`
		SELECT coalesce(string_agg(d.outbox_id::text, ' '), '') FROM railhead.payment_dead_letters d
		WHERE d.participant_id LIKE $1 AND d.status IN ('pending', 'acknowledged', 'escalated')`, h.name+"-%")) {
		one, err := payment.ParseID(id)
		h.must(err)
		ids = append(ids, one)
	}
	return ids
}

// TestOrderInRandomHistories never shows an overtaking, and leaves nothing behind.
func TestOrderInRandomHistories(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	histories, steps := 4, 50
	if !testing.Short() {
		histories = 25
	}
	for profile, skips := range map[string]bool{strictProfile: false, skipProfile: true} {
		q := newQueue(t, profile)
		for n := range histories {
			one := seed + uint64(n)
			h := &history{queue: q, random: rand.New(rand.NewPCG(one, 0)), skips: skips, name: fmt.Sprintf("seed%d", one),
				flying: make(map[payment.ID]payment.Claim), passed: make(map[payment.ID]bool),
				relayers: [2]*executor.Executor{openExecutor(t, q.Cell), openExecutor(t, q.Cell)}}
			for range steps {
				h.step()
			}
			h.drain()
			if h.followed == 0 {
				h.fail("nothing was claimed")
			}
			h.relayers[0].Close()
			h.relayers[1].Close()
		}
		q.gapless()
		report, err := proofs.Run(t.Context(), q.Conn(t, ""),
			proofs.Options{Cell: "railhead", Names: []string{"order"}, PageSize: 50})
		q.must(err)
		if proof := report.Proofs[0]; proof.Status != proofs.Passed {
			t.Errorf("the proof of the order is %s: %v", proof.Status, proof.First)
		}
	}
}
