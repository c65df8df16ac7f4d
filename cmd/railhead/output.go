package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/payment"
)

// The forms of data on standard output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatLines = "jsonl"
)

var formats = []string{formatTable, formatJSON, formatLines}

// output writes a command's data.
type output struct {
	w     io.Writer
	json  bool // also where it is lines
	lines bool
	color bool
}

func outputOf(cmd *cobra.Command) output {
	format, err := cmd.Flags().GetString("output")
	o := output{w: cmd.OutOrStdout(), lines: err == nil && format == formatLines}
	o.json = o.lines || err == nil && format == formatJSON
	if file, ok := o.w.(*os.File); ok {
		o.color = isTerminal(file) && wantsColor(os.Getenv)
	}
	return o
}

// wantsColor follows no-color.org: any value of NO_COLOR means none.
func wantsColor(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// document writes one JSON value; as lines, a list is one value a line, and every other
// value one line. The field names are part of the command's contract.
func (o output) document(value any) error {
	if o.lines {
		list := reflect.ValueOf(value)
		if list.Kind() != reflect.Slice || list.Type().Elem().Kind() == reflect.Uint8 {
			return o.line(value)
		}
		for n := range list.Len() {
			if err := o.line(list.Index(n).Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	return o.encode(value, "  ")
}

// line writes one JSON value on a line of its own.
func (o output) line(value any) error { return o.encode(value, "") }

// encode writes JSON. What moves a terminal's cursor, or changes the direction of writing, is an escape in it: the
// program that reads it has the character, and a person who looks at it does not. encoding/json escapes the rest.
func (o output) encode(value any, indent string) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return wrote(err)
	}
	_, err := io.WriteString(o.w, escapedJSON(text.String()))
	return wrote(err)
}

// escapedJSON is a text of JSON with escapes for the control characters, and those that change the direction of
// writing, that encoding/json leaves in strings.
func escapedJSON(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) { // of strings alone, in JSON
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

func (o output) text(format string, args ...any) error {
	_, err := fmt.Fprintf(o.w, format, args...)
	return wrote(err)
}

func wrote(err error) error {
	if err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// cell is one field of a table. Tone is its colour on terminals with colours.
type cell struct {
	text string
	tone tone
}

type tone string

// The tones, as codes of a terminal.
const (
	plain  tone = ""
	good   tone = "32"
	warn   tone = "33"
	alarm  tone = "31"
	strong tone = "1"
)

// toneIn is the code of a tone.
func toneIn(t explain.Tone) tone {
	return map[explain.Tone]tone{explain.Good: good, explain.Warn: warn, explain.Alarm: alarm}[t]
}

func plainCells(texts ...string) []cell {
	cells := make([]cell, len(texts))
	for n, text := range texts {
		cells[n].text = text
	}
	return cells
}

// tableWidth is the most characters of a line of a table, if its columns can be made so
// narrow: 120, or the value of the variable COLUMNS.
func tableWidth(getenv func(string) string) int {
	if width, err := strconv.Atoi(getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	return 120
}

// columnGap is the number of blanks between two columns.
const columnGap = 2

// narrowest is the least width to which a column is narrowed.
const narrowest = 8

// table writes rows under a heading, each column as wide as its widest field. If a
// line gets too long, fields continue below themselves, the widest columns first; ids are
// never split, so that they can be copied.
func (o output) table(heading []string, rows [][]cell) error {
	all := append([][]cell{plainCells(heading...)}, rows...)
	for n := range all[0] {
		all[0][n].tone = strong
	}
	var text strings.Builder
	widths := columnWidths(all, tableWidth(os.Getenv))
	for _, row := range all {
		folded, height := make([][]string, len(row)), 0
		for n, field := range row {
			folded[n] = fold(printable(field.text), widths[n])
			height = max(height, len(folded[n]))
		}
		for at := range height {
			var line strings.Builder
			for n, field := range row {
				part := ""
				if at < len(folded[n]) {
					part = folded[n][at]
				}
				line.WriteString(o.paint(part, field.tone))
				if n < len(row)-1 {
					line.WriteString(strings.Repeat(" ", widths[n]-utf8.RuneCountInString(part)+columnGap))
				}
			}
			text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	return o.text("%s", text.String())
}

// columnWidths makes the widest columns narrower until a line has at most so many
// characters: down to their longest words first, and words only where that is not enough.
func columnWidths(rows [][]cell, most int) []int {
	columns := len(rows[0])
	widths, words, least := make([]int, columns), make([]int, columns), make([]int, columns)
	for r, row := range rows {
		for n, field := range row {
			text := printable(field.text)
			widths[n] = max(widths[n], utf8.RuneCountInString(text))
			for word := range strings.FieldsSeq(text) {
				words[n] = max(words[n], utf8.RuneCountInString(word))
			}
			if _, err := payment.ParseID(field.text); err == nil || r == 0 {
				least[n] = max(least[n], utf8.RuneCountInString(text))
			}
		}
	}
	total := columnGap * (columns - 1)
	for n, width := range widths {
		total += width
		words[n], least[n] = max(words[n], least[n]), max(least[n], narrowest)
	}
	for _, bound := range [][]int{words, least} {
		for ; total > most; total-- {
			widest := -1
			for n, width := range widths {
				if width > bound[n] && (widest < 0 || width > widths[widest]) {
					widest = n
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
	return widths
}

// fold is a text in lines of a width: it is cut at blanks, else after signs that words are
// made with, else anywhere.
func fold(text string, width int) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		runes := []rune(line)
		for len(runes) > width {
			end, next := cut(runes, width)
			lines = append(lines, string(runes[:end]))
			runes = runes[next:]
		}
		lines = append(lines, string(runes))
	}
	return lines
}

// cut is where the first line of a longer text ends, and where the next begins.
func cut(runes []rune, width int) (end, next int) {
	for n := width; n > 0; n-- {
		if runes[n] == ' ' {
			return n, n + 1
		}
	}
	for n := width; n > 1; n-- {
		if strings.ContainsRune("_-/,", runes[n-1]) {
			return n, n
		}
	}
	return width, width
}

func (o output) paint(text string, t tone) string {
	if !o.color || t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// The texts of package explain, which the commands and the console have in common.

func printable(text string) string { return explain.Printable(text) }

func oneLine(text string) string { return explain.OneLine(text) }

func clock(t time.Time) string { return explain.Clock(t) }

func span(d time.Duration) string { return explain.Span(d) }

func millis(ms int64) time.Duration { return explain.Millis(ms) }

func orDash(text string) string { return explain.OrDash(text) }

func bounded(text string, limit int) string { return explain.Bounded(text, limit) }
