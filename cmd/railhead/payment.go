package main

import (
	"encoding/json"
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
		paymentSendNowCommand(), paymentRescheduleCommand(), paymentCancelCommand(), paymentRevealCommand())
}

func paymentShowCommand() *cobra.Command {
	withPayload := false
	command := &cobra.Command{
		Use: "show ID", Short: "Show everything that is known about one instruction",
		Long: "Show everything that is known about one instruction, in one snapshot: the order, what is certain about the\n" +
			"money, what happens next and why, and its history in order of time: the enqueue, every claim with its\n" +
			"worker, every outcome, inquiry, repair and callback, the acts of operators, and the acts that are possible\n" +
			"if it needs one.\n\n" +
			"ID is an outbox id, a rail key, an instruction id or the rail's own reference. The payload is shown only\n" +
			"with --payload. Connects with RAILHEAD_READER_URL.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
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
				o := outputOf(cmd)
				if o.json {
					return o.document(shownOf(line, withPayload))
				}
				if err := writeTimeline(o, line, withPayload); err != nil || !line.DeadLetter.Open() {
					return err
				}
				return o.text("\n%s\n", explain.Remedy(line))
			})
		},
	}
	command.Flags().BoolVar(&withPayload, "payload", false, "show payload and headers too")
	return command
}

// severalFound lists what an ID may mean; the caller says which.
func severalFound(id string, found []reader.Found) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%q means %d instructions; name one by its outbox id:", bounded(id, 128), len(found))
	for _, one := range found {
		fmt.Fprintf(&text, "\n  %s  participant %s, sequence %d, enqueued %s", one.OutboxID, one.ParticipantID,
			one.SequenceID, clock(one.EnqueuedAt))
	}
	return errors.New(text.String())
}

// shown is the JSON of payment show: a timeline, with its meaning.
type shown struct {
	reader.Timeline
	Money   moneyLine       `json:"money"`
	Next    string          `json:"next"`
	Remedy  string          `json:"remedy,omitempty"` // what an operator has to do
	Story   []explain.Event `json:"timeline"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Headers json.RawMessage `json:"headers,omitempty"`
}

type moneyLine struct {
	Certainty reader.Certainty  `json:"certainty"`
	Why       string            `json:"why"`
	Evidence  *reader.Testimony `json:"by_evidence,omitempty"` // of an operator; else it is not by evidence
}

func shownOf(line reader.Timeline, withPayload bool) shown {
	word, why := line.Certainty()
	s := shown{Timeline: line, Money: moneyLine{word, why, line.Testimony()}, Next: explain.NextStep(line),
		Story: explain.EventsOf(line)}
	if line.DeadLetter.Open() {
		s.Remedy = explain.Remedy(line)
	}
	if withPayload {
		s.Payload, s.Headers = line.Payload, line.Headers
	}
	return s
}
