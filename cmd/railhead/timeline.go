package main

import (
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
)

func timelineCommand() *cobra.Command {
	return group("timeline", "Let sending go on after a failover or a restore", timelineAcceptCommand())
}

func timelineAcceptCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "accept", Short: "Say that sending may go on on this server",
		Long: "Say that sending may go on on this server after a failover or a restore.\n\n" +
			"A relayer that finds another server or timeline than it remembers holds its lanes, because what it\n" +
			"claimed last may be missing here. Compare with the rails first: every payment that a rail executed in\n" +
			"the minutes before has to be here. Relayers see the answer within seconds. Connects by\n" +
			"RAILHEAD_OPERATOR_URL; the reason goes to the operator log.",
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
				return o.text("accepted: system %s, timeline %d\n", server.SystemIdentifier, server.Timeline)
			})
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "what was compared with the rails")
	must(command.MarkFlagRequired("reason"))
	return command
}
