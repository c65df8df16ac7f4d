package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// act is the result of an operator's command, as data.
type act struct {
	Act           string     `json:"act"`
	RailType      string     `json:"rail_type,omitempty"`
	ParticipantID string     `json:"participant_id,omitempty"`
	TokenID       string     `json:"token_id,omitempty"`
	Endpoint      string     `json:"endpoint_id,omitempty"`
	OutboxID      payment.ID `json:"outbox_id,omitzero"`
	AttemptNo     int        `json:"attempt_no,omitempty"` // of the last row of the instruction
	Before        string     `json:"before,omitempty"`     // the value before the act
	Now           string     `json:"now"`
	Changed       bool       `json:"changed"`
}

// write prints the result: a line of text, or a JSON document.
func (a act) write(cmd *cobra.Command, said string) error {
	o := outputOf(cmd)
	if o.json {
		return o.document(a)
	}
	return o.text("%s\n", said)
}

// The sentences of acts on one instruction.

func triaged(done string, id payment.ID, before string) string {
	return fmt.Sprintf("%s: %s, was %s", done, id, before)
}

// replayed names the row after which the instruction is in pending: its REPLAYED row, or
// the last row of a quarantined instruction, which may have none.
func replayed(id payment.ID, row int) string {
	if row == 0 {
		return fmt.Sprintf("back in pending: %s, never claimed", id)
	}
	return fmt.Sprintf("back in pending: %s, row %d", id, row)
}

func resolved(id payment.ID, state payment.State) string {
	return fmt.Sprintf("resolved: %s is %s", id, state)
}

func cancelled(id payment.ID, row int) string { return fmt.Sprintf("cancelled: %s, row %d", id, row) }

func putOut(id payment.ID, row int) string {
	return fmt.Sprintf("due for one inquiry: %s, row %d", id, row)
}

func dueChanged(id payment.ID, due operator.DueChange) string {
	return fmt.Sprintf("due at %s: %s, was due at %s", clock(due.Is), id, clock(due.Was))
}

// needReason adds the flag that every act of an operator requires.
func needReason(command *cobra.Command, into *string) {
	command.Flags().StringVar(into, "reason", "", "the reason, for readers of the operator log")
	must(command.MarkFlagRequired("reason"))
}

// onPayment runs an act on the one instruction that a reference identifies.
func onPayment(ctx context.Context, reference string, do func(*operator.Operator, payment.ID) error) error {
	return withOperator(ctx, func(operator *operator.Operator) error { return onFound(ctx, operator, reference, do) })
}

func onFound(
	ctx context.Context, operator *operator.Operator, reference string, do func(*operator.Operator, payment.ID) error,
) error {
	found, err := operator.Reader().Find(ctx, reference)
	if err != nil {
		return err
	}
	if len(found) > 1 {
		return usage(severalFound(reference, found))
	}
	return do(operator, found[0].OutboxID)
}

// onPayments runs an act on each of several instructions, in a transaction of its own.
// One that is refused stops no other; any other error ends the command, and the acts
// until then remain.
func onPayments(cmd *cobra.Command, references []string, do func(*operator.Operator, payment.ID) error) error {
	if len(references) == 1 {
		return onPayment(cmd.Context(), references[0], do)
	}
	return withOperator(cmd.Context(), func(operator *operator.Operator) error {
		refused := 0
		for _, reference := range references {
			err := onFound(cmd.Context(), operator, reference, do)
			if err == nil {
				continue
			}
			err = fmt.Errorf("%s: %w", bounded(reference, 128), err)
			if !errors.Is(err, outbox.ErrNotAllowed) && !errors.Is(err, outbox.ErrNotFound) &&
				!errors.Is(err, outbox.ErrElsewhere) {
				return err
			}
			refused++
			report(cmd.ErrOrStderr(), err)
		}
		if refused > 0 {
			return withCode(exitPartial, fmt.Errorf("%d of %d were refused; the act was done on the others", refused,
				len(references)))
		}
		return nil
	})
}

// severalHelp is for acts that take several instructions.
const severalHelp = "Several IDs are processed in turn, each in a transaction of its own: one that is refused stops " +
	"no other, and the\n" +
	"exit code is then 7. To act on exactly the dead letters of a list, save the list:\n" +
	"railhead dead-letter list --code CODE --limit 1000 -o jsonl >letters.jsonl\n" +
	"jq -r .outbox_id letters.jsonl | xargs railhead dead-letter "

// idHelp describes how instructions are named.
const idHelp = "ID is an outbox id, a rail key, an instruction id or the rail's own reference, and must identify " +
	"one instruction.\n" +
	"Connects with RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log."
