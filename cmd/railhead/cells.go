package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/migrations"
)

func cellCommand() *cobra.Command {
	return group("cell", "Spread participants over several cells", cellAddCommand(), cellRejoinCommand(),
		cellAssignCommand(), cellMoveCommand(), cellSettleCommand(), cellSyncCommand(), cellListCommand(),
		cellStatusCommand())
}

// cellHelp says how the cells of a directory are found.
const cellHelp = "The act begins with the cell of RAILHEAD_OPERATOR_URL, and finds each cell by the name of its\n" +
	"setting: one with setting WEST by RAILHEAD_OPERATOR_URL_WEST. Every variable of that form is looked into: if one\n" +
	"leads to no cell of the directory, acts are refused. Login and reason go to the operator log of each cell."

// cellURL is the connection string of a cell: that of the variable with the setting at its end.
func cellURL(variable, setting string) (string, error) {
	name := variable + "_" + setting
	if url := os.Getenv(name); url != "" {
		return url, nil
	}
	return "", usage(fmt.Errorf("set %s, the connection string of the cell with setting %s", name, bounded(setting, 63)))
}

// cellSettings are the settings for which the process has connection strings, in order.
func cellSettings(variable string) (settings []string) {
	for _, entry := range os.Environ() {
		name, url, _ := strings.Cut(entry, "=")
		if setting, has := strings.CutPrefix(name, variable+"_"); has && setting != "" && url != "" {
			settings = append(settings, setting)
		}
	}
	slices.Sort(settings)
	return settings
}

// cellPlaces is where cells are found by their settings.
func cellPlaces[C cells.Conn](
	s settings, variable string, open func(context.Context, ledger.Config) (C, error),
) cells.Places[C] {
	return cells.Places[C]{
		Settings: cellSettings(variable), Schema: s.Cell, Schemas: cellSchemas(variable),
		Open: func(ctx context.Context, setting, schema string) (conn C, err error) {
			url, err := cellURL(variable, setting)
			if err != nil {
				return conn, err
			}
			config := s.config(url)
			config.Cell = schema
			if conn, err = open(ctx, config); err != nil {
				err = usage(fmt.Errorf("%s_%s: %w", variable, setting, err))
			}
			return conn, err
		},
	}
}

// withCells runs an act that begins with the operator's own cell.
func withCells(ctx context.Context, do func(start *operator.Operator, at cells.Acts) error) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	return withOperator(ctx, func(start *operator.Operator) error {
		return ifLost(completes, do(start, cellPlaces(s, "RAILHEAD_OPERATOR_URL", operator.Open)))
	})
}

// cellAct is the result of an act on the map, as data.
type cellAct struct {
	Act     string      `json:"act"`
	Cell    string      `json:"cell,omitempty"`
	Given   int         `json:"buckets_given"`
	Changed bool        `json:"changed"`
	Map     cells.State `json:"map"`
}

// write prints the result, and the cells that have not learned of it. It returns the act's error.
func (a cellAct) write(cmd *cobra.Command, said string, failed error) error {
	o := outputOf(cmd)
	if o.json {
		return errors.Join(failed, o.document(a))
	}
	if err := o.text("%s\n", said); err != nil {
		return errors.Join(failed, err)
	}
	for _, cell := range a.Map.Cells {
		if err := writeLate(o, cell); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, writeStrays(o, a.Map.Strays))
}

// writeStrays names the settings because of which nothing is spread.
func writeStrays(o output, strays []cells.Stray) error {
	for _, stray := range strays {
		if err := o.text("setting %s, which no map names: %s\n", stray.Setting, oneLine(stray.Why)); err != nil {
			return err
		}
	}
	return nil
}

// writeLate says of a cell what it has not learned, or does not take.
func writeLate(o output, cell cells.CellState) error {
	switch {
	case cell.Away != "":
		return o.text("cell %s was not reached: %s\n", cell.Name, oneLine(cell.Away))
	case cell.Refuses != "":
		return o.text("cell %s refuses the map: %s\n", cell.Name, oneLine(cell.Refuses))
	case cell.Left > 0:
		return o.text("cell %s has %d participants whose buckets are not its own any more, or were not meanwhile: "+
			"compare both cells with the "+
			"rails\n", cell.Name, cell.Left)
	case cell.Later > 0:
		return o.text("cell %s takes %d buckets once its server is accepted: railhead timeline accept, then "+
			"railhead cell sync\n", cell.Name, cell.Later)
	case cell.Behind > 0:
		return o.text("cell %s does not know %d changes of buckets: railhead cell sync\n", cell.Name, cell.Behind)
	case cell.Standby:
		return o.text("cell %s was read from a standby, which can't tell whether it takes instructions\n", cell.Name)
	case !cell.Confirmed:
		return o.text("cell %s takes no instruction, because its map was not compared since its server was started or "+
			"promoted, or a dump was loaded into it: railhead cell sync\n", cell.Name)
	default:
		return nil
	}
}

