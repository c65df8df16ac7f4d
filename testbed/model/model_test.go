package model

import (
	"maps"
	"slices"
	"time"

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
	mayRepeat                bool // it was enqueued after a restore: its call may be one that was forgotten
	open                     int  // the open claim's number; 0: none
	claimUnknown, claimTaken bool
	sends                    map[int]bool // the claims that send, by number; not those that sent nothing
	covers                   bool         // the rail keeps one outcome a key
	noKeys                   bool         // the rail executes a key as often as it is sent
	again                    bool         // the rail takes a key again that it has refused
	replayed                 bool
	replayedAt               int // the last row REPLAYED
	judgedAt                 int // the last row when an operator recorded that it was not executed
	judgedPaidAt             int // the same, that it was executed
	settledAt                int // the last row that ended it as FAILED by a refusal, or by evidence
	dispatched               bool
	spoken                   payment.Result // the last word about a send, or of an inquiry, since the last replay
	inProgressAt             int            // the last row that says so, where the payment has not FAILED since
	notNow                   bool           // some send was refused for now
	notNowNo                 int            // by which row that was known first
	denied                   int            // the last inquiry at which an index denied every send; 0: none
	answers                  map[int]payment.State
	claimedAt                map[int]time.Time
	lates                    []late
	words                    []named         // of the rail: that it refused or executed
	refusedAt                int             // the last row that ended it as refused
	claimSent                map[int]bool    // the claims to send, by number, whatever came of them
	stored                   map[string]bool // the outcomes that have rows, by their names
	last                     int             // the number of the last row that is not late
	ended                    int             // the claim that it answers; 0: none
	endedBy                  payment.Result
	endedReference           string
	evident                  bool // an operator's evidence ended it
	taken                    bool // as of the last row that is not late: the rail took it, its final word is to come
	asked                    bool // an operator has put it out for one inquiry, which has no answer yet
	*past
}

// past is the history of an installation.
type past struct {
	suspended bool      // lanes are suspended
	restored  bool      // the database went back, so that sends may be forgotten
	noticed   time.Time // when the last time
}

// late is one LATE_OUTCOME row.
type late struct {
	no, claim int
	result    payment.Result
	reference string
	forgotten time.Time // the claim that a restore forgot, by its time; zero: no claim
	spent     bool      // a refusal that ended the key
	unknown   bool      // as of its row some send has no answer
}

// named is a word of the rail: that it refused or executed, now or for good, by the answer to a
// claim or unasked, and under which reference.
type named struct {
	no, claim int
	result    payment.Result
	executed  bool
	reference string
	at        time.Time // of the claim that it answers, also of one that is forgotten
	byAnother bool      // the claim was ended as executed by evidence about another send, which came meanwhile
}

func enqueued(policy payment.Policy, past *past) *model {
	return &model{
		waiting: true, action: payment.ActionSend, sends: map[int]bool{}, claimSent: map[int]bool{},
		answers:   map[int]payment.State{},
		claimedAt: map[int]time.Time{}, stored: map[string]bool{}, past: past, mayRepeat: past.restored,
		noKeys: policy.ResendOnUnknown != payment.ResendSameKey,
		covers: policy.AnswerCoversKey, again: policy.IDAfterRefusal == payment.IDSame,
	}
}

// claimed opens a claim and returns its number.
func (m *model) claimed(at time.Time) int {
	m.rows++
	m.state, m.open, m.unknown = m.action.ClaimState(), m.rows, m.waitsUnknown
	m.claimUnknown, m.claimTaken = m.waitsUnknown, m.waitsTaken
	m.sends[m.rows], m.claimedAt[m.rows] = m.action == payment.ActionSend, at
	m.claimSent[m.rows] = m.action == payment.ActionSend
	m.waiting, m.last, m.ended, m.endedBy = false, m.rows, 0, ""
	return m.open
}

