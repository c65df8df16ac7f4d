package proofs

import (
	"fmt"
	"strings"

	"github.com/railhead-pay/railhead/payment"
)

// instructionTables are the tables that a proof over whole instructions reads, and
// instructionFiles its statements.
var (
	instructionTables = []string{
		"payment_outbox_keys", "payment_outbox_pending.outbox_id", "payment_outbox_attempts.outbox_id",
		"v_outbox_pending.payload", "v_outbox_attempts.payload", "payment_dead_letters",
		"payment_outbox_claims", "payment_operator_log", "payment_outbox_contradictions", "payment_retired_references",
		"payment_outbox_settings.claim_timeout_ms", "outbox_heartbeats", "payment_rail_profiles",
	}
	instructionFiles = []string{
		"sql/page.sql", "sql/page_keys.sql", "sql/page_pending.sql", "sql/page_attempts.sql",
		"sql/page_letters.sql", "sql/page_claims.sql", "sql/page_acts.sql", "sql/page_evidence.sql",
		"sql/page_conflicts.sql", "sql/page_numbered.sql", "sql/page_references.sql", "sql/in_flight.sql", "sql/horizon.sql",
	}
)

// overInstructions is a proof that checks one instruction after the other. Its script has
// the same rule in SQL, over the ledger as a whole; the planted offences show that the two
// are equal.
func overInstructions(p Proof, check func(i *instruction, o Options, t *tally)) Proof {
	p.Reads, p.Statements = instructionTables, instructionFiles
	p.script = violations(strings.ReplaceAll(p.Name, "-", "_"))
	p.Ledger, p.instruction = true, check
	return p
}

// archiveProofs re-derive the life of every instruction from its rows.
func archiveProofs() []Proof {
	return []Proof{
		overInstructions(Proof{
			Name: "attempt-numbers", Promise: appendOnly,
			Shows:    "The rows of every instruction are numbered 1, 2, 3, ... without a gap or a double",
			Expected: "attempt_no = 1 to n, and no higher count in pending",
			Counts:   "rows of the archive and of pending",
		}, proveNumbers),
		overInstructions(Proof{
			Name: "transitions", Promise: appendOnly,
			Shows: "Every row may follow the one before it; a row that needs an operator's evidence has the operator's " +
				"act in the log",
			Expected: "legal transitions only",
			Counts:   "rows of the archive",
		}, proveTransitions),
		overInstructions(Proof{
			Name: "answers", Promise: appendOnly,
			Shows: "Every outcome answers the claim before it, no claim is answered twice, and a row that answers none is " +
				"of a kind that does not",
			Expected: "one answer a claim",
			Counts:   "rows of the archive",
		}, proveAnswers),
		overInstructions(Proof{
			Name: "evidence", Promise: silence,
			Shows: "No payment is recorded as executed, failed or safe to send again without evidence; an unknown outcome " +
				"stays unknown until there is evidence",
			Expected: "for every certainty a result that proves it, or an operator's act",
			Counts:   "rows of the archive and of pending",
		}, proveEvidence),
		sendsProof(),
		overInstructions(Proof{
			Name: "operator-acts", Promise: appendOnly,
			Shows: "Every cancellation, replay, requested inquiry and resolution in the archive is an act in the operator " +
				"log, and the other way round; a row that an act names is there, and evidence that changed a state has its row",
			Expected: "as many rows as acts, and each row that an act names",
			Counts:   "acts",
		}, proveActs),
		overInstructions(Proof{
			Name: "one-dispatched", Promise: paidOnce,
			Shows:    "No instruction is recorded as executed twice",
			Expected: "at most one DISPATCHED row an instruction",
			Counts:   "instructions",
		}, proveOneDispatched),
		overInstructions(Proof{
			Name: "terminal", Promise: paidOnce,
			Shows: "An instruction that has ended, needs an operator or is claimed has no row in pending from which it " +
				"could be sent again",
			Expected: "no pending row after an end, a dead letter or an open claim",
			Counts:   "instructions",
		}, proveTerminal),
		overInstructions(Proof{
			Name: "nothing-lost", Promise: nothingLost,
			Shows: "Every instruction is in pending, is in flight and recent, has ended, or is in the dead letters, and a " +
				"row has its payload; a row that contradicts what was said before is in the dead letters until an operator " +
				"settles it; and what an open dead letter says of an instruction is what its rows and its order say",
			Expected: "no other instruction, none without a payload, no other contradiction, and no other letter",
			Counts:   "instructions",
		}, proveNothingLost),
	}
}

func proveNumbers(i *instruction, _ Options, t *tally) {
	t.rows += int64(len(i.rows))
	for n, r := range i.rows {
		if r.no != n+1 {
			t.offend("%s: row %d of its archive has attempt_no %d", i.id, n+1, r.no)
			break
		}
	}
	if i.pending != nil {
		t.rows++
		// A lower count is a stale cache; a higher one makes the next claim leave a gap.
		if i.pending.attemptCount > len(i.rows) {
			t.offend("%s: pending counts %d attempts and the archive has %d", i.id, i.pending.attemptCount, len(i.rows))
		}
	}
}

