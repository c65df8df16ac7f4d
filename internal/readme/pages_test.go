package readme

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// example is a block of a page, or what stands below Examples in a help text.
type example struct {
	page     string // "docs/audit.md", or the command: "railhead log"
	line     int    // of a page
	language string
	text     string
}

func (e example) String() string {
	if e.line == 0 {
		return e.page + " --help"
	}
	return fmt.Sprintf("%s:%d", e.page, e.line)
}

// shell are the languages that are typed; printed those that nothing can be typed of.
var (
	shell   = []string{"console", "sh", "bash"}
	printed = []string{"", "text", "mermaid"}
)

// typed finds what is a command, wherever it stands.
var typed = regexp.MustCompile(`(?m)^\s*(\$ )?(railhead [a-z]|make [a-z]|psql |curl |go test )`)

// allExamples are those of README.md, of docs, and of the help of every command.
func allExamples(t *testing.T, railhead string) []example {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	var all []example
	for _, path := range append([]string{"../../README.md"}, pages...) {
		all = append(all, blocksOf(t, path)...)
	}
	return append(all, helpExamples(t, railhead)...)
}

// fence opens or closes a block; a block inside a list is indented.
var fence = regexp.MustCompile("^ *```(\\w*)\\s*$")

func blocksOf(t *testing.T, path string) []example {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.TrimPrefix(filepath.ToSlash(path), "../../")
	var all []example
	var open *example
	for n, line := range strings.Split(string(text), "\n") {
		marked := fence.FindStringSubmatch(line)
		switch {
		case open == nil && marked != nil:
			open = &example{page: page, line: n + 1, language: marked[1]}
		case open != nil && marked != nil:
			if slices.Contains(printed, open.language) && typed.MatchString(open.text) {
				t.Errorf("%s: commands in a block that is not marked as console", *open)
			}
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Errorf("%s: the block has no end", *open)
	}
	return slices.DeleteFunc(all, func(e example) bool { return slices.Contains(printed, e.language) })
}

var (
	helpSection = regexp.MustCompile(`(?s)\nExamples:\n(.*?)\n\n`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) `)
)

// helpExamples walks the commands by what each prints as its help.
func helpExamples(t *testing.T, railhead string) []example {
	t.Helper()
	var all []example
	var walk func(words []string)
	walk = func(words []string) {
		output, err := exec.CommandContext(t.Context(), railhead, append(slices.Clone(words), "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("railhead %v --help: %v\n%s", words, err, output)
		}
		name := strings.Join(append([]string{"railhead"}, words...), " ")
		if found := helpSection.FindStringSubmatch(string(output)); found != nil {
			all = append(all, example{page: name, language: shell[0], text: found[1] + "\n"})
		}
		_, below, found := strings.Cut(string(output), "\nAvailable Commands:\n")
		if !found {
			return
		}
		list, _, _ := strings.Cut(below, "\n\n")
		for _, sub := range helpCommand.FindAllStringSubmatch(list+"\n", -1) {
			if sub[1] != "help" && sub[1] != "completion" {
				walk(append(slices.Clone(words), sub[1]))
			}
		}
	}
	walk(nil)
	return all
}

// commands are the commands of a block, each with the lines that continue it, without
// empty lines and comments.
func (e example) commands() []string {
	var all []string
	continued := false
	for line := range strings.Lines(e.text) {
		line = strings.TrimRight(line, "\n")
		bare := strings.TrimSpace(line)
		if !continued && (bare == "" || strings.HasPrefix(bare, "#")) {
			continue
		}
		if continued {
			all[len(all)-1] += "\n" + line
		} else {
			all = append(all, bare)
		}
		continued = strings.HasSuffix(line, `\`)
	}
	return all
}
