package migrations_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/migrations"
)

// sumsFile has the SHA-256 of each file that never changes.
const sumsFile = "testdata/sums.txt"

// frozen are the numbered files, and the dump that cells of before the baseline are compared with.
func frozen(t *testing.T, from fs.FS) []string {
	t.Helper()
	paths, err := fs.Glob(from, "sql/*.sql")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d numbered files (%v)", len(paths), err)
	}
	return append(paths, "testdata/baseline.txt")
}

// thawed returns the frozen files that differ from sums, and the sums of those that sums lacks.
func thawed(t *testing.T, from fs.FS, sums string) (complaints []string, lacking string) {
	t.Helper()
	said := map[string]string{}
	for line := range strings.Lines(sums) {
		sum, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		said[path] = sum
	}
	for _, path := range frozen(t, from) {
		text, err := fs.ReadFile(from, path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		is, want := hex.EncodeToString(sum[:]), said[path]
		delete(said, path)
		switch want {
		case is:
		case "":
			lacking += is + "  " + path + "\n"
			complaints = append(complaints, path+" has no sum: run go test ./migrations -run TestFrozen -update, and commit "+
				"both")
		default:
			complaints = append(complaints, path+" was changed after it was frozen: cells in the field have it as it was. "+
				"Undo the change, "+
				"and write it as the next number (make migration NAME=words). Only a file that was never committed may lose its "+
				"line of "+sumsFile)
		}
	}
	for path := range said {
		complaints = append(complaints, path+" is gone: cells in the field have it. Take it back")
	}
	return complaints, lacking
}

// TestFrozen: a numbered file is as it was when its sum was committed.
func TestFrozen(t *testing.T) {
	t.Parallel()
	sums := read(t, sumsFile)
	complaints, lacking := thawed(t, os.DirFS("."), sums)
	if *update && lacking != "" {
		if err := os.WriteFile(sumsFile, []byte(sums+lacking), 0o644); err != nil {
			t.Fatal(err)
		}
		complaints, _ = thawed(t, os.DirFS("."), sums+lacking)
	}
	for _, complaint := range complaints {
		t.Error(complaint)
	}

	files := fstest.MapFS{"sql/00001_a.sql": {Data: []byte("a")}, "testdata/baseline.txt": {Data: []byte("b")}}
	_, whole := thawed(t, files, "")
	for name, change := range map[string]struct {
		change func(fstest.MapFS)
		says   string
	}{
		"as committed": {func(fstest.MapFS) {}, ""},
		"edited":       {func(f fstest.MapFS) { f["sql/00001_a.sql"] = &fstest.MapFile{Data: []byte("aa")} }, "was changed after it was frozen"},
		"one more":     {func(f fstest.MapFS) { f["sql/00002_b.sql"] = &fstest.MapFile{Data: []byte("b")} }, "has no sum"},
		"renamed": {func(f fstest.MapFS) {
			f["sql/00001_b.sql"] = f["sql/00001_a.sql"]
			delete(f, "sql/00001_a.sql")
		}, "is gone"},
	} {
		one := fstest.MapFS{}
		maps.Copy(one, files)
		change.change(one)
		complaints, _ := thawed(t, one, whole)
		if got := strings.Join(complaints, "\n"); (got == "") != (change.says == "") || !strings.Contains(got, change.says) {
			t.Errorf("%s: %q, want %q", name, got, change.says)
		}
	}
}

// TestHistoryNeverChangesANumber reads the history, where there is one: no commit has changed or
// removed a numbered file that is there now.
func TestHistoryNeverChangesANumber(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output(); err != nil ||
		strings.TrimSpace(string(out)) != "false" {
		t.Skip("there is no whole history here: this is no clone, or a shallow one")
	}
	// A file that is renamed, or changed in a merge, was changed too.
	out, err := exec.Command("git", "log", "-m", "--full-history", "--no-renames", "--diff-filter=MDT",
		"--format=%n%h %s", "--name-only",
		"--", "sql", "testdata/baseline.txt").Output()
	if err != nil {
		t.Fatalf("reading the history: %v", err)
	}
	commit := ""
	for line := range strings.Lines(string(out)) {
		path, found := strings.CutPrefix(strings.TrimSpace(line), "migrations/")
		if !found {
			commit = strings.TrimSpace(cmp.Or(strings.TrimSpace(line), commit))
			continue
		}
		number, err := strconv.Atoi(strings.TrimPrefix(path, "sql/")[:5])
		if err == nil && number < migrations.Baseline {
			continue // of before the baseline
		}
		t.Errorf("%s was changed after the commit that froze it, by %s", path, commit)
	}
}

// TestNumbersMakeTheCurrentText: what functions/ and views/ have is what the numbered files make.
func TestNumbersMakeTheCurrentText(t *testing.T) {
	t.Parallel()
	pending, err := migrations.Pending(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(pending) > 0 {
		t.Errorf("no migration makes %s as functions/ and views/ have it: make migration NAME=words",
			strings.Join(pending, ", "))
	}
	unmade, err := migrations.Unmade(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(unmade) > 0 {
		t.Errorf("migrations make %s, of which functions/ and views/ have nothing: take the file back, or drop it in a "+
			"migration", strings.Join(unmade, ", "))
	}
	folder := checkout(t)
	if err := os.Remove(filepath.Join(folder, "functions", "lock_payment.sql")); err != nil {
		t.Fatal(err)
	}
	if unmade, err = migrations.Unmade(os.DirFS(folder)); err != nil || len(unmade) != 1 {
		t.Errorf("without lock_payment.sql: %v, %v", unmade, err)
	}
}

// changesRows finds a statement that changes rows.
var changesRows = regexp.MustCompile(`(?mi)^[^-\n]*\b(INSERT INTO|UPDATE \{?\w+\}?\.|DELETE FROM|MERGE
	INTO|TRUNCATE (?:TABLE |\{)|COPY|USING)\b|^SELECT `)

// stamp is the function that a migration stamps a cell with.
func stamp(version, serves int) string {
	return fmt.Sprintf("\n-- function schema_version\nCREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS "+
		"text\nLANGUAGE sql IMMUTABLE\n"+
		"AS $$ SELECT 'migration %d, serves %d' $$;\n-- end of schema_version\n", version, serves)
}

// checkData migrates a cell that has the rows of before to the version of a migration, and runs
// after, which raises an exception where a row is not as it must be.
func checkData(t *testing.T, all []migrations.Migration, n int, before, after string) error {
	t.Helper()
	db := emptyDatabase(t)
	config, err := pgx.ParseConfig(db.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := migrations.UpTo(t.Context(), config, "railhead", all, all[n-1].Version); err != nil {
		t.Fatal(err)
	}
	conn := db.Conn(t, "")
	if _, err := conn.Exec(t.Context(), before); err != nil {
		return fmt.Errorf("the rows before %s: %w", all[n].Name, err)
	}
	if err := migrations.UpTo(t.Context(), config, "railhead", all, all[n].Version); err != nil {
		return err
	}
	if _, err := db.Conn(t, "").Exec(t.Context(), after); err != nil {
		return fmt.Errorf("after %s: %w", all[n].Name, err)
	}
	return nil
}

// TestDataMigrations: a migration that changes rows has rows before, and assertions after, in
// testdata/NUMBER_name.before.sql and testdata/NUMBER_name.after.sql, and they hold.
func TestDataMigrations(t *testing.T) {
	t.Parallel()
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	for n, migration := range all {
		if migration.Version == migrations.Baseline || !changesRows.MatchString(migration.Outside()) {
			continue
		}
		stem := filepath.Join("testdata", strings.TrimSuffix(migration.Name, ".sql"))
		if err := checkData(t, all, n, read(t, stem+".before.sql"), read(t, stem+".after.sql")); err != nil {
			t.Error(err)
		}
	}
}

// TestRoutedCallsBetweenMigrateAndRoles: who could call require_directory can do so once the function that it asks
// has been made, before railhead roles apply has run.
func TestRoutedCallsBetweenMigrateAndRoles(t *testing.T) {
	t.Parallel()
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	n := slices.IndexFunc(all, func(m migrations.Migration) bool { return m.Name == "00038_no_callers_code_as_owner.sql" })
	err = checkData(t, all, n, "GRANT EXECUTE ON FUNCTION railhead.require_directory TO railhead_ingest",
		`DO $$ BEGIN
			IF NOT has_function_privilege('railhead_ingest', 'railhead.require_map()', 'EXECUTE')
				OR has_function_privilege('railhead_api', 'railhead.require_map()', 'EXECUTE') THEN
				RAISE EXCEPTION 'ingest and it alone must be able to call require_map';
			END IF;
		END $$`)
	if err != nil {
		t.Error(err)
	}
}

// TestDataMigrationsAreChecked gives the check a migration that changes rows, and a wrong one.
func TestDataMigrationsAreChecked(t *testing.T) {
	t.Parallel()
	celltest.New(t)
	const before = `INSERT INTO railhead.payment_currencies (code, exponent) VALUES ('QQQ', 2)`
	const after = `DO $$ BEGIN IF (SELECT exponent FROM railhead.payment_currencies WHERE code = 'QQQ') <> 3
		THEN RAISE EXCEPTION 'the exponent stayed'; END IF; END $$`
	for update, says := range map[string]string{
		"UPDATE {cell}.payment_currencies SET exponent = 3 WHERE code = 'QQQ';": "",
		"UPDATE {cell}.payment_currencies SET exponent = 3 WHERE code = 'QQX';": "the exponent stayed",
		"UPDATE {cell}.payment_currencies SET exponents = 3;":                   "exponents",
	} {
		baseline, err := fs.Glob(os.DirFS("."), "sql/*_baseline.sql")
		if err != nil || len(baseline) != 1 {
			t.Fatal(baseline, err)
		}
		files := fstest.MapFS{baseline[0]: {Data: []byte(read(t, baseline[0]))},
			"sql/00014_exponents.sql": {Data: []byte(update + stamp(14, 13))}}
		all, err := migrations.ReadNumbers(files, "railhead")
		if err != nil {
			t.Fatal(err)
		}
		if !changesRows.MatchString(all[1].Outside()) {
			t.Errorf("%s changes rows", update)
		}
		err = checkData(t, all, 1, before, after)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", update, err, says)
		}
	}
}
