package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

func paymentCancelCommand() *cobra.Command {
	var reason string
	var seen rowSeen
	command := &cobra.Command{
		Use: "cancel ID", Short: "End a pending instruction that was never executed",
		Long: "End an instruction that is in pending and of which no send can have been executed. It is atomic against\n" +
			"the claim: exactly one of the two happens. An instruction that is claimed, or has a send without a\n" +
			"trustworthy answer, may have been paid, and the act is refused (exit code 9). Only once it has succeeded\n" +
			"may the participant pay in another way, and not if the answer says that another cell has its key, too, or\n" +
			"may have it: then see first what became of it there.\n\n" + idHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onPayment(cmd, args[0], &seen, func(ctx context.Context, operator *operator.Operator,
				id payment.ID) error {
				done, err := operator.CancelPayment(ctx, id, reason)
				if err != nil {
					return err
				}
				return act{Act: "CANCEL", OutboxID: id, AttemptNo: done.AttemptNo, Before: "PENDING",
					Now: string(payment.Cancelled), Changed: true, OtherCell: done.OtherCell}.write(cmd, cancelled(id, done))
			})
		},
	}
	seen.flag(command)
	needReason(command, &reason)
	return command
}
