package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ingest/webhook"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

func eventsCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "events", Short: "Deliver what happened to callers' endpoints, as webhooks",
		Long: "Deliver events to the endpoints of RAILHEAD_EVENTS_FILE: signed as Standard Webhooks, those of an instruction\n" +
			"in their order, again and again until they are taken (docs/ingest.md#webhooks). Connects by\n" +
			"RAILHEAD_EVENTS_URL as a member of railhead_events. Any number may run: each endpoint is one's at a time.\n" +
			"SIGTERM lets deliveries under way finish.",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "events") },
	}
	command.AddCommand(endpointsCommand(), heldCommand(), redeliverCommand(), discardCommand(), testEndpointCommand())
	return command
}

func endpointsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "endpoints", Short: "List the endpoints, how far each has come, and what waits",
		Long: "List the endpoints that events were ever delivered to: up to when the feed was read for each, how many events\n" +
			"wait to be tried again, and how many of them are not tried by themselves any more. Connects by\n" +
			"RAILHEAD_READER_URL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
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
					return writeEndpoints(o, all)
				}
			})
		},
	}
}

func writeEndpoints(o output, all []outbox.ListedEndpoint) error {
	rows := make([][]cell, 0, len(all))
	for _, e := range all {
		state := cell{text: "has a process"}
		switch {
		case !e.PausedAt.IsZero():
			state = cell{"paused: " + oneLine(e.PauseReason), alarm}
		case e.LeaseUntil.Before(time.Now()):
			state = cell{"no process has it", alarm}
		}
		given := cell{text: strconv.Itoa(e.GivenUp)}
		if e.GivenUp > 0 {
			given.tone = alarm
		}
		rows = append(rows, []cell{
			{text: e.Endpoint}, state, {text: clock(e.ReadUntil)}, {text: strconv.Itoa(e.Waiting)}, given, {text: clock(e.OldestWaiting)},
			{text: clock(e.DeliveredAt)}, {text: orDash(oneLine(e.LastStatus))},
		})
	}
	return o.table([]string{"ENDPOINT", "STATE", "READ UNTIL", "WAITING", "GIVEN UP", "OLDEST", "TOOK ONE LAST", "LAST FAULT"}, rows)
}

func heldCommand() *cobra.Command {
	return &cobra.Command{
		Use: "held", Short: "Say whether rows are held from callers, and by which transaction",
		Long: "Say since when rows of the archive are held from callers: those that were written while an older transaction is\n" +
			"under way in the server, in whichever database. It names the session of the oldest one, or the prepared\n" +
			"transaction. Rows are held for milliseconds all the time. Connects by RAILHEAD_READER_URL.",
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
				return o.text("%s\n", heldSentence(held))
			})
		},
	}
}

// heldSentence says what holds events.
func heldSentence(held reader.HeldEvents) string {
	if held.Since.IsZero() {
		return "no row is held from callers"
	}
	said := "rows since " + clock(held.Since) + " are held from callers"
	switch {
	case held.Prepared != "":
		return said + ": the oldest transaction is the prepared one " + oneLine(held.Prepared)
	case held.PID != 0:
		return said + fmt.Sprintf(": the oldest transaction is that of process %d, login %s, database %s, application %q",
			held.PID, orDash(oneLine(held.Login)), orDash(oneLine(held.Database)), oneLine(held.Application))
	default:
		return said + ": the oldest transaction has ended since"
	}
}

func redeliverCommand() *cobra.Command {
	var endpoint, since, reason string
	command := &cobra.Command{
		Use: "redeliver", Short: "Try what waits at once, or deliver again what happened since a moment",
		Long: "Have what waits for an endpoint tried again at once, also what is not tried by itself any more, and end its pause.\n" +
			"With --since everything that happened from that moment on is delivered once more, with the ids that the events\n" +
			"had. Connects by RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var from time.Time
			if since != "" {
				var err error
				if from, err = time.Parse(time.RFC3339, since); err != nil || from.Year() < 2000 || from.After(time.Now()) {
					return usage(errors.New("--since is a moment that is over, such as 2026-11-26T09:00:00Z"))
				}
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				waited, err := operator.Redeliver(cmd.Context(), endpoint, from, reason)
				if err != nil {
					return err
				}
				said := fmt.Sprintf("endpoint %s: %d waiting events are due now", oneLine(endpoint), waited)
				if !from.IsZero() {
					said += ", and so is what happened since " + clock(from)
				}
				return act{Act: "REDELIVER_EVENTS", Endpoint: endpoint, Now: "due", Changed: true}.write(cmd, said)
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
		Use: "discard", Short: "Give up for good what an endpoint never takes",
		Long: "Give up for good the events that wait for an endpoint and are not tried by themselves any more: they are not\n" +
			"delivered, and what waits behind them of their instructions is. They stay in the archive, and in GET /v1/events.\n" +
			"Connects by RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				discarded, err := operator.Discard(cmd.Context(), endpoint, reason)
				if err != nil {
					return err
				}
				said := fmt.Sprintf("endpoint %s: %d events are not delivered any more", oneLine(endpoint), discarded)
				return act{Act: "DISCARD_EVENTS", Endpoint: endpoint, Now: "discarded", Changed: discarded > 0}.write(cmd, said)
			})
		},
	}
	command.Flags().StringVar(&endpoint, "endpoint", "", "the endpoint's id")
	must(command.MarkFlagRequired("endpoint"))
	needReason(command, &reason)
	return command
}

func testEndpointCommand() *cobra.Command {
	var endpoint string
	command := &cobra.Command{
		Use: "test", Short: "Send one signed event of no payment to an endpoint",
		Long: "Send an event of type railhead.test, which is about no payment, to an endpoint of RAILHEAD_EVENTS_FILE, signed by\n" +
			"its secrets, and say what it answered. It uses no database, and ends with exit 1 where the event was not taken.",
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
			return o.text("endpoint %s took event %s (HTTP %d) in %s\n", oneLine(endpoint), said.ID, said.HTTPStatus, span(said.Took))
		},
	}
	command.Flags().StringVar(&endpoint, "endpoint", "", "the endpoint's id")
	must(command.MarkFlagRequired("endpoint"))
	return command
}
