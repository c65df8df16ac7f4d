package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// pauses are the two commands of one kind: what they are called, and what they do.
type pauses struct {
	word, done, already string
	act, now            string
	do                  func(*ledger.Operator) func(ctx context.Context, name, reason string) (bool, error)
}

func railPauseCommand() *cobra.Command {
	return railSwitch(pauses{
		"pause", "paused", "was paused already, the reason is now yours", "PAUSE_RAIL", "paused",
		func(o *ledger.Operator) func(context.Context, string, string) (bool, error) { return o.PauseRail },
	}, "Stop claims of a rail, or of everything",
		"Stop claims of a rail, or of everything. What is in flight goes on and is recorded; what waits stays in\n"+
			"pending and loses nothing. The reaper goes on: it repairs what dead workers left, and ends what expires.\n"+
			"Connects by RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log.")
}

func railResumeCommand() *cobra.Command {
	return railSwitch(pauses{
		"resume", "resumed", "was not paused", "RESUME_RAIL", "running",
		func(o *ledger.Operator) func(context.Context, string, string) (bool, error) { return o.ResumeRail },
	}, "Let a rail, or everything, be claimed again",
		"Let a rail, or everything, be claimed again. A rail that is paused by itself stays so when everything is\n"+
			"resumed. A rail that a relayer paused, because it refuses our credentials or our route, is resumed here\n"+
			"once that is mended. Connects by RAILHEAD_OPERATOR_URL.")
}

func railSwitch(p pauses, short, long string) *cobra.Command {
	var reason string
	everything := false
	command := &cobra.Command{
		Use: p.word + " RAIL | --everything", Short: short, Long: long,
		Example: "  railhead rail " + p.word + " bank --reason 'their maintenance, ticket 4711'\n" +
			"  railhead rail " + p.word + " --everything --reason 'restore of the database'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if everything == (len(args) == 1) {
				return usage(errors.New("name one rail, or give --everything"))
			}
			name := ledger.Everything
			if !everything {
				name = args[0]
			}
			return withOperator(cmd.Context(), func(operator *ledger.Operator) error {
				changed, err := p.do(operator)(cmd.Context(), name, reason)
				if ledger.SQLState(err) == payment.StateUnknownRail {
					return withCode(exitNotFound, err)
				}
				if err != nil {
					return err
				}
				said := "rail " + name
				if everything {
					said = "everything"
				}
				return act{Act: p.act, RailType: name, Now: p.now, Changed: changed}.write(cmd, "%s %s", said, p.say(changed))
			})
		},
	}
	command.Flags().BoolVar(&everything, "everything", false, "all rails at once")
	needReason(command, &reason)
	return command
}

func (p pauses) say(changed bool) string {
	if changed {
		return p.done
	}
	return p.already
}
