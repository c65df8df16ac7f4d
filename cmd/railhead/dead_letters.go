package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

func deadLetterCommand() *cobra.Command {
	return group("dead-letter", "Work on the instructions that wait for a person",
		letterListCommand(), letterShowCommand(),
		letterTriageCommand("acknowledge", "acknowledged", ledger.Acknowledge, "Say that an operator works on a dead letter"),
		letterTriageCommand("escalate", "escalated", ledger.Escalate, "Hand a dead letter on"),
		letterTriageCommand("close", "closed", ledger.Close, "Close a dead letter of what was provably not paid"),
		letterReplayCommand(), letterResolveCommand())
}

func letterListCommand() *cobra.Command {
	var reason string
	byCode := false
	var filter ledger.LetterFilter
	command := &cobra.Command{
		Use: "list", Short: "List dead letters, or count them by code",
		Long: "List the dead letters that are open, the longest waiting first. With --status resolved or manual_replay\n" +
			"those that are closed, the latest first. With --by-code how many there are of each reason, code and rail, and\n" +
			"what they are worth in each currency. Connects by RAILHEAD_READER_URL.",
		Example: "  railhead dead-letter list --reason OUTCOME_UNKNOWN --rail bank\n" +
			"  railhead dead-letter list --code AC04 --participant p1 --older-than 24h\n" +
			"  railhead dead-letter list --by-code\n" +
			"  railhead dead-letter list --status escalated -o jsonl",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter.Reason = payment.DeadReason(reason)
			if reason != "" && !slices.Contains(payment.DeadReasons(), filter.Reason) {
				return usage(fmt.Errorf("--reason is %q: use one of %v", reason, payment.DeadReasons()))
			}
			if filter.Status != "" && !slices.Contains(payment.LetterStatuses(), payment.LetterStatus(filter.Status)) {
				return usage(fmt.Errorf("--status is %q: use one of %v", filter.Status, payment.LetterStatuses()))
			}
			if filter.OlderThan < 0 {
				return usage(fmt.Errorf("--older-than is %s: use a span such as 24h", filter.OlderThan))
			}
			return withReader(cmd.Context(), func(reader *ledger.Reader) error {
				if byCode {
					groups, cutShort, err := reader.LettersByCode(cmd.Context(), filter)
					if err != nil {
						return err
					}
					return writeLetterGroups(cmd, groups, cutShort)
				}
				letters, err := reader.DeadLetters(cmd.Context(), filter)
				if err != nil {
					return err
				}
				return writeLetters(outputOf(cmd), letters, filter.Limit)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&reason, "reason", "", "only of this reason: FAILED, EXPIRED, OUTCOME_UNKNOWN, CONFLICT, TAMPERED or UNCLAIMABLE")
	flags.StringVar(&filter.RailType, "rail", "", "only of this rail")
	flags.StringVar(&filter.Status, "status", "", "only of this status: pending, acknowledged, escalated, manual_replay or resolved")
	flags.StringVar(&filter.ErrorCode, "code", "", "only of this error code, such as AC04 or NO_SAFE_RECOVERY")
	flags.StringVar(&filter.ParticipantID, "participant", "", "only of this participant")
	flags.DurationVar(&filter.OlderThan, "older-than", 0, "only those that were opened longer ago than this, such as 24h")
	flags.BoolVar(&byCode, "by-code", false, "count them by reason, code, rail and currency")
	flags.IntVar(&filter.Limit, "limit", 100, fmt.Sprintf("at most so many, 1 to %d", ledger.LettersMax))
	return command
}

func writeLetterGroups(cmd *cobra.Command, groups []ledger.LetterGroup, cutShort bool) error {
	if cutShort {
		fmt.Fprintf(cmd.ErrOrStderr(), "railhead: there are more dead letters: the first %d are counted\n", ledger.LettersMax)
	}
	o := outputOf(cmd)
	if o.json {
		return o.document(groups)
	}
	if len(groups) == 0 {
		return o.text("no dead letter\n")
	}
	rows := make([][]cell, 0, len(groups))
	for _, g := range groups {
		rows = append(rows, []cell{
			{text: string(g.Reason), tone: toneOfReason(g.Reason)}, {text: orDash(oneLine(g.ErrorCode))}, {text: g.RailType},
			{text: strconv.FormatInt(g.Letters, 10)}, {text: span(millis(g.OldestMS))}, {text: orDash(g.Amount)}, {text: orDash(oneLine(g.Currency))},
		})
	}
	return o.table([]string{"REASON", "ERROR", "RAIL", "LETTERS", "OLDEST", "AMOUNT", "CURRENCY"}, rows)
}

func writeLetters(o output, letters []ledger.Letter, limit int) error {
	if o.json {
		return o.document(letters)
	}
	if len(letters) == 0 {
		return o.text("no dead letter\n")
	}
	rows := make([][]cell, 0, len(letters))
	for _, l := range letters {
		rows = append(rows, []cell{
			{text: l.OutboxID.String()}, {text: string(l.Reason), tone: toneOfReason(l.Reason)}, {text: orDash(oneLine(l.ErrorCode))},
			{text: l.Status}, {text: l.RailType}, {text: l.InstructionID}, {text: span(millis(l.AgeMS))},
			{text: orDash(strings.TrimSpace(l.Amount + " " + oneLine(l.Currency)))},
		})
	}
	if err := o.table([]string{"OUTBOX ID", "REASON", "ERROR", "STATUS", "RAIL", "INSTRUCTION", "AGE", "AMOUNT"}, rows); err != nil {
		return err
	}
	if len(letters) == limit {
		return o.text("%d are shown; there may be more: --limit\n", limit)
	}
	return nil
}

func toneOfReason(reason payment.DeadReason) tone {
	switch reason {
	case payment.DeadFailed, payment.DeadExpired:
		return warn
	default:
		return alarm
	}
}

// shownLetter is a timeline whose dead letter is what one came for.
type shownLetter struct {
	shown
	Remedy string `json:"remedy"` // of a closed one too
}

func letterShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a dead letter, all that led to it, and what ends it",
		Long: "Show a dead letter with the instruction's whole timeline, and say what ends it.\n\n" +
			"ID is an outbox id, a rail key, an instruction id or the rail's own reference. Connects by RAILHEAD_READER_URL.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withReader(cmd.Context(), func(reader *ledger.Reader) error {
				found, err := reader.Find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if len(found) > 1 {
					return usage(severalFound(args[0], found))
				}
				line, err := reader.Timeline(cmd.Context(), found[0].OutboxID)
				if err != nil {
					return err
				}
				if line.DeadLetter == nil {
					return withCode(exitNotFound, errors.New("the instruction "+line.OutboxID.String()+" has no dead letter; it is "+orDash(line.State)))
				}
				o := outputOf(cmd)
				if o.json {
					return o.document(shownLetter{shownOf(line, false), remedy(line)})
				}
				if err := writeTimeline(o, line, false); err != nil {
					return err
				}
				return o.text("\n%s\n", remedy(line))
			})
		},
	}
}

