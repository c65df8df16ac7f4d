package proofs

import (
	"slices"
	"time"

	"github.com/railhead-pay/railhead/payment"
)

// proveNothingLost checks that each instruction is in one place where an operator can see
// it, and that a row has its payload.
func proveNothingLost(i *instruction, o Options, t *tally) {
	t.rows++
	last := i.last()
	if i.pending == nil && len(i.rows) > 0 && !slices.ContainsFunc(i.rows, func(r row) bool { return r.payload }) {
		t.offend("%s: none of its %d rows has its payload", i.id, len(i.rows))
	}
	if i.pending != nil && !i.pending.payload {
		t.offend("%s is in pending and no row has its payload", i.id)
	}
	if i.pending != nil && i.pending.tooLate != "" {
		t.offend("%s is in pending and due on %s, later than a caller, a profile or an operator may set it", i.id,
			i.pending.tooLate)
	}
	for _, c := range i.conflicts {
		switch {
		case i.at(c.no) == nil && !i.retired:
			t.offend("%s: row %d contradicted what was said before, and is not in the archive", i.id, c.no)
		case c.settled:
		case !i.letter.open():
			t.offend("%s: row %d contradicts what was said before, there is no open dead letter, and the log has no act of "+
				"an operator that settled it", i.id, c.no)
		case i.letter.reason != string(payment.DeadConflict):
			t.offend("%s: row %d contradicts what was said before, and its open dead letter says %s", i.id, c.no,
				i.letter.reason)
		}
	}
	i.proveLetter(t)
	switch {
	case i.pending != nil:
		if i.pending.aside && !i.letter.open() {
			t.offend("%s is quarantined in pending and has no open dead letter", i.id)
		}
	case last == nil && i.key == nil:
		t.offend("%s has a dead letter, a claim or an act, and neither a registry row nor an attempt", i.id)
	case last == nil && i.retired && !i.backdated:
		// Its month has left the archive; the registry still has it.
	case last == nil:
		t.offend("%s (instruction %s, number %d of %s) is in the registry and nowhere else",
			i.id, i.key.InstructionID, i.key.SequenceID, i.key.ParticipantID)
	case last.state.IsClaim():
		i.inFlight(*last, o, t)
	case last.state.IsTerminal():
	case last.state == payment.Failed:
		if i.letter == nil {
			t.offend("%s FAILED and has no dead letter", i.id)
		} else if !i.letter.open() && !i.letter.closedByAct {
			t.offend("%s FAILED, its dead letter is closed, and the log has no act of an operator that closed it", i.id)
		}
	case last.state == payment.Parked:
		if !i.letter.open() {
			t.offend("%s is PARKED and has no open dead letter", i.id)
		}
	case i.letter.open():
		// UNKNOWN with an open letter and without PARKED: an operator works on it.
	default:
		t.offend("%s is %s, and is neither in pending nor in the dead letters", i.id, last.state)
	}
}

// proveLetter checks that an open dead letter says of an instruction what its rows and its order say: by the letter an
// operator decides whether it is paid again.
func (i *instruction) proveLetter(t *tally) {
	if !i.letter.open() {
		return
	}
	rail := i.letter.rail
	switch {
	case len(i.rows) > 0:
		rail = i.rows[0].rail
	case i.pending != nil:
		rail = i.pending.rail
	}
	d, last := i.letter, i.last()
	switch reason := payment.DeadReason(d.reason); {
	case last == nil && (!reason.IsUnpaid() || i.key != nil && i.retired && !i.backdated):
	case last == nil:
		t.offend("%s: its open dead letter says %s, and it has no row", i.id, d.reason)
	case reason.IsUnpaid() && last.state != payment.Failed,
		reason == payment.DeadOutcomeUnknown && last.state.HasEnded():
		t.offend("%s: its open dead letter says %s, and its last row, %d, is %s", i.id, d.reason, last.no, last.state)
	}
	if d.reopened {
		t.offend("%s: its open dead letter says %s, and an operator closed it after its last failure", i.id, d.reason)
	}
	if d.misstated {
		t.offend("%s: its open dead letter has an amount that none of its payloads has", i.id)
	}
	if k := i.key; k != nil && (d.instruction != k.InstructionID || d.participant != k.ParticipantID || d.rail != rail) {
		t.offend("%s: its open dead letter is of instruction %s of %s on rail %s; it is instruction %s of %s on rail %s",
			i.id, d.instruction, d.participant, d.rail, k.InstructionID, k.ParticipantID, rail)
	}
}

// inFlight checks that the reaper would find the claim, and that the claim is too young
// to be repaired.
func (i *instruction) inFlight(claim row, o Options, t *tally) {
	if !slices.Contains(i.flying, claim.no) {
		t.offend("%s: claim %d is open, and no claim in flight leads the reaper to it", i.id, claim.no)
		return
	}
	if claim.claimedAgo < -time.Minute { // the clocks of two servers may differ by that
		t.offend("%s: claim %d is dated ahead of the database's clock, and no reaper repairs it before that time", i.id,
			claim.no)
	}
	if claim.claimedAgo > o.InFlightMax {
		t.offend("%s: claim %d is open for %d s; the reaper should have repaired it", i.id, claim.no,
			int64(claim.claimedAgo.Seconds()))
	}
}
