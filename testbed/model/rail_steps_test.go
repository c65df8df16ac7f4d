package model

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// The fates of a send.
const (
	notSent      = "not sent"
	busy         = "the rail is busy"
	refused      = "our route is refused"
	answered     = "answered"
	answerLost   = "answer lost"
	lostOnWay    = "lost on the way"
	delayedOnWay = "delayed on the way"
)

// call carries one claim out: it makes the send or the inquiry, with a fate that the network gives
// it.
func (w *world) call(t *rapid.T) {
	hand := w.pickWorker(t, func(h *worker) bool {
		return slices.ContainsFunc(h.jobs, func(j *job) bool { return j.outcome == nil })
	})
	for _, each := range hand.jobs {
		if each.outcome != nil {
			continue
		}
		result := w.send
		if each.claim.Action == payment.ActionInquire {
			result = w.inquire
		}
		got := result(t, each)
		d := w.profile.Decide(w.weigh(t, each.claim), payment.Answer{Result: got})
		if each.claim.Asked && d.Requeue {
			t.Fatalf("what an operator had asked about once goes on after %s: %+v", got, d)
		}
		each.outcome = new(w.outcome(each.claim, d, got, each.instruction.rail.reference(got), "w"))
		return
	}
}

func (w *world) send(t *rapid.T, j *job) payment.Result {
	if !w.profile.MaySend(w.weigh(t, j.claim), 0) {
		return payment.ResultWindowClosed
	}
	// A claim is reaped only once no send of it may start any more: the worker's last check stops a
	// later one. A send that is paused after that check counts as delayed on the way. A restore stops
	// no send of an earlier claim, and an operator accepts the timeline only after such a send has
	// left, or is too old to leave.
	if forgotten := w.forgot(j); forgotten && !w.suspended || !forgotten && j.instruction.open != j.claim.AttemptNo {
		return payment.ResultNotSent
	}
	// Only a row can prevent a send: without one, the answer was lost, or its worker is slow. A row
	// that came after the claim can't either, because the worker holds the claim already.
	if j.instruction.notNow && j.instruction.notNowNo < j.claim.AttemptNo && j.instruction.rail.notNow &&
		!j.instruction.again {
		t.Fatalf("sent again, to a rail that has refused the key and takes it no more: %+v", j.instruction.model)
	}
	decides := word(rapid.SampledFrom([]string{"yes", "yes", "no", "not now", "no funds", "taken"}).Draw(t,
		"the rail says"))
	switch rapid.SampledFrom([]string{answered, answered, answerLost, lostOnWay, delayedOnWay, notSent, busy,
		refused}).Draw(t, "fate") {
	case answered:
		return j.instruction.rail.arrive(decides)
	case answerLost:
		j.instruction.rail.arrive(decides)
		return payment.ResultUnknown
	case delayedOnWay:
		j.instruction.rail.flying++
		return payment.ResultUnknown
	case lostOnWay:
		return payment.ResultUnknown
	case busy:
		return payment.ResultRefusedLater
	case refused:
		return payment.ResultRefusedRail
	default:
		return payment.ResultNotSent
	}
}

func (w *world) inquire(t *rapid.T, j *job) payment.Result {
	switch rapid.IntRange(0, 5).Draw(t, "no usable answer") {
	case 0:
		return payment.ResultUnavailable
	case 1:
		return payment.ResultRefusedLater
	}
	result := j.instruction.rail.asked()
	// An old NOT_FOUND is proof where nothing is on its way any more.
	if result == payment.ResultNotFound && j.instruction.rail.flying == 0 && rapid.Bool().Draw(t, "old enough") {
		j.claim.LastSentAt = j.claim.ClaimedAt.Add(-time.Hour)
	}
	return result
}

// arrive delivers a send that was delayed. Its sender may have been paused.
func (w *world) arrive(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool { return i.rail.flying > 0 })
	one.rail.flying--
	if rapid.IntRange(0, 3).Draw(t, "lost after all") > 0 {
		one.rail.arrive(word(rapid.SampledFrom([]string{"yes", "no"}).Draw(t, "the rail says")))
	}
}

func (w *world) settle(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool { return i.rail.taken })
	one.rail.settle(word(rapid.SampledFrom([]string{"yes", "no"}).Draw(t, "the rail says")))
}

// reap treats every open claim as a dead worker's, whichever worker still holds it.
func (w *world) reap(t *rapid.T) {
	stale, err := w.executor.StaleClaims(w.ctx(), outbox.StaleQuery{Limit: 1000})
	must(t, err)
	var outcomes []payment.Outcome
	open := 0
	for _, each := range w.all {
		if each.open > 0 {
			open++
		}
	}
	for _, found := range stale {
		if w.byID(found.Claim.OutboxID) == nil {
			continue
		}
		outcomes = append(outcomes, w.outcome(found.Claim, w.profile.DecideLost(found.Claim, found.Age, 0), "", "", "reaper"))
	}
	if len(outcomes) != open {
		t.Fatalf("the reaper sees %d open claims, there are %d", len(outcomes), open)
	}
	if len(outcomes) == 0 {
		t.Skip("nothing is open")
	}
	for _, o := range w.recordTurn(t, outcomes) {
		w.slow(t, o)
	}
	_, err = w.executor.CloseClaims(w.ctx(), nil)
	must(t, err)
}

