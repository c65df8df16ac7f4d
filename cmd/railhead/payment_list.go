package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

func paymentListCommand() *cobra.Command {
	var filter reader.ListFilter
	var before, from, to string
	command := &cobra.Command{
		Use: "list", Short: "List instructions by state, rail, participant, code, age and amount",
		Long: "List instructions, the newest first: by default those enqueued in the last 24 hours, and with --state\n" +
			"PENDING all that are in pending. With --participant in the order of their sequence, the latest first.\n\n" +
			"--state is the state that payment show prints (UNKNOWN, CONFLICT, DISPATCHED, ...) or that of the last row,\n" +
			"so that --state RETRYABLE finds the instructions that are pending after a refusal. It examines 20,000\n" +
			"instructions at most, whatever the size of the archive, and prints where the next page begins. Of the\n" +
			"payload only the amount is shown. Connects with RAILHEAD_READER_URL.",
		Example: "  railhead payment list --state UNKNOWN --rail bank\n" +
			"  railhead payment list --participant p1 --newer-than 168h --older-than 1h --currency EUR --amount-from 1000",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := listFilter(&filter, before, from, to); err != nil {
				return usage(err)
			}
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				list, err := reader.List(cmd.Context(), filter)
				if err != nil {
					return err
				}
				if len(list.Payments) == 0 {
					err = sureOfRail(cmd, reader, filter.RailType)
				}
				if err != nil {
					return err
				}
				return writeList(cmd, list)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&filter.State, "state", "", "only of this state")
	flags.StringVar(&filter.RailType, "rail", "", "only of this rail")
	flags.StringVar(&filter.ParticipantID, "participant", "", "only of this participant")
	flags.StringVar(&filter.Code, "code", "", "only with this error code or code of the rail in the last row")
	spanFlag(flags, &filter.NewerThan, "newer-than", time.Second, spanMost,
		"enqueued within this time, at least 1s (24h; all with --state PENDING)")
	spanFlag(flags, &filter.OlderThan, "older-than", time.Second, spanMost, "enqueued before this time, at least 1s")
	flags.StringVar(&filter.Currency, "currency", "", "only in this currency")
	flags.StringVar(&from, "amount-from", "", "only of this amount or more; needs --currency")
	flags.StringVar(&to, "amount-to", "", "only of this amount or less; needs --currency")
	filter.Limit = 100
	numberFlag(command, &filter.Limit, "limit", 1, reader.ListMax,
		fmt.Sprintf("the most that are shown, 1 to %d", reader.ListMax))
	flags.StringVar(&before, "before", "", "the page after this outbox id, which the page before prints")
	return command
}

// listFilter parses the flags into a filter.
func listFilter(filter *reader.ListFilter, before, from, to string) error {
	filter.State = strings.ToUpper(filter.State)
	known := append([]string{"PENDING", "CONFLICT"}, stateNames()...)
	if filter.State != "" && !slices.Contains(known, filter.State) {
		return fmt.Errorf("--state is %q: use one of %v", bounded(filter.State, 40), known)
	}
	if before != "" {
		id, err := payment.ParseID(before)
		if err != nil {
			return fmt.Errorf("--before: %w", err)
		}
		filter.Before = id
	}
	if filter.Currency == "" && (from != "" || to != "") {
		return fmt.Errorf("--amount-from and --amount-to need --currency: amounts of two currencies don't compare")
	}
	if filter.Currency != "" {
		if _, err := payment.CurrencyOf(filter.Currency); err != nil {
			return fmt.Errorf("--currency: %w", err)
		}
	}
	for _, bound := range []struct {
		flag, text string
		into       *int64
	}{{"--amount-from", from, &filter.AmountFrom}, {"--amount-to", to, &filter.AmountTo}} {
		if bound.text == "" {
			continue
		}
		amount, err := payment.ParseAmount(bound.text, filter.Currency)
		if err != nil {
			return fmt.Errorf("%s: %w", bound.flag, err)
		}
		*bound.into = amount.Minor
	}
	return nil
}

func stateNames() []string {
	var names []string
	for _, state := range payment.States() {
		names = append(names, string(state))
	}
	return names
}

func writeList(cmd *cobra.Command, list reader.List) error {
	o := outputOf(cmd)
	if o.lines {
		if !list.Next.IsZero() {
			sayCut(cmd, len(list.Payments), fmt.Sprintf("%d were examined; --before %s", list.Looked, list.Next))
		}
		return o.document(list.Payments)
	}
	if o.json {
		return o.document(list)
	}
	if len(list.Payments) > 0 {
		rows := make([][]cell, 0, len(list.Payments))
		for _, l := range list.Payments {
			last := l.LastState
			if l.OutcomeUnknown {
				last += ", outcome unknown"
			}
			rows = append(rows, []cell{
				{text: l.OutboxID.String()}, {text: span(millis(l.AgeMS))}, {orDash(l.State), toneIn(explain.ToneOfState(l.State))},
				{text: orDash(last)},
				{text: orDash(oneLine(explain.SaidCodes(l.ErrorCode, l.RailCode)))}, {text: orDash(l.RailType)},
				{text: oneLine(l.InstructionID)}, {text: orDash(strings.TrimSpace(l.Amount + " " + l.Currency))},
			})
		}
		heading := []string{"OUTBOX ID", "AGE", "STATE", "LAST ROW", "CODE", "RAIL", "INSTRUCTION", "AMOUNT"}
		if err := o.table(heading, rows); err != nil {
			return err
		}
	}
	window := "enqueued before " + clock(list.Until)
	if list.Until.Sub(list.Since) < 10*365*24*time.Hour {
		window = "enqueued from " + clock(list.Since) + " to " + clock(list.Until)
	}
	if err := o.text("%d shown, %d examined, %s\n", len(list.Payments), list.Looked, window); err != nil {
		return err
	}
	if list.Next.IsZero() {
		return nil
	}
	return o.text("there may be more: --before %s\n", list.Next)
}
