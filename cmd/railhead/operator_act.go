package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
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

	OtherCell *reader.OtherKey          `json:"other_cell,omitempty"` // that has the key of what was cancelled, or may have it
	InForce   *stop                     `json:"in_force,omitempty"`   // the pause or closed gate after an act that stops
	Ended     *stop                     `json:"ended,omitempty"`      // the one that the act has ended
	Events    *int                      `json:"events,omitempty"`     // of an endpoint: that became due, or were discarded
	Discarded []operator.DiscardedEvent `json:"discarded,omitempty"`  // the first of these
}

// stop is a pause or a closed gate, as data. The reason names the operators who have asked for it, and says how many
// more words there are if not all of them fit.
type stop struct {
	By     string    `json:"by,omitempty"` // empty: what delivered to the endpoint
	At     time.Time `json:"at,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

func stopOf(pause *reader.Pause) *stop {
	if pause == nil {
		return nil
	}
	return &stop{By: pause.By, At: pause.At, Until: pause.Until, Reason: pause.Reason}
}

// write prints the result: a line of text, or a JSON document.
func (a act) write(cmd *cobra.Command, said string) error {
	return writeDone(cmd, a, said)
}

// writeDone prints what was done. If it can't be printed, the error says that it was done.
func writeDone(cmd *cobra.Command, data any, said string) error {
	o := outputOf(cmd)
	err := error(nil)
	if o.json {
		err = o.document(data)
	} else {
		err = o.text("%s\n", printable(said))
	}
	if err != nil {
		return &unprinted{fmt.Errorf("it was done (%s), but: %w", said, err)}
	}
	return nil
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

func cancelled(id payment.ID, done operator.Cancellation) string {
	said := fmt.Sprintf("cancelled: %s, row %d", id, done.AttemptNo)
	if done.OtherCell != nil {
		said += "; " + done.OtherCell.String()
	}
	return said
}

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

// onOne is an act on one instruction. Its context has what the act compares.
type onOne func(ctx context.Context, operator *operator.Operator, id payment.ID) error

// rowSeen is the last row of an instruction that the person saw, as a flag gives it.
type rowSeen struct {
	row   int
	given func() bool
	// without guards the act where no row is given; nil: by the function of the schema alone.
	without func(context.Context, payment.ID) context.Context
}

// flag adds --row to an act.
func (r *rowSeen) flag(command *cobra.Command) {
	numberFlag(command, &r.row, "row", 0, math.MaxInt32,
		"do it only if this is the number of the instruction's last row, as payment show prints it; 0: it has none")
	r.given = func() bool { return command.Flags().Changed("row") }
}

// guarded returns the context of an act on an instruction; nil: it compares nothing.
func (r *rowSeen) guarded(ctx context.Context, id payment.ID) context.Context {
	switch {
	case r == nil:
		return ctx
	case r.given():
		return operator.IfLastRow(ctx, id, r.row)
	case r.without != nil:
		return r.without(ctx, id)
	default:
		return ctx
	}
}

// onPayment runs an act on the one instruction that a reference identifies.
func onPayment(cmd *cobra.Command, reference string, seen *rowSeen, do onOne) error {
	return withOperator(cmd.Context(), func(operator *operator.Operator) error {
		return onFound(cmd, operator, reference, seen, do)
	})
}

func onFound(cmd *cobra.Command, operator *operator.Operator, reference string, seen *rowSeen, do onOne) error {
	ctx := cmd.Context()
	var found []reader.Found
	err := withinCell(ctx, func(ctx context.Context) (err error) {
		found, err = operator.Reader().Find(ctx, reference)
		return err
	})
	if err != nil {
		return err
	}
	one, err := onlyFound(cmd, reference, found)
	if err != nil {
		return err
	}
	if one.Mistakable(reference) {
		return usage(mistakable(reference, one))
	}
	id := one.OutboxID
	return ifLost(repeatOnPayment, do(seen.guarded(ctx, id), operator, id))
}

// onPayments runs an act on each of several instructions, in a transaction of its own.
// One that is refused stops no other; any other error ends the command, which names those
// that were not tried, and the acts until then remain.
func onPayments(cmd *cobra.Command, references []string, seen *rowSeen, do onOne) error {
	if len(references) == 1 {
		return onPayment(cmd, references[0], seen, do)
	}
	if seen.given() {
		return usage(errors.New("--row is the last row of one instruction: name one ID"))
	}
	return withOperator(cmd.Context(), func(op *operator.Operator) error {
		refused, code := 0, exitOK
		for n, reference := range references {
			err := onFound(cmd, op, reference, seen, do)
			if err == nil {
				continue
			}
			err = fmt.Errorf("%s: %w", bounded(reference, 128), err)
			if !errors.Is(err, outbox.ErrNotAllowed) && !errors.Is(err, outbox.ErrNotFound) &&
				!errors.Is(err, outbox.ErrElsewhere) && !errors.Is(err, operator.ErrSentAgain) {
				return notTried(err, references, n, refused)
			}
			if refused++; code == exitOK {
				code = exitCode(err)
			} else if code != exitCode(err) {
				code = exitNotAllowed
			}
			report(cmd.ErrOrStderr(), err)
		}
		if refused == len(references) {
			return withCode(code, fmt.Errorf("all %d were refused: nothing was done", refused))
		}
		if refused > 0 {
			return withCode(exitPartial, fmt.Errorf("%d of %d were refused; the act was done on the others", refused,
				len(references)))
		}
		return nil
	})
}

// notTried adds to the error that ended a command what became of the instructions before that one, and names those
// after it.
func notTried(err error, references []string, at, refused int) error {
	said := fmt.Sprintf("before that %d of %d were done, and %d refused", at-refused, len(references), refused)
	rest := make([]string, 0, len(references))
	for _, reference := range references[at+1:] {
		rest = append(rest, bounded(reference, 128))
	}
	if len(rest) > 0 {
		said += "; not tried: " + strings.Join(rest, " ")
	}
	return fmt.Errorf("%w\n%s", err, said)
}

// severalHelp is for acts that take several instructions.
const severalHelp = "Several IDs are processed in turn, each in a transaction of its own: one that is refused stops " +
	"no other, and the\n" +
	"exit code is then 7; if all are refused, it is that of the refusals (9 or 3). Any other error ends the\n" +
	"command, which names those that were not tried. To act on exactly\n" +
	"the dead letters of a list, save the list (on standard error it says where there may be more):\n" +
	"railhead dead-letter list --code CODE --limit 1000 -o jsonl >letters.jsonl\n" +
	"jq -r .outbox_id letters.jsonl | xargs railhead dead-letter "

// idHelp describes how instructions are named.
const idHelp = "ID is an outbox id, a rail key, an instruction id or the rail's own reference, and must identify " +
	"one instruction.\n" +
	"Connects with RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log."
