package latematrix_test

import (
	"fmt"
	"maps"
	"slices"
)

// This file and judge_test.go are the oracle. They use nothing of the product, and define its words
// once more.

// word is what a rail says about a send or a payment, or what a worker knows itself.
type word string

const (
	accepted   word = "accepted"    // of a send: executed, or taken for now
	refused    word = "refused"     // of a send: for good; of a payment: never executed
	later      word = "later"       // of a send: refused for now
	unknown    word = "unknown"     // no answer that proves anything
	seenBefore word = "seen before" // of a later send: the key was used already
	notSent    word = "not sent"    // no byte left
	notFound   word = "not found"   // of a payment: the rail knows of none
	executed   word = "executed"    // of a payment
	pending    word = "pending"     // of a payment: no news
	window     word = "window"      // the worker's own: a send would come too late
	tampered   word = "tampered"    // the worker's own: the payload is another one
	checked    word = "check"       // the worker's own: the payment can't be right
	busy       word = "busy"        // of a call: the rail has not looked at it
	broken     word = "broken"      // of a send: the rail refuses our credentials or route
)

// bank is what a rail promises, by its profile.
type bank struct {
	dedupes     bool // it executes a key once
	covers      bool // it keeps one outcome a key
	again       bool // it takes a key that it has refused
	provisional bool // its "accepted" is not its last word
	indexed     bool // its "no such payment" is proof
}

// facts are the facts of one payment, whatever the product concludes from them.
type facts struct {
	bank       bank
	now        int // counts what happened
	sends      []*send
	vetoed     map[int]int     // when each claim was made on which its worker may not send, until it says so
	asks       map[int]int     // when each inquiry was made, by its claim
	proven     map[string]bool // executions, by the bank's references
	ruledOut   map[string]bool // those that an operator has since found not to be
	everPaid   bool
	reports    map[report]bool
	events     map[string]bool // the reports, by the bank's own numbers of them
	taken      bool            // accepted for now, without a last word
	notNow     bool            // some send was refused for now
	seen       bool            // the bank has shown that it knows the payment: its index can't be believed
	replayed   bool
	covered    bool            // the bank has said one refusal for the key, which it keeps
	denials    map[string]int  // when the bank refused what it calls so
	executions map[string]bool // by the bank's word, since operators last judged
	refusals   int             // the same of refusals for good
	overdue    bool
}

// send is a send that may have left.
type send struct {
	claim   int // 0: of a claim that the rows have forgotten
	left    bool
	doubt   bool // it may have been executed, and nothing trustworthy says otherwise
	by      settledBy
	refused bool // by its own answer, for now or for good
	made    int  // when; 0: not known, of one that is forgotten
	learned int  // when its worker last spoke of it
}

type settledBy string

const (
	byNothing  settledBy = ""
	byItself   settledBy = "its own answer"
	byKey      settledBy = "the outcome of its key"
	byPayment  settledBy = "the bank's word for the payment"
	byIndex    settledBy = "the bank's index"
	byOperator settledBy = "an operator's evidence"
)

// report is what the bank reported unasked, without the id of its event.
type report struct {
	word      word
	reference string
}

func newFacts(b bank) *facts {
	return &facts{bank: b, asks: map[int]int{}, vetoed: map[int]int{}, proven: map[string]bool{},
		ruledOut: map[string]bool{}, reports: map[report]bool{}, events: map[string]bool{}, denials: map[string]int{},
		executions: map[string]bool{}}
}

// sent notes a claim on which a worker sends, or may have sent when it is lost.
func (f *facts) sent(claim int) {
	f.now++
	f.sends = append(f.sends, &send{claim: claim, left: true, doubt: true, made: f.now, learned: f.now})
}

// held notes a claim on which its worker may not send. The rows can't tell it from a claim on
// which the worker sends until the worker has answered.
func (f *facts) held(claim int) {
	f.now++
	f.vetoed[claim] = f.now
}

func (f *facts) asked(claim int) {
	f.now++
	f.asks[claim] = f.now
}

func (f *facts) find(claim int) *send {
	for _, s := range f.sends {
		if s.claim == claim && claim > 0 {
			return s
		}
	}
	return nil
}

// answered notes what a worker says about its own claim, in time or late.
func (f *facts) answered(claim int, says word, reference string) {
	f.now++
	if asked, isInquiry := f.asks[claim]; isInquiry {
		f.inquired(claim, asked, says, reference)
		return
	}
	delete(f.vetoed, claim)
	if s := f.find(claim); s != nil {
		f.answeredSend(s, says, reference)
	}
}

// forgotten notes what a worker says about a claim that a restore has forgotten.
func (f *facts) forgotten(says word, reference string) {
	f.now++
	s := &send{left: true, doubt: true}
	if f.covered {
		s.doubt, s.by = false, byKey
	}
	f.sends = append(f.sends, s)
	f.answeredSend(s, says, reference)
}

// forgottenInquiry notes that an inquiry found the payment in progress at the bank, by a send that
// a restore has forgotten.
func (f *facts) forgottenInquiry() {
	f.now++
	s := &send{left: true, doubt: true, learned: f.now}
	if f.covered {
		s.doubt, s.by = false, byKey
	}
	f.sends, f.seen = append(f.sends, s), true
}

