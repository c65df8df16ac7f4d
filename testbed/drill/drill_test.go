// Package drill runs the restore drill of docs/operations.md as it is written.
package drill

import (
	"slices"
	"strconv"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// stateSQL is the state of an instruction of the cell.
const stateSQL = `SELECT state FROM railhead.supervisor_outbox_status WHERE instruction_id = $1`

// TestDrill runs the steps of the page in two shells, on a real server that is backed up and
// restored. The test does what the page does not describe: it acts as the callers, who also use a
// rail that de-duplicates, and as the banks. It judges by the banks' ledgers.
func TestDrill(t *testing.T) {
	t.Parallel()
	blocks := drill(t)
	w := newWorld(t)
	step := func(number string) { t.Helper(); runStep(t, blocks, number, w.terminals) }

	step("1")
	step("2")
	w.enqueue(keyed, name+"-sent", "keyed-waits") // while everything is paused
	step("3")
	step("4")
	w.enqueue(keyed, name+"-sent", "keyed-forgotten")
	for _, id := range []string{"keyed-waits", "keyed-forgotten"} {
		w.await("DISPATCHED", stateSQL, id)
	}
	if n := len(w.executed(bare)); n != 4 {
		t.Fatalf("the bank has executed %d payments before the restore, want 4", n)
	}
	step("5")
	if got := []string{w.state(name + "-sent-1"), w.state(name + "-sent-4"), w.state("keyed-waits"),
		w.state("keyed-forgotten")}; !slices.Equal(
		got, []string{"PENDING", "none", "PENDING", "none"}) {
		t.Fatalf("after the restore the states are %q: the data did not go back to the moment of step 3", got)
	}
	step("6")
	w.await("NEW_TIMELINE", `SELECT cause FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`)
	w.await("DISPATCHED", stateSQL, "keyed-waits") // its lane goes on by itself
	const heldSQL = `SELECT (beats > $1::bigint)::text FROM railhead.outbox_heartbeats WHERE kind = 'relayer'
		AND status = 'suspended'`
	beats, err := strconv.Atoi(w.query(`SELECT max(beats)::text FROM railhead.outbox_heartbeats WHERE status = 'suspended'
		AND kind = 'relayer'`))
	if err != nil {
		t.Fatal(err)
	}
	w.await("true", heldSQL, beats+3) // time in which the other lane could go wrong
	if n := len(w.executed(bare)); n != 4 {
		t.Fatalf("the bank has executed %d payments while the lane was suspended, want the 4 from before", n)
	}
	w.publish(bare)
	step("7")
	w.terminals["operator"].run(t, block{step: "7", text: `tail -n 1 "$DRILL.compared" | grep -qx "COMPARED 5 4" &&
  grep -qx "NO_KEY booking fee 1.00" "$DRILL.compared"`})
	step("8")

	// On the rail that de-duplicates callers repeat any call; on the other rail they repeat all but
	// the call that the page says must not be repeated.
	for _, id := range []string{"keyed-waits", "keyed-forgotten"} {
		receipt := w.enqueue(keyed, name+"-sent", id)
		if known := id == "keyed-waits"; receipt.Replayed != known {
			t.Errorf("the repeated call of %s: replayed is %t, want %t", id, receipt.Replayed, known)
		}
		w.await("DISPATCHED", stateSQL, id)
	}
	judge(t, w)
}

// judge compares the cell with the banks' ledgers.
func judge(t *testing.T, w *world) {
	t.Helper()
	for rail, want := range map[string]int{bare: 7, keyed: 2} {
		times := make(map[string]int)
		for _, record := range w.executed(rail) {
			times[record.Reference]++
		}
		for key, n := range times {
			if n > 1 {
				t.Errorf("rail %s has executed %s %d times", rail, key, n)
			}
		}
		if len(times) != want {
			t.Errorf("rail %s has executed %d payments, want %d", rail, len(times), want)
		}
	}
	const bySQL = `SELECT actor FROM railhead.v_outbox_attempts WHERE instruction_id = $1 AND state = 'DISPATCHED'`
	for group, by := range map[string]string{"-sent-": "railhead_operator_login", "-unsent-": "railhead_relayer_login"} {
		for _, n := range []string{"1", "2", "3"} {
			id := name + group + n
			if got := w.state(id); got != string(payment.Dispatched) {
				t.Errorf("%s is %s, want DISPATCHED", id, got)
			}
			if got := w.query(bySQL, id); got != by {
				t.Errorf("%s was ended by %s, want %s", id, got, by)
			}
		}
	}
	if got := w.state(name + "-sent-4"); got != "none" {
		t.Errorf("%s-sent-4, which the restore forgot, is %s", name, got)
	}
	if got := w.query(`SELECT count(*)::text FROM railhead.payment_outbox_pending`); got != "0" {
		t.Errorf("%s payments still wait", got)
	}
	// Each of the two was sent again by what the restore had forgotten.
	if n := len(w.banks[keyed].Requests()); n != 4 {
		t.Errorf("rail %s was sent %d requests, want 4", keyed, n)
	}
}
