package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

func paymentCommand() *cobra.Command {
	return group("payment", "Show instructions and their outcomes, follow them, and act on one", paymentShowCommand(),
		paymentListCommand(), withProgress(paymentTailCommand()), paymentInquireCommand(),
		paymentSendNowCommand(), paymentRescheduleCommand(), paymentCancelCommand(), paymentSkipCommand(),
		paymentRevealCommand())
}

func paymentShowCommand() *cobra.Command {
	payload := false
	command := &cobra.Command{
		Use: "show ID", Short: "Show everything that is known about one instruction",
		Long: "Show everything that is known about one instruction, in one snapshot: the order, what is certain about the\n" +
			"money, what happens next and why, and its history in order of time: the enqueue, every claim with its\n" +
			"worker, every outcome, inquiry, repair and callback, the acts of operators, and the acts that are possible\n" +
			"if it needs one.\n\n" +
			"ID is an outbox id, a rail key, an instruction id or the rail's own reference. The payload is shown by\n" +
			"railhead payment reveal alone, which logs who saw it and why. Connects with RAILHEAD_READER_URL.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if payload {
				return usage(errors.New("payment show has no payload: railhead payment reveal ID --reason WHY shows it, and the " +
					"operator log has who saw it and why"))
			}
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
				o := outputOf(cmd)
				if o.json {
					return o.document(shownOf(line))
				}
				if err := writeTimeline(o, line); err != nil || !line.DeadLetter.Open() {
					return err
				}
				return o.text("\n%s\n", explain.Remedy(line))
			})
		},
	}
	// Scripts may have it from a version that showed the payload: they learn what to do.
	command.Flags().BoolVar(&payload, "payload", false, "")
	must(command.Flags().MarkHidden("payload"))
	return command
}

// onlyFound is the instruction that an ID means, if it means one. On standard error it says what else the ID may mean.
func onlyFound(cmd *cobra.Command, id string, found []reader.Found) (reader.Found, error) {
	if len(found) > 1 {
		return reader.Found{}, usage(severalFound(id, found))
	}
	one := found[0]
	switch {
	case one.Mistakable(id):
		fmt.Fprintf(cmd.ErrOrStderr(), "railhead: %s\n", mistakable(id, one))
	case one.Others > 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "railhead: %q is the %s of this payment, and the instruction id or rail reference "+
			"of %d more\n", bounded(id, 128), reader.FoundWords[one.FoundBy], one.Others)
	}
	return one, nil
}

// mistakable says that an ID has found another payment than it seems to name.
func mistakable(id string, one reader.Found) error {
	return fmt.Errorf("%q has the form of an outbox id or of a rail key, and no payment here has it as that: it is the "+
		"%s of %s, participant %s; act on that one by its outbox id", bounded(id, 128), reader.FoundWords[one.FoundBy],
		one.OutboxID, oneLine(one.ParticipantID))
}

// severalFound lists what an ID may mean; the caller says which.
func severalFound(id string, found []reader.Found) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%q means %d instructions; name one by its outbox id:", bounded(id, 128), len(found))
	for _, one := range found {
		fmt.Fprintf(&text, "\n  %s  by its %s, participant %s, sequence %d, enqueued %s", one.OutboxID,
			reader.FoundWords[one.FoundBy], oneLine(one.ParticipantID), one.SequenceID, clock(one.EnqueuedAt))
		if one.Elsewhere {
			fmt.Fprintf(&text, ", in another cell: %s", strings.Join(one.Cells, ", "))
		}
	}
	return errors.New(text.String())
}

// shown is the JSON of payment show: a timeline, with its meaning.
type shown struct {
	reader.Timeline
	Money moneyLine `json:"money"`
	Next  string    `json:"next"`
	// LastRow is the number of the last row, which --row of an act takes; 0: it has none.
	LastRow int             `json:"last_row"`
	Remedy  string          `json:"remedy,omitempty"` // what an operator has to do
	Story   []explain.Event `json:"timeline"`
}

type moneyLine struct {
	Certainty reader.Certainty  `json:"certainty"`
	Why       string            `json:"why"`
	Evidence  *reader.Testimony `json:"by_evidence,omitempty"` // of an operator; else it is not by evidence
}

func shownOf(line reader.Timeline) shown {
	word, why := line.Certainty()
	s := shown{Timeline: line, Money: moneyLine{word, why, line.Testimony()}, Next: explain.NextStep(line),
		LastRow: explain.LastRow(line), Story: explain.EventsOf(line)}
	if line.DeadLetter.Open() {
		s.Remedy = explain.Remedy(line)
	}
	return s
}
