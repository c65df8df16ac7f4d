package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

func cellListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the cells of the directory",
		Long: "List the cells that the cell of RAILHEAD_READER_URL knows: the name of the connection setting, the buckets\n" +
			"by its copy of the map, and who added it, when and why.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				d, err := reader.Directory(cmd.Context())
				if err != nil {
					return err
				}
				return writeCells(outputOf(cmd), d)
			})
		},
	}
}

// listedCell is a cell in the JSON of the list.
type listedCell struct {
	reader.Cell
	Here    bool   `json:"here"`
	Buckets int    `json:"bucket_count"`
	Ranges  string `json:"buckets"`
}

func writeCells(o output, d reader.Directory) error {
	owners, all := d.Owners(), make([]listedCell, 0, len(d.Cells))
	for _, cell := range d.Cells {
		var has []int
		for bucket, owner := range owners {
			if owner == cell.Name {
				has = append(has, bucket)
			}
		}
		all = append(all, listedCell{cell, cell.Name == d.Here, len(has), cells.List(has, outbox.Buckets)})
	}
	if o.json {
		return o.document(all)
	}
	if len(all) == 0 {
		return o.text("this cell is in no directory, and takes the instructions of all participants\n")
	}
	rows := make([][]cell, 0, len(all))
	for _, c := range all {
		rows = append(rows, plainCells(c.Name, c.Setting, c.Schema, strconv.Itoa(c.Buckets), orDash(c.Ranges),
			clock(c.AddedAt), c.AddedBy, oneLine(c.Reason)))
	}
	return o.table([]string{"CELL", "SETTING", "SCHEMA", "COUNT", "BUCKETS", "ADDED", "BY", "REASON"}, rows)
}

func cellStatusCommand() *cobra.Command {
	var lost []string
	command := &cobra.Command{
		Use: "status", Short: "Compare the maps of all cells",
		Long: "Read the map of every cell of the directory, and compare them: whether each bucket is taken by exactly\n" +
			"one cell, and which cell does not know a change yet. It changes nothing. Exit code 8 if a cell was not reached,\n" +
			"a bucket is not taken by exactly one, or a cell takes no instruction. It begins with the cell of\n" +
			"RAILHEAD_READER_URL, finds a cell with setting WEST by RAILHEAD_READER_URL_WEST, and looks into every\n" +
			"variable of that form: a cell that was restored may not know the others.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			return withReader(cmd.Context(), func(start *reader.Reader) error {
				state, err := cells.Look(cmd.Context(), start, cellPlaces(s, "RAILHEAD_READER_URL", reader.Open))
				if err != nil {
					return err
				}
				return writeMap(outputOf(cmd), state, lost)
			})
		},
	}
	command.Flags().StringSliceVar(&lost, "without", nil,
		"a cell that is lost for good, and has no bucket: that it is away is not counted")
	return command
}

// errUnsoundMap ends a comparison that found something.
var errUnsoundMap = errors.New("the map of cells is not whole")

// writeMap prints the state of the map. The error has the exit code of a comparison that failed.
func writeMap(o output, state cells.State, lost []string) error {
	unsound := error(nil)
	if !state.Sound(lost...) {
		unsound = withCode(exitProof, errUnsoundMap)
	}
	if o.json {
		return errors.Join(unsound, o.document(state))
	}
	rows := make([][]cell, 0, len(state.Cells))
	for _, c := range state.Cells {
		takes := cell{text: strconv.Itoa(c.Takes)}
		if c.Takes < 0 {
			takes = cell{"away", alarm}
		}
		rows = append(rows, []cell{{text: c.Name}, {text: c.Setting}, {text: strconv.Itoa(c.Buckets)}, takes})
	}
	if err := o.table([]string{"CELL", "SETTING", "BUCKETS", "TAKES"}, rows); err != nil {
		return errors.Join(unsound, err)
	}
	for _, c := range state.Cells {
		if err := writeLate(o, c); err != nil {
			return errors.Join(unsound, err)
		}
	}
	if err := writeStrays(o, state.Strays); err != nil {
		return errors.Join(unsound, err)
	}
	for _, each := range []struct {
		buckets []int
		says    string
	}{
		{state.Untaken, "no cell takes %d buckets, which were given and not taken: %s: railhead cell sync"},
		{state.Moving, "no cell takes %d buckets, which are being moved: %s: wait for railhead cell move, repeat it, or " +
			"end it with --cancel"},
		{state.Incomplete, "no cell takes %d buckets, which were given with participants and not taken: %s: repeat " +
			"railhead cell move"},
		{state.Doubled, "%d buckets are taken by two cells, or not by the one of the newest map: %s: a database was " +
			"restored, so close enqueue there and run railhead cell sync"},
		{state.Contradicted, "no cell takes %d buckets, about which maps contradict each other: %s: railhead cell settle"},
		{state.Unknown, "whether %d buckets are taken is not known: %s"},
	} {
		if len(each.buckets) > 0 {
			if err := o.text(each.says+"\n", len(each.buckets), cells.List(each.buckets, 20)); err != nil {
				return errors.Join(unsound, err)
			}
		}
	}
	if unsound == nil {
		return o.text("each of the %d buckets is taken by exactly one of the %d cells that are known\n", outbox.Buckets,
			len(state.Cells))
	}
	return unsound
}
