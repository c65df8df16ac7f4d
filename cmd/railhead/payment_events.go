package main

import (
	"strconv"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

func writeEvents(o output, line reader.Timeline) error {
	if line.Earlier {
		if err := o.text("\nrows before %d are not shown\n", line.Attempts[0].AttemptNo); err != nil {
			return err
		}
	}
	all := explain.EventsOf(line)
	rows := make([][]cell, 0, len(all))
	for _, e := range all {
		rows = append(rows, eventCells(e))
	}
	if err := o.text("\n"); err != nil {
		return err
	}
	return o.table([]string{"TIME", "ROW", "WHAT", "STATE", "RESULT", "CODE", "LATENCY", "BY", "REFERENCE", "MESSAGE"},
		rows)
}

// eventCells returns the fields of an event in the table.
func eventCells(e explain.Event) []cell {
	cells := []cell{{text: clock(e.At)}, {text: "-"}, {text: e.What}, {text: "-"}, {text: "-"}, {text: "-"}, {text: "-"},
		{text: orDash(oneLine(e.By))}, {text: "-"}, {text: orDash(bounded(oneLine(e.Note), 100))}}
	if a := e.Row; a != nil {
		cells[1].text = strconv.Itoa(a.AttemptNo)
		cells[3] = cell{string(a.State), toneIn(explain.ToneOfState(string(a.State)))}
		cells[4].text, cells[5].text = orDash(a.Result), orDash(oneLine(explain.SaidCodes(a.ErrorCode, a.RailCode)))
		if a.LatencyMS != nil {
			cells[6].text = strconv.Itoa(int(*a.LatencyMS)) + "ms"
		}
		cells[8].text = orDash(oneLine(a.RailReference))
	}
	return cells
}
