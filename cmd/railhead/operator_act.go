package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
)

// act is what a command of an operator did, as data.
type act struct {
	Act           string     `json:"act"`
	RailType      string     `json:"rail_type,omitempty"`
	ParticipantID string     `json:"participant_id,omitempty"`
	OutboxID      payment.ID `json:"outbox_id,omitzero"`
	AttemptNo     int        `json:"attempt_no,omitempty"` // of the row that it appended
	Before        string     `json:"before,omitempty"`     // what it was until now
	Now           string     `json:"now"`
	Changed       bool       `json:"changed"`
}

// write says what was done: one line for people, one document for programs.
func (a act) write(cmd *cobra.Command, format string, args ...any) error {
	o := outputOf(cmd)
	if o.json {
		return o.document(a)
	}
	return o.text(format+"\n", args...)
}

// needReason adds the flag that every act of an operator wants.
func needReason(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, "reason", "", "why, for those who read the operator log later")
	must(command.MarkFlagRequired("reason"))
}

// onPayment runs an act on the one instruction that a reference means.
func onPayment(ctx context.Context, reference string, do func(*ledger.Operator, payment.ID) error) error {
	return withOperator(ctx, func(operator *ledger.Operator) error {
		found, err := operator.Reader().Find(ctx, reference)
		if err != nil {
			return err
		}
		if len(found) > 1 {
			return usage(severalFound(reference, found))
		}
		return do(operator, found[0].OutboxID)
	})
}

// idHelp says how instructions are named.
const idHelp = "ID is an outbox id, a rail key, an instruction id or the rail's own reference, and must mean one instruction.\n" +
	"Connects by RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log."