func (w *world) cancel(t *rapid.T) {
	one := w.pick(t, func(*instruction) bool { return true })
	done, err := w.operator.CancelPayment(w.ctx(), one.id, "a proof")
	if allowed := one.waiting && !one.waitsUnknown && !w.suspended &&
		one.spoken != payment.ResultNotFound; allowed != (err == nil) {
		t.Fatalf("cancel of %+v: %v", one.model, err)
	}
	if err == nil {
		one.append(payment.Cancelled, false, 0, "", "")
		one.waiting, one.letter = false, ""
		same(t, "row of the cancel", done.AttemptNo, one.rows)
	}
}

func (w *world) replay(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool { return i.letter != "" })
	if w.restored && one.rail.executed > 0 {
		t.Skip("an operator who has compared replays nothing that was executed")
	}
	no, err := w.operator.ReplayPayment(w.ctx(), one.id, operator.NeverExpires, "a proof")
	if allowed := one.replayable() && !w.suspended; allowed != (err == nil) {
		t.Fatalf("replay of %+v: %v", one.model, err)
	}
	if err != nil {
		return
	}
	if one.state != payment.Failed || one.unknown || one.rail.executed > 0 && !one.rail.dedupes {
		t.Fatalf("replayed %+v, executed %d", one.model, one.rail.executed)
	}
	one.append(payment.Replayed, false, 0, "", "")
	one.waiting, one.action, one.waitsUnknown, one.waitsTaken, one.letter, one.expires, one.expired = true,
		payment.ActionSend, false, false, "", false, false
	same(t, "row of the replay", no, one.rows)
}

// askAbout has an operator put what is parked out for one inquiry.
func (w *world) askAbout(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool { return i.letter != "" })
	no, err := w.operator.InquirePayment(w.ctx(), one.id, "a proof")
	if allowed := one.state == payment.Parked && one.letter == payment.DeadOutcomeUnknown &&
		w.profile.Inquiry.Max > 0 && (!w.suspended || w.goesOn()); allowed != (err == nil) {
		t.Fatalf("asking about %+v: %v", one.model, err)
	}
	if err != nil {
		return
	}
	taken := one.taken
	one.append(payment.Unknown, true, 0, "", "")
	one.waiting, one.action, one.waitsUnknown, one.waitsTaken, one.taken, one.asked = true, payment.ActionInquire, true,
		taken, taken, true
	same(t, "row of the inquiry that is asked for", no, one.rows)
}

// resolve records an operator's evidence, which is the truth. On a rail that can be asked it
// states that the rail is silent, while nothing of the participant is claimed.
func (w *world) resolve(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool { return i.letter != "" && !w.onItsWay(i) })
	executed := one.rail.executed > 0
	evidence := operator.Evidence{Executed: executed, Date: time.Now(), Document: "statement", Reason: "a proof",
		RailSilent: !executed}
	want, reference, result := payment.Failed, "", payment.ResultRefused
	switch {
	case executed:
		want, reference, result = payment.Dispatched, one.rail.reference(payment.ResultExecuted), payment.ResultExecuted
	case one.state == payment.Cancelled:
		want = payment.Cancelled // that it was not executed is no news
	}
	evidence.RailReference = reference
	_, err := w.operator.PauseParticipant(w.ctx(), one.order.ParticipantID, "a proof", time.Time{})
	must(t, err)
	_, refusal := w.operator.ResolvePayment(w.ctx(), one.id, evidence)
	_, err = w.operator.ResumeParticipant(w.ctx(), one.order.ParticipantID, "a proof")
	must(t, err)
	err = refusal
	conflict := one.letter == payment.DeadConflict &&
		slices.Contains([]payment.State{payment.Failed, payment.Cancelled, payment.Dispatched}, one.state)
	wrong := executed && (one.state == payment.Failed || one.state == payment.Cancelled)
	out := one.asked && one.waiting
	if allowed := one.state == payment.Parked || conflict || wrong || out; allowed != (err == nil) {
		t.Fatalf("resolve of %+v as executed=%v: %v", one.model, executed, err)
	}
	if err != nil {
		return
	}
	if one.state != want {
		one.resolved(want, result, reference)
	}
	if executed {
		one.judgedPaidAt = one.rows
	} else {
		one.judgedAt = one.rows
	}
	one.waiting = one.waiting && !out
	if one.letter = ""; want == payment.Failed {
		one.letter = payment.DeadFailed
	}
}

// expire lets time pass for instructions that may expire.
func (w *world) expire(t *rapid.T) {
	one := w.pick(t, func(i *instruction) bool { return i.waiting && i.expires })
	w.cell.Exec("UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second' WHERE outbox_id = "+
		"$1", one.id.String())
	_, err := w.executor.Expire(w.ctx(), "reaper", 1000)
	must(t, err)
	one.expired = true
	for _, each := range w.all {
		if w.suspended {
			break
		}
		// An instruction whose outcome is unknown is claimed all the same, until the outcome is known.
		switch {
		case !each.waiting || !each.expired || each.waitsUnknown:
		case each.spoken == payment.ResultNotFound || each.mayRepeat:
			// Only a re-send could replace one that is still on its way. And a send that was forgotten may
			// have been executed.
			each.append(payment.Parked, true, 0, "", "")
			each.waiting, each.letter = false, payment.DeadOutcomeUnknown
		default:
			each.append(payment.Failed, false, 0, "", "")
			each.waiting, each.letter = false, payment.DeadExpired
		}
	}
}
