package console

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/alerts"
)

// TestRunbookText: every runbook is read whole: each of its words is in a block, and no mark of Markdown is left but in
// lines to type.
func TestRunbookText(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(alerts.Files, "runbooks/*.md")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	links := 0
	for _, file := range files {
		text, err := fs.ReadFile(alerts.Files, file)
		if err != nil {
			t.Fatal(err)
		}
		var said, typed strings.Builder
		for _, block := range blocksOf(string(text)) {
			if block.Kind == "pre" {
				typed.WriteString(block.Text + "\n")
				continue
			}
			said.WriteString(block.Text + "\n")
			for _, line := range block.Lines {
				for _, span := range line {
					said.WriteString(span.Text)
					if span.Kind == "alert" {
						links++
					}
				}
				said.WriteString("\n")
			}
		}
		for _, mark := range []string{"`", "**", "](", "\n#", "\n- "} {
			if strings.Contains("\n"+said.String(), mark) {
				t.Errorf("%s: %q is left in its text:\n%s", file, mark, said.String())
			}
		}
		all := said.String() + typed.String()
		marks := strings.NewReplacer("```console", "", "```text", "", "```", "", "`", "", "**", "", "# ", " ", "## ", " ",
			"[", " ", "]", " ", "../", "", ")", " ", "(", " ")
		for line := range strings.Lines(string(text)) {
			for word := range strings.FieldsSeq(marks.Replace(listItem.ReplaceAllString(strings.TrimSpace(line), "$2"))) {
				if !strings.Contains(all, strings.TrimPrefix(word, "#")) && !strings.HasPrefix(line, "# ") {
					t.Errorf("%s: the word %s is in no block", file, word)
				}
			}
		}
	}
	if links < 10 {
		t.Errorf("only %d names of alerts lead to their runbooks", links)
	}
}
