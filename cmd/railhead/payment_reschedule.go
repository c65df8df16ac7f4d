package main

import (
	"context"
	"errors"
	"fmt"
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
		Long: "Make a pending instruction due at once: one that was enqueued for later, or one in backoff after a " +
			"failure.\n\n" + dueHelp,
		Example: "  railhead payment send-now INV-1 --reason \"the bank is up again\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return reschedule(cmd, args[0], &seen, "SEND_NOW", time.Time{}, reason)
		},
	}
	seen.flag(command)
	needReason(command, &reason)
	return command
}

func paymentRescheduleCommand() *cobra.Command {
	var reason, at string
	var seen rowSeen
	var in time.Duration
	command := &cobra.Command{
		Use: "reschedule ID", Short: "Change the due time of a pending instruction",
		Long: "Change the due time of a pending instruction, to a time at most 366 days ahead.\n\n" + dueHelp,
		Example: "  railhead payment reschedule INV-1 --in 2h --reason \"the bank closes until noon\"\n  railhead payment " +
			"reschedule INV-1 --at 2026-12-01T09:00:00Z --reason \"on the first, as ordered\"",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			due, err := dueTime(at, in)
			if err != nil {
				return usage(err)
			}
			return reschedule(cmd, args[0], &seen, "RESCHEDULE", due, reason)
		},
	}
	command.Flags().StringVar(&at, "at", "", "the due time, RFC 3339 with its zone")
	command.Flags().DurationVar(&in, "in", 0, "the due time from now by this machine's clock, at least 1s")
	seen.flag(command)
	needReason(command, &reason)
	return command
}

// dueTime reads the one of two flags that was given.
func dueTime(at string, in time.Duration) (time.Time, error) {
	switch {
	case (at == "") == (in == 0):
		return time.Time{}, errors.New("give one of --at and --in: the due time")
	case at != "":
		return parseTime("--at", at)
	case in < time.Second:
		return time.Time{}, fmt.Errorf("--in is %s: use at least 1s, or payment send-now", in)
	default:
		return time.Now().Add(in), nil
	}
}

// dueAct is an act that changed a due time, as data.
type dueAct struct {
	act
	operator.DueChange
}

func reschedule(cmd *cobra.Command, reference string, seen *rowSeen, name string, due time.Time, reason string) error {
	return onPayment(cmd, reference, seen, func(ctx context.Context, operator *operator.Operator,
		id payment.ID) error {
		changed, err := operator.ReschedulePayment(ctx, id, due, reason)
		if err != nil {
			return err
		}
		done := dueAct{act{Act: name, OutboxID: id, Now: "PENDING", Changed: !changed.Is.Equal(changed.Was)}, changed}
		return writeDone(cmd, done, dueChanged(id, changed))
	})
}