func (f *facts) answeredSend(s *send, says word, reference string) {
	s.learned = f.now
	switch says {
	case accepted:
		switch {
		case !f.bank.provisional:
			f.paid(reference)
			s.settle(byItself)
		case s.by == byPayment || s.by == byOperator:
			// The final word came first.
		default:
			s.doubt, s.by, f.taken = true, byNothing, true
		}
	case refused:
		s.settle(byItself)
		s.refused = true
		f.denied(reference, s.made)
		if f.bank.covers && !f.taken {
			f.settleAll(byKey)
			f.covered = true
		}
	case later:
		s.settle(byItself)
		s.refused = true
		f.notNow = true
	case unknown, seenBefore:
		// Silence about a send that only the index has denied counts as silence again.
		if s.by == byNothing || s.by == byIndex {
			s.doubt, s.by = true, byNothing
		}
		f.seen = f.seen || says == seenBefore
	case notSent, busy, window, tampered, checked, broken:
		s.left = false
		s.settle(byItself)
	}
}

// inquired notes the answer to an inquiry, which speaks about what was sent before it.
func (f *facts) inquired(claim, asked int, says word, reference string) {
	f.seen = f.seen || says == pending || says == refused
	switch says {
	case executed, accepted:
		f.paid(reference)
	case refused:
		f.denied(reference, asked)
		switch {
		case f.bank.covers:
			f.settleAll(byPayment)
			f.taken, f.covered = false, true
		case f.count() <= 1:
			for _, s := range f.sends {
				if s.claim < claim {
					s.settle(byPayment)
					f.taken = false
				}
			}
		}
	case notFound:
		if !f.bank.indexed || f.taken || f.seen {
			return
		}
		for _, s := range f.sends {
			if s.doubt && s.claim < claim && s.learned < asked {
				s.settle(byIndex)
			}
		}
	}
}

// reported notes what the bank reports unasked. A report does not say about which send it is. The
// same report twice counts as one, but a refusal that is repeated in another event may be of a
// later send.
func (f *facts) reported(event string, says word, reference string) {
	f.now++
	one := report{says, reference}
	name := fmt.Sprint(event, " ", one)
	if says == refused && !f.events[name] {
		f.denied(reference, f.now)
	}
	if f.events[name] = true; f.reports[one] || says == pending {
		return
	}
	f.reports[one] = true
	switch {
	case says == executed:
		f.paid(reference)
	case f.replayed, f.bank.covers && f.notNow:
		// It may be about a send that was settled before.
		if f.replayed || f.count() > 1 {
			return
		}
		f.refusedWhole()
	case f.bank.covers, f.count() <= 1:
		f.refusedWhole()
	}
}

func (f *facts) refusedWhole() {
	f.settleAll(byPayment)
	f.taken, f.covered = false, f.covered || f.bank.covers
}

// resolved notes an operator's evidence, which is newer than everything that the bank said.
func (f *facts) resolved(wasExecuted bool, reference string) {
	f.now++
	f.settleAll(byOperator)
	f.taken = false
	maps.Copy(f.ruledOut, f.proven)
	clear(f.proven)
	clear(f.denials)
	clear(f.executions)
	f.refusals = 0
	if wasExecuted {
		delete(f.ruledOut, reference)
		f.proven[reference], f.everPaid = true, true
	}
}

// denied notes that the bank said, at a time, that it refused the payment of a reference.
func (f *facts) denied(reference string, at int) {
	f.refusals++
	if reference != "" {
		f.denials[reference] = max(f.denials[reference], at)
	}
}

// torn reports whether the bank has contradicted itself: it executed what it had refused under the
// same reference, and every send since was refused, too; or it executed a payment whose every send
// it had refused. A claim counts as a send that was not refused until its worker's answer says
// otherwise.
func (f *facts) torn() bool {
	for reference, at := range f.denials {
		later := slices.ContainsFunc(f.sends, func(s *send) bool { return s.left && !s.refused && s.made > at }) ||
			slices.ContainsFunc(slices.Collect(maps.Values(f.vetoed)), func(made int) bool { return made > at })
		if f.executions[reference] && !later {
			return true
		}
	}
	return f.refusals > 0 && len(f.executions) > 0 && len(f.vetoed) == 0 &&
		!slices.ContainsFunc(f.sends, func(s *send) bool { return s.left && !s.refused })
}

// paid notes proof of an execution, unless an operator has ruled out that execution.
func (f *facts) paid(reference string) {
	f.taken = false
	f.executions[reference] = true
	if !f.ruledOut[reference] {
		f.proven[reference], f.everPaid = true, true
	}
}

// count returns how many sends may have left.
func (f *facts) count() int {
	n := 0
	for _, s := range f.sends {
		if s.left {
			n++
		}
	}
	return n
}

func (f *facts) inDoubt() bool {
	return slices.ContainsFunc(f.sends, func(s *send) bool { return s.doubt })
}

func (f *facts) isPaid() bool { return len(f.proven) > 0 }

func (f *facts) settleAll(by settledBy) {
	for _, s := range f.sends {
		if s.by == byNothing || s.by == byIndex || by == byPayment || by == byOperator {
			s.settle(by)
		}
	}
}

func (s *send) settle(by settledBy) { s.doubt, s.by = false, by }

// place returns the position of a claim's send among all sends, counted from 1; 1 if the claim
// made none.
func (f *facts) place(claim int) int {
	for n, s := range f.sends {
		if s.claim == claim && claim > 0 {
			return n + 1
		}
	}
	return 1
}
