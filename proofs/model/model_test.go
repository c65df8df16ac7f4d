package model

import (
	"maps"
	"slices"

	"github.com/railhead-pay/railhead/payment"
)

// model is what the design says about one instruction. It knows no SQL.
type model struct {
	state   payment.State // of the last row that is not LATE_OUTCOME
	rows    int
	unknown bool // as of that row
	letter  payment.DeadReason

	waiting                  bool // in pending, and how it waits there
	action                   payment.Action
	waitsUnknown, waitsTaken bool
	expires, expired         bool // it may expire, and it has
	open                     int  // the open claim's number; 0: none
	claimSends               int
	claimUnknown, claimTaken bool
	sends                    map[int]bool // the claims that send, by number; not those that sent nothing
	covers                   bool         // the rail keeps one outcome a key
	replayed                 bool
	notNow                   bool // some send was refused for now
	answers                  map[int]payment.State
	lates                    []late
	ended                    int // the claim that the last row answers; 0: none
	endedBy                  payment.Result
	endedReference           string
}

// late is one LATE_OUTCOME row.
type late struct {
	no, claim int
	result    payment.Result
	reference string
}

func enqueued(covers bool) *model {
	return &model{waiting: true, action: payment.ActionSend, sends: map[int]bool{}, answers: map[int]payment.State{}, covers: covers}
}

// claimed opens a claim and returns its number.
func (m *model) claimed(sends int) int {
	m.rows++
	m.state, m.open, m.unknown = m.action.ClaimState(), m.rows, m.waitsUnknown
	m.claimSends, m.claimUnknown, m.claimTaken = sends, m.waitsUnknown, m.waitsTaken
	m.sends[m.rows] = m.action == payment.ActionSend
	m.waiting, m.ended = false, 0
	return m.open
}

// append adds a row that is not late, and says what the instruction is from now on.
func (m *model) append(state payment.State, unknown bool, answers int, result payment.Result, reference string) {
	m.rows++
	m.state, m.unknown, m.open = state, unknown && state != payment.Dispatched, 0
	m.ended, m.endedBy, m.endedReference = answers, result, reference
	m.replayed = m.replayed || state == payment.Replayed
	m.notNow = m.notNow || result == payment.ResultRefusedTransient
	if answers > 0 {
		m.answers[answers] = state
		m.sends[answers] = m.sends[answers] && result != payment.ResultNotSent && result != payment.ResultWindowClosed
	}
}

// fast reports whether the answer to a claim goes in at the claim's number + 1.
func (m *model) fast(claim int) bool { return m.open == claim && m.rows == claim }

// answered is an outcome by whichever way it goes in.
func (m *model) answered(o payment.Outcome) payment.Verdict {
	d, claim := o.Decision, o.Claim.AttemptNo
	if m.open > 0 && (claim == 0 && (d.State == payment.Dispatched || m.whole(o.Result, true)) || claim == m.open) {
		return m.answerOpen(o, d, m.open, claim == 0)
	}
	return m.late(o, d, claim)
}

func (m *model) answerOpen(o payment.Outcome, d payment.Decision, claim int, reported bool) payment.Verdict {
	since := m.lates[slices.IndexFunc(append(m.lates, late{no: m.rows + 1}), func(l late) bool { return l.no > claim }):]
	has := func(results ...payment.Result) bool {
		return slices.ContainsFunc(since, func(l late) bool { return slices.Contains(results, l.result) })
	}
	executes, proof := d.State == payment.Dispatched, slices.IndexFunc(since, func(l late) bool { return l.result == payment.ResultExecuted })
	if proof >= 0 && !executes {
		reference := since[proof].reference
		if o.Result != "" {
			m.addLate(claim, o.Result, o.RailReference)
		}
		m.append(payment.Dispatched, false, claim, payment.ResultExecuted, reference)
		if o.Result == payment.ResultRefused || refusal(o.Result) && m.claimSends == 0 {
			m.letter = payment.DeadConflict
			return payment.VerdictConflict
		}
		return payment.VerdictSettled
	}
	taken := !m.claimTaken && has(payment.ResultAccepted)
	foundNone := o.Result == payment.ResultNotFound && !d.OutcomeUnknown
	doubted := (!m.claimUnknown || foundNone) && has(payment.ResultUnknown, payment.ResultAccepted)
	if (doubted || taken || o.Result == payment.ResultRefused) && !executes && !m.whole(o.Result, reported) {
		d.OutcomeUnknown, d.Provisional = true, d.Provisional || taken
		if taken || foundNone {
			d.NextAction = payment.ActionInquire
		}
		if d.State == payment.Failed {
			d.State, d.Reason = payment.Parked, payment.DeadOutcomeUnknown
		}
	}
	m.append(d.State, d.OutcomeUnknown, claim, o.Result, o.RailReference)
	if executes {
		if proof >= 0 && o.RailReference != "" && since[proof].reference != o.RailReference {
			m.letter = payment.DeadConflict
			return payment.VerdictConflict
		}
		return payment.VerdictIn
	}
	if d.Park {
		m.append(payment.Parked, d.OutcomeUnknown, 0, "", "")
	}
	if d.Reason != "" {
		m.letter = d.Reason
	}
	if d.Requeue {
		m.waiting, m.action, m.waitsUnknown, m.waitsTaken = true, d.NextAction, d.OutcomeUnknown, d.Provisional && d.OutcomeUnknown
	}
	return payment.VerdictIn
}

