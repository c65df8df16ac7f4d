package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ingest/webhook"
	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

func eventsCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "events", Short: "Deliver events to callers' endpoints, as webhooks",
		Long: "Deliver events to the endpoints of RAILHEAD_EVENTS_FILE: signed as Standard Webhooks, those of an\n" +
			"instruction in their order, repeatedly until they are accepted (docs/ingest.md#webhooks). Connects with\n" +
			"RAILHEAD_EVENTS_URL as a member of railhead_events. Any number may run: one at a time delivers to an\n" +
			"endpoint. SIGTERM ends it after the deliveries under way.",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "events") },
	}
	command.AddCommand(endpointsCommand(), heldCommand(), redeliverCommand(), discardCommand(), testEndpointCommand())
	return command
}

func endpointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "endpoints", Short: "List the endpoints, the place of each in the feed, and the events that wait",
		Long: "List the endpoints to which events were ever delivered: the time up to which the feed was read for each,\n" +
			"the number of events that are to be tried again, and how many of them are tried on request only. Connects\n" +
			"with RAILHEAD_READER_URL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				now, err := reader.Now(cmd.Context())
				if err != nil {
					return err
				}
				all, err := reader.Endpoints(cmd.Context())
				if err != nil {
					return err
				}
				o := outputOf(cmd)
				switch {
				case o.json:
					return o.document(emptyNotNull(all))
				case len(all) == 0:
					return o.text("no endpoint\n")
				default:
					return writeEndpoints(o, all, now)
				}
			})
		},
	}
}

func writeEndpoints(o output, all []outbox.ListedEndpoint, now time.Time) error {
	rows := make([][]cell, 0, len(all))
	for _, e := range all {
		state, tone := explain.EndpointState(e, now)
		given := cell{text: strconv.Itoa(e.GivenUp)}
		if e.GivenUp > 0 {
			given.tone = alarm
		}
		rows = append(rows, []cell{
			{text: e.Endpoint}, {state, toneIn(tone)}, {text: clock(e.ReadUntil)}, {text: strconv.Itoa(e.Waiting)}, given,
			{text: clock(e.OldestWaiting)},
			{text: clock(e.DeliveredAt)}, {text: orDash(oneLine(e.LastStatus))},
		})
	}
	return o.table([]string{"ENDPOINT", "STATE", "READ UNTIL", "WAITING", "GIVEN UP", "OLDEST", "TOOK ONE LAST",
		"LAST FAULT"}, rows)
}

func heldCommand() *cobra.Command {
	return &cobra.Command{
		Use: "held", Short: "Show whether rows are held back from callers, and by which transaction",
		Long: "Show since when rows of the archive are held back from callers: those that were written while an older\n" +
			"transaction is open in the server, in whichever database. It names the session of the oldest one, or the\n" +
			"prepared transaction. Rows are held back for milliseconds all the time. Connects with RAILHEAD_READER_URL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				held, err := reader.HeldEvents(cmd.Context())
				if err != nil {
					return err
				}
				o := outputOf(cmd)
				if o.json {
					return o.document(held)
				}
				return o.text("%s\n", explain.HeldEvents(held))
			})
		},
	}
}

var errSince = errors.New("--since must be a moment in the past, such as 2026-11-26T09:00:00Z")

