package reader

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	loggedHere = regexp.MustCompile(`(?s)log_operator_act\(\s*(?:CASE.*?\bEND\b|'[A-Z_]+')|VALUES \(act, '[A-Z_]+'`)
	kindThere  = regexp.MustCompile(`'([A-Z_]+)'`)
)

// TestLoggedKinds: the list has the acts that the functions of the schema log, and no other.
func TestLoggedKinds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../migrations/functions/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no functions: %v", err)
	}
	var logged []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range loggedHere.FindAllString(string(text), -1) {
			for _, kind := range kindThere.FindAllStringSubmatch(call, -1) {
				logged = append(logged, kind[1])
			}
		}
	}
	slices.Sort(logged)
	if logged = slices.Compact(logged); !slices.Equal(logged, LoggedKinds()) {
		t.Errorf("the functions log\n%q, the list has\n%q", logged, LoggedKinds())
	}
}