func cellAddCommand() *cobra.Command {
	var setting, schema, reason string
	first := false
	command := &cobra.Command{
		Use: "add NAME", Short: "Make a database a cell of a directory",
		Long: "Make a database a cell of the directory, over which participants are spread. With --first it begins a\n" +
			"directory: it takes all buckets, and may have payments. Any other cell must be empty, and takes no bucket\n" +
			"until some are assigned to it. From then on each cell refuses what is another one's (RH009). A cell keeps\n" +
			"its name. The command can be repeated: it completes what was broken off.\n\n" +
			"--setting names the connection string of the cell: every process has its own, in a variable with the\n" +
			"setting at its end. The string is stored nowhere.\n\n" + cellHelp,
		Example: "  railhead cell add east --setting EAST --first --reason 'we grow, ticket 4711'\n" +
			"  railhead cell add west --setting WEST --reason 'we grow, ticket 4711'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := migrations.CheckCell(schema); err != nil {
				return usage(fmt.Errorf("--schema: %w", err))
			}
			ctx, cell := cmd.Context(), reader.Cell{Name: args[0], Setting: setting, Schema: schema}
			if first {
				return addFirst(cmd, cell, reason)
			}
			return withCells(ctx, func(start *operator.Operator, at cells.Acts) error {
				n, changed, err := cells.Add(ctx, start, cell, reason, at)
				if err != nil {
					return awayCode(err)
				}
				defer n.Close()
				return added(cmd, "ADD_CELL", cell.Name, changed, n)
			})
		},
	}
	command.Flags().StringVar(&setting, "setting", "", "the name of its connection setting, such as WEST")
	command.Flags().StringVar(&schema, "schema", migrations.DefaultCell, "the schema of the cell in its database")
	command.Flags().BoolVar(&first, "first", false, "begin a directory with this cell")
	must(command.MarkFlagRequired("setting"))
	needReason(command, &reason)
	return command
}

// addFirst begins a directory. Only the connection of the cell itself is needed.
func addFirst(cmd *cobra.Command, cell reader.Cell, reason string) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	ctx, at := cmd.Context(), cellPlaces(s, "RAILHEAD_OPERATOR_URL", operator.Open)
	start, err := at.Open(ctx, cell.Setting, cell.Schema)
	if err != nil {
		return err
	}
	defer start.Close()
	before, err := start.Directory(ctx)
	if err != nil {
		return err
	}
	id, err := cells.First(ctx, cell, reason, at)
	if err != nil {
		return ifLost(completes, err)
	}
	n, known := afterAct(cmd, func(ctx context.Context) (*cells.Operators, error) { return cells.Read(ctx, start, at) })
	if !known {
		done := cellAct{Act: "ADD_CELL", Cell: cell.Name, Changed: before.ID == ""}
		return done.write(cmd, fmt.Sprintf("cell %s is in directory %s", cell.Name, id), nil)
	}
	defer n.Close()
	return added(cmd, "ADD_CELL", cell.Name, before.ID == "", n)
}

// added prints what a cell takes after it was added, or has joined again.
func added(cmd *cobra.Command, act, name string, changed bool, n *cells.Operators) error {
	state := n.State()
	said := fmt.Sprintf("cell %s is in directory %s", name, state.DirectoryID)
	at := slices.IndexFunc(state.Cells, func(c cells.CellState) bool { return c.Name == name })
	if at >= 0 && state.Cells[at].Takes >= 0 {
		said += fmt.Sprintf(", and takes %d buckets", state.Cells[at].Takes)
	}
	return cellAct{Act: act, Cell: name, Changed: changed, Map: state}.write(cmd, said, nil)
}

func cellRejoinCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "rejoin NAME", Short: "Give a restored cell its map again",
		Long: "Give a cell its map again whose database was restored to a time before it had one: until then it takes the\n" +
			"participants of all cells, so run this before traffic reaches it. RAILHEAD_OPERATOR_URL is that of another\n" +
			"cell of the directory, and all of them must be reached. The cell takes its own buckets once its server is\n" +
			"accepted (railhead timeline accept) and it has learned of them (railhead cell sync).\n\n" +
			"Only a database from which the cell was made can rejoin: it is recognised by the constant of its rail keys.\n" +
			"If participants have enqueued in it since it was restored to a time before it joined, their rail keys are not\n" +
			"those of the directory, and it is refused: restore it again, to a later time. A cell that has a map, however\n" +
			"old, does not rejoin: railhead cell sync is enough.\n\n" + cellHelp,
		Example: "  railhead cell rejoin west --reason 'restored from the backup of 3:00, ticket 4712'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCells(cmd.Context(), func(start *operator.Operator, at cells.Acts) error {
				n, err := cells.Rejoin(cmd.Context(), start, args[0], reason, at)
				if err != nil {
					return awayCode(err)
				}
				defer n.Close()
				return added(cmd, "REJOIN_CELL", args[0], true, n)
			})
		},
	}
	needReason(command, &reason)
	return command
}

