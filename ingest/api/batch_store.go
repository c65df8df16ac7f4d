package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// heldLine is a line that may be stored later.
type heldLine struct {
	line int
	why  *Problem
}

// openLine is a line of a chunk that the store is asked to take, and its answer.
type openLine struct {
	in     outbox.Entrusted
	answer *batchLine
}

// enqueue enqueues a chunk and answers its lines. It reports whether the batch continues: if the
// store has failed as a whole, the rest is not read. Of several cells those of the chunk alone have failed,
// and later lines may be of others. A line whose participant has an earlier one that may be stored later
// (429, 503) is not tried: it would come before it. See hold.
func (b *batching) enqueue(ctx context.Context, chunk [][]byte) bool {
	answers := make([]batchLine, len(chunk))
	var open []openLine
	for n, text := range chunk {
		answers[n].Line = b.end.Lines + n + 1
		in, problem := b.admit(text, answers[n].Line)
		if problem != nil {
			b.refuse(openLine{in, &answers[n]}, problem)
			continue
		}
		in.Headers = b.trace
		open = append(open, openLine{in, &answers[n]})
	}
	goesOn := true
	for len(open) > 0 && goesOn {
		part, rest := open[:min(b.most, len(open))], open[min(b.most, len(open)):]
		var again []openLine
		again, goesOn = b.store(ctx, part)
		open = slices.Concat(again, rest)
		if goesOn && len(open) > 0 && b.api.draining.Err() != nil {
			b.ends(problemUnavailable(commitNone))
			goesOn = false
		}
	}
	for _, line := range open { // the store has failed, or the API stops: these were not sent to it
		b.refuse(line, problemUnavailable(commitNone))
	}
	for _, answer := range answers {
		b.end.Lines++
		switch answer.Status {
		case http.StatusCreated:
			b.end.Created++
		case http.StatusOK:
			b.end.Replayed++
		default:
			b.end.RefusedNum++
		}
	}
	return b.out.add(answers...) && goesOn
}

// admit reads a line that may be sent to the store, or returns why it may not.
func (b *batching) admit(text []byte, line int) (outbox.Entrusted, *Problem) {
	if text == nil {
		return outbox.Entrusted{}, kindTooLarge.saying("The line is too long.")
	}
	in, problem := readInstruction(text, true)
	switch {
	case problem != nil:
		return in, problem
	case in.IdempotencyKey == "":
		return in, kindInvalid.of("idempotency_key", "FORM", "Each line has its idempotency_key.")
	}
	if problem := b.heldBack(in.ParticipantID, line); problem != nil {
		return in, problem
	}
	if wait := b.known.take(1); wait > 0 {
		return in, b.overQuota()
	}
	return in, nil
}

// overQuota counts a line over the quota, and returns its problem: the wait until there is room for it, the lines over
// the quota before it, and the batch that carries them, which counts as a request too.
func (b *batching) overQuota() *Problem {
	b.over++
	return problemOverQuota(b.known.until(1 + b.over))
}

// store sends lines to the store in one call, and answers them. It returns those that a cell does not take because
// they are more than its batch_items_max, of which nothing is stored: they are sent again, fewer at once. It also
// reports whether the batch continues.
func (b *batching) store(ctx context.Context, part []openLine) (again []openLine, goesOn bool) {
	var sent []openLine
	var all []outbox.Entrusted
	for _, line := range part {
		// An earlier call for the chunk may have left a line of the participant for later.
		if problem := b.heldBack(line.in.ParticipantID, line.answer.Line); problem != nil {
			b.refuse(line, problem)
			continue
		}
		sent, all = append(sent, line), append(all, line.in)
	}
	if len(sent) == 0 {
		return nil, true
	}
	began := time.Now()
	storing, cancel := context.WithTimeout(ctx, b.api.config.StoreTimeout)
	results, err := b.api.store.EnqueueBatch(storing, b.who, all)
	cancel()
	if len(sent) > 1 && tooMany(err) {
		b.most = len(sent) / 2
		return sent, true
	}
	for n, line := range sent {
		switch {
		case err != nil:
			b.refuse(line, b.api.refused(ctx, opBatch, err))
		case results[n].Fault != nil && len(sent) > 1 && tooMany(results[n].Fault): // of one of several cells
			again = append(again, line)
		case results[n].Fault != nil && results[n].Fault.SQLState == outbox.StateCommitUnknown: // likewise
			b.refuse(line, b.api.refused(ctx, opBatch, results[n].Fault))
		case results[n].Fault != nil:
			b.refuse(line, problemOfFault(results[n].Fault))
		default:
			line.answer.Accepted, line.answer.Status = new(taken(line.in, results[n].Receipt)), http.StatusCreated
			if results[n].Receipt.Replayed {
				line.answer.Status = http.StatusOK
			}
		}
	}
	if len(again) > 0 {
		b.most = len(sent) / 2
	}
	if err != nil {
		b.vain += time.Since(began)
		if !b.isOfCells(ctx, err) {
			b.ends(problemOf(err))
			return nil, false
		}
	}
	return again, true
}

// tooMany reports whether a cell has refused the number of lines, and none of them for what it says.
func tooMany(err error) bool {
	fault, ok := errors.AsType[*outbox.Fault](err)
	return ok && fault.SQLState == outbox.StateTooLarge && fault.Field == ""
}

// refuse answers a line with a problem.
func (b *batching) refuse(line openLine, problem *Problem) {
	line.answer.Status, line.answer.Problem = problem.Status, problem
	b.hold(line.in.ParticipantID, line.answer.Line, problem)
}

// isOfCells reports whether an error of the store is that of the cells of a chunk alone, and of lines that are held.
// Chunks without an answer take the time of two at most: all cells may hang.
func (b *batching) isOfCells(ctx context.Context, err error) bool {
	return len(b.api.config.Cells) > 1 && ctx.Err() == nil && problemOf(err).forNow() &&
		b.vain < 2*b.api.config.StoreTimeout
}

// hold notes that a line of a participant may be stored later. The first of them counts: a chunk that is sent in parts
// has earlier lines which the store is asked for after a later one has met the quota.
func (b *batching) hold(participantID string, line int, why *Problem) {
	if first, held := b.held[participantID]; why.forNow() && (!held || line < first.line) {
		b.held[participantID] = heldLine{line, why}
	}
}

// heldBack returns the problem of a line that waits for an earlier one of its participant, or nil.
func (b *batching) heldBack(participantID string, line int) *Problem {
	first, held := b.held[participantID]
	if !held || line < first.line {
		return nil
	}
	problem := problemUnavailable(commitNone)
	if first.why.is(kindOverQuota) {
		problem = b.overQuota()
	}
	problem.Detail = "An earlier line of the participant may be stored later: this one would come before it."
	return problem
}

// forNow reports whether a line with this problem may be stored later. What an operator has closed holds nothing up:
// known keys and other rails are answered as always.
func (p *Problem) forNow() bool {
	return p.Status == http.StatusTooManyRequests || p.Status >= 500 && p.Code != outbox.StateEnqueueClosed
}