// append adds a row that is not late, and updates the state of the instruction.
func (m *model) append(state payment.State, unknown bool, answers int, result payment.Result, reference string) {
	m.rows++
	m.state, m.unknown, m.open = state, unknown && state != payment.Dispatched, 0
	m.last, m.ended, m.endedBy, m.endedReference, m.evident = m.rows, answers, result, reference, false
	m.taken, m.asked = false, false
	m.dispatched = m.dispatched || state == payment.Dispatched
	if state == payment.Replayed {
		m.replayed, m.replayedAt = true, m.rows
	}
	m.refusedForNow(result)
	if result == payment.ResultNotFound && state == payment.Retryable {
		m.denied = answers
	}
	if state == payment.Replayed {
		m.spoken = ""
	}
	if state == payment.Failed {
		m.inProgressAt = 0
	}
	if state == payment.Failed && isRefusal(result) {
		m.refusedAt, m.settledAt = m.rows, m.rows
	}
	byAnother := state == payment.Dispatched && result == payment.ResultExecuted &&
		slices.ContainsFunc(m.lates, func(l late) bool {
			return l.no > answers && l.result == payment.ResultExecuted && l.claim != answers
		})
	m.hears(named{
		no: m.rows, claim: answers, result: result, executed: state == payment.Dispatched, reference: reference,
		at: m.claimedAt[answers], byAnother: byAnother,
	})
	if answers > 0 {
		if !noSend(result) {
			m.spoken = result
		}
		m.answers[answers] = state
		m.sends[answers] = m.sends[answers] && !noSend(result)
	}
}

// resolved adds the row of an operator's evidence, which is not a word of the rail.
func (m *model) resolved(state payment.State, result payment.Result, reference string) {
	words, refusedAt := m.words, m.refusedAt
	m.append(state, false, 0, result, reference)
	m.words, m.refusedAt, m.evident = words, refusedAt, true
}

// number returns the number of a claim if the claim has a row, else 0. After a restore that
// forgets a claim its number is given again.
func (m *model) number(c payment.Claim) int {
	if at, ok := m.claimedAt[c.AttemptNo]; ok && at.Equal(c.ClaimedAt) {
		return c.AttemptNo
	}
	return 0
}

// fast reports whether the answer to a claim is recorded at the claim's number + 1 without being
// weighed. These are weighed: the answer to an inquiry that found executed what some answer had
// refused, or refused what was reported to be refused; and after a restore, an answer that would
// end the payment as FAILED or send it as if for the first time.
func (m *model) fast(o payment.Outcome) bool {
	weighed := !m.claimSent[m.open] && o.Decision.State == payment.Dispatched &&
		slices.ContainsFunc(m.words, func(n named) bool { return isRefusal(n.result) })
	reported := slices.ContainsFunc(m.lates,
		func(l late) bool { return l.claim == 0 && l.result == payment.ResultRefused })
	weighed = weighed || !m.claimSent[m.open] && o.Decision.State == payment.Failed && reported
	d := o.Decision
	weighed = weighed || m.restored && (d.State == payment.Failed ||
		d.Requeue && d.NextAction == payment.ActionSend && !d.OutcomeUnknown)
	return m.open > 0 && m.open == m.number(o.Claim) && m.rows == m.open && !weighed
}

// answered records an outcome by the fast or the slow path. Its name is the name of its row.
func (m *model) answered(o payment.Outcome, name string) payment.Verdict {
	if m.stored[name] {
		return payment.VerdictMine
	}
	d, claim, reported := o.Decision, m.number(o.Claim), o.Claim.AttemptNo == 0
	var verdict payment.Verdict
	if m.open > 0 && (reported && (d.State == payment.Dispatched || m.whole(o.Result, claim, true)) || claim == m.open) {
		verdict = m.answerOpen(o, d, m.open, reported)
	} else {
		verdict = m.late(o, d, claim, reported)
	}
	m.stored[name] = verdict != payment.VerdictRepeated // which has no row of its own
	return verdict
}

