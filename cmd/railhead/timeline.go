package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

func timelineCommand() *cobra.Command {
	return group("timeline", "Resume sending after a failover or a restore", timelineAcceptCommand())
}

func timelineAcceptCommand() *cobra.Command {
	var reason, since string
	command := &cobra.Command{
		Use: "accept", Short: "Accept this server, so that sending resumes",
		Long: "Accept this server after a failover, a restore or a snapshot, so that sending resumes.\n\n" +
			"A service that finds another server or timeline than the accepted one, or misses rows that the server had\n" +
			"confirmed, suspends the lanes, because payments that were sent may appear unsent here. Reconcile with the\n" +
			"rails first: end each payment that they executed and that is not DISPATCHED here, FAILED, parked and\n" +
			"cancelled ones included, with dead-letter resolve --executed. --since names the suspension that you have\n" +
			"compared, by the time since when lanes are suspended. If the server goes back again meanwhile, that is another\n" +
			"time, and has to be compared anew. Services notice the acceptance within seconds. Connects with\n" +
			"RAILHEAD_OPERATOR_URL; the reason goes to the operator log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var opened time.Time
			if cmd.Flags().Changed("since") {
				var err error
				if opened, err = parseTime("--since", since); err != nil {
					return usage(fmt.Errorf("--since %q is no time: use the time since when lanes are suspended, such as "+
						"2026-11-25T10:11:12Z", since))
				}
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				server, err := operator.AcceptTimeline(cmd.Context(), opened, reason)
				if err != nil {
					return err
				}
				return writeDone(cmd, map[string]any{"system_identifier": server.SystemIdentifier, "timeline": server.Timeline},
					accepted(server))
			})
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "what was compared with the rails")
	command.Flags().StringVar(&since, "since", "",
		"the time since when lanes are suspended, of the suspension that was compared (RFC 3339)")
	must(command.MarkFlagRequired("reason"))
	return command
}

// accepted names the server that was accepted.
func accepted(server outbox.Server) string {
	return fmt.Sprintf("accepted: system %s, timeline %d", server.SystemIdentifier, server.Timeline)
}