func redeliverCommand() *cobra.Command {
	var endpoint, since, reason string
	command := &cobra.Command{
		Use: "redeliver", Short: "Try waiting events at once, or deliver again from a moment on",
		Long: "Try the events that wait for an endpoint at once, also those that are tried on request only, and end its\n" +
			"pause. With --since all events from that moment on are delivered once more, with the same ids. Connects\n" +
			"with RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var from time.Time
			if since != "" {
				var err error
				if from, err = time.Parse(time.RFC3339, since); err != nil || from.Year() < 2000 {
					return usage(errSince)
				}
			}
			return withOperator(cmd.Context(), func(op *operator.Operator) error {
				now, err := clockOf(cmd.Context(), op.Reader())
				if err != nil {
					return err
				}
				if from.After(now) {
					return usage(errSince)
				}
				var ended *reader.Pause
				waited, err := op.Redeliver(operator.TellEndpointPause(cmd.Context(), endpoint, &ended), endpoint, from, reason)
				if err != nil {
					return err
				}
				said := fmt.Sprintf("endpoint %s: %d waiting events are due now", oneLine(endpoint), waited)
				if !from.IsZero() {
					said += ", and so are the events since " + clock(from)
				}
				if ended != nil {
					said += "; it was paused" + endedWords(*ended)
				}
				return act{Act: "REDELIVER_EVENTS", Endpoint: endpoint, Now: "due", Changed: true, Events: &waited,
					Ended: stopOf(ended)}.write(cmd, said)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&endpoint, "endpoint", "", "the endpoint's id")
	flags.StringVar(&since, "since", "", "the moment from which on everything is delivered again")
	must(command.MarkFlagRequired("endpoint"))
	needReason(command, &reason)
	return command
}

func discardCommand() *cobra.Command {
	var endpoint, reason string
	command := &cobra.Command{
		Use: "discard", Short: "Give up for good the events that an endpoint never accepts",
		Long: "Give up for good the events that wait for an endpoint and are tried on request only: they are not\n" +
			"delivered, and the later events of their instructions are. They stay in the archive, and in GET /v1/events.\n" +
			"Connects with RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withOperator(cmd.Context(), func(op *operator.Operator) error {
				var gone []operator.DiscardedEvent
				discarded, err := op.Discard(operator.TellDiscarded(cmd.Context(), endpoint, &gone), endpoint, reason)
				if err != nil {
					return err
				}
				said := fmt.Sprintf("endpoint %s: %d events are given up for good", oneLine(endpoint), discarded)
				return act{Act: "DISCARD_EVENTS", Endpoint: endpoint, Now: "discarded", Changed: discarded > 0,
					Events: &discarded, Discarded: gone}.write(cmd, said+discardedWords(gone, discarded))
			})
		},
	}
	command.Flags().StringVar(&endpoint, "endpoint", "", "the endpoint's id")
	must(command.MarkFlagRequired("endpoint"))
	needReason(command, &reason)
	return command
}

// discardedWords names the events that were discarded: at most ten, each by its instruction and the row that it is of.
func discardedWords(gone []operator.DiscardedEvent, of int) string {
	if len(gone) == 0 {
		return ""
	}
	named := gone[:min(len(gone), 10)]
	words := make([]string, len(named))
	for n, event := range named {
		words[n] = fmt.Sprintf("%s row %d", event.OutboxID, event.AttemptNo)
	}
	said := ": " + strings.Join(words, ", ")
	if more := of - len(named); more > 0 {
		said += fmt.Sprintf(" and %d more", more)
	}
	return said
}

func testEndpointCommand() *cobra.Command {
	var endpoint string
	command := &cobra.Command{
		Use: "test", Short: "Send one signed event of no payment to an endpoint",
		Long: "Send an event of type railhead.test, which is about no payment, to an endpoint of RAILHEAD_EVENTS_FILE,\n" +
			"signed by its secrets, and print its answer. It uses no database, and ends with exit code 1 if the event\n" +
			"was not accepted.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			file, err := webhook.Load(s.EventsFile)
			if err != nil {
				return usage(fmt.Errorf("RAILHEAD_EVENTS_FILE: %w", err))
			}
			said, err := webhook.Test(cmd.Context(), file, endpoint, os.Getenv)
			switch {
			case errors.Is(err, webhook.ErrNoEndpoint):
				return withCode(exitNotFound, err)
			case err != nil:
				return err
			}
			o := outputOf(cmd)
			if o.json {
				return o.document(said)
			}
			return o.text("endpoint %s accepted event %s (HTTP %d) in %s\n", oneLine(endpoint), said.ID, said.HTTPStatus,
				span(said.Took))
		},
	}
	command.Flags().StringVar(&endpoint, "endpoint", "", "the endpoint's id")
	must(command.MarkFlagRequired("endpoint"))
	return command
}