func (m *model) answerOpen(o payment.Outcome, d payment.Decision, claim int, reported bool) payment.Verdict {
	since := m.lates[slices.IndexFunc(append(m.lates, late{no: m.rows + 1}), func(l late) bool { return l.no > claim }):]
	has := func(results ...payment.Result) bool {
		return slices.ContainsFunc(since, func(l late) bool { return slices.Contains(results, l.result) })
	}
	executes, proof := d.State == payment.Dispatched,
		slices.IndexFunc(since, func(l late) bool { return l.result == payment.ResultExecuted })
	refused := slices.ContainsFunc(since, func(l late) bool {
		return l.result == payment.ResultRefused &&
			(m.claimSent[claim] || proof >= 0 && l.no > since[proof].no || !m.repeats(l.reference))
	})
	others := func(reference string) bool {
		return slices.ContainsFunc(since, func(l late) bool {
			return l.result == payment.ResultExecuted && l.reference != "" && reference != "" && l.reference != reference
		})
	}
	if proof >= 0 && !executes {
		reference := since[proof].reference
		if o.Result != "" {
			m.addLate(late{claim: claim, result: o.Result, reference: o.RailReference})
		}
		m.append(payment.Dispatched, false, claim, payment.ResultExecuted, reference)
		if o.Result == payment.ResultRefused || isRefusal(o.Result) && m.noneStands(m.settledAt) || refused ||
			others(reference) ||
			m.refusedAndExecuted(claim) || m.executedTwice(claim, false) {
			m.letter = payment.DeadConflict
			return payment.VerdictConflict
		}
		m.answeredAbout()
		return payment.VerdictSettled
	}
	taken := !m.claimTaken && has(payment.ResultAccepted)
	foundNone := o.Result == payment.ResultNotFound && !d.OutcomeUnknown
	doubted := (!m.claimUnknown || foundNone) && has(payment.ResultUnknown, payment.ResultAccepted) ||
		foundNone && has(payment.ResultInProgress, payment.ResultRefused) ||
		!m.claimUnknown && slices.ContainsFunc(since, func(l late) bool { return l.unknown })
	doubted = doubted || m.restored && d.State == payment.Failed && !(m.covers && isRefusal(o.Result))
	if (doubted || taken || o.Result == payment.ResultRefused) && !executes && !m.whole(o.Result, claim, reported) {
		d.OutcomeUnknown, d.Provisional = true, d.Provisional || taken
		if taken || foundNone {
			d.NextAction = payment.ActionInquire
		}
		if d.State == payment.Failed {
			d.State, d.Reason = payment.Parked, payment.DeadOutcomeUnknown
		}
	}
	if d.Requeue && d.NextAction == payment.ActionSend && m.restored &&
		(refusalForNow(o.Result) || m.claimedAt[claim].Before(m.noticed)) {
		d.OutcomeUnknown = true
	}
	if d.Requeue && d.NextAction == payment.ActionSend &&
		slices.ContainsFunc(since, func(l late) bool { return l.spent && l.claim >= m.replayedAt }) {
		d.OutcomeUnknown, d.Requeue, d.Park, d.Reason = true, false, true, payment.DeadOutcomeUnknown
	}
	reference := o.RailReference
	if proof >= 0 && reference == "" {
		reference = since[proof].reference
	}
	m.append(d.State, d.OutcomeUnknown, claim, o.Result, o.RailReference)
	if executes {
		if proof >= 0 && others(reference) || refused && (proof >= 0 || reported && m.claimSent[claim]) ||
			m.refusedAndExecuted(claim) || m.executedTwice(claim, !reported) {
			m.letter = payment.DeadConflict
			return payment.VerdictConflict
		}
		m.answeredAbout()
		return payment.VerdictIn
	}
	if d.Park {
		m.append(payment.Parked, d.OutcomeUnknown, 0, "", "")
	}
	m.taken = d.Provisional && d.OutcomeUnknown
	if d.Reason != "" {
		m.letter = d.Reason
	}
	if d.Requeue {
		m.waiting, m.action, m.waitsUnknown, m.waitsTaken = true, d.NextAction, d.OutcomeUnknown, d.Provisional &&
			d.OutcomeUnknown
	}
	return payment.VerdictIn
}

// refusedForNow notes a refusal for now in the row that was appended last.
func (m *model) refusedForNow(result payment.Result) {
	if refusalForNow(result) && !m.notNow {
		m.notNow, m.notNowNo = true, m.rows
	}
}

// answeredAbout closes the dead letter of an instruction that was put out for an inquiry and is
// DISPATCHED now.
func (m *model) answeredAbout() {
	if m.letter == payment.DeadOutcomeUnknown {
		m.letter = ""
	}
}

func (m *model) addLate(l late) {
	m.rows++
	m.refusedForNow(l.result)
	l.no = m.rows
	m.lates = append(m.lates, l)
	at := l.forgotten
	if l.claim > 0 {
		at = m.claimedAt[l.claim]
	}
	m.hears(named{no: l.no, claim: l.claim, result: l.result, executed: l.result == payment.ResultExecuted,
		reference: l.reference, at: at})
}

// confirmed reports whether the rail has said since the last row that is not late that it executed
// the payment.
func (m *model) confirmed() bool {
	return slices.ContainsFunc(m.lates, func(l late) bool { return l.no > m.last && l.result == payment.ResultExecuted })
}

// hears notes a word of the rail.
func (m *model) hears(n named) {
	if n.result == payment.ResultInProgress {
		m.inProgressAt = n.no
	}
	if n.executed || isRefusal(n.result) || refusalForNow(n.result) {
		m.words = append(m.words, n)
	}
}