// contradiction says what a CONFLICT may be. A refusal that follows an execution is
// regular on rails that settle first and check later: the FedNow Operating
// Procedures 2.1 (p. 75 to 76) let RJCT follow ACWP, which settles with finality,
// and the money comes back by a return of its own.
func contradiction(line ledger.Timeline) string {
	executed := false
	for _, row := range line.Attempts {
		switch {
		case row.State == payment.Dispatched:
			executed = row.ErrorCode != payment.CodeResolved // which is an operator's word
		case executed && row.State == payment.LateOutcome && row.Result == string(payment.ResultRefused):
			return "the rail said that it executed the payment, and later that it refused it.\n" +
				"On a rail that may refuse after settlement (FedNow: RJCT after ACWP) this announces a return, and is no error of\n" +
				"the rail or of this cell: the payment was made, and the money comes back as an entry of its own. If both are on\n" +
				"the statement, resolve it as executed. On any other rail the two contradict each other."
		}
	}
	return line.Contradiction() + "."
}

// neverEnqueued is the remedy for what the registry does not know.
func neverEnqueued(line ledger.Timeline) string {
	what := "it was never enqueued here: its row was forged, or that of the registry was removed. Find out who did it (railhead prove run\n" +
		"identity nothing-lost), then "
	if word, _ := line.Certainty(); word != ledger.NotSent {
		return what + "escalate it, because it may have reached the rail: railhead dead-letter escalate " + line.OutboxID.String() + " --reason WHY"
	}
	return what + "close it: railhead dead-letter close " + line.OutboxID.String() + " --reason WHY"
}

