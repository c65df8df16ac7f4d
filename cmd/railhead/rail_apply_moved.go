package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
)

// warnMoved says for which participants a rail that becomes ordered is not ordered: what they have here was enqueued
// before they were moved, and another cell, which takes what they enqueue now, does not wait for it.
func warnMoved(cmd *cobra.Command, o *operator.Operator, changes []railChange) error {
	for _, change := range changes {
		if !change.orders() {
			continue
		}
		n, err := o.WaitsElsewhere(cmd.Context(), change.RailType)
		if err != nil {
			return err
		}
		if n > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: rail %s: participants that were moved to another cell and have payments "+
				"of the rail here, in pending or with an open dead letter: %d. The other cell may send what they have "+
				"enqueued there first: docs/scale.md\n", oneLine(change.RailType), n)
		}
	}
	return nil
}

// orders reports whether a change may put participants in order.
func (c railChange) orders() bool {
	for _, d := range c.Differences {
		if strings.HasPrefix(d.Field, "order") && strings.Contains(d.To, "STRICT") {
			return true
		}
	}
	return false
}