// refusedAndExecuted reports whether the rail has contradicted itself, with at least one of the
// two words after a row: under one reference, though no send was made after what it refused that
// it did not refuse, too; or under any reference, about a payment whose every send it refused.
func (m *model) refusedAndExecuted(after int) bool {
	last, lastForgotten, standing := m.standing()
	return slices.ContainsFunc(m.words, func(no named) bool {
		if !isRefusal(no.result) || no.executed || no.no <= m.judgedPaidAt {
			return false
		}
		since := no.claim
		if since == 0 {
			since = no.no
		}
		if no.result == payment.ResultRefused {
			for _, earlier := range m.words {
				if earlier.reference == no.reference && !earlier.executed && m.claimSent[earlier.claim] {
					since = min(since, earlier.claim)
				}
			}
		}
		sentAgain := since < last || !no.at.IsZero() && lastForgotten.After(no.at)
		return slices.ContainsFunc(m.words, func(yes named) bool {
			named := no.reference != "" && yes.reference == no.reference && !sentAgain
			return yes.executed && yes.no > m.judgedAt && max(yes.no, no.no) > after &&
				(named || !m.restored && standing <= m.refusedAt)
		})
	})
}

// repeats reports whether some send was refused, now or for good, under a reference.
func (m *model) repeats(reference string) bool {
	return reference != "" && slices.ContainsFunc(m.words, func(n named) bool {
		return n.reference == reference && !n.executed && m.claimSent[n.claim]
	})
}

// executedTwice reports whether the answers to two sends each say that the send was executed, at
// least one of them in a row after the given one and not both under the same reference, on a rail
// that executes a key as often as it is sent. If own is set, a row that ended a claim by evidence
// about another send counts as an answer to the claim's own send.
func (m *model) executedTwice(after int, own bool) bool {
	told := slices.DeleteFunc(slices.Clone(m.words),
		func(n named) bool { return !n.executed || !m.ofSend(n) || n.byAnother && !own })
	return m.noKeys && slices.ContainsFunc(told, func(one named) bool {
		return slices.ContainsFunc(told, func(two named) bool {
			return !one.at.Equal(two.at) && max(one.no, two.no) > after &&
				(one.reference == "" || one.reference != two.reference)
		})
	})
}

// ofSend reports whether a word answers a claim to send, or a claim that is forgotten.
func (m *model) ofSend(n named) bool { return m.claimSent[n.claim] || n.claim == 0 && !n.at.IsZero() }

// left reports whether a claim to send may have left: no answer says that it did not, or
// the rail has refused the payment while it was out.
func (m *model) left(claim int) bool {
	deniedLate := slices.ContainsFunc(m.lates, func(l late) bool { return l.claim == claim && noSend(l.result) })
	return m.claimSent[claim] && m.sends[claim] && (!deniedLate || m.refusedOut(claim))
}

func (m *model) refusedOut(claim int) bool {
	return slices.ContainsFunc(m.words, func(n named) bool {
		return n.claim == claim &&
			n.result == payment.ResultRefused && !n.executed
	})
}

// standing returns the last claim to send that no answer of its own has refused, the time of the
// last such claim that a restore forgot, and the last row that shows either.
func (m *model) standing() (last int, lastForgotten time.Time, standing int) {
	ownRefusal := func(claim int) bool {
		return slices.ContainsFunc(m.words, func(n named) bool { return n.claim == claim && !n.executed })
	}
	for claim := range m.sends {
		if m.left(claim) && !ownRefusal(claim) {
			last, standing = max(last, claim), max(standing, claim)
		}
	}
	for _, l := range m.lates {
		reached := l.result == payment.ResultUnknown || l.result == payment.ResultAccepted
		asked := l.unknown && slices.Contains([]payment.Result{payment.ResultInProgress, payment.ResultUnavailable,
			payment.ResultNotFound}, l.result)
		if l.claim != 0 || !reached && (l.forgotten.IsZero() || !asked && l.result != payment.ResultExecuted) {
			continue
		}
		if standing = max(standing, l.no); l.forgotten.After(lastForgotten) {
			lastForgotten = l.forgotten
		}
	}
	return last, lastForgotten, standing
}

// noneStands reports whether every known send after a row was refused, or never left.
func (m *model) noneStands(after int) bool {
	_, _, standing := m.standing()
	return standing <= after
}

