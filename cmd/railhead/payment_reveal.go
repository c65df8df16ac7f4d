package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

func paymentRevealCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "reveal ID", Short: "Show the payload and headers of one instruction, and log that",
		Long: "Show the payload and headers that the next send of an instruction would have. They hold accounts and\n" +
			"names: the act goes to the operator log first, and the database returns them only once it is committed.\n" +
			"If no row has a payload any more, because its month was detached, the exit code is 9.\n\n" + idHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onPayment(cmd, args[0], nil, func(ctx context.Context, operator *operator.Operator,
				id payment.ID) error {
				found, err := operator.RevealPayload(ctx, id, reason)
				if err != nil && found.ActID != (payment.ID{}) {
					return fmt.Errorf("nothing was shown, and the operator log has act %s: %w", found.ActID, err)
				}
				if err != nil {
					return err
				}
				return writeRevealed(outputOf(cmd), id, found)
			})
		},
	}
	needReason(command, &reason)
	return command
}

func writeRevealed(o output, id payment.ID, found operator.Revealed) error {
	if o.json {
		return o.document(struct {
			Act      string     `json:"act"`
			OutboxID payment.ID `json:"outbox_id"`
			operator.Revealed
		}{"REVEAL_PAYLOAD", id, found})
	}
	return o.text("payload  %s\nheaders  %s\n", oneLine(string(found.Payload)), oneLine(string(found.Headers)))
}
