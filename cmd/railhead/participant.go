package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
)

func participantCommand() *cobra.Command {
	return group("participant", "Pause the instructions of a participant, and resume them",
		participantSwitch(pauses{
			"pause", "paused", "was paused already, with the reason of then", "PAUSE_PARTICIPANT", "paused",
			func(o *ledger.Operator) func(context.Context, string, string) (bool, error) {
				return o.PauseParticipant
			},
		}, "Stop claims of a participant's instructions",
			"Stop claims of a participant's instructions, on every rail. It may go on enqueueing; what is in flight\n"+
				"goes on. Connects by RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log."),
		participantSwitch(pauses{
			"resume", "resumed", "was not paused", "RESUME_PARTICIPANT", "running",
			func(o *ledger.Operator) func(context.Context, string, string) (bool, error) {
				return o.ResumeParticipant
			},
		}, "Let a participant's instructions be claimed again",
			"Let a participant's instructions be claimed again. Connects by RAILHEAD_OPERATOR_URL."))
}

func participantSwitch(p pauses, short, long string) *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: p.word + " PARTICIPANT", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withOperator(cmd.Context(), func(operator *ledger.Operator) error {
				changed, err := p.do(operator)(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				return act{Act: p.act, ParticipantID: args[0], Now: p.now, Changed: changed}.
					write(cmd, "participant %s %s", oneLine(args[0]), p.say(changed))
			})
		},
	}
	needReason(command, &reason)
	return command
}
