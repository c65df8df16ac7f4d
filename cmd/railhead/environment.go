package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// variable is an environment variable that Railhead reads.
type variable struct {
	name     string
	standard string // the value without it; empty: none
	purpose  string
}

// variables are those of one purpose.
type variables struct {
	title string
	about string
	list  []variable
}

// environmentTopic is railhead help environment.
func environmentTopic() *cobra.Command {
	var long strings.Builder
	for n, group := range environment() {
		if n > 0 {
			long.WriteString("\n\n")
		}
		group.write(&long)
	}
	return &cobra.Command{Use: "environment", Short: "Which variables are read, and their defaults", Long: long.String()}
}

// The measures of a help text, in characters.
const (
	helpWidth  = 118
	helpIndent = "  "
)

// write shows a group in three columns, the last of which is folded.
func (g variables) write(out *strings.Builder) {
	fmt.Fprintf(out, "%s\n\n%s\n", g.title, strings.Join(folded(g.about, helpWidth), "\n"))
	names, standards := 0, 0
	for _, v := range g.list {
		names, standards = max(names, len(v.name)), max(standards, len(orNone(v.standard)))
	}
	indent := len(helpIndent) + names + 2 + standards + 2
	for _, v := range g.list {
		fmt.Fprintf(out, "\n%s%-*s  %-*s  ", helpIndent, names, v.name, standards, orNone(v.standard))
		out.WriteString(strings.Join(folded(v.purpose, helpWidth-indent), "\n"+strings.Repeat(" ", indent)))
	}
}

// folded breaks a text into lines of at most so many characters.
func folded(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

func orNone(standard string) string {
	if standard == "" {
		return "none"
	}
	return standard
}
