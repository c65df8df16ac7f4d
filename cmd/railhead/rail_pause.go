package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// pauseHelp is the common part of the help of pauses.
const pauseHelp = "With --for or --until the reaper ends the pause; without, an operator does. A second pause keeps " +
	"the login and time of the first. Its reason is added, and it ends when the later of the two does. Connects with\n" +
	"RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log."

func railPauseCommand() *cobra.Command {
	var end pauseEnd
	command := railSwitch("pause", "Stop claims of a rail, or of everything",
		"Stop claims of a rail, or of everything. Calls in flight complete and are recorded; pending instructions stay in\n"+
			"pending. The reaper still repairs the claims of dead workers, and ends expired instructions.\n"+pauseHelp,
		func(cmd *cobra.Command, operator *operator.Operator, name, reason string) (act, string, error) {
			until, err := end.moment(cmd.Context(), operator)
			if err != nil {
				return act{}, "", err
			}
			changed, err := operator.PauseRail(cmd.Context(), name, reason, until)
			if err != nil {
				return act{}, "", err
			}
			pause, known := afterAct(cmd, func(ctx context.Context) (*reader.Pause, error) {
				return operator.Reader().RailPause(ctx, name)
			})
			if !known {
				pause = ownPause(changed, until)
			}
			said := paused(railWords(name), changed, pause)
			return act{Act: "PAUSE_RAIL", RailType: name, Now: "paused", Changed: changed, InForce: stopOf(pause)}, said, nil
		})
	end.flags(command)
	return command
}

func railResumeCommand() *cobra.Command {
	return railSwitch("resume", "Resume claims of a rail, or of everything",
		"Resume claims of a rail, or of everything. A rail that has a pause of its own stays paused when everything is\n"+
			"resumed. If a relayer paused the rail, because it refused our credentials or our route, correct that first.\n"+
			"Connects with RAILHEAD_OPERATOR_URL.",
		func(cmd *cobra.Command, op *operator.Operator, name, reason string) (act, string, error) {
			var ended *reader.Pause
			changed, err := op.ResumeRail(operator.TellPause(cmd.Context(), name, "", &ended), name, reason)
			if err != nil {
				return act{}, "", err
			}
			said := resumed(railWords(name), changed, ended, everythingPaused(cmd, op))
			return act{Act: "RESUME_RAIL", RailType: name, Now: "running", Changed: changed, Ended: stopOf(ended)}, said, nil
		})
}

// afterAct reads what is in force after an act that was done. If that can't be read, it says so, and the act is told as
// done all the same.
func afterAct[T any](cmd *cobra.Command, read func(context.Context) (T, error)) (inForce T, known bool) {
	err := withinCell(cmd.Context(), func(ctx context.Context) (err error) {
		inForce, err = read(ctx)
		return err
	})
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "railhead: what is in force now could not be read: %s\n",
			printable(eachOnce(err.Error())))
	}
	return inForce, err == nil
}

// everythingPaused reads the pause of everything after a resumption; nil: there is none, or it is not known.
func everythingPaused(cmd *cobra.Command, op *operator.Operator) *reader.Pause {
	pause, _ := afterAct(cmd, func(ctx context.Context) (*reader.Pause, error) {
		return op.Reader().RailPause(ctx, operator.Everything)
	})
	return pause
}

// ownPause is what an act that stopped something knows of that by itself; nil: it was stopped already.
func ownPause(changed bool, until time.Time) *reader.Pause {
	if !changed {
		return nil
	}
	return &reader.Pause{Until: until}
}

