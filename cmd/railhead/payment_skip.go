package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// skipAct is the result of payment skip, as data. Nothing about the instruction changed.
type skipAct struct {
	Act        string     `json:"act"`
	OutboxID   payment.ID `json:"outbox_id"`
	SequenceID int64      `json:"sequence_id"` // the number that was passed
}

func paymentSkipCommand() *cobra.Command {
	var reason string
	var seen rowSeen
	command := &cobra.Command{
		Use: "skip ID", Short: "Let what waits in order behind an instruction go on",
		Long: "Let the later instructions of its participant go on past an instruction that holds them back on a rail\n" +
			"with order STRICT. Only one that has ended or is parked is passed. Nothing about it changes: its money is as\n" +
			"certain as before, and its dead letter stays open. A replay, and an inquiry that an operator asks for, put it\n" +
			"in front of those that still wait.\n\n" +
			"Refused (exit code 9) where it is not the head of a line, behind which others wait; where no relayer has\n" +
			"advanced the line since it changed, because the rail is paused or none serves it; and where it is pending\n" +
			"or claimed: cancel it then, or change its due time with payment reschedule.\n\n" + idHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onPayment(cmd, args[0], &seen, func(ctx context.Context, operator *operator.Operator,
				id payment.ID) error {
				number, err := operator.SkipInOrder(ctx, id, reason)
				if err != nil {
					return err
				}
				return writeDone(cmd, skipAct{Act: "SKIP_IN_ORDER", OutboxID: id, SequenceID: number}, skipped(id, number))
			})
		},
	}
	seen.flag(command)
	needReason(command, &reason)
	return command
}

func skipped(id payment.ID, number int64) string {
	return fmt.Sprintf("passed in order: %s, sequence %d", id, number)
}
