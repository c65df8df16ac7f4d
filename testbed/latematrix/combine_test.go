package latematrix_test

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// paths are the ways to the states in which late evidence arrives: the steps of a payment until
// then. A rail on which a path can't be completed (nothing is sent again after silence, nothing
// can be asked) has no such state.
var paths = [][]step{
	{},
	{claim},
	{claim, says(notSent)},
	{claim, says(notSent), claim},
	{claim, says(broken)},
	{claim, says(later)},
	{claim, says(later), claim},
	{claim, says(later), claim, lose},
	{claim, says(later), claim, says(later), claim, says(later)},
	{claim, says(unknown)},
	{claim, says(unknown), claim},
	{claim, says(unknown), claim, lose},
	{claim, says(unknown), claim, says(unknown)},
	{claim, says(unknown), claim, says(later)},
	{claim, says(unknown), claim, says(refused)},
	{claim, says(unknown), claim, says(seenBefore), claim},
	{claim, says(unknown), claim, says(unknown), claim, says(unknown)},
	{claim, lose},
	{claim, lose, claim},
	{claim, lose, claim, says(later)},
	{claim, lose, claim, says(unknown)},
	{claim, lose, claim, says(refused)},
	{claim, lose, claim, says(accepted)},
	{claim, lose, claim, lose},
	{claim, lose, claim, lose, claim},
	{claim, lose, claim, lose, claim, lose},
	{claim, lose, claim, says(notFound)},
	{claim, lose, claim, says(notFound), claim},
	{claim, lose, claim, says(notFound), claim, lose},
	{claim, lose, claim, says(notFound), claim, says(refused)},
	{claim, lose, claim, says(notFound), claim, says(seenBefore), claim},
	{claim, lose, claim, says(notFound), claim, says(unknown), claim, says(notFound), claim, says(unknown), claim},
	{claim, lose, claim, says(notFound), cancel},
	{claim, lose, claim, says(notFound), expire},
	{claim, lose, claim, lose, reported(refused), claim},
	{claim, lose, claim, lose, reported(refused), claim, lose},
	{claim, says(refused), reported(refused), replay, claim, lose},
	{claim, lose, overdue},
	{claim, lose, overdue, claim},
	{claim, lose, aside},
	{claim, says(accepted)},
	{claim, says(accepted), claim},
	{claim, says(accepted), claim, lose},
	{claim, says(refused)},
	{claim, says(refused), closed},
	{claim, says(refused), replay},
	{claim, says(refused), replay, claim},
	{claim, says(refused), replay, claim, lose},
	{claim, says(refused), reported(executed)},
	{claim, says(refused), reported(executed), resolve(false)},
	{claim, says(accepted), reported(refused)},
	{claim, says(checked)},
	{claim, says(tampered)},
	{cancel},
	{cancel, reported(executed)},
	{cancel, reported(executed), resolve(false)},
	{claim, says(notSent), cancel},
	{claim, says(later), cancel},
	{expire},
	{expire, replay},
	{expire, replay, claim},
	{claim, says(later), expire},
	{claim, says(later), expire, replay, claim},
	{aside},
	{aside, replay},
	{claim, lose, resolve(true)},
	{claim, lose, resolve(false)},
	{claim, lose, resolve(false), closed},
	{claim, lose, resolve(false), replay},
	{claim, lose, resolve(false), replay, claim},
	{claim, says(busy)},
	{claim, says(busy), claim},
	{claim, says(busy), claim, lose},
	{claim, lose, claim, says(busy)},
}

// stepKind is what can be done to a payment.
type stepKind string

const (
	doClaim    stepKind = "claim"
	doSay      stepKind = "answer"
	doLose     stepKind = "lose" // its worker is lost, and the reaper takes the claim
	doCancel   stepKind = "cancel"
	doExpire   stepKind = "expire"
	doOverdue  stepKind = "overdue" // expires_at passes, and the reaper finds nothing to end
	doAside    stepKind = "aside"
	doReplay   stepKind = "replay"
	doClose    stepKind = "close"
	doResolve  stepKind = "resolve"
	doCallBack stepKind = "callback"
)

type step struct {
	kind     stepKind
	word     word
	executed bool
}

var (
	claim   = step{kind: doClaim}
	lose    = step{kind: doLose}
	cancel  = step{kind: doCancel}
	expire  = step{kind: doExpire}
	overdue = step{kind: doOverdue}
	aside   = step{kind: doAside}
	replay  = step{kind: doReplay}
	closed  = step{kind: doClose}
)

func says(w word) step              { return step{kind: doSay, word: w} }
func reported(w word) step          { return step{kind: doCallBack, word: w} }
func resolve(wasExecuted bool) step { return step{kind: doResolve, executed: wasExecuted} }

func (s step) String() string {
	switch s.kind {
	case doSay:
		return string(s.word)
	case doCallBack:
		return "callback " + string(s.word)
	case doResolve:
		return fmt.Sprintf("resolved executed=%v", s.executed)
	default:
		return string(s.kind)
	}
}

