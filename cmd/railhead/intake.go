package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

func intakeCommand() *cobra.Command {
	return group("intake", "Refuse new instructions of a rail, of a participant or of everything, and accept them again",
		intakeCloseCommand(), intakeOpenCommand(), intakeListCommand())
}

func intakeCloseCommand() *cobra.Command {
	var end pauseEnd
	command := intakeSwitch("close", "Refuse new instructions of a rail, of a participant, or of everything",
		"Refuse new instructions of a rail, of a participant, or of everything: a caller that enqueues gets RH014,\n"+
			"and nothing is stored. What was enqueued before stays and is dispatched; a call that repeats one of those\n"+
			"is answered as before. To stop dispatch and accept instructions, use railhead rail pause. An enqueue that\n"+
			"is under way when the gate closes may still be stored. With --for or --until the reaper opens the gate;\n"+
			"without, an operator does. A gate that is closed already keeps the first login and time, the reason is\n"+
			"added, and it opens at the later of the two ends. Connects with RAILHEAD_OPERATOR_URL; the act, the login\n"+
			"and the reason go to the operator log.",
		func(cmd *cobra.Command, operator *operator.Operator, gate reader.Gate, reason string) (act, string, error) {
			until, err := end.moment(cmd.Context(), operator)
			if err != nil {
				return act{}, "", err
			}
			changed, err := operator.CloseEnqueue(cmd.Context(), gate, reason, until)
			if err != nil {
				return act{}, "", err
			}
			closed, known := afterAct(cmd, func(ctx context.Context) (*reader.ClosedGate, error) {
				return operator.Reader().ClosedGate(ctx, gate)
			})
			if !known && changed {
				closed = &reader.ClosedGate{Until: until}
			}
			return act{Act: "CLOSE_ENQUEUE", Now: "closed", Changed: changed, InForce: stopOf(pauseOf(closed))},
				gateClosed(gate, changed, closed), nil
		})
	end.flags(command)
	return command
}

func intakeOpenCommand() *cobra.Command {
	return intakeSwitch("open", "Accept new instructions again",
		"Open a gate that railhead intake close has closed, so that new instructions are accepted again. Each gate\n"+
			"is opened separately: a rail that is closed stays closed when everything is opened. Connects with\n"+
			"RAILHEAD_OPERATOR_URL.",
		func(cmd *cobra.Command, op *operator.Operator, gate reader.Gate, reason string) (act, string, error) {
			var ended *reader.ClosedGate
			changed, err := op.OpenEnqueue(operator.TellGate(cmd.Context(), gate, &ended), gate, reason)
			if err != nil {
				return act{}, "", err
			}
			everything, _ := afterAct(cmd, func(ctx context.Context) (*reader.ClosedGate, error) {
				return op.Reader().ClosedGate(ctx, everythingGate)
			})
			return act{Act: "OPEN_ENQUEUE", Now: "open", Changed: changed, Ended: stopOf(pauseOf(ended))},
				gateOpened(gate, changed, ended, everything), nil
		})
}

// everythingGate is the one of the whole cell.
var everythingGate = reader.Gate{Scope: reader.GateCell, Name: operator.Everything}

// intakeSwitch is one of the two commands; do returns the act and its sentence.
func intakeSwitch(word, short, long string,
	do func(cmd *cobra.Command, operator *operator.Operator, gate reader.Gate, reason string) (act, string,
		error)) *cobra.Command {
	var reason, participant string
	everything := false
	command := &cobra.Command{
		Use: word + " RAIL | --participant ID | --everything", Short: short, Long: long,
		Example: "  railhead intake " + word + " bank --reason 'they close for the year, ticket 4711'\n" +
			"  railhead intake " + word + " --participant p1 --reason 'their keys were stolen'\n" +
			"  railhead intake " + word + " --everything --reason 'move to another database'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var gates []reader.Gate
			if len(args) == 1 {
				gates = append(gates, reader.Gate{Scope: reader.GateRail, Name: args[0]})
			}
			if cmd.Flags().Changed("participant") {
				gates = append(gates, reader.Gate{Scope: reader.GateParticipant, Name: participant})
			}
			if everything {
				gates = append(gates, everythingGate)
			}
			if len(gates) != 1 {
				return usage(errors.New("name one rail, or give --participant or --everything"))
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				done, said, err := do(cmd, operator, gates[0], reason)
				if ledger.SQLState(err) == outbox.StateUnknownRail {
					return withCode(exitNotFound, err)
				}
				if err != nil {
					return err
				}
				switch gates[0].Scope {
				case reader.GateParticipant:
					done.ParticipantID = gates[0].Name
				case reader.GateRail, reader.GateCell:
					done.RailType = gates[0].Name
				}
				return done.write(cmd, said)
			})
		},
	}
	command.Flags().StringVar(&participant, "participant", "", "new instructions of this participant, on every rail")
	command.Flags().BoolVar(&everything, "everything", false, "all new instructions")
	needReason(command, &reason)
	return command
}

// gateClosed describes the effect of a closing.
func gateClosed(gate reader.Gate, changed bool, closed *reader.ClosedGate) string {
	return stopped("enqueue for "+oneLine(gate.String()), "closed", "opens", changed, pauseOf(closed))
}

// pauseOf is a closed gate as a pause; nil: it is open.
func pauseOf(closed *reader.ClosedGate) *reader.Pause {
	if closed == nil {
		return nil
	}
	return &reader.Pause{By: closed.By, At: closed.At, Reason: closed.Reason, Until: closed.Until}
}

// gateOpened describes the effect of an opening, and the gate that still refuses new instructions.
func gateOpened(gate reader.Gate, changed bool, ended, everything *reader.ClosedGate) string {
	said := "enqueue for " + oneLine(gate.String()) + " was not closed"
	if changed {
		said = "enqueue for " + oneLine(gate.String()) + " opened"
	}
	if changed && ended != nil {
		said += ": it was closed" + endedWords(*pauseOf(ended))
	}
	if everything != nil {
		said += fmt.Sprintf("; everything is closed by %s since %s: %s", everything.By, clock(everything.At),
			oneLine(everything.Reason))
	}
	return said
}

func intakeListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the closed gates",
		Long: "List the gates that are closed, so that new instructions of a rail, a participant or everything are\n" +
			"refused: since when, by whom and why, and until when; the one that was closed last comes first. Connects\n" +
			"with RAILHEAD_READER_URL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				closed, err := reader.ClosedGates(cmd.Context())
				if err != nil {
					return err
				}
				o := outputOf(cmd)
				switch {
				case o.json:
					return o.document(emptyNotNull(closed))
				case len(closed) == 0:
					return o.text("enqueue is open for everything\n")
				default:
					return writeGates(o, closed)
				}
			})
		},
	}
}

func writeGates(o output, closed []reader.ClosedGate) error {
	rows := make([][]cell, 0, len(closed))
	for _, gate := range closed {
		rows = append(rows, []cell{{oneLine(gate.String()), alarm}, {text: clock(gate.At)}, {text: clock(gate.Until)},
			{text: gate.By}, {text: oneLine(gate.Reason)}})
	}
	return o.table([]string{"CLOSED", "SINCE", "UNTIL", "BY", "REASON"}, rows)
}