// whole reports whether a refusal speaks for the payment, and not for one of its sends. An unasked
// report of the rail may be about a send before a replay, or about one that was refused for now,
// which a restore may have forgotten. Sends that a restore has forgotten can't be counted, and the
// rail's rule is looked up by the first row.
func (m *model) whole(r payment.Result, claim int, reported bool) bool {
	return r == payment.ResultRefused && !m.suspended && !m.beforeReplay(claim) &&
		(m.covers && m.rows > 0 && !(reported && (m.notNow || m.restored)) || !m.restored && m.sent() <= 1)
}

// beforeReplay reports whether a refusal is, or may be, about a send before a replay. Claim 0
// stands for one that the archive does not have, or for none.
func (m *model) beforeReplay(claim int) bool { return claim < m.replayedAt }

// sent counts the sends that may have reached the rail.
func (m *model) sent() int {
	sent := 0
	for claim := range m.sends {
		if m.left(claim) {
			sent++
		}
	}
	known := slices.Collect(maps.Keys(m.sends))
	known = slices.DeleteFunc(known, func(claim int) bool { return !m.left(claim) })
	for _, l := range m.lates {
		asked := l.unknown && !l.forgotten.IsZero() && slices.Contains([]payment.Result{
			payment.ResultInProgress, payment.ResultUnavailable, payment.ResultNotFound, payment.ResultRefused,
		}, l.result)
		stranger := l.result == payment.ResultRefused &&
			!slices.ContainsFunc(known, func(claim int) bool { return claim < l.no })
		if l.claim == 0 && (asked || stranger || slices.Contains([]payment.Result{
			payment.ResultUnknown, payment.ResultAccepted, payment.ResultRefusedFinal, payment.ResultRefusedTransient,
			payment.ResultRefusedBusiness,
		}, l.result)) {
			sent++
		}
	}
	return sent
}

// late weighs an outcome that answers no open claim.
func (m *model) late(o payment.Outcome, d payment.Decision, claim int, reported bool) payment.Verdict {
	executes, refuses, weight := d.State == payment.Dispatched, isRefusal(o.Result), o.Result
	spent := refusalForNow(o.Result) && (!m.again ||
		o.Result == payment.ResultRefusedBusiness && d.State != payment.Retryable)
	if executes {
		weight = payment.ResultExecuted
	}
	spent = spent && !m.beforeReplay(claim)
	if claim == 0 && !reported && d.State == payment.ZombieRequeue { // the reaper's word of a claim that is forgotten
		d.State, weight = payment.Unknown, payment.ResultUnknown
	}
	silent, doubts := d.State == payment.Unknown && d.CountsSend, doubtful(o, d, claim, reported)
	like := late{claim: claim, result: weight, reference: o.RailReference, spent: spent, unknown: doubts || m.unknown}
	if claim == 0 {
		like.forgotten = o.Claim.ClaimedAt
	}
	byRail := m.state == payment.Failed && isRefusal(m.endedBy) && !m.evident
	knownName := o.RailReference == "" || slices.ContainsFunc(m.words,
		func(n named) bool { return isRefusal(n.result) && n.reference == o.RailReference })
	noNews := refuses && byRail && !m.waiting && !doubts && (claim > 0 || reported) && knownName
	if m.known(executes, like) || noNews && claim > 0 {
		return payment.VerdictRepeated
	}
	if noNews { // its event has a row, or it would count as news after a replay
		m.addLate(like)
		return payment.VerdictLate
	}
	had, torn := m.rows, m.refusedAndExecuted(0)
	whole := m.whole(o.Result, claim, reported) && (reported || claim > 0 || !doubts)
	unsettled := (!m.waiting || m.waitsUnknown) && m.otherUnsettled(claim) || (refuses || spent) && m.restored || doubts
	unsettled = unsettled && !executes && !whole
	m.addLate(like)
	switch {
	case m.open > 0:
		return payment.VerdictLate
	case !m.waiting && (m.state == payment.Dispatched || m.state == payment.Failed || m.state == payment.Cancelled):
		denies := refuses || refusalForNow(o.Result) || noSend(o.Result)
		if executes && m.executedTwice(had, false) || (executes || refuses) && m.refusedAndExecuted(had) ||
			denies && m.state == payment.Dispatched && !torn && m.refusedAndExecuted(0) ||
			executes && (m.state != payment.Dispatched || m.endedReference != "" && m.endedReference != o.RailReference) ||
			refuses && m.state == payment.Dispatched &&
				(o.Result == payment.ResultRefused ||
					claim > 0 && claim == m.ended && (m.covers || !m.restored && m.sent() <= 1) || m.noneStands(m.settledAt)) ||
			m.state == payment.Dispatched && m.ended == 0 && m.evident && !m.restored && denies && m.noneStands(0) &&
				!m.confirmed() ||
			doubts && !silent && m.state != payment.Dispatched &&
				(claim == 0 || m.endedBy != payment.ResultRefused || m.evident) ||
			silent && m.state != payment.Dispatched && (claim == 0 || !m.weighed(claim)) {
			m.letter = payment.DeadConflict
			return payment.VerdictConflict
		}
	case executes:
		m.append(payment.Dispatched, false, claim, weight, o.RailReference)
		if m.waiting, m.letter = false, ""; m.refusedAndExecuted(had) {
			m.letter = payment.DeadConflict
			return payment.VerdictConflict
		}
		return payment.VerdictSettled
	case (refuses || spent) && !unsettled && !m.suspended && !m.beforeReplay(claim):
		m.append(payment.Failed, false, claim, weight, o.RailReference)
		m.waiting, m.letter = false, payment.DeadFailed
		return payment.VerdictSettled
	case m.waiting && spent && m.action == payment.ActionSend:
		m.append(payment.Parked, true, 0, "", "")
		m.waiting, m.letter, m.taken = false, payment.DeadOutcomeUnknown, d.Provisional
		return payment.VerdictSettled
	case m.waiting && doubts:
		m.waitsTaken, m.waitsUnknown = m.waitsTaken || d.State == payment.Accepted, true
		if !silent {
			m.action = payment.ActionInquire
		}
	}
	return payment.VerdictLate
}

