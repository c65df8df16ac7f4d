package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/outbox"
)

// TestReplayOfAnotherPrincipal: a repeated call that names another principal than the first one is told so, alone and
// in a batch, also where the first call is an earlier line of it.
func TestReplayOfAnotherPrincipal(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	in, other := d.instruction("p1", "i-1", "k-1"), d.instruction("p1", "i-2", "k-2")
	for _, c := range []struct{ principal, want string }{
		{"clerk 7", "false []"}, {"clerk 7", "true []"}, {"clerk 8", "true [on_behalf_of]"}, {"", "true [on_behalf_of]"},
	} {
		receipt, err := d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in, OnBehalfOf: c.principal})
		d.must(err)
		same(t, "a call for "+c.principal, fmt.Sprint(receipt.Replayed, receipt.Differs), c.want)
		if receipt.Replayed && receipt.Differs == nil {
			t.Errorf("for %q it is not known what differs", c.principal)
		}
	}
	results, err := d.door.EnqueueBatch(t.Context(), who, []outbox.Entrusted{
		{Instruction: in, OnBehalfOf: "clerk 8"}, {Instruction: in, OnBehalfOf: "clerk 7"},
		{Instruction: other, OnBehalfOf: "clerk 8"}, {Instruction: other, OnBehalfOf: "clerk 8"}, {Instruction: other},
	})
	d.must(err)
	var said []string
	for _, one := range results {
		said = append(said, fmt.Sprint(one.Receipt.Replayed, one.Receipt.Differs))
	}
	same(t, "in a batch", strings.Join(said, ", "),
		"true [on_behalf_of], true [], false [], true [], true [on_behalf_of]")
}
