package outcomes_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/internal/test/simrail"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/railsim"
)

// trouble is what happens to the first send of an instruction.
type trouble string

// The troubles. After its first byte a request reaches the bank completely. That is the worse
// case: the bank decides, and the worker never receives the answer.
const (
	noTrouble    trouble = "none"
	lostBefore   trouble = "lost-before" // the bank reads it, executes nothing and hangs up
	lostAfter    trouble = "lost-after"  // the bank decides, durably, and hangs up
	killedBefore trouble = "killed-before"
	killedAfter  trouble = "killed-after"
)

var troubles = []trouble{noTrouble, lostBefore, lostAfter, killedBefore, killedAfter}

// refusedAtEnd stands for a provisional rail that accepts a payment and refuses it at settlement,
// in addition to the results that a send can have.
const refusedAtEnd payment.Result = "REFUSED_AT_END"

// cell is one field of the table. The trouble hits the first send; the first send that is answered
// has the result; everything after it succeeds. Where the bank decides during the trouble, it
// decides as the result says: refused for REFUSED_FINAL, else executed.
type cell struct {
	shape   simrail.Shape
	result  payment.Result
	trouble trouble
	replay  railsim.Replay // how the bank answers a key that it has seen
}

func cells() []cell {
	var all []cell
	for n, shape := range simrail.Shapes() {
		// Where the bank can be asked, its answer to a repeated key decides nothing.
		replay := railsim.ReplayStored
		if shape.Asked() {
			replay = railsim.Replays()[n%len(railsim.Replays())]
		}
		for _, trouble := range troubles {
			for _, result := range append(payment.SendResults(), refusedAtEnd) {
				if result == payment.ResultExecuted {
					continue // of a send, said by no rail of these shapes
				}
				if result != refusedAtEnd || shape.Provisional() {
					all = append(all, cell{shape, result, trouble, replay})
				}
			}
		}
	}
	return all
}

// name returns the instruction's id, which is also its creditor: by it the bank's faults and the
// meddler recognize the cell.
func (c cell) name() string {
	return fmt.Sprintf("%s.%s.%s", c.shape.RailType(), c.result, c.trouble)
}

// cellOf parses a name into the result and the trouble that the meddler needs.
func cellOf(name string) (result payment.Result, hit trouble) {
	words := strings.Split(name, ".")
	return payment.Result(words[1]), trouble(words[2])
}

func (c cell) killed() bool { return c.trouble == killedBefore || c.trouble == killedAfter }

// replayed reports whether a bank that can't be asked may see the key of this cell again. The cell
// without trouble is there for comparison.
func (c cell) replayed() bool {
	return c.shape.Dedupes() && !c.shape.Asked() &&
		(c.trouble != lostBefore && c.trouble != killedBefore || c.result == payment.ResultUnknown)
}

// reportedFirst returns the instructions whose bank reports the refusal of a send that has no
// answer, and which would be sent again under the same key. A report after the next send would not
// say about which of the two it is.
func reportedFirst(all []cell) map[string]bool {
	names := make(map[string]bool)
	for _, c := range all {
		if c.result == refusedAtEnd && c.trouble == lostAfter && c.shape.CallsBack() {
			names[c.name()] = true
		}
	}
	return names
}

// resultAt returns the number of the send, as the bank counts them, that has the result.
func (c cell) resultAt() int64 {
	if c.trouble == noTrouble || c.trouble == killedBefore {
		return 1
	}
	return 2
}

// faults returns the rules by which the bank plays the cell; the first that matches applies.
func (c cell) faults() []railsim.Fault {
	var rules []railsim.Fault
	add := func(kind railsim.FaultKind, nth int64, status int) {
		rules = append(rules, railsim.Fault{
			Kind: kind, Probability: 1, Match: railsim.Match{Creditor: c.name(), Nth: nth}, Status: status,
		})
	}
	refused := c.result == payment.ResultRefusedFinal
	switch {
	case c.trouble == lostBefore:
		add(railsim.DropBefore, 1, 0)
	case c.trouble == lostAfter && refused:
		add(railsim.RefuseDrop, 1, 0)
	case c.trouble == lostAfter:
		add(railsim.DropAfter, 1, 0)
	}
	switch c.result {
	case payment.ResultRefusedFinal:
		add(railsim.Refuse, 0, 0)
	case payment.ResultRefusedTransient:
		add(railsim.StatusBefore, c.resultAt(), 422)
		rules[len(rules)-1].Word, rules[len(rules)-1].Code = "REFUSED", "AB05"
	case payment.ResultRefusedLater:
		add(railsim.StatusBefore, c.resultAt(), 429)
	case payment.ResultRefusedBusiness:
		add(railsim.Refuse, c.resultAt(), 0)
		rules[len(rules)-1].Code = "AM04"
	case payment.ResultRefusedRail:
		add(railsim.StatusBefore, c.resultAt(), 401)
		rules[len(rules)-1].Plain = true
	case payment.ResultUnknown:
		add(railsim.BadJSONAfter, c.resultAt(), 0)
	case refusedAtEnd:
		add(railsim.RefuseSettle, 0, 0)
	}
	for n := range rules {
		if rules[n].Code == "" && slices.Contains([]railsim.FaultKind{railsim.Refuse, railsim.RefuseDrop,
			railsim.RefuseSettle}, rules[n].Kind) {
			rules[n].Code = "AC04"
		}
	}
	return rules
}
