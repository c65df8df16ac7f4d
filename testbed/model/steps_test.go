package model

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/railhead-pay/railhead/internal/test/twin"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func (w *world) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":                 w.check,
		"enqueue":          w.enqueue,
		"enqueue again":    w.enqueueAgain,
		"claim":            w.claim,
		"claim, unsure":    w.claimUnsure,
		"call":             w.call,
		"call more":        w.call, // histories get further
		"record":           w.record,
		"record once more": w.recordAgain,
		"record late":      w.recordLate,
		"crash":            w.crash,
		"reap":             w.reap,
		"arrive":           w.arrive,
		"settle":           w.settle,
		"call back":        w.callBack,
		"cancel":           w.cancel,
		"replay":           w.replay,
		"resolve":          w.resolve,
		"ask about":        w.askAbout,
		"expire":           w.expire,
		"back up":          w.backUp,
		"restore":          w.restore,
		"accept":           w.accept,
		"enqueue anew":     w.enqueueAnew,
	}
}

const instructionsMax = 6

func (w *world) enqueue(t *rapid.T) {
	if len(w.all) >= instructionsMax {
		t.Skip("enough")
	}
	w.orders++
	one := &instruction{model: enqueued(w.profile.Policy, &w.past), rail: &rail{
		dedupes:     w.profile.ResendOnUnknown == payment.ResendSameKey,
		provisional: w.profile.Acceptance == payment.AcceptanceProvisional,
		either:      w.profile.Acceptance == payment.AcceptanceByAnswer,
		named:       rapid.Bool().Draw(t, "the rail names what it refuses"),
	}}
	one.order = payment.Instruction{
		InstructionID: fmt.Sprintf("%s-%d", w.name, w.orders), IdempotencyKey: "k", RailType: w.name,
		ParticipantID: fmt.Sprintf("%s-p%d", w.name, rapid.IntRange(1, 2).Draw(t, "participant")),
		Payload:       []byte(`{"amount": "10.50", "currency": "EUR"}`),
	}
	if one.expires = rapid.IntRange(0, 3).Draw(t, "expires") == 0; one.expires {
		one.order.ExpiresAt = time.Now().Add(time.Hour)
	}
	receipt, err := w.ingest.Enqueue(w.ctx(), one.order)
	must(t, err)
	if receipt.Replayed || receipt.State != "PENDING" {
		t.Fatalf("a new instruction: %+v", receipt)
	}
	one.id = receipt.OutboxID
	one.rail.key = w.railKey(t, one.id)
	w.all = append(w.all, one)
}

// enqueueAgain repeats a key: the same content gives the first receipt with the present state, and
// other content is refused.
func (w *world) enqueueAgain(t *rapid.T) {
	one := w.pick(t, func(*instruction) bool { return true })
	receipt, err := w.ingest.Enqueue(w.ctx(), one.order)
	must(t, err)
	want := string(one.state)
	switch {
	case one.letter == payment.DeadConflict:
		want = "CONFLICT"
	case one.waiting && one.waitsTaken:
		want = "ACCEPTED"
	case one.waiting && one.waitsUnknown:
		want = "UNKNOWN"
	case one.waiting:
		want = "PENDING"
	}
	if receipt.OutboxID != one.id || !receipt.Replayed || receipt.State != want {
		t.Fatalf("repeated: %+v, want %s in state %s", receipt, one.id, want)
	}
	other := one.order
	other.Payload = []byte(`{"amount": "99.00", "currency": "EUR"}`)
	if _, err := w.ingest.Enqueue(w.ctx(), other); err == nil {
		t.Fatal("the same key took other content")
	}
}

// claim claims some of the pending instructions.
func (w *world) claim(t *rapid.T) {
	n := rapid.IntRange(0, 1).Draw(t, "worker")
	w.take(t, n, w.request(t, n))
}

func (w *world) request(t *rapid.T, n int) outbox.ClaimRequest {
	free := rapid.IntRange(1, 3).Draw(t, "free")
	return outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: w.workerID(n),
		Lanes: []outbox.Lane{{RailType: w.name, Free: free, Oldest: free / 2, ProfileVersion: 1, RenderVersion: "r1",
			GoesOn: w.goesOn()}},
	}
}

func (w *world) take(t *rapid.T, n int, request outbox.ClaimRequest) []*job {
	due := 0
	for _, each := range w.all {
		if w.suspended && !request.Lanes[0].GoesOn {
			break
		}
		if each.waiting && (!each.expired || each.waitsUnknown) {
			due++
		}
	}
	result, err := w.executor.Turn(w.ctx(), outbox.Turn{Claim: request})
	must(t, err)
	if want := min(due, request.Lanes[0].Free); len(result.Claims) != want {
		t.Fatalf("claimed %d of %d due, want %d", len(result.Claims), due, want)
	}
	return w.hold(t, n, result.Claims)
}

