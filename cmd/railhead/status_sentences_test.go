package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// lookAtStatus holds every cell and line of status to the rows of the cell.
func (w *teller) lookAtStatus() {
	w.Helper()
	status, err := w.reader.Status(w.Context())
	w.must(err)
	var text bytes.Buffer
	w.must(writeStatus(output{w: &text}, "railhead", status))
	for _, said := range statusSays(w.T, text.String()) {
		w.hold("status", said)
	}
	all, err := w.reader.Money(w.Context())
	w.must(err)
	text.Reset()
	w.must(writeMoney(output{w: &text}, all))
	for _, said := range statusSays(w.T, text.String()) {
		w.hold("status", said)
	}
	w.check()
}

// statusSays returns the lines of status, and each cell of its tables with the name of its row
// and column, as in "rail bank: PENDING 3".
func statusSays(t *testing.T, text string) []string {
	t.Helper()
	var said, columns []string
	var starts []int
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
			columns = nil
		case regexp.MustCompile(`^[A-Z]+ {2,}[A-Z]`).MatchString(line):
			columns, starts = regexp.MustCompile(` {2,}`).Split(line, -1), nil
			for _, column := range columns {
				starts = append(starts, len([]rune(line[:strings.Index(line+"  ", column+"  ")])))
			}
		case columns != nil && isRow(starts, []rune(line)):
			said = append(said, rowSays(columns, starts, []rune(line))...)
		default:
			said = append(said, line)
		}
	}
	return said
}

// isRow reports whether a line has the gaps of a table before each of its columns.
func isRow(starts []int, line []rune) bool {
	for _, start := range starts[1:] {
		if start < len(line) && (line[start-1] != ' ' || line[start-2] != ' ') {
			return false
		}
	}
	return len(line) > starts[1]
}

func rowSays(columns []string, starts []int, line []rune) []string {
	cells := make([]string, len(columns))
	for n, start := range starts {
		end := len(line)
		if n+1 < len(starts) {
			end = min(end, starts[n+1])
		}
		if start < end {
			cells[n] = strings.TrimSpace(string(line[start:end]))
		}
	}
	var said []string
	switch columns[0] {
	case "PAUSED", "COMPONENT", "CLOSED":
		for n, column := range columns {
			cells[n] = column + " " + cells[n]
		}
		return []string{strings.Join(cells, ", ")}
	case "RAIL":
		if columns[1] == "MONEY" {
			return []string{"rail " + strings.Join(cells, ", ")}
		}
	}
	for n, column := range columns[1:] {
		for part := range strings.SplitSeq(cells[n+1], ", ") {
			said = append(said, "rail "+cells[0]+": "+column+" "+part)
		}
	}
	return said
}