// unpaid says of what FAILED or EXPIRED by whose word it was not paid.
func unpaid(line ledger.Timeline) string {
	if by := line.Testimony(); by != nil {
		return "it was not paid, " + oneLine(by.String())
	}
	if word, why := line.Certainty(); word == ledger.OutcomeUnknown {
		return "it was not paid as far as the rows show, but " + oneLine(why)
	}
	return "it was provably not paid"
}

// mayBePaid says what ends what may have been paid.
func mayBePaid(line ledger.Timeline) string {
	id := line.OutboxID.String()
	ask := "Ask the rail for " + line.RailKey + ", then: "
	if line.RailAsks && line.Pending == nil {
		ask = "Have the rail asked: railhead payment inquire " + id + " --reason WHY\n" +
			"and look for " + line.RailKey + " on its statement. With the evidence: "
	}
	return ask + "railhead dead-letter resolve " + id +
		"\n  --executed --rail-reference REFERENCE | --not-executed, --evidence-date DATE --document WHERE --reason WHY"
}

// remedy says what ends a dead letter, with the command.
func remedy(line ledger.Timeline) string {
	letter, id := line.DeadLetter, line.OutboxID.String()
	if !letter.Open() {
		return "it is closed: nothing is left to do"
	}
	if line.NeverEnqueued {
		return neverEnqueued(line)
	}
	switch letter.Reason {
	case payment.DeadFailed, payment.DeadExpired:
		again := "To try again: railhead dead-letter replay " + id + " --reason WHY"
		if line.ContradictedSince() {
			again = "It is not replayed, because what became known since contradicts that it was not paid: to try again, the participant\n" +
				"enqueues it as a new instruction."
		} else if line.NewID && line.MayHaveReachedRail() || line.WasDispatched() {
			again = "It is not replayed, because rail " + orDash(line.RailType) + " wants a new id for another try: to try again, the participant\n" +
				"enqueues it as a new instruction."
			if line.WasDispatched() {
				again = "It is not replayed, because it was DISPATCHED before: to try again, the participant enqueues it as a new instruction."
			}
		}
		return unpaid(line) + ". " + again + "\nTo leave it unpaid: railhead dead-letter close " + id + " --reason WHY"
	case payment.DeadOutcomeUnknown:
		return "it may have been paid. " + mayBePaid(line)
	case payment.DeadConflict:
		return contradiction(line) + " Compare with the rail's statement, then: railhead dead-letter resolve " + id +
			"\n  --executed --rail-reference REFERENCE | --not-executed, --evidence-date DATE --document WHERE --reason WHY"
	case payment.DeadTampered:
		switch word, _ := line.Certainty(); word {
		case ledger.RailAccepted, ledger.ExecutedByEvidence:
			return "a payload of it was not the one that was enqueued; the payment is DISPATCHED all the same. Find out who changed it\n" +
				"(railhead prove), then: railhead dead-letter close " + id + " --reason WHY"
		case ledger.OutcomeUnknown:
			return "its payload is not the one that was enqueued, and was not sent; an earlier send of it may have been executed.\n" +
				"Find out who changed it (railhead prove). " + mayBePaid(line)
		}
		return "its payload is not the one that was enqueued, and it was not sent. Find out who changed it (railhead prove), then:\n" +
			"railhead dead-letter resolve " + id + " --not-executed --evidence-date DATE --document WHERE --reason WHY"
	default:
		if letter.ErrorCode == payment.CodePutBack {
			return "a row of it was put back in pending, and is not claimed. Find out who put it back, then:\n" +
				"railhead dead-letter close " + id + " --reason WHY\nWhere it may have been paid: railhead dead-letter resolve " + id +
				"\n  --executed --rail-reference REFERENCE | --not-executed, --evidence-date DATE --document WHERE --reason WHY"
		}
		if line.Pending != nil && line.Pending.OutcomeUnknown {
			return "it waits in pending and could not be claimed. Mend what " + orDash(letter.ErrorCode) + " says, then: railhead dead-letter replay " +
				id + " --reason WHY\nIt may have been paid, so that it can't be cancelled. To end it: railhead dead-letter resolve " + id +
				"\n  --executed --rail-reference REFERENCE | --not-executed, --evidence-date DATE --document WHERE --reason WHY"
		}
		return "it waits in pending and could not be claimed. Mend what " + orDash(letter.ErrorCode) + " says, then: railhead dead-letter replay " +
			id + " --reason WHY\nor end it: railhead payment cancel " + id + " --reason WHY"
	}
}
