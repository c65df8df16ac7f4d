package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

func timelineCommand() *cobra.Command {
	return group("timeline", "Let sending go on after a failover or a restore", timelineAcceptCommand())
}

func timelineAcceptCommand() *cobra.Command {
	var reason, since string
	command := &cobra.Command{
		Use: "accept", Short: "Say that sending may go on on this server",
		Long: "Say that sending may go on on this server after a failover, a restore or a snapshot.\n\n" +
			"A service that finds another server or timeline than was accepted, or misses rows that it had confirmed,\n" +
			"suspends the lanes, because payments that were sent may look unsent here. Compare with the rails first: end\n" +
			"what they executed and what waits here with dead-letter resolve --executed. --since names the suspension that\n" +
			"you have compared, by the time since when lanes are suspended. If the server goes back again meanwhile, that is\n" +
			"another time, and has to be compared anew. Services see the answer within seconds. Connects by\n" +
			"RAILHEAD_OPERATOR_URL; the reason goes to the operator log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var opened time.Time
			if since != "" {
				var err error
				if opened, err = time.Parse(time.RFC3339, since); err != nil {
					return usage(fmt.Errorf("--since %q is no time: write it as it is said since when lanes are suspended, as in 2026-11-25T10:11:12Z", since))
				}
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				server, err := operator.AcceptTimeline(cmd.Context(), opened, reason)
				if err != nil {
					return err
				}
				o := outputOf(cmd)
				if o.json {
					return o.document(map[string]any{
						"system_identifier": server.SystemIdentifier, "timeline": server.Timeline,
					})
				}
				return o.text("%s\n", accepted(server))
			})
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "what was compared with the rails")
	command.Flags().StringVar(&since, "since", "", "since when lanes are suspended, of the suspension that was compared (RFC 3339)")
	must(command.MarkFlagRequired("reason"))
	return command
}

// accepted says on which server sending may go on.
func accepted(server outbox.Server) string {
	return fmt.Sprintf("accepted: system %s, timeline %d", server.SystemIdentifier, server.Timeline)
}
