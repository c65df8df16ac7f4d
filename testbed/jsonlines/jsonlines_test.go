package jsonlines_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/railhead-pay/railhead/testbed/jsonlines"
)

// TestGoesOnAfterAKill checks that a killed process loses only its last, incomplete line, and that
// later records are read.
func TestGoesOnAfterAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "folder", "records.jsonl")
	file, records, err := jsonlines.Open[int](path)
	if err != nil || len(records) != 0 {
		t.Fatal(records, err)
	}
	if err := file.Append(1); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	torn, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(`{"half`); err != nil {
		t.Fatal(err)
	}
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	file, records, err = jsonlines.Open[int](path)
	if err != nil || !slices.Equal(records, []int{1}) {
		t.Fatal(records, err)
	}
	if err := file.Append(2); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	file, records, err = jsonlines.Open[int](path)
	if err != nil || !slices.Equal(records, []int{1, 2}) {
		t.Fatal(records, err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
