package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

func deadLetterCommand() *cobra.Command {
	return group("dead-letter", "Work on the instructions that need an operator",
		letterListCommand(), letterShowCommand(),
		letterTriageCommand("acknowledge", "acknowledged", operator.Acknowledge,
			"Record that an operator works on a dead letter"),
		letterTriageCommand("escalate", "escalated", operator.Escalate, "Hand a dead letter on"),
		letterTriageCommand("close", "closed", operator.Close,
			"Close the dead letter of a payment that was provably not made"),
		letterReplayCommand(), letterResolveCommand())
}

func letterListCommand() *cobra.Command {
	var reason string
	byCode := false
	var filter reader.LetterFilter
	command := &cobra.Command{
		Use: "list", Short: "List dead letters, or count them by code",
		Long: "List the open dead letters, the oldest first. With --status resolved or manual_replay list\n" +
			"the closed ones, the latest first. With --by-code count them by reason, code and rail, and add up\n" +
			"their amounts by currency. Connects with RAILHEAD_READER_URL.",
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
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				if byCode {
					groups, cutShort, err := reader.LettersByCode(cmd.Context(), filter)
					if err != nil {
						return err
					}
					if len(groups) == 0 {
						err = sureOfRail(cmd, reader, filter.RailType)
					}
					if err != nil {
						return err
					}
					return writeLetterGroups(cmd, groups, cutShort)
				}
				letters, err := reader.DeadLetters(cmd.Context(), filter)
				if err != nil {
					return err
				}
				if len(letters) == 0 {
					err = sureOfRail(cmd, reader, filter.RailType)
				}
				if err != nil {
					return err
				}
				return writeLetters(cmd, letters, filter.Limit)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&reason, "reason", "", "only of this reason: FAILED, EXPIRED, OUTCOME_UNKNOWN, CONFLICT, TAMPERED "+
		"or UNCLAIMABLE")
	flags.StringVar(&filter.RailType, "rail", "", "only of this rail")
	flags.StringVar(&filter.Status, "status", "",
		"only of this status: pending, acknowledged, escalated, manual_replay or resolved")
	flags.StringVar(&filter.ErrorCode, "code", "", "only of this error code, such as AC04 or NO_SAFE_RECOVERY")
	flags.StringVar(&filter.ParticipantID, "participant", "", "only of this participant")
	spanFlag(flags, &filter.OlderThan, "older-than", time.Second, spanMost,
		"only those that were opened longer ago than this, such as 24h")
	flags.BoolVar(&byCode, "by-code", false, "count them by reason, code, rail and currency")
	filter.Limit = 100
	numberFlag(command, &filter.Limit, "limit", 1, reader.LettersMax,
		fmt.Sprintf("the most that are shown, 1 to %d", reader.LettersMax))
	return command
}

func writeLetterGroups(cmd *cobra.Command, groups []reader.LetterGroup, cutShort bool) error {
	if cutShort {
		fmt.Fprintf(cmd.ErrOrStderr(), "railhead: there are more dead letters: the first %d are counted\n", reader.LettersMax)
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
		rows = append(rows, groupCells(g))
	}
	return o.table([]string{"REASON", "ERROR", "RAIL", "LETTERS", "OLDEST", "AMOUNT", "CURRENCY"}, rows)
}

func groupCells(g reader.LetterGroup) []cell {
	return []cell{
		{text: string(g.Reason), tone: toneIn(explain.ToneOfReason(g.Reason))}, {text: orDash(oneLine(g.ErrorCode))}, {text: g.RailType},
		{text: strconv.FormatInt(g.Letters, 10)}, {text: span(millis(g.OldestMS))}, {text: orDash(g.Amount)},
		{text: orDash(oneLine(g.Currency))},
	}
}

func letterCells(l reader.Letter) []cell {
	return []cell{
		{text: l.OutboxID.String()}, {text: string(l.Reason), tone: toneIn(explain.ToneOfReason(l.Reason))},
		{text: orDash(oneLine(l.ErrorCode))},
		{text: l.Status}, {text: l.RailType}, {text: l.InstructionID}, {text: span(millis(l.AgeMS))},
		{text: orDash(strings.TrimSpace(l.Amount + " " + oneLine(l.Currency)))},
	}
}

func writeLetters(cmd *cobra.Command, letters []reader.Letter, limit int) error {
	o := outputOf(cmd)
	if o.json {
		if len(letters) == limit {
			sayCut(cmd, limit, moreLetters(limit))
		}
		return o.document(letters)
	}
	if len(letters) == 0 {
		return o.text("no dead letter\n")
	}
	rows := make([][]cell, 0, len(letters))
	for _, l := range letters {
		rows = append(rows, letterCells(l))
	}
	if err := o.table([]string{"OUTBOX ID", "REASON", "ERROR", "STATUS", "RAIL", "INSTRUCTION", "AGE", "AMOUNT"},
		rows); err != nil {
		return err
	}
	if len(letters) == limit {
		return o.text("%d are shown; there may be more: %s\n", limit, moreLetters(limit))
	}
	return nil
}

// shownLetter is the JSON of dead-letter show: a timeline, and what ends its dead letter.
type shownLetter struct {
	shown
	Remedy string `json:"remedy"` // of a closed one too
}

func letterShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a dead letter, its history, and the acts that end it",
		Long: "Show a dead letter with the instruction's whole timeline, and the acts that end it.\n\n" +
			"ID is an outbox id, a rail key, an instruction id or the rail's own reference. Connects with RAILHEAD_READER_URL.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				found, err := reader.Find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				one, err := onlyFound(cmd, args[0], found)
				if err != nil {
					return err
				}
				line, err := reader.Timeline(cmd.Context(), one.OutboxID)
				if err != nil {
					return err
				}
				if line.DeadLetter == nil {
					return withCode(exitNotFound, fmt.Errorf("the instruction %s has no dead letter; it is %s",
						line.OutboxID, orDash(line.State)))
				}
				o := outputOf(cmd)
				if o.json {
					return o.document(shownLetter{shownOf(line), explain.Remedy(line)})
				}
				if err := writeTimeline(o, line); err != nil {
					return err
				}
				return o.text("\n%s\n", explain.Remedy(line))
			})
		},
	}
}