// hold gives claims to a worker, and opens them in the model.
func (w *world) hold(t *rapid.T, n int, claims []payment.Claim) []*job {
	var jobs []*job
	for _, claim := range claims {
		one := w.byID(claim.OutboxID)
		if one == nil || !one.waiting || claim.Action != one.action || claim.OutcomeUnknown != one.waitsUnknown ||
			claim.Provisional != one.waitsTaken || claim.Asked != one.asked {
			t.Fatalf("claimed %+v, which the model has as %+v", claim, one)
		}
		if no := one.claimed(claim.ClaimedAt); no != claim.AttemptNo {
			t.Fatalf("%s was claimed as row %d, want %d", one.id, claim.AttemptNo, no)
		}
		jobs = append(jobs, &job{instruction: one, claim: claim})
	}
	w.workers[n].jobs = append(w.workers[n].jobs, jobs...)
	return jobs
}

// claimUnsure makes a claim whose commit the worker can't be sure of: it looks the claim up and
// returns what it finds, as never sent.
func (w *world) claimUnsure(t *rapid.T) {
	n := rapid.IntRange(0, 1).Draw(t, "worker")
	request := w.request(t, n)
	jobs := w.take(t, n, request)
	found, err := w.executor.FindClaim(w.ctx(), request.ClaimID)
	must(t, err)
	if len(found) != len(jobs) {
		t.Fatalf("looked up %d of %d claims", len(found), len(jobs))
	}
	for _, each := range jobs {
		d := w.profile.Decide(each.claim, payment.Answer{Result: payment.ResultNotSent})
		each.outcome = new(w.outcome(each.claim, d, payment.ResultNotSent, "", w.workerID(n)))
	}
}

// record records the outcomes that a worker holds, in one turn.
func (w *world) record(t *rapid.T) {
	hand := w.pickWorker(t, func(h *worker) bool {
		return slices.ContainsFunc(h.jobs, func(j *job) bool { return j.outcome != nil })
	})
	var outcomes []payment.Outcome
	left := hand.jobs[:0]
	for _, each := range hand.jobs {
		if each.outcome == nil {
			left = append(left, each)
			continue
		}
		outcomes = append(outcomes, *each.outcome)
	}
	hand.jobs = left
	hand.late = append(hand.late, w.recordTurn(t, outcomes)...)
}

// recordTurn records outcomes, compares which of them lost the fence, and applies the rest to the
// model.
func (w *world) recordTurn(t *rapid.T, outcomes []payment.Outcome) []payment.Outcome {
	result, err := w.executor.Turn(w.ctx(), outbox.Turn{Outcomes: outcomes})
	must(t, err)
	for _, o := range outcomes {
		one := w.byID(o.Claim.OutboxID)
		late := slices.ContainsFunc(result.Late, func(l payment.Outcome) bool { return l.AttemptID == o.AttemptID })
		if fast := one != nil && one.fast(o); fast == late {
			t.Fatalf("the answer %s to claim %d of %s: lost the fence %v, by the model %v", o.Result, o.Claim.AttemptNo,
				o.Claim.OutboxID, late, !fast)
		}
		if !late {
			one.answered(o, o.AttemptID.String())
			w.again = append(w.again, o)
		}
	}
	return result.Late
}

// recordAgain repeats a record whose commit was unsure: the ledger finds its row, unless a restore
// has forgotten it.
func (w *world) recordAgain(t *rapid.T) {
	if len(w.again) == 0 {
		t.Skip("nothing was recorded")
	}
	o := w.again[rapid.IntRange(0, len(w.again)-1).Draw(t, "outcome")]
	for _, late := range w.recordTurn(t, []payment.Outcome{o}) {
		w.slow(t, late)
	}
}

func (w *world) recordLate(t *rapid.T) {
	hand := w.pickWorker(t, func(h *worker) bool { return len(h.late) > 0 })
	for _, o := range hand.late {
		if w.slow(t, o) != payment.VerdictRepeated { // that one has no row of its own
			w.again = append(w.again, o)
		}
	}
	hand.late = nil
}

// slow records a late outcome, and compares the ledger's verdict with the model's.
func (w *world) slow(t *rapid.T, o payment.Outcome) payment.Verdict {
	one := w.byID(o.Claim.OutboxID)
	got, err := w.byTwo(t, w.executor).RecordLate(w.ctx(), o)
	if one == nil { // a restore has forgotten it
		if !errors.Is(err, outbox.ErrNotFound) {
			t.Fatalf("%s of %s, which is forgotten: %s, %v", o.Result, o.Claim.OutboxID, got, err)
		}
		return payment.VerdictRepeated
	}
	must(t, err)
	if want := one.answered(o, o.AttemptID.String()); got != want {
		t.Fatalf("%s of claim %d of %s came late: %s, want %s", o.Result, o.Claim.AttemptNo, o.Claim.OutboxID, got, want)
	}
	return got
}

// byTwo returns a recorder on a ledger that compares what the ledger does with the rule of the
// vocabulary.
func (w *world) byTwo(t *rapid.T, ledger twin.Ledger) *twin.Recorder {
	return &twin.Recorder{Ledger: ledger, Looker: w.looker, Differs: func(difference string) { t.Fatal(difference) }}
}

// crash discards what a worker holds; another process takes its place.
func (w *world) crash(t *rapid.T) {
	hand := w.pickWorker(t, func(h *worker) bool { return len(h.jobs)+len(h.late) > 0 })
	*hand = worker{fresh: hand.fresh + 1}
}
