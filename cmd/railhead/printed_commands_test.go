package main

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/alerts"
)

// printed is a command line of a page.
type printed struct {
	line string
	// whole means that it is meant to be typed as it is; otherwise it names a command, or is cut off by "...".
	whole bool
}

var inline = regexp.MustCompile("`(railhead [^`]+)`")

// commandsOf returns the command lines of railhead in the text of a page: those of its blocks, and those in a sentence.
func commandsOf(text string) (all []printed) {
	var prose []string
	block, kind, rest := false, "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if fence, ok := strings.CutPrefix(line, "```"); ok {
			block, kind = !block, fence
			continue
		}
		if !block {
			prose = append(prose, line)
			continue
		}
		if head, ok := strings.CutSuffix(line, `\`); ok {
			rest += head
			continue
		}
		line, rest = rest+line, ""
		if kind != "console" && kind != "text" && kind != "sh" {
			continue
		}
		for _, words := range commandLines(line) {
			if words[0] == "railhead" {
				all = append(all, printed{strings.Join(words, "\x00"), !strings.Contains(line, "...")})
			}
		}
	}
	for _, found := range inline.FindAllStringSubmatch(strings.Join(prose, " "), -1) {
		for _, words := range commandLines(found[1]) {
			if words[0] != "railhead" {
				continue
			}
			argued := strings.Contains(found[1], " -") || strings.Contains(found[1], "$")
			all = append(all, printed{strings.Join(words, "\x00"), argued && !strings.Contains(found[1], "...")})
		}
	}
	return all
}

// commandLines splits a line of a shell into its commands, without variables that are set before one, xargs, and where
// output goes.
func commandLines(line string) (all [][]string) {
	var words []string
	word, quote, begun := "", rune(0), false
	endWord := func() {
		if begun {
			words = append(words, word)
		}
		word, begun = "", false
	}
	end := func() {
		endWord()
		if len(words) > 0 && words[0] == "xargs" {
			words = append(words, "x") // what it reads
		}
		for len(words) > 0 && (words[0] == "xargs" || words[0] == "nohup" || variableSet.MatchString(words[0])) {
			words = words[1:]
		}
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word += string(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			endWord()
		case r == '|' || r == ';' || r == '&':
			end()
		case r == '#' && !begun, r == '>' || r == '<':
			if word == "2" {
				word, begun = "", false
			}
			end()
			return all
		default:
			word += string(r)
			begun = true
		}
	}
	end()
	return all
}

var (
	variableSet  = regexp.MustCompile(`^[A-Z_]+=`)
	pageVariable = regexp.MustCompile(`\$\{?[A-Z_]+\}?|\$\([^)]*\)`)
)

// placeholders are words of pages that a reader replaces, with what is of their type.
var placeholders = map[string]string{"ROW": "3", "SINCE": "2026-07-30T12:00:00Z"}

// check parses a command line by the tree of the commands, and runs nothing.
func (p printed) check() error {
	words := strings.Split(p.line, "\x00")[1:]
	for n, word := range words {
		if known, ok := placeholders[strings.Trim(word, "${}")]; ok {
			words[n] = known
			continue
		}
		words[n] = pageVariable.ReplaceAllString(word, "x")
	}
	if words[0] == "COMMAND" {
		return nil
	}
	root := rootCommand()
	root.InitDefaultHelpCmd()
	command, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := command.ParseFlags(rest); err != nil {
		return fmt.Errorf("%s: %w", command.CommandPath(), err)
	}
	if command.HasSubCommands() && len(command.Flags().Args()) > 0 {
		return fmt.Errorf("%s has no command %q", command.CommandPath(), command.Flags().Arg(0))
	}
	if !p.whole {
		return nil
	}
	return typed(command)
}

// typed checks what a command line that is typed as it is needs.
func typed(command *cobra.Command) error {
	for _, fault := range []error{
		command.ValidateRequiredFlags(), command.ValidateFlagGroups(), command.ValidateArgs(command.Flags().Args()),
	} {
		if fault != nil {
			return fmt.Errorf("%s: %w", command.CommandPath(), fault)
		}
	}
	return nil
}

// TestPrintedCommandsParse tests that each command line of a runbook and of a page of docs is one that railhead takes,
// with every flag that it requires.
func TestPrintedCommandsParse(t *testing.T) {
	t.Parallel()
	for _, from := range []struct {
		files   fs.FS
		pattern string
		least   int
	}{{alerts.Files, "runbooks/*.md", 60}, {os.DirFS("../.."), "docs/*.md", 150}, {os.DirFS("../.."), "README.md", 3}} {
		pages, err := fs.Glob(from.files, from.pattern)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, page := range pages {
			text, err := fs.ReadFile(from.files, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, each := range commandsOf(string(text)) {
				n++
				each.whole = each.whole && page != "docs/cli.md" // a table of synopses
				if err := each.check(); err != nil {
					t.Errorf("%s: %s: %v", page, strings.ReplaceAll(each.line, "\x00", " "), err)
				}
			}
		}
		if n < from.least {
			t.Errorf("%s: %d commands were found, want %d at least", from.pattern, n, from.least)
		}
	}
}

// TestPrintedCommandsAreJudged tests that the check finds what is wrong.
func TestPrintedCommandsAreJudged(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"Then `railhead rail pause --everything`, at once.":                                 `"reason" not set`,
		"```console\nrailhead rail pause wire\n```\n":                                       `"reason" not set`,
		"```text\njq . x | xargs railhead payment cancel --reasn 'why'\n```\n":              "unknown flag",
		"See `railhead rail brake`.":                                                        `no command "brake"`,
		"```sh\nrailhead dead-letter resolve \"$ID\" --row ROW \\\n --reason why # it\n```": `"document", "evidence-date" not set`,
		"`railhead rail pause` and `railhead payment cancel \"$ID\" ...` are acts.":         "",
		"```text\nrailhead payment cancel \"$ID\" --reason 'ticket 4711' >told\n```\n":      "",
	} {
		var got strings.Builder
		for _, each := range commandsOf(page) {
			if err := each.check(); err != nil {
				got.WriteString(err.Error())
			}
		}
		if want == "" && got.Len() > 0 || !strings.Contains(got.String(), want) {
			t.Errorf("%s\ngot %q, want %q", page, got.String(), want)
		}
	}
}