// railSwitch is one of the two commands; do returns the act and its sentence.
func railSwitch(
	word, short, long string,
	do func(cmd *cobra.Command, operator *operator.Operator, name, reason string) (act, string, error),
) *cobra.Command {
	var reason string
	everything := false
	command := &cobra.Command{
		Use: word + " RAIL | --everything", Short: short, Long: long,
		Example: "  railhead rail " + word + " bank --reason 'their maintenance, ticket 4711'\n" +
			"  railhead rail " + word + " --everything --reason 'restore of the database'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if everything == (len(args) == 1) {
				return usage(errors.New("name one rail, or give --everything"))
			}
			name := operator.Everything
			if !everything {
				name = args[0]
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				done, said, err := do(cmd, operator, name, reason)
				if ledger.SQLState(err) == outbox.StateUnknownRail {
					return withCode(exitNotFound, err)
				}
				if err != nil {
					return err
				}
				return done.write(cmd, said)
			})
		},
	}
	command.Flags().BoolVar(&everything, "everything", false, "all rails at once")
	needReason(command, &reason)
	return command
}

func railWords(name string) string {
	if name == operator.Everything {
		return "everything"
	}
	return "rail " + oneLine(name)
}

// pauseEnd is the end of a pause as flags give it.
type pauseEnd struct {
	until string
	span  time.Duration
}

func (e *pauseEnd) flags(command *cobra.Command) {
	command.Flags().StringVar(&e.until, "until", "", "when the pause ends, RFC 3339 with its zone, at most 366 days ahead")
	spanFlag(command.Flags(), &e.span, "for", time.Second, spanMost,
		"how long the pause lasts, by the database's clock, at least 1s")
}

// moment is the end, or zero for none. A span counts from the clock of the database, by which the pause ends.
func (e *pauseEnd) moment(ctx context.Context, op *operator.Operator) (time.Time, error) {
	switch {
	case e.until == "" && e.span == 0:
		return time.Time{}, nil
	case e.until != "" && e.span != 0:
		return time.Time{}, usage(errors.New("give --until or --for, and not both"))
	case e.until != "":
		until, err := parseTime("--until", e.until)
		return until, usage(err)
	}
	now, err := clockOf(ctx, op.Reader())
	return now.Add(e.span), err
}

// clockOf is the time of the database's clock: that of the machine on which a command runs may be wrong.
func clockOf(ctx context.Context, of *reader.Reader) (now time.Time, err error) {
	err = withinCell(ctx, func(ctx context.Context) (err error) {
		now, err = of.Now(ctx)
		return err
	})
	return now, err
}

// paused describes the effect of a pause.
func paused(what string, changed bool, pause *reader.Pause) string {
	return stopped(what, "paused", "ends", changed, pause)
}

// stopped describes the effect of a pause or of a closed gate. inForce is the first one, nil if it was ended meanwhile
// or is not known.
func stopped(what, done, ends string, changed bool, inForce *reader.Pause) string {
	switch {
	case inForce == nil && !changed:
		return what + " was " + done + " already"
	case inForce == nil:
		return what + " " + done
	case !changed:
		until := "has no end"
		if !inForce.Until.IsZero() {
			until = ends + " at " + clock(inForce.Until)
		}
		return fmt.Sprintf("%s was %s already by %s since %s, and %s: %s", what, done, inForce.By, clock(inForce.At), until,
			oneLine(inForce.Reason))
	case inForce.Until.IsZero():
		return what + " " + done
	default:
		return what + " " + done + " until " + clock(inForce.Until)
	}
}

// endedWords is by whom, since when, until when and why something was paused or closed that an act has ended. It may be
// another one than the operator has seen, begun or asked for by another operator, for another reason.
func endedWords(ended reader.Pause) string {
	said := ""
	if ended.By != "" {
		said = " by " + ended.By
	}
	said += " since " + clock(ended.At)
	if !ended.Until.IsZero() {
		said += " until " + clock(ended.Until)
	}
	return said + ": " + oneLine(ended.Reason)
}

// resumed describes the effect of a resumption, and the pause that still stops claims.
func resumed(what string, changed bool, ended, everything *reader.Pause) string {
	said := what + " was not paused"
	if changed {
		said = what + " resumed"
	}
	if changed && ended != nil {
		said += ": it was paused" + endedWords(*ended)
	}
	if everything != nil {
		said += "; " + explain.SayPause(*everything)
	}
	return said
}
