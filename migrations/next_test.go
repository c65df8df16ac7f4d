package migrations_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/migrations"
)

// checkout copies what Next reads.
func checkout(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, sub := range []string{"sql", "functions", "views"} {
		if err := os.CopyFS(filepath.Join(folder, sub), os.DirFS(sub)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func replace(t *testing.T, path, from, to string) {
	t.Helper()
	text := read(t, path)
	if strings.Count(text, from) != 1 {
		t.Fatalf("%q is %d times in %s", from, strings.Count(text, from), path)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(text, from, to, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNext edits functions and a view, and writes the numbers that make them so.
func TestNext(t *testing.T) {
	t.Parallel()
	folder := checkout(t)
	if _, err := migrations.Next(folder, "nothing", 0, false); !errors.Is(err, migrations.ErrNothingNew) {
		t.Errorf("without a change: %v", err)
	}
	for _, bad := range []string{"", "Upper", "two words", "../up", "a__b", "1st", "a_"} {
		if _, err := migrations.Next(folder, bad, 0, true); !errors.Is(err, migrations.ErrBadName) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	pending := func(want ...string) {
		t.Helper()
		if got, err := migrations.Pending(folder); err != nil || !slices.Equal(got, want) {
			t.Errorf("pending: %v, %v; want %v", got, err, want)
		}
	}
	replace(t, filepath.Join(folder, "functions", "uuidv7_floor.sql"), "-- uuidv7_floor",
		"-- In other words: uuidv7_floor")
	pending() // a header is no part of what a cell has
	replace(t, filepath.Join(folder, "functions", "lock_payment.sql"), "AS $$\n", "AS $$\n  -- as it is now\n")
	replace(t, filepath.Join(folder, "views", "v_lanes.sql"), "h.host,", "h.host || '' AS host,")
	pending("lock_payment", "v_lanes")
	all, err := migrations.ReadNumbers(os.DirFS("."), "railhead")
	if err != nil {
		t.Fatal(err)
	}
	newest := all[len(all)-1].Version
	file, err := migrations.Next(folder, "two_things", 0, false)
	if err != nil || file != fmt.Sprintf("%05d_two_things.sql", newest+1) {
		t.Fatalf("%s, %v", file, err)
	}
	pending()
	text := read(t, filepath.Join(folder, "sql", file))
	for _, want := range []string{
		fmt.Sprintf("-- Migration %d, two things. Binaries that need migration 13 or a newer one work on a cell that has "+
			"it.\n", newest+1),
		"-- function lock_payment\nCREATE OR REPLACE FUNCTION {cell}.lock_payment(", "-- as it is now",
		"-- end of lock_payment\n",
		"-- view v_lanes\nCREATE OR REPLACE VIEW {cell}.v_lanes AS", "-- function schema_version\n",
		fmt.Sprintf("'migration %d, serves 13'", newest+1),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", file, want, text)
		}
	}
	if file, err = migrations.Next(folder, "tables_alone", newest+1, true); err != nil ||
		file != fmt.Sprintf("%05d_tables_alone.sql", newest+2) {
		t.Fatalf("%s, %v", file, err)
	}
	if text := read(t, filepath.Join(folder, "sql", file)); !strings.Contains(text,
		fmt.Sprintf("'migration %d, serves %d'", newest+2, newest+1)) || strings.Contains(text, "lock_payment") {
		t.Errorf("%s is\n%s", file, text)
	}
	for _, serves := range []int64{-1, newest, newest + 4} { // before what the one before serves, and after itself
		if _, err := migrations.Next(folder, "bad", serves, true); !errors.Is(err, migrations.ErrBadServes) {
			t.Errorf("serves %d: %v", serves, err)
		}
	}
	all, err = migrations.ReadNumbers(os.DirFS(folder), "north")
	if err != nil || len(all) < 3 || strings.Contains(all[len(all)-1].SQL, "{cell}") {
		t.Errorf("%d numbers, %v", len(all), err)
	}
}

// TestNumbersAreWellFormed refuses files that can't be read as they were meant.
func TestNumbersAreWellFormed(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"-- function a\nSELECT 1;\n":                                 "has no end",
		"-- end of a\n":                                              "did not begin",
		"-- function a\n-- end of b\n":                               "did not begin",
		"-- function a\n-- function b\n-- end of b\n-- end of a\n":   "begins before the end",
		"-- function a\nSELECT 1;\n-- end of a\n-- a view of it\n\n": "makes no function schema_version that says migration 1",
		stamp(1, 1):  "",
		stamp(2, 1):  "that says migration 1",
		stamp(1, 0):  "serves migration 0",
		stamp(1, 2):  "serves migration 2",
		stamp(1, -1): "that says migration 1",
	} {
		folder := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(folder, "sql"), 0o755),
			os.WriteFile(filepath.Join(folder, "sql", "00001_a.sql"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
		_, err := migrations.ReadNumbers(os.DirFS(folder), "railhead")
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	for name, test := range map[string]struct {
		files map[string]string
		says  string
	}{
		"none":                                   {nil, "there is no migration"},
		"two of one number":                      {map[string]string{"00001_a.sql": stamp(1, 1), "00001_b.sql": stamp(1, 1)}, "have one number"},
		"one that serves what before it did not": {map[string]string{"00001_a.sql": stamp(1, 1), "00002_b.sql": stamp(2, 2), "00003_c.sql": stamp(3, 1)}, "serves migration 1"},
		"in order":                               {map[string]string{"00001_a.sql": stamp(1, 1), "00002_b.sql": stamp(2, 1), "00003_c.sql": stamp(3, 3)}, ""},
	} {
		folder := t.TempDir()
		if err := os.Mkdir(filepath.Join(folder, "sql"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range test.files {
			if err := os.WriteFile(filepath.Join(folder, "sql", file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := migrations.ReadNumbers(os.DirFS(folder), "railhead")
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}
