package drill

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// block is one console block of the drill: the commands, the step, and the terminal that its first
// line names.
type block struct{ step, whose, text string }

var (
	stepOrBlock = regexp.MustCompile("(?ms)^### (\\d+)\\.|^```(\\w+)\n(.*?)^```$")
	terminals   = []string{"postgres", "operator"}
)

// drill reads the blocks of the section "Restore drill", in their order.
func drill(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Restore drill\n")
	if !found {
		t.Fatal("docs/operations.md has no section Restore drill")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var step string
	var all []block
	for _, match := range stepOrBlock.FindAllStringSubmatch(section, -1) {
		if match[1] != "" {
			step = match[1]
			continue
		}
		whose, found := "", false
		if match[2] == "console" {
			for _, each := range terminals {
				if strings.HasPrefix(match[3], "# "+each+"\n") {
					whose, found = each, true
				}
			}
		}
		if !found || step == "" {
			t.Fatalf("step %q: a block of the drill is a console block below a numbered heading, and begins with the "+
				"terminal, one of %q:\n%s",
				step, terminals, match[3])
		}
		all = append(all, block{step, whose, match[3]})
	}
	return all
}

// runStep runs the blocks of a step, each in its terminal.
func runStep(t *testing.T, blocks []block, step string, in map[string]*terminal) {
	t.Helper()
	ran := 0
	for _, b := range blocks {
		if b.step == step {
			in[b.whose].run(t, b)
			ran++
		}
	}
	if ran == 0 {
		t.Fatalf("the drill has no step %s", step)
	}
}
