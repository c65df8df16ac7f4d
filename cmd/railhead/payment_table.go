package main

import (
	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// writeTimeline writes a timeline as text: a head of names and values, then a
// line for each row of the archive and each operator's act.
func writeTimeline(o output, line reader.Timeline) error {
	var head [][2]string
	for _, fact := range explain.Head(line) {
		head = append(head, [2]string{fact.Name, o.paint(fact.Word, toneIn(fact.Tone)) + fact.Text})
	}
	if err := o.text("%s\n", o.paint("payment "+line.OutboxID.String(), strong)); err != nil {
		return err
	}
	for _, field := range head {
		if err := o.text("  %-12s %s\n", field[0], field[1]); err != nil {
			return err
		}
	}
	return writeEvents(o, line)
}