func cellAssignCommand() *cobra.Command {
	var said cells.Said
	command := &cobra.Command{
		Use: "assign CELL BUCKETS", Short: "Give buckets of participants to a cell",
		Long: "Give buckets to a cell: numbers of 0 to 1023 and ranges, with commas between. The cell that has them\n" +
			"refuses their participants from its commit on; then the other one learns that it takes them. In between,\n" +
			"which is milliseconds, no cell takes them, and a caller repeats its call.\n\n" +
			"Buckets whose participants have payments are not given (railhead cell move moves them). The act then gives\n" +
			"none of that cell's, and names one of them. The cell and each that ever had one of the buckets must be\n" +
			"reached, or nothing is changed; --without leaves out one that had a bucket before and is lost. The command\n" +
			"can be repeated: it completes what was broken off.\n\n" + cellHelp,
		Example: "  railhead cell assign west 512-1023 --reason 'half of the new participants, ticket 4711'",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			buckets, err := cells.Buckets(args[1])
			if err != nil {
				return usage(err)
			}
			return withCells(cmd.Context(), func(start *operator.Operator, at cells.Acts) error {
				n, given, err := cells.Assign(cmd.Context(), start, args[0], buckets, said, at)
				if n == nil {
					return awayCode(err)
				}
				defer n.Close()
				done := cellAct{Act: "ASSIGN_BUCKETS", Cell: args[0], Given: given, Changed: given > 0, Map: n.State()}
				return done.write(cmd, assigned(args[0], given, done.Map), awayCode(err))
			})
		},
	}
	needReason(command, &said.Reason)
	allowWithout(command, &said.Without)
	return command
}

// assigned says what a cell takes after an assignment.
func assigned(name string, given int, state cells.State) string {
	for _, cell := range state.Cells {
		if cell.Name == name && cell.Takes >= 0 {
			return fmt.Sprintf("%d buckets were given to cell %s, which takes %d now", given, name, cell.Takes)
		}
	}
	return fmt.Sprintf("%d buckets were given to cell %s, which was not reached", given, name)
}

// awayCode gives the error of a cell that is away its exit code.
func awayCode(err error) error {
	if errors.Is(err, cells.ErrAway) && !errors.Is(err, cells.ErrOtherCell) {
		return withCode(exitUnreachable, err)
	}
	return err
}

func cellSettleCommand() *cobra.Command {
	var said cells.Said
	command := &cobra.Command{
		Use: "settle CELL BUCKETS", Short: "Say which cell takes buckets that are in doubt, or those of a lost cell",
		Long: "Say which cell takes buckets about which the maps of cells contradict each other: one of their databases\n" +
			"was restored to a time before it gave them, and then gave them to another cell. No cell takes them until\n" +
			"then. Find out first which cells have payments of their participants, compare these with the rails, and\n" +
			"choose the cell that goes on with them. All cells must be reached. railhead cell status names the buckets.\n\n" +
			"The buckets of a cell that is lost for good are settled --without it. Its payments are lost with it: compare\n" +
			"with the rails first. It must not come back: if its server is started again, its relayers send what waits\n" +
			"there. The cell that takes them does not know their keys: a repeated call of what another cell has stored is\n" +
			"a new payment there. Close enqueue of these participants first (railhead intake, in the cell that takes them),\n" +
			"until their callers have stopped to repeat such calls. If cells that are reached have packed keys of a bucket\n" +
			"for a move, or have a whole copy of them, the bucket is settled only for the one that has most.\n\n" +
			cellHelp,
		Example: "  railhead cell settle west 5-6 --reason 'west has their payments, ticket 4712'\n" +
			"  railhead cell settle west 0-511 --without north --reason 'north burned down, ticket 4713'",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			buckets, err := cells.Buckets(args[1])
			if err != nil {
				return usage(err)
			}
			return withCells(cmd.Context(), func(start *operator.Operator, at cells.Acts) error {
				n, settled, err := cells.Settle(cmd.Context(), start, args[0], buckets, said, at)
				if err != nil {
					return awayCode(err)
				}
				defer n.Close()
				done := cellAct{Act: "SETTLE_BUCKETS", Cell: args[0], Changed: true, Map: n.State()}
				return done.write(cmd, fmt.Sprintf("%d buckets are settled: cell %s takes them, and knows of "+
					"other cells' keys only those that were copied to it whole", settled, args[0]), nil)
			})
		},
	}
	needReason(command, &said.Reason)
	allowWithout(command, &said.Without)
	return command
}
