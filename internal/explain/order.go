package explain

import (
	"fmt"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// behindHead describes what an instruction waits for that is not the head of its line.
func behindHead(line reader.Timeline) string {
	head := line.Order
	said := fmt.Sprintf("waits in order behind %s (sequence %d), which %s", head.OutboxID, head.SequenceID, heldBy(line))
	if p := line.Pending; p.DueInMS > 0 {
		said += "; it is not due before " + Clock(p.NextAttemptAt)
	}
	return said
}

// heldBy is why a head is unresolved, and for one that waits for an operator, where the acts are.
func heldBy(line reader.Timeline) string {
	head := line.Order
	acts := "; for the acts: railhead payment show " + head.OutboxID.String()
	switch {
	case head.HeldBy == reader.HeldPending && !head.NextAttemptAt.After(line.Now):
		return "is in pending"
	case head.HeldBy == reader.HeldPending:
		return "is in pending, and not due before " + Clock(head.NextAttemptAt)
	case head.HeldBy == reader.HeldQuarantined:
		return "is quarantined until an operator acts" + acts
	case payment.State(head.HeldBy).IsClaim():
		return "is in flight"
	case head.Letter != "":
		return fmt.Sprintf("is %s and needs an operator (%s)%s", head.HeldBy, head.Letter, acts)
	default:
		return "is " + head.HeldBy + acts
	}
}

// holdsOthers is added to the next step of a head that waits for an operator; empty: it is none.
func holdsOthers(line reader.Timeline) string {
	switch {
	case !line.HoldsOthers():
		return ""
	case line.Pending != nil:
		return "; what its participant has in pending behind it on the rail waits for that"
	default:
		return "; what its participant has in pending behind it on the rail waits for that, or for: railhead payment skip " +
			line.OutboxID.String() + " --reason WHY"
	}
}
