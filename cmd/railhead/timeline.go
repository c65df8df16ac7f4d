package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

func timelineCommand() *cobra.Command {
	return group("timeline", "Let sending go on after a failover or a restore", timelineAcceptCommand())
}

func timelineAcceptCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "accept", Short: "Say that sending may go on on this server",
		Long: "Say that sending may go on on this server after a failover, a restore or a snapshot.\n\n" +
			"A service that finds another server or timeline than was accepted, or misses rows that it had confirmed,\n" +
			"suspends the lanes, because payments that were sent may look unsent here. Compare with the rails first: end\n" +
			"what they executed and what waits here with dead-letter resolve --executed. Services see the answer within\n" +
			"seconds. Connects by RAILHEAD_OPERATOR_URL; the reason goes to the operator log.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withOperator(cmd.Context(), func(operator *ledger.Operator) error {
				server, err := operator.AcceptTimeline(cmd.Context(), reason)
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
	must(command.MarkFlagRequired("reason"))
	return command
}

// accepted says on which server sending may go on.
func accepted(server payment.Server) string {
	return fmt.Sprintf("accepted: system %s, timeline %d", server.SystemIdentifier, server.Timeline)
}
