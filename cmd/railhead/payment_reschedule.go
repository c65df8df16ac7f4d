package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// dueHelp describes the effect of a change of the due time.
const dueHelp = "Only the due time changes: pauses, suspensions, the key window and expires_at stay in force, and " +
	"an inquiry is not made before inquiry.not_before of the rail's profile. An instruction that is claimed,\n" +
	"parked or has ended\n" +
	"has no due time (exit code 9).\n\n" + idHelp

func paymentSendNowCommand() *cobra.Command {
	var reason string
	var seen rowSeen
	command := &cobra.Command{
		Use: "send-now ID", Short: "Make a pending instruction due at once",
		Long: "Make a pending instruction due at once: one that was enqueued for later, also before its not_before, or\n" +
			"one in backoff after a failure.\n\n" + dueHelp,
		Example: "  railhead payment send-now INV-1 --reason \"the bank is up again\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reschedule(cmd, args[0], &seen, "SEND_NOW", dueTime{}, reason)
		},
	}
	seen.flag(command)
	needReason(command, &reason)
	return command
}

func paymentRescheduleCommand() *cobra.Command {
	var reason string
	var due dueTime
	var seen rowSeen
	command := &cobra.Command{
		Use: "reschedule ID", Short: "Change the due time of a pending instruction",
		Long: "Change the due time of a pending instruction, to a time at most 366 days ahead, also before its\n" +
			"not_before. A time that is past by the database's clock is refused: payment send-now makes it due at once.\n\n" +
			dueHelp,
		Example: "  railhead payment reschedule INV-1 --in 2h --reason \"the bank closes until noon\"\n  railhead payment " +
			"reschedule INV-1 --at 2027-01-04T09:00:00Z --reason \"on the first, as ordered\"",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := due.read(); err != nil {
				return usage(err)
			}
			return reschedule(cmd, args[0], &seen, "RESCHEDULE", due, reason)
		},
	}
	command.Flags().StringVar(&due.text, "at", "", "the due time, RFC 3339 with its zone")
	spanFlag(command.Flags(), &due.in, "in", time.Second, spanMost,
		"the due time from now by the database's clock, at least 1s")
	seen.flag(command)
	needReason(command, &reason)
	return command
}

// dueTime is a due time as flags give it; the zero value is now.
type dueTime struct {
	text string
	at   time.Time     // what text says
	in   time.Duration // from now, in place of at
}

// read reads the one of two flags that was given.
func (d *dueTime) read() (err error) {
	switch {
	case (d.text == "") == (d.in == 0):
		return errors.New("give one of --at and --in: the due time")
	case d.text != "":
		d.at, err = parseTime("--at", d.text)
		return err
	default:
		return nil
	}
}

// change changes the due time of an instruction.
func (d *dueTime) change(
	ctx context.Context, op *operator.Operator, id payment.ID, reason string,
) (operator.DueChange, error) {
	if d.in != 0 {
		return op.PostponePayment(ctx, id, d.in, reason)
	}
	return op.ReschedulePayment(ctx, id, d.at, reason)
}

// dueAct is an act that changed a due time, as data.
type dueAct struct {
	act
	operator.DueChange
}

func reschedule(cmd *cobra.Command, reference string, seen *rowSeen, name string, due dueTime, reason string) error {
	return onPayment(cmd, reference, seen, func(ctx context.Context, operator *operator.Operator,
		id payment.ID) error {
		changed, err := due.change(ctx, operator, id, reason)
		if err != nil {
			return err
		}
		done := dueAct{act{Act: name, OutboxID: id, Now: "PENDING", Changed: !changed.Is.Equal(changed.Was)}, changed}
		return writeDone(cmd, done, dueChanged(id, changed))
	})
}