func (m *model) addLate(claim int, result payment.Result, reference string) {
	m.rows++
	m.notNow = m.notNow || result == payment.ResultRefusedTransient
	m.lates = append(m.lates, late{m.rows, claim, result, reference})
}

// whole reports whether a refusal speaks for the payment, and not for one of its
// sends. What a rail reports by itself may be about a send before a replay, or one
// that was refused for now.
func (m *model) whole(r payment.Result, reported bool) bool {
	sent := slices.DeleteFunc(slices.Collect(maps.Values(m.sends)), func(left bool) bool { return !left })
	return r == payment.ResultRefused && !(reported && m.replayed) && (m.covers && !(reported && m.notNow) || len(sent) <= 1)
}

// late weighs an outcome that answers no open claim.
func (m *model) late(o payment.Outcome, d payment.Decision, claim int) payment.Verdict {
	executes, refuses, weight := d.State == payment.Dispatched, refusal(o.Result), o.Result
	if executes {
		weight = payment.ResultExecuted
	}
	if refuses && m.state == payment.Failed && !m.waiting || m.known(executes, late{0, claim, weight, o.RailReference}) {
		return payment.VerdictRepeated
	}
	unsettled := m.unknown
	if m.waiting {
		unsettled = m.waitsUnknown
	}
	unsettled = unsettled && !executes && !m.whole(o.Result, claim == 0) && m.otherUnsettled(claim)
	m.addLate(claim, weight, o.RailReference)
	switch {
	case m.open > 0:
		return payment.VerdictLate
	case !m.waiting && (m.state == payment.Dispatched || m.state == payment.Failed || m.state == payment.Cancelled):
		if executes && (m.state != payment.Dispatched || m.endedReference != "" && m.endedReference != o.RailReference) ||
			refuses && m.state == payment.Dispatched && (o.Result == payment.ResultRefused || claim == m.ended) ||
			d.State == payment.Accepted && m.state != payment.Dispatched && m.endedBy != payment.ResultRefused ||
			d.State == payment.Unknown && d.CountsSend && m.state != payment.Dispatched &&
				m.endedBy != payment.ResultRefused && m.endedBy != payment.ResultRefusedFinal {
			m.letter = payment.DeadConflict
			return payment.VerdictConflict
		}
	case executes:
		m.append(payment.Dispatched, false, claim, weight, o.RailReference)
		m.waiting, m.letter = false, ""
		return payment.VerdictSettled
	case refuses && !unsettled && !(claim == 0 && m.replayed):
		m.append(payment.Failed, false, claim, weight, o.RailReference)
		m.waiting, m.letter = false, payment.DeadFailed
		return payment.VerdictSettled
	case m.waiting && d.State == payment.Accepted:
		m.waitsTaken, m.waitsUnknown, m.action = true, true, payment.ActionInquire
	case m.waiting && d.State == payment.Unknown && d.CountsSend:
		m.waitsUnknown = true
	}
	return payment.VerdictLate
}

// known reports whether equal evidence is stored already.
func (m *model) known(executes bool, like late) bool {
	if executes && m.state == payment.Dispatched && (like.reference == "" || m.endedReference == like.reference) {
		return true
	}
	return slices.ContainsFunc(m.lates, func(l late) bool {
		return like.result != "" && l.result == like.result && l.reference == like.reference && (executes || l.claim == like.claim)
	})
}

// otherUnsettled reports whether a send other than the one just settled has no
// trustworthy answer.
func (m *model) otherUnsettled(settled int) bool {
	for claim, state := range m.answers {
		open := m.sends[claim] && claim != settled && (state == payment.Unknown || state == payment.Accepted || state == payment.ZombieRequeue)
		if open && !slices.ContainsFunc(m.lates, func(l late) bool {
			return l.claim == claim && (refusal(l.result) || l.result == payment.ResultRefusedTransient)
		}) {
			return true
		}
	}
	return false
}