// doubtful reports whether an outcome shows that some send may have been executed: its own, one
// that the rail has taken or in progress, or one that a claim, forgotten since, knew about.
func doubtful(o payment.Outcome, d payment.Decision, claim int, reported bool) bool {
	return d.State == payment.Accepted || d.State == payment.Unknown && d.CountsSend ||
		o.Result == payment.ResultInProgress ||
		claim == 0 && !reported && d.OutcomeUnknown && d.State != payment.Dispatched
}

// weighed reports whether the word that ended the instruction also decides about the send of a
// known claim: a word for the whole payment does, and so does a final refusal, unless an index
// alone had denied the send before.
func (m *model) weighed(claim int) bool {
	return m.endedBy == payment.ResultRefused || m.endedBy == payment.ResultRefusedFinal && claim >= m.denied
}

// known reports whether equal evidence is stored already.
func (m *model) known(executes bool, like late) bool {
	at := like.forgotten
	if like.claim > 0 {
		at = m.claimedAt[like.claim]
	}
	// Each of two sends may be executed, where the rail keeps no keys.
	same := func(no int) bool {
		return !m.noKeys || !m.ofSend(named{claim: like.claim, at: like.forgotten}) ||
			slices.ContainsFunc(m.words, func(n named) bool {
				return n.no == no && m.ofSend(n) && !n.byAnother && n.at.Equal(at)
			})
	}
	if executes && m.state == payment.Dispatched && !m.evident &&
		(like.reference == "" || m.endedReference == like.reference) && same(m.last) {
		return true
	}
	sent := 0 // the last claim to send: a report after it may be of that send
	for claim := range m.claimSent {
		if m.left(claim) && isRefusal(like.result) && like.claim == 0 && like.forgotten.IsZero() {
			sent = max(sent, claim)
		}
	}
	return slices.ContainsFunc(m.lates, func(l late) bool {
		return l.no > sent && like.result != "" && l.result == like.result && l.reference == like.reference &&
			(executes && same(l.no) && l.no > max(m.replayedAt, m.judgedAt) ||
				!executes && l.claim == like.claim && l.forgotten.Equal(like.forgotten))
	})
}

// otherUnsettled reports whether a send other than the one just settled has no
// trustworthy answer.
func (m *model) otherUnsettled(settled int) bool {
	if slices.ContainsFunc(m.lates, func(l late) bool {
		return l.claim == 0 && (l.result == payment.ResultUnknown || l.result == payment.ResultAccepted ||
			!l.forgotten.IsZero() && l.unknown)
	}) || m.inProgressAt > settled {
		return true
	}
	for claim, state := range m.answers {
		open := m.sends[claim] && claim != settled &&
			(state == payment.Unknown || state == payment.Accepted || state == payment.ZombieRequeue)
		if open && !slices.ContainsFunc(m.lates, func(l late) bool {
			return l.claim == claim && (isRefusal(l.result) || refusalForNow(l.result))
		}) {
			return true
		}
	}
	return false
}
