package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
)

func participantCommand() *cobra.Command {
	return group("participant", "Pause the instructions of a participant, and resume them", participantPauseCommand(),
		participantResumeCommand())
}

func participantPauseCommand() *cobra.Command {
	var end pauseEnd
	command := participantSwitch("pause", "Stop claims of a participant's instructions",
		"Stop claims of a participant's instructions, on every rail. It can still enqueue; calls in flight\n"+
			"complete.\n"+pauseHelp,
		func(cmd *cobra.Command, operator *operator.Operator, id, reason string) (act, string, error) {
			until, err := end.moment(cmd.Context(), operator)
			if err != nil {
				return act{}, "", err
			}
			changed, err := operator.PauseParticipant(cmd.Context(), id, reason, until)
			if err != nil {
				return act{}, "", err
			}
			pause, known := afterAct(cmd, func(ctx context.Context) (*reader.Pause, error) {
				return operator.Reader().ParticipantPause(ctx, id)
			})
			if !known {
				pause = ownPause(changed, until)
			}
			said := paused("participant "+oneLine(id), changed, pause)
			return act{Act: "PAUSE_PARTICIPANT", ParticipantID: id, Now: "paused", Changed: changed,
				InForce: stopOf(pause)}, said, nil
		})
	end.flags(command)
	return command
}

func participantResumeCommand() *cobra.Command {
	return participantSwitch("resume", "Resume claims of a participant's instructions",
		"Resume claims of a participant's instructions. Connects with RAILHEAD_OPERATOR_URL.",
		func(cmd *cobra.Command, op *operator.Operator, id, reason string) (act, string, error) {
			var ended *reader.Pause
			changed, err := op.ResumeParticipant(operator.TellPause(cmd.Context(), "", id, &ended), id, reason)
			if err != nil {
				return act{}, "", err
			}
			said := resumed("participant "+oneLine(id), changed, ended, everythingPaused(cmd, op))
			return act{Act: "RESUME_PARTICIPANT", ParticipantID: id, Now: "running", Changed: changed,
				Ended: stopOf(ended)}, said, nil
		})
}

func participantSwitch(
	word, short, long string,
	do func(cmd *cobra.Command, operator *operator.Operator, id, reason string) (act, string, error),
) *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: word + " PARTICIPANT", Short: short, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				done, said, err := do(cmd, operator, args[0], reason)
				if err != nil {
					return err
				}
				return done.write(cmd, said)
			})
		},
	}
	needReason(command, &reason)
	return command
}
