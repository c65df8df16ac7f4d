package faults

import (
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// Verdict is the result of a run. The names of its first fields are Jepsen's.
type Verdict struct {
	Attempted    int `json:"attempted"`    // instructions that a caller tried to enqueue
	Acknowledged int `json:"acknowledged"` // of these, those that were acknowledged
	Recovered    int `json:"recovered"`    // enqueued, though the caller was never told
	Lost         int `json:"lost"`         // enqueued or acknowledged, and neither ended nor with an operator
	Doubled      int `json:"doubled"`      // executed twice, or one key that became two instructions
	// LostInWindow counts what was acknowledged within a window that a failover or restore
	// forgot, and is gone.
	LostInWindow int `json:"lost_in_window,omitempty"`
	// Unexpected counts what was executed or enqueued and never ordered, or executed
	// otherwise than ordered.
	Unexpected int `json:"unexpected"`

	Executed        int `json:"executed"` // by the banks
	Dispatched      int `json:"dispatched"`
	Failed          int `json:"failed"`
	Parked          int `json:"parked"`
	Unknown         int `json:"unknown"`       // whose outcome was unknown at some time
	PersonNeeded    int `json:"person_needed"` // with an open dead letter
	FalseFailed     int `json:"false_failed"`
	FalseDispatched int `json:"false_dispatched"`

	// The auditors' proofs over the cell at the end.
	ProofsPassed int `json:"proofs_passed"`
	ProofsFailed int `json:"proofs_failed"`

	// Broken describes the rules that did not hold.
	Broken []string `json:"broken,omitempty"`
}

// False counts the false statements of the archive, by the banks' ledgers or by the
// auditors' proofs.
func (v Verdict) False() int { return v.FalseFailed + v.FalseDispatched + v.ProofsFailed }

// brokenMax bounds what a verdict lists; the counts are complete.
const brokenMax = 40

func (v *Verdict) breaks(format string, args ...any) {
	if len(v.Broken) < brokenMax {
		v.Broken = append(v.Broken, fmt.Sprintf(format, args...))
	}
}

// Judge returns the verdict on a run that has come to rest.
func Judge(f Facts) Verdict {
	var v Verdict
	rows := make(map[string][]attemptRow)
	for _, row := range f.Rows {
		rows[row.OutboxID] = append(rows[row.OutboxID], row)
	}
	executions := make(map[string][]railsim.Record)
	for _, record := range f.Moved {
		if record.Kind == railsim.Executed {
			v.Executed++
			executions[record.Reference] = append(executions[record.Reference], record)
		}
	}
	v.judgeCallers(f)
	v.judgeMoney(f, executions)
	v.judgeSequences(f)
	for _, key := range f.Keys {
		v.judgeInstruction(f, key, rows[key.OutboxID], len(executions[key.InstructionID]))
		delete(rows, key.OutboxID)
	}
	for id := range rows {
		v.breaks("%s has rows in the archive and no key", id)
	}
	for n, snapshot := range f.Snapshots {
		v.judgePrefix(n, snapshot, f.Rows)
	}
	if f.Claims > 0 {
		v.breaks("%d rows of claims in flight are left", f.Claims)
	}
	return v
}

// judgeCallers compares the keys with the callers' journals.
func (v *Verdict) judgeCallers(f Facts) {
	type told struct {
		outboxID string
		at       time.Time
	}
	attempted, acked := make(map[string]bool), make(map[string]told)
	for _, e := range f.Journal {
		switch e.Kind {
		case Attempt:
			attempted[e.InstructionID] = true
		case Ack:
			if before, ok := acked[e.InstructionID]; ok && before.outboxID != e.OutboxID && !f.forgotten(before.at) {
				v.Doubled++
				v.breaks("%s was acknowledged as %s and as %s", e.InstructionID, before.outboxID, e.OutboxID)
			}
			acked[e.InstructionID] = told{e.OutboxID, e.At}
		case Refusal:
			v.breaks("%s was refused: %s", e.InstructionID, e.Error)
		}
	}
	v.Attempted, v.Acknowledged = len(attempted), len(acked)
	in := make(map[string]string)
	for _, key := range f.Keys {
		if before, ok := in[key.InstructionID]; ok {
			v.Doubled++
			v.breaks("%s is two instructions: %s and %s", key.InstructionID, before, key.OutboxID)
		}
		in[key.InstructionID] = key.OutboxID
		if !attempted[key.InstructionID] {
			v.Unexpected++
			v.breaks("%s is in and no caller enqueued it", key.InstructionID)
		} else if _, ok := acked[key.InstructionID]; !ok {
			v.Recovered++
		}
	}
	for instruction, receipt := range acked {
		switch {
		case in[instruction] == receipt.outboxID:
		case f.forgotten(receipt.at):
			v.LostInWindow++
		default:
			v.Lost++
			v.breaks("%s was acknowledged as %s and is not in", instruction, receipt.outboxID)
		}
	}
}

// judgeMoney compares the banks' ledgers with the orders, and checks that each payment
// was always sent under the same rail key and with the same bytes.
func (v *Verdict) judgeMoney(f Facts, executions map[string][]railsim.Record) {
	for reference, each := range executions {
		ordered, ok := f.Orders[reference]
		if !ok {
			v.Unexpected++
			v.breaks("the bank executed %s, which no caller ordered", reference)
			continue
		}
		if len(each) > 1 {
			v.Doubled++
			v.breaks("the bank executed %s %d times", reference, len(each))
		}
		if want := ordered.money(); each[0].Amount != want.amount || each[0].Currency != want.currency ||
			each[0].Creditor != want.creditor {
			v.Unexpected++
			v.breaks("the bank executed %s with %s %s to %s, ordered were %s %s to %s", reference,
				each[0].Amount, each[0].Currency, each[0].Creditor, want.amount, want.currency, want.creditor)
		}
	}
	keys, bodies := make(map[string]string), make(map[string]string)
	for _, request := range f.Heard {
		if request.Op != "payment" || request.Rejected != 0 {
			continue
		}
		if before, ok := keys[request.Reference]; ok && before != request.Key {
			v.breaks("%s was sent under two rail keys", request.Reference)
		}
		keys[request.Reference] = request.Key
		if before, ok := bodies[request.Reference]; ok && before != request.BodySHA256 {
			v.breaks("%s was sent with different bytes", request.Reference)
		}
		bodies[request.Reference] = request.BodySHA256
	}
}

// judgeSequences checks that the numbers of every participant are 1, 2, 3, ..., and that
// the next number follows them.
func (v *Verdict) judgeSequences(f Facts) {
	last := make(map[string]int64)
	for _, key := range f.Keys {
		if key.SequenceID != last[key.ParticipantID]+1 {
			v.breaks("%s: sequence_id %d follows %d", key.ParticipantID, key.SequenceID, last[key.ParticipantID])
		}
		last[key.ParticipantID] = key.SequenceID
	}
	for _, next := range f.Next {
		if next.Next != last[next.ParticipantID]+1 {
			v.breaks("%s: the next sequence_id is %d after %d", next.ParticipantID, next.Next, last[next.ParticipantID])
		}
	}
}

// judgeInstruction compares one instruction's rows with the lifecycle and with what the
// bank did.
func (v *Verdict) judgeInstruction(f Facts, key keyRow, rows []attemptRow, executions int) {
	last := v.judgeRows(key, rows, f.Patience)
	waiting, isWaiting := f.Pending[key.OutboxID]
	letter, hasLetter := f.Letters[key.OutboxID]
	unknown := slices.ContainsFunc(rows, func(r attemptRow) bool { return r.Unknown })
	if unknown {
		v.Unknown++
	}
	if hasLetter && letter.Open {
		v.PersonNeeded++
	}
	switch last {
	case payment.Dispatched:
		v.Dispatched++
		if executions == 0 {
			v.FalseDispatched++
			v.breaks("%s says DISPATCHED and the bank never executed it", key.InstructionID)
		}
	case payment.Failed, payment.Cancelled:
		v.Failed++
		if executions > 0 {
			v.FalseFailed++
			v.breaks("%s says %s and the bank executed it", key.InstructionID, last)
		}
	case payment.Parked:
		v.Parked++
	}
	ended := last == payment.Dispatched || last == payment.Cancelled
	visible := hasLetter && letter.Open && (last == payment.Failed || last == payment.Parked || isWaiting && waiting.Aside)
	switch {
	case ended && isWaiting:
		v.breaks("%s is %s and waits in pending still", key.InstructionID, last)
	case ended || visible:
	case isWaiting && !waiting.Aside:
		v.breaks("%s still waits in pending after the heal, its last row is %q", key.InstructionID, last)
	default:
		v.Lost++
		v.breaks("%s is lost: its last row is %q, it is not in pending, and no operator sees it", key.InstructionID, last)
	}
}

// judgeRows checks numbers, order and answers, and returns the last state that
// is not LATE_OUTCOME.
func (v *Verdict) judgeRows(key keyRow, rows []attemptRow, patience time.Duration) payment.State {
	var last payment.State
	answered := make(map[int]int)
	claims := make(map[int]bool)
	for n, row := range rows {
		if row.No != n+1 {
			v.breaks("%s: row %d has number %d", key.InstructionID, n+1, row.No)
		}
		if !payment.MayFollow(last, row.State) {
			v.breaks("%s: row %d says %s after %q", key.InstructionID, row.No, row.State, last)
		}
		if row.State.IsClaim() {
			claims[row.No] = true
		}
		if row.State == payment.ZombieRequeue && row.Claimed != nil && row.Created.Sub(*row.Claimed) < patience {
			v.breaks("%s: row %d takes a claim that is %s old, its worker has %s", key.InstructionID, row.No,
				row.Created.Sub(*row.Claimed), patience)
		}
		// Late evidence that ends an instruction is two rows about one claim: the
		// evidence and, right behind it, the end. Neither is the claim's outcome.
		settles := n > 0 && rows[n-1].State == payment.LateOutcome && rows[n-1].Answers != nil && row.Answers != nil &&
			*rows[n-1].Answers == *row.Answers && answered[*row.Answers] > 0
		if row.Answers != nil && row.State != payment.LateOutcome && !settles {
			answered[*row.Answers]++
			if !claims[*row.Answers] {
				v.breaks("%s: row %d answers row %d, which is no claim before it", key.InstructionID, row.No, *row.Answers)
			}
		}
		if row.State != payment.LateOutcome {
			last = row.State
		}
	}
	for no := range claims {
		if answered[no] != 1 {
			v.breaks("%s: the claim in row %d has %d answers", key.InstructionID, no, answered[no])
		}
	}
	return last
}

// judgePrefix checks that every row of an earlier snapshot is still there, unchanged.
func (v *Verdict) judgePrefix(n int, before archive, rows []attemptRow) {
	now := make(archive, len(rows))
	for _, row := range rows {
		now[rowName(row.OutboxID, row.No)] = row.Digest
	}
	for name, digest := range before {
		switch now[name] {
		case digest:
		case "":
			v.breaks("%s was there at look %d and is gone", name, n+1)
		default:
			v.breaks("%s has changed since look %d", name, n+1)
		}
	}
}
