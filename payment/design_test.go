package payment_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

const design = "../docs/design.md"

// TestDesignDrawsTheStates: the diagram of docs/design.md has the arrows that the rules have.
func TestDesignDrawsTheStates(t *testing.T) {
	page, err := os.ReadFile(design)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), " -update -->\n")
	_, after, ends := strings.Cut(rest, "<!-- /states -->")
	if !begins || !ends {
		t.Fatalf("%s has no place for the states", design)
	}
	want := before + " -update -->\n" + diagram() + "<!-- /states -->" + after
	if *update {
		if err := os.WriteFile(design, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(page) {
		t.Errorf("%s draws other states than the rules have: go test ./payment -run TestDesignDrawsTheStates -update", design)
	}
}

// diagram is a state diagram for Mermaid.
func diagram() string {
	var text strings.Builder
	text.WriteString("```mermaid\nflowchart LR\n  start((enqueued))\n")
	for _, last := range append([]payment.State{""}, payment.States()...) {
		from := string(last)
		if last == "" {
			from = "start"
		}
		for _, next := range payment.States() {
			switch {
			case last == payment.LateOutcome || next == payment.LateOutcome:
			case payment.MayFollow(last, next):
				fmt.Fprintf(&text, "  %s --> %s\n", from, next)
			case payment.MayResolve(last, next):
				fmt.Fprintf(&text, "  %s -.-> %s\n", from, next)
			}
		}
	}
	text.WriteString("```\n")
	return text.String()
}