// byPerson reports whether an operator's act wrote the row: the log then has the act.
func (i *instruction) byPerson(r row) bool {
	switch {
	case r.answers != 0:
		return false
	case r.state == payment.Replayed:
		return i.acts["REPLAY"] > 0
	case r.state == payment.Cancelled:
		return i.acts["CANCEL"] > 0
	case r.asks():
		return i.acts["INQUIRE"] > 0
	default:
		// Older DISPATCHED rows have no code.
		return (r.errorCode == payment.CodeResolved || r.state == payment.Dispatched) && i.acts["RESOLVE"] > 0
	}
}

func proveTransitions(i *instruction, _ Options, t *tally) {
	t.rows += int64(len(i.rows))
	var last payment.State
	for _, r := range i.rows {
		legal := payment.MayFollow(last, r.state) || payment.MayResolve(last, r.state) && i.byPerson(r)
		if !legal {
			before := string(last)
			if last == "" {
				before = "nothing"
			}
			t.offend("%s: row %d is %s after %s", i.id, r.no, r.state, before)
		}
		if r.state != payment.LateOutcome {
			last = r.state
		}
	}
}

func proveOneDispatched(i *instruction, _ Options, t *tally) {
	t.rows++
	if s := i.shared; s != nil {
		// No violation: some rails give one reference to several payments.
		t.noteOf(s.rail, fmt.Sprintf("rail %s: %s and %s were both dispatched under the rail's reference %s",
			s.rail, s.earlier, i.id, s.reference))
	}
	n := 0
	for _, r := range i.rows {
		if r.state == payment.Dispatched {
			n++
		}
	}
	if n > 1 {
		t.offend("%s has %d DISPATCHED rows", i.id, n)
	}
}

func proveTerminal(i *instruction, _ Options, t *tally) {
	t.rows++
	last := i.last()
	if i.pending == nil || last == nil {
		return
	}
	switch {
	case last.state.IsClaim():
		t.offend("%s is in pending while its claim %d is open", i.id, last.no)
	case !last.state.Waits():
		t.offend("%s is %s and is in pending", i.id, last.state)
	}
}

func proveActs(i *instruction, _ Options, t *tally) {
	rows := make(map[string]int)
	for _, r := range i.rows {
		switch {
		case r.state == payment.Cancelled:
			rows["CANCEL"]++
		case r.state == payment.Replayed:
			rows["REPLAY"]++
		case r.asks():
			rows["INQUIRE"]++
		case r.errorCode == payment.CodeResolved:
			rows["RESOLVE"]++
		}
	}
	for _, act := range []string{"CANCEL", "REPLAY", "INQUIRE", "RESOLVE"} {
		t.rows += int64(max(rows[act], i.acts[act]))
		switch {
		case rows[act] > i.acts[act]:
			t.offend("%s: %d rows of %s in the archive, %d acts in the log", i.id, rows[act], act, i.acts[act])
		case (act == "CANCEL" || act == "INQUIRE") && rows[act] < i.acts[act] && !i.retired:
			// A replay of a quarantined row, and a resolution that agrees with the record,
			// append no row; the others always do.
			t.offend("%s: %d acts of %s in the log, %d rows in the archive", i.id, i.acts[act], act, rows[act])
		}
	}
	if !i.retired {
		for _, n := range i.numbered {
			if r := i.at(n.no); r == nil || r.state != n.state || n.act == "INQUIRE" && !r.asks() {
				t.offend("%s: the log has an act %s of row %d, and the archive has no such row", i.id, n.act, n.no)
			}
		}
	}
	i.proveResolutions(t)
}

// proveResolutions compares the rows that an operator's evidence ended with the acts in the log.
func (i *instruction) proveResolutions(t *tally) {
	for _, executed := range []bool{true, false} {
		rows, older, acts, appended := 0, 0, 0, 0
		for _, r := range i.rows {
			switch {
			case (r.state == payment.Dispatched) != executed:
			case r.errorCode == payment.CodeResolved:
				rows++
			case executed && r.answers == 0: // older ones have no code
				older++
			}
		}
		for _, e := range i.evidence {
			if e.executed == executed {
				acts++
				if e.appended {
					appended++
				}
			}
		}
		if rows > acts {
			t.offend("%s: %d rows were resolved as %s, and the log has %d such acts", i.id, rows, resolvedAs(executed), acts)
		}
		if rows+older < appended && !i.retired {
			t.offend("%s: by the log %d acts of evidence appended a row as %s, and the archive has %d such rows", i.id, appended,
				resolvedAs(executed), rows+older)
		}
	}
}

func resolvedAs(executed bool) string {
	if executed {
		return "executed"
	}
	return "not executed"
}
