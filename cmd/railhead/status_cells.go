package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// cellStatus is one cell in the JSON of status --all-cells.
type cellStatus struct {
	Cell    string          `json:"cell,omitempty"`
	Setting string          `json:"setting,omitempty"` // that leads to no cell of the directory; Away says where
	Away    string          `json:"away,omitempty"`    // why it was not reached
	Failed  string          `json:"failed,omitempty"`  // why it gave no status, though it was reached
	Status  *statusAndMoney `json:"status,omitempty"`
}

// statusOfAll shows the cells of the directory of start, one after the other.
func statusOfAll(cmd *cobra.Command, s settings, start *reader.Reader, money bool) error {
	ctx, o := cmd.Context(), outputOf(cmd)
	n, err := cells.Read(ctx, start, cellPlaces(s, "RAILHEAD_READER_URL", reader.Open))
	if err != nil {
		return err
	}
	defer n.Close()
	var all []cellStatus
	away, code, unread := 0, exitOK, 0
	for _, one := range n.Cells {
		shown := cellStatus{Cell: one.Name}
		failed := one.Err
		if failed == nil {
			var status statusAndMoney
			if status, failed = readStatus(ctx, one.Conn, money); failed == nil {
				shown.Status = &status
			}
		}
		switch {
		case failed == nil:
		case exitCode(failed) == exitUnreachable, one.Conn == nil && ledger.SQLState(failed) == "":
			away++
			shown.Away = failed.Error()
		default:
			unread, code = unread+1, exitCode(failed)
			shown.Failed = failed.Error()
		}
		all = append(all, shown)
		if !o.json {
			if err := shown.write(o, len(all) == 1, money); err != nil {
				return err
			}
		}
	}
	if away > 0 {
		err = withCode(exitUnreachable, fmt.Errorf("%d of %d cells were not reached", away, len(all)))
	}
	if unread > 0 {
		err = errors.Join(err, withCode(code, fmt.Errorf("%d of %d cells were reached and gave no status", unread, len(all))))
	}
	for _, stray := range n.Strays {
		all = append(all, cellStatus{Setting: stray.Setting, Away: stray.Why})
		err = errors.Join(err, withCode(exitUnreachable, fmt.Errorf("setting %s, which no map names: %s", stray.Setting,
			oneLine(stray.Why))))
	}
	if o.json {
		return errors.Join(err, o.document(all))
	}
	return err
}

// write prints one cell, with an empty line before each but the first.
func (c cellStatus) write(o output, first, money bool) error {
	if !first {
		if err := o.text("\n"); err != nil {
			return err
		}
	}
	if c.Failed != "" {
		return o.text("cell %s was reached and gave no status: %s\n", c.Cell, oneLine(c.Failed))
	}
	if c.Status == nil {
		return o.text("cell %s was not reached: %s\n", c.Cell, oneLine(c.Away))
	}
	return c.Status.write(o, c.Cell, money)
}
