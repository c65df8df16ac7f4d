package explain

import (
	"fmt"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

// way is how an open dead letter is ended: the text that says it, and the commands that it names.
type way struct {
	text  string
	names named
}

// named are the commands that a way names. What of it is read is this, and never the text, which has words
// of banks and of operators in it.
type named struct{ replay, close, cancel, inquire, resolve bool }

// Remedy describes the acts that end a dead letter, as commands, and what has to come
// before they are accepted.
func Remedy(line reader.Timeline) string {
	if !line.DeadLetter.Open() {
		return "it is closed: nothing is left to do"
	}
	one := wayOf(line)
	ends := one.names.replay || one.names.close || one.names.cancel
	switch {
	case line.Unconfirmed && (ends || one.names.resolve):
		return unconfirmed + one.text
	case ends && !line.SuspendedAt.IsZero():
		return "lanes are suspended since " + Clock(line.SuspendedAt) +
			", and until that is ended nothing is replayed, cancelled or closed. First compare\n" +
			"with the rail, resolve as executed what it has, and end the suspension: railhead timeline accept --since " +
			Clock(line.SuspendedAt) + " --reason WHY\n" + one.text
	}
	return one.text
}

// unconfirmed is put before a remedy that is refused until a component has compared the start of the server.
const unconfirmed = "no relayer has confirmed " + reader.NothingMissing + ", and until one has nothing is replayed,\n" +
	"cancelled, closed or resolved as not executed. Start one, or wait some seconds, and check again\n"

// wayOf is how an open dead letter is ended where no suspension is open.
func wayOf(line reader.Timeline) way {
	letter, id := line.DeadLetter, seen(line)
	if line.NeverEnqueued {
		return neverEnqueued(line)
	}
	switch letter.Reason {
	case payment.DeadFailed, payment.DeadExpired:
		if last := lastRow(line); last != nil && last.State != payment.Failed || last == nil && line.Pending != nil {
			return mistaken(line)
		}
		try, replay := again(line)
		end := "\nTo leave it unpaid: "
		if !replay {
			end = "\nTo close it: "
		}
		return way{unpaid(line) + ". " + try + end + "railhead dead-letter close " + id + " --reason WHY",
			named{close: true, replay: replay}}
	case payment.DeadOutcomeUnknown:
		if word, why := line.Certainty(); word == reader.NotSent || word == reader.RailRefused {
			return way{"it is parked, and by its rows it was not paid: " + OneLine(why) + ".\nLook for " + line.RailKey +
				" on the rail's statement, then: " + resolve(line), named{resolve: true}}
		}
		return mayBePaid(line, "it may have been paid. ")
	case payment.DeadConflict:
		if takenBack(line) {
			return way{line.Contradiction() + ". Compare with the rail's statement, then: railhead dead-letter resolve " + id +
				"\n  --not-executed --evidence-date DATE --document WHERE --reason WHY\n" +
				"If the statement has the payment, leave it open, because an instruction has no second DISPATCHED row:\n" +
				"railhead dead-letter escalate " + id + " --reason WHY", named{resolve: true}}
		}
		return way{contradiction(line) + " Compare with the rail's statement, then: " + resolve(line), named{resolve: true}}
	case payment.DeadTampered:
		switch word, _ := line.Certainty(); word {
		case reader.RailAccepted, reader.ExecutedByEvidence:
			return way{"a payload of it was not the one that was enqueued; the payment is DISPATCHED all the same. " +
				"Find out who changed it\n" +
				"(railhead prove), then: railhead dead-letter close " + id + " --reason WHY", named{close: true}}
		case reader.OutcomeUnknown:
			return mayBePaid(line, "its payload is not the one that was enqueued, and was not sent; "+
				"an earlier send of it may have been executed.\n"+
				"Find out who changed it (railhead prove). ")
		}
		return way{"its payload is not the one that was enqueued, and it was not sent. Find out who changed it (railhead " +
			"prove), then:\n" +
			"railhead dead-letter resolve " + id + " --not-executed --evidence-date DATE --document WHERE --reason WHY",
			named{resolve: true}}
	default:
		return unclaimable(line)
	}
}

// mistaken is the remedy for a dead letter that says of a payment that it was not made, while its rows do not say it.
func mistaken(line reader.Timeline) way {
	rows, last := "it is in pending and has no row", lastRow(line)
	if last != nil {
		rows = fmt.Sprintf("its last row, %d, is %s", last.AttemptNo, last.State)
	}
	said := "its dead letter says " + string(line.DeadLetter.Reason) + ", and " + rows +
		": it is neither replayed nor closed.\n" +
		"Find out who changed the dead letter (railhead prove run nothing-lost), "
	if last != nil && last.State == payment.Dispatched {
		return way{text: said + "and escalate it: railhead dead-letter escalate " + seen(line) + " --reason WHY"}
	}
	return way{said + "and at the rail what became of " + line.RailKey + ",\nthen: " + resolve(line), named{resolve: true}}
}

// seen names an instruction in a command for an act, and its last row, without which the act would be done on whatever
// has become of it since.
func seen(line reader.Timeline) string {
	return fmt.Sprintf("%s --row %d", line.OutboxID, LastRow(line))
}

// resolve is the command that ends a payment with evidence, of an execution or against one.
func resolve(line reader.Timeline) string { return resolveAt(seen(line)) }

func resolveAt(id string) string {
	return "railhead dead-letter resolve " + id +
		"\n  --executed --rail-reference REFERENCE | --not-executed, --evidence-date DATE --document WHERE --reason WHY"
}

// contradiction says what a CONFLICT may be. A refusal that follows an execution is
// regular on rails that settle first and check later: the FedNow Operating
// Procedures 2.1 (p. 75 to 76) let RJCT follow ACWP, which settles with finality,
// and the money comes back by a return of its own.
func contradiction(line reader.Timeline) string {
	executed := false
	for _, row := range line.Attempts {
		switch {
		case row.State == payment.Dispatched:
			executed = row.ErrorCode != payment.CodeResolved // which is an operator's word
		case executed && row.State == payment.LateOutcome && row.Result == string(payment.ResultRefused):
			return "the rail said that it executed the payment, and later that it refused it.\n" +
				"On a rail that may refuse after settlement (FedNow: RJCT after ACWP) this announces a return, " +
				"and is no error of\n" +
				"the rail or of this cell: the payment was made, and the money comes back as an entry of its own. " +
				"If both are on\n" +
				"the statement, resolve it as executed. On any other rail the two contradict each other."
		}
	}
	return line.Contradiction() + "."
}

// neverEnqueued is the remedy for an instruction that the registry does not have.
func neverEnqueued(line reader.Timeline) way {
	what := "it was never enqueued here: its row was forged, or that of the registry was removed. Find out who did it " +
		"(railhead prove run\n" +
		"identity nothing-lost), then "
	if word, _ := line.Certainty(); word != reader.NotSent {
		return way{text: what + "escalate it, because it may have reached the rail: railhead dead-letter escalate " +
			seen(line) + " --reason WHY"}
	}
	return way{what + "close it: railhead dead-letter close " + seen(line) + " --reason WHY",
		named{close: true}}
}

// unpaid describes by which evidence a FAILED or EXPIRED payment was not made.
func unpaid(line reader.Timeline) string {
	if by := line.Testimony(); by != nil {
		return "it was not paid, " + OneLine(by.String())
	}
	if word, why := line.Certainty(); word == reader.OutcomeUnknown {
		return "it was not paid as far as the rows show, but " + OneLine(why)
	}
	return "it was provably not paid"
}

// again describes how a payment that was not made can be tried again, and whether by a replay.
func again(line reader.Timeline) (text string, replay bool) {
	because := ""
	word, _ := line.Certainty()
	switch {
	case line.WasDispatched():
		because = "it was DISPATCHED before"
	case line.ContradictedSince():
		because = "what became known since contradicts that it was not paid"
	case line.NoPayload:
		because = "no row of it has the payload any more"
	case line.OtherPayload:
		because = "its payload is not the one that was enqueued (railhead prove)"
	case line.NewID && line.MayHaveReachedRail():
		because = "rail " + OrDash(line.RailType) + " requires a new id for another try"
	case mayBeElsewhere(line):
		because = "another cell has its key, too, or may have it"
	case line.IsLate():
		return "It had to be sent before " + Clock(line.ExpiresAt.Time) +
			", which is past.\nTo try again, if its participant still wants it: railhead dead-letter replay " + seen(line) +
			" --expires-at TIME --reason WHY", true
	default:
		return "To try again: railhead dead-letter replay " + seen(line) + " --reason WHY", true
	}
	if word == reader.OutcomeUnknown || line.ContradictedSince() {
		return "It is not replayed, because " + because + ".\nFind out from the rail whether it was made. " +
			"If not, close it first; then the participant enqueues it as a new instruction, to try again.", false
	}
	return "It is not replayed, because " + because +
		":\nto try again, close it first; then the participant enqueues it as a new instruction.", false
}

// mayBeElsewhere reports whether another cell has its key, or may have it, so that it may have been made there.
func mayBeElsewhere(line reader.Timeline) bool {
	word, _ := line.Certainty()
	return line.OtherCell != nil && word == reader.OutcomeUnknown
}

// replayNeedsExpiry reports whether a replay is refused without a new expiry, also of a quarantined row. One in doubt
// is asked about, however late.
func replayNeedsExpiry(line reader.Timeline) bool {
	return line.IsLate() && (line.Pending == nil || !line.Pending.OutcomeUnknown)
}

// takenBack reports whether it was DISPATCHED, and a later row revoked that: it gets no second such row.
func takenBack(line reader.Timeline) bool {
	last := lastRow(line)
	return line.WasDispatched() && last != nil && last.State != payment.Dispatched
}

// askedFor reports whether it is in pending for an inquiry that an operator asked for.
func askedFor(line reader.Timeline) bool {
	last := lastRow(line)
	return last != nil && last.State == payment.Unknown && last.ErrorCode == payment.CodeAsked && line.Pending != nil &&
		!line.Pending.Quarantine
}

// mayBePaid describes what ends a payment that may have been made, after what is said of it before.
func mayBePaid(line reader.Timeline, before string) way {
	last := lastRow(line)
	if last == nil {
		last = &reader.AttemptRow{}
	}
	out := askedFor(line)
	switch {
	case last.State == payment.Inquiring:
		return way{text: before + fmt.Sprintf("The rail is asked by an inquiry that is in flight (row %d): "+
			"wait for its answer, or until a reaper\n"+
			"ends it, then check again: railhead payment show %s", last.AttemptNo, line.OutboxID)}
	case out && line.Pause != nil:
		return way{before + "Its inquiry is not made while " + OneLine(line.Pause.What) +
			" is paused: resume that, and wait for the rail's answer.\n" +
			"With evidence that is enough without it (--not-executed needs --rail-silent then): " + resolve(line),
			named{resolve: true}}
	case out:
		return way{before + "Its inquiry is pending; next says when it is made, or what it waits for. " +
			"Wait for the rail's answer, then check again: railhead payment show " + line.OutboxID.String() + "\n" +
			"With proof of execution: railhead dead-letter resolve " + seen(line) +
			"\n  --executed --rail-reference REFERENCE --evidence-date DATE --document WHERE --reason WHY",
			named{resolve: true}}
	case last.State != payment.Parked || line.Pending != nil || !line.RailAsks || line.NoPayload:
		return way{before + "Ask the rail for " + line.RailKey + ", then: " + resolve(line), named{resolve: true}}
	case line.Pause != nil: // an inquiry is refused until then
		return way{before + "The rail is not asked while " + OneLine(line.Pause.What) +
			" is paused: resume that, then have it asked:\n" +
			"railhead payment inquire " + seen(line) + " --reason WHY\n" +
			"With evidence that is enough without it (--not-executed needs --rail-silent then): " + resolve(line),
			named{resolve: true}}
	case !line.SuspendedAt.IsZero():
		return way{before + "Lanes are suspended since " + Clock(line.SuspendedAt) +
			". Where that of the rail goes on, have it asked: railhead payment inquire " + line.OutboxID.String() +
			" --reason WHY\nOn any other rail that is refused until the server is accepted. With evidence that is enough " +
			"without it (--not-executed needs --rail-silent then): " + resolve(line), named{resolve: true, inquire: true}}
	default:
		return way{before + "Have the rail asked: railhead payment inquire " + seen(line) + " --reason WHY\n" +
			"and look for " + line.RailKey + " on its statement. With the evidence, and ROW as payment show has it then: " +
			resolveAt(line.OutboxID.String()+" --row ROW"),
			named{resolve: true, inquire: true}}
	}
}

// unclaimable describes what ends a row that was quarantined, whatever is in pending by now.
func unclaimable(line reader.Timeline) way {
	id, after := seen(line), line.PutBackAfter()
	remove := "railhead dead-letter close " + id + " --reason WHY"
	switch {
	case after.EndsUnpaid() && !line.WasDispatched():
		return way{"a row of it was put back in pending, and is not claimed. Find out who put it back, then:\n" + remove +
			"\nIf it was paid: railhead dead-letter resolve " + id +
			"\n  --executed --rail-reference REFERENCE --evidence-date DATE --document WHERE --reason WHY",
			named{close: true, resolve: true}}
	case after.HasEnded() || after.IsClaim():
		return way{"a row of it was put back in pending over a row " + string(after) +
			", and is not claimed. Find out who put it back, then:\n" + remove, named{close: true}}
	case after != "":
		return way{"a row of it was put back in pending over a row " + string(after) +
			", and is not claimed; it may have been paid.\n" +
			"Find out who put it back, and at the rail what became of " + line.RailKey + ", then: " + resolve(line),
			named{resolve: true}}
	case line.Pending == nil && len(line.Attempts) == 0:
		return way{"it could not be claimed, and its row is gone from pending; it was never claimed. " +
			"Find out who removed the row\n" +
			"(railhead prove run nothing-lost), then: " + remove +
			"\nTo pay it, close it first; then the participant enqueues it as a new instruction.", named{close: true}}
	case line.Pending == nil:
		return way{"it could not be claimed, and its row is gone from pending. " +
			"Find out who removed the row (railhead prove run nothing-lost),\n" +
			"and at the rail what became of " + line.RailKey + ", then: " + resolve(line), named{resolve: true}}
	}
	correct, replay := "Correct what "+OrDash(line.DeadLetter.ErrorCode)+" names, then", "railhead dead-letter replay "+id
	const could, why = "it is in pending and could not be claimed", " --reason WHY\n"
	past := "t had to be sent before " + Clock(line.ExpiresAt.Time) + ", which is past"
	cancel := "or end it: railhead payment cancel " + id + " --reason WHY"
	const elsewhere = could + ".\nIt is not replayed, because another cell has its key, too, or may have it. " +
		"See what became of it there,\n"
	switch {
	case mayBeElsewhere(line) && line.Pending.OutcomeUnknown:
		return way{elsewhere + "and at the rail, then: " + resolve(line), named{resolve: true}}
	case mayBeElsewhere(line): // never sent here
		return way{elsewhere + "then end it here: railhead payment cancel " + id + " --reason WHY", named{cancel: true}}
	case line.Pending.OutcomeUnknown:
		if correct = could + ". " + correct + ": " + replay + why; line.IsLate() {
			correct += "I" + past + ": it is sent again only with --expires-at TIME, if its participant still wants it.\n"
		}
		return way{correct + "It may have been paid, so that it can't be cancelled. To end it: " + resolve(line),
			named{replay: true, resolve: true}}
	case replayNeedsExpiry(line): // else it is refused
		return way{could + ", and i" + past + ".\n" + correct + ", if its participant still wants it: " + replay +
			" --expires-at TIME" + why + cancel, named{replay: true, cancel: true}}
	}
	return way{could + ". " + correct + ": " + replay + why + cancel, named{replay: true, cancel: true}}
}
