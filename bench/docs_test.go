package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/bench/figures"
)

// TestPageShowsTheKeptFigures fails when the figures or the page were changed without the other.
func TestPageShowsTheKeptFigures(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", docsFile))
	if err != nil {
		t.Fatal(err)
	}
	want, err := withFigures("..", page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, want) {
		t.Errorf("%s does not show the figures of bench/results: run `make bench-docs`", docsFile)
	}
}

func TestFiguresGoBetweenTheMarks(t *testing.T) {
	root := t.TempDir()
	page := []byte("above\n<!-- latest: begin -->\nold\n<!-- latest: end -->\nmiddle\n<!-- scale: begin -->\n<!-- " +
		"scale: end -->\nbelow\n")
	got, err := withFigures(root, page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(got)
	if strings.Contains(text, "old") || !strings.HasPrefix(text, "above\n") || !strings.Contains(text, "\nmiddle\n") ||
		!strings.HasSuffix(text, "below\n") || strings.Count(text, "No figures are kept") != 2 {
		t.Errorf("page is:\n%s", text)
	}

	kept := results{
		Rounds: 1, Systems: map[string]string{"railhead": "as it is", "river": "as it should be"},
		NotRun: []string{"not run: floor: no wish"},
		Figures: figures.Rows([]figures.Sample{
			{System: "railhead", Mode: "drain", Unit: "payments/s", Value: 3000}, {System: "river", Mode: "drain", Unit: "payments/s", Value: 2000},
		}, nil),
		Targets: []judged{{figures.Target{System: "railhead", Mode: "drain", Against: figures.ToRiver, AtLeast: 1.75}, 1.5,
			figures.Missed}},
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, latestFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err = withFigures(root, got); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| drain | payments/s | 3,000 | 2,000 | 1.50 | - | - |", "| drain | >= 1.75 x river | 1.50 | **MISSED** |",
		"- not run: floor: no wish\n",
	} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if _, err := withFigures(root, []byte("no marks")); err == nil {
		t.Error("a page without marks was taken")
	}
}
