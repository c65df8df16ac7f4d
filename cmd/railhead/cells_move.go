package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// The bounds of --drain.
const (
	drainStandard = 30 * time.Second
	drainMost     = 10 * time.Minute
)

// cellMove is the result of a move, as data.
type cellMove struct {
	Act          string      `json:"act"`
	Cell         string      `json:"cell"`
	Buckets      int         `json:"buckets"`
	Participants int         `json:"participants"`
	Keys         int64       `json:"keys"`
	Stops        []string    `json:"stops,omitempty"` // in force in the new cell, in words
	Map          cells.State `json:"map"`
}

func cellMoveCommand() *cobra.Command {
	how, cancel := cells.Moving{}, false
	command := &cobra.Command{
		Use: "move CELL BUCKETS", Short: "Move buckets whose participants have payments to a cell",
		Long: "Move buckets with their participants to a cell, under traffic: numbers of 0 to 1023 and ranges, with\n" +
			"commas between. One bucket follows the other. The cell that has it refuses its participants (RH009), waits\n" +
			"until transactions have ended, and packs their numbers and keys; these are copied, the bucket is given, and\n" +
			"the other cell takes it once it has compared what it stored. Callers repeat their calls meanwhile.\n\n" +
			"The participants move, the payments stay: what was enqueued before is dispatched by the cell that has it,\n" +
			"which also keeps its dead letters and gets its callbacks. In the new cell numbers go on, and a repeated call\n" +
			"is answered by its key, with the state ELSEWHERE. Callers over HTTP need tokens of the new cell. Where a rail\n" +
			"keeps the order of a participant's payments, the bucket waits until none of them is unresolved; a participant\n" +
			"that is paused, or whose gate is closed, is not moved. If that takes longer than --drain, the cell takes the\n" +
			"bucket again, and the command fails.\n\n" +
			"The command can be repeated: it goes on where it was broken off. --cancel ends the moves to the cell that\n" +
			"were not given yet; a bucket that was given is moved back by another move. Every cell of the directory\n" +
			"must be reached; --without leaves out one that is lost.\n\n" + cellHelp,
		Example: "  railhead cell move west 512-515 --reason 'half of the participants, ticket 4711'\n" +
			"  railhead cell move west 512-515 --cancel --reason 'too slow at noon, ticket 4711'",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			buckets, err := cells.Buckets(args[1])
			if err != nil {
				return usage(err)
			}
			how.Said = func(progress string) {
				if o := outputOf(cmd); !o.json {
					_ = o.text("%s\n", progress)
				}
			}
			return withCells(cmd.Context(), func(start *operator.Operator, at cells.Acts) error {
				if cancel {
					n, ended, err := cells.CancelMove(cmd.Context(), start, args[0], buckets, how, at)
					done := cellMove{Act: "CANCEL_MOVE", Cell: args[0], Buckets: ended}
					return done.write(cmd, n, fmt.Sprintf("%d moves to cell %s were ended", ended, args[0]), err)
				}
				n, m, err := cells.Move(cmd.Context(), start, args[0], buckets, how, at)
				done := cellMove{Act: "MOVE_BUCKETS", Cell: args[0], Buckets: m.Buckets, Participants: m.Participants,
					Keys: m.Keys, Stops: m.Stops}
				return done.write(cmd, n, movedTo(args[0], m), err)
			})
		},
	}
	needReason(command, &how.Reason)
	allowWithout(command, &how.Without)
	how.Drain = drainStandard
	spanFlag(command.Flags(), &how.Drain, "drain", 0, drainMost,
		"how long the participants of a bucket are refused until they can be moved; then the cell takes them again; "+
			"0: only those are moved that can be at once")
	command.Flags().BoolVar(&cancel, "cancel", false, "end the moves that were not given yet")
	return command
}

// movedTo is the last line of a move.
func movedTo(cell string, m cells.Moved) string {
	said := fmt.Sprintf("%d buckets were moved to cell %s, with %d participants and %d keys", m.Buckets, cell,
		m.Participants, m.Keys)
	if len(m.Stops) > 0 {
		said += "; in force there: " + strings.Join(m.Stops, ", ")
	}
	return said
}

// write prints the cells that do not agree, and then the result. It returns the act's error.
func (m cellMove) write(cmd *cobra.Command, n *cells.Operators, said string, failed error) error {
	if n == nil {
		return awayCode(failed)
	}
	defer n.Close()
	m.Map = n.State()
	o := outputOf(cmd)
	failed = awayCode(failed)
	if o.json {
		return errors.Join(failed, o.document(m))
	}
	for _, cell := range m.Map.Cells {
		if err := writeLate(o, cell); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, writeStrays(o, m.Map.Strays), o.text("%s\n", said))
}