func pathName(path []step) string {
	var name strings.Builder
	name.WriteString("enqueued")
	for _, s := range path {
		name.WriteString(", " + s.String())
	}
	return name.String()
}

// source is the origin of a piece of evidence.
type source string

const (
	none      source = "none"
	lost      source = "lost worker"       // of a claim that the reaper took
	forgotten source = "forgotten worker"  // of a claim that a restore took out of the rows
	asker     source = "forgotten inquiry" // of such a claim, about a send that is forgotten too
	bankItem  source = "callback"
)

// evidence is one piece of evidence. A callback has the id of its event.
type evidence struct {
	source    source
	word      word
	event     string
	reference string
}

func (e evidence) String() string {
	switch e.source {
	case none:
		return "nothing"
	case bankItem:
		return fmt.Sprintf("callback %s %s (%s)", e.event, e.word, e.reference)
	default:
		return string(e.source) + " " + string(e.word)
	}
}

// The rail's references: of the payment, and of a second execution.
const (
	referenceA = "A"
	referenceB = "B"
)

// evidences lists every kind. The second piece may also bear the event id of the first, and be
// equal to it or different.
func evidences(second bool) []evidence {
	all := []evidence{{source: none}}
	for _, w := range []word{accepted, refused, later, unknown, notSent, busy, executed, notFound} {
		all = append(all, evidence{source: lost, word: w})
	}
	for _, w := range []word{accepted, refused, unknown} {
		all = append(all, evidence{source: forgotten, word: w})
	}
	all = append(all, evidence{source: asker, word: pending})
	events := []string{"e1"}
	if second {
		events = append(events, "e2")
	}
	for _, event := range events {
		all = append(all,
			evidence{bankItem, executed, event, referenceA}, evidence{bankItem, executed, event, referenceB},
			evidence{bankItem, refused, event, ""}, evidence{bankItem, refused, event, referenceA},
			evidence{bankItem, pending, event, ""})
	}
	return all
}

// answers are the ways in which the claim that is open behind the evidence is answered.
var answers = []word{"", accepted, refused, later, unknown, seenBefore, notSent, busy, notFound, window, lostAnswer}

// lostAnswer stands for no answer: the claim's worker is lost too.
const lostAnswer word = "lost"

// combination is one cell of the matrix.
type combination struct {
	rail          *rail
	path          []step
	first, second evidence
	answer        word
}

func (c combination) String() string {
	answer := string(c.answer)
	if answer == "" {
		answer = "no claim"
	}
	return fmt.Sprintf("%s: %s | %s | %s | %s", c.rail.name, pathName(c.path), c.first, c.second, answer)
}

// drawn reports whether the combination is in the part of the matrix that is one of so many. The
// part is always the same.
func (c combination) drawn(of uint64) bool {
	sum := fnv.New64a()
	sum.Write([]byte(c.String()))
	return sum.Sum64()%of == 0
}

// state is the state at the end of a path, as far as combinations depend on it.
type state struct {
	open     actionKind // the claim that is open; empty: none
	vetoed   bool       // its worker may not send any more
	sentOnce bool       // before it
	lost     []actionKind
}

type actionKind string

const (
	sends    actionKind = "SEND"
	inquires actionKind = "INQUIRE"
)

// takes reports whether a word can be the answer to a claim.
func (a actionKind) takes(w word) bool {
	switch w {
	case accepted, refused, unknown, notSent, busy:
		return true
	case later, seenBefore:
		return a == sends
	case executed:
		return false // accepted stands for it
	case notFound:
		return a == inquires
	default:
		return false
	}
}

// Why a combination is impossible.
const (
	noState    = "the rail has no such state"
	noWorker   = "no lost worker is left that could say it"
	noEvent    = "a second piece of evidence without a first one"
	noClaim    = "no claim is open that could be answered so"
	noAnswer   = "the open claim has to be answered"
	endedFirst = "the evidence ended the claim before its worker was counted as lost"
)

// impossible returns why a combination can't happen, or "".
func (c combination) impossible(s state) string {
	if c.first.source == none && c.second.source != none {
		return noEvent
	}
	left := s.lost
	for _, e := range []evidence{c.first, c.second} {
		if e.source != lost {
			continue
		}
		n := speaker(left, e.word)
		if n < 0 {
			return noWorker
		}
		rest := append([]actionKind{}, left[:n]...)
		left = append(rest, left[n+1:]...)
	}
	switch {
	case s.open == "" && c.answer != "":
		return noClaim
	case s.open == "":
		return ""
	case c.answer == "":
		return noAnswer
	case c.answer == lostAnswer:
		return ""
	case s.vetoed != (c.answer == window):
		return noClaim
	case c.answer == seenBefore && (!s.sentOnce || !c.rail.bank.dedupes):
		return noClaim
	case c.answer != window && !s.open.takes(c.answer):
		return noClaim
	}
	return ""
}

// speaker returns the index of the first lost worker that may say the word, or -1.
func speaker(left []actionKind, w word) int {
	for n, action := range left {
		if w == executed && action == inquires || w != executed && action.takes(w) && (action == sends || w != accepted) {
			return n
		}
	}
	return -1
}
