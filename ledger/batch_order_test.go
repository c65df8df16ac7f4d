package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// stopped runs a batch that waits where it reads a table, does something meanwhile, and lets the batch go on.
func (c *cellDesk) stopped(
	table string, batch func() ([]outbox.ReceiptOrFault, error), meanwhile func(),
) []outbox.ReceiptOrFault {
	c.t.Helper()
	tx, err := c.Conn(c.t, "").Begin(c.t.Context())
	c.must(err)
	_, err = tx.Exec(c.t.Context(), `LOCK TABLE railhead.`+table)
	c.must(err)
	var results []outbox.ReceiptOrFault
	done := make(chan error, 1)
	go func() {
		var err error
		results, err = batch()
		done <- err
	}()
	c.waitForLock()
	meanwhile()
	c.must(tx.Commit(c.t.Context()))
	c.must(<-done)
	return results
}

// saidOf are the answers to a batch, without their numbers, and the numbers of what is new in it.
func saidOf(results []outbox.ReceiptOrFault) (said string, numbers []int64) {
	var each []string
	for _, r := range results {
		switch {
		case r.Fault != nil:
			each = append(each, r.Fault.SQLState)
		case r.Receipt.Replayed:
			each = append(each, fmt.Sprintf("%s %d", r.Receipt.State, r.Receipt.SequenceID))
		default:
			each, numbers = append(each, "new"), append(numbers, r.Receipt.SequenceID)
		}
	}
	return strings.Join(each, ", "), numbers
}

// TestOpenedDuringABatch: what keeps instructions of a moved participant out ends in the middle of a batch. It keeps
// them all out, repetitions are answered, and the batch sent again is stored in its order.
func TestOpenedDuringABatch(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	at := func(cell *cellDesk) func(all ...payment.Instruction) ([]outbox.ReceiptOrFault, error) {
		in := openIngest(t, cell.Cell, 2)
		return func(all ...payment.Instruction) ([]outbox.ReceiptOrFault, error) {
			return in.EnqueueBatch(t.Context(), all)
		}
	}
	toEast, toWest := at(east), at(west)
	own := func(n int) payment.Instruction { return orderOf(n, "participant") }
	_, err := toEast(own(1))
	east.must(err)
	east.moves(west, "participant")
	_, err = toWest(own(2))
	east.must(err)
	gate := reader.Gate{Scope: reader.GateParticipant, Name: "participant"}
	for n, kept := range []struct {
		by           string
		begins, ends func()
		last         string // the rail of the first item and of the last one
		want, again  string
	}{
		{
			"a map that is not confirmed", west.restart, func() { east.must(west.confirms(east)) }, celltest.Bank,
			"RH009, ELSEWHERE 1, RH009, PENDING 2, RH009", "new, ELSEWHERE 1, new, PENDING 2, new",
		},
		{
			"a closed gate", func() {
				_, err := west.operator().CloseEnqueue(t.Context(), gate, "a test", time.Time{})
				east.must(err)
			}, func() {
				_, err := west.operator().OpenEnqueue(t.Context(), gate, "a test")
				east.must(err)
			}, celltest.Bank,
			"RH014, ELSEWHERE 1, RH014, PENDING 2, RH014", "new, ELSEWHERE 1, new, PENDING 2, new",
		},
		{
			"a forbidden key", func() { west.do(`INSERT INTO railhead.payment_forbidden_keys (key) VALUES ('currency')`) },
			func() { west.do(`DELETE FROM railhead.payment_forbidden_keys WHERE key = 'currency'`) }, celltest.Bank,
			"RH004, ELSEWHERE 1, RH004, PENDING 2, RH004", "new, ELSEWHERE 1, new, PENDING 2, new",
		},
		{
			"an unknown rail", func() {}, func() { west.ApplyProfile("later", celltest.BankProfile) }, "later",
			"RH003, ELSEWHERE 1, new, PENDING 2, RH003", "new, ELSEWHERE 1, PENDING 12, PENDING 2, new",
		},
	} {
		t.Log(kept.by)
		first, last := own(10*n+10), own(10*n+12)
		first.RailType, last.RailType = kept.last, kept.last
		all := []payment.Instruction{first, own(1), own(10*n + 11), own(2), last}
		kept.begins()
		batch := func() ([]outbox.ReceiptOrFault, error) { return toWest(all...) }
		said, _ := saidOf(west.stopped("payment_arrived_keys", batch, kept.ends))
		same(t, "of a batch during "+kept.by, said, kept.want)
		results, err := toWest(all...)
		east.must(err)
		said, numbers := saidOf(results)
		same(t, "of the same after "+kept.by, said, kept.again)
		if !slices.IsSorted(numbers) {
			t.Errorf("after %s the numbers are %v", kept.by, numbers)
		}
	}
	same(t, "instructions of the participant", west.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`), 1+4*3)
}

// TestConfirmedDuringARoutedBatch: a client repeats what a cell refuses whose map is not confirmed. If it is confirmed
// in the middle of the batch, the numbers follow the order of the batch all the same.
func TestConfirmedDuringARoutedBatch(t *testing.T) {
	t.Parallel()
	east, west := twoCells(t)
	client := openRouted(t, east.URL(celltest.Ingest), map[string]string{
		"EAST": east.URL(celltest.Ingest), "WEST": west.URL(celltest.Ingest),
	})
	_, err := client.Enqueue(t.Context(), orderOf(1, "participant"))
	east.must(err)
	east.moves(west, "participant")
	_, err = client.Enqueue(t.Context(), orderOf(2, "participant"))
	east.must(err)
	west.restart()
	var all []payment.Instruction
	for n := range 5 {
		all = append(all, orderOf(10+n, "participant"))
	}
	said, numbers := saidOf(west.stopped("payment_arrived_keys", func() ([]outbox.ReceiptOrFault, error) {
		return client.EnqueueBatch(t.Context(), all)
	}, func() { east.must(west.confirms(east)) }))
	same(t, "said", said+fmt.Sprint(numbers), "new, new, new, new, new[3 4 5 6 7]")
}

// TestSettledDuringABatch: a cell that knows no other one takes instructions once a relayer vouches for its rows. If
// one does in the middle of the check of a batch, all of the participant whose item was refused are.
func TestSettledDuringABatch(t *testing.T) {
	t.Parallel()
	lone := unnamedCell(t, "lone")
	lone.must(lone.act(`SELECT railhead.name_cell('lone', 'LONE', 'railhead', 'the first')`))
	in := openIngest(t, lone.Cell, 2)
	lone.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, vouched)
		VALUES ('r', 'relayer', 'h', 'v', 'running', pg_postmaster_start_time(), false)`)
	all := []payment.Instruction{orderOf(1, "p1"), orderOf(2, "p1"), orderOf(3, "p2"), orderOf(4, "p1")}
	said, _ := saidOf(lone.stopped("payment_bucket_moves", func() ([]outbox.ReceiptOrFault, error) {
		return in.EnqueueBatch(t.Context(), all)
	}, func() { lone.do(`UPDATE railhead.outbox_heartbeats SET vouched = true`) }))
	same(t, "said", said, "RH009, RH009, new, RH009")
	results, err := in.EnqueueBatch(t.Context(), all)
	lone.must(err)
	said, numbers := saidOf(results)
	same(t, "said later", said+fmt.Sprint(numbers), "new, new, PENDING 1, new[1 2 3]")
}
