package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

func paymentInquireCommand() *cobra.Command {
	var reason string
	var seen rowSeen
	command := &cobra.Command{
		Use: "inquire ID", Short: "Have the rail asked once about a parked instruction",
		Long: "Return an instruction that is parked with an unknown outcome to pending for one inquiry. A relayer that\n" +
			"serves the rail asks at once; \"executed\", and \"refused\" where it covers every send, end the payment. After\n" +
			"any other answer, and after none, it is parked again. It is never sent. Its dead letter stays open until\n" +
			"the payment has ended. payment show prints the answer; dead-letter resolve --not-executed needs one that\n" +
			"is not older than 15 minutes.\n\n" +
			"Refused (exit code 9) where the rail can't be asked, while it, its participant or everything is paused, and\n" +
			"after a failover or a restore while its lane is suspended.\n\n" +
			idHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onPayment(cmd, args[0], &seen, func(ctx context.Context, operator *operator.Operator,
				id payment.ID) error {
				number, err := operator.InquirePayment(ctx, id, reason)
				if err != nil {
					return err
				}
				return act{Act: "INQUIRE", OutboxID: id, AttemptNo: number, Before: string(payment.Parked),
					Now: string(payment.Unknown), Changed: true}.
					write(cmd, putOut(id, number))
			})
		},
	}
	seen.flag(command)
	needReason(command, &reason)
	return command
}
