package migrations

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The errors of [Next].
var (
	ErrNothingNew = errors.New("functions/ and views/ have nothing that the numbered files do not make")
	ErrBadServes  = errors.New("a migration serves no older one than the migration before it does, and none after itself")
	ErrBadName    = errors.New("a migration is named by lower-case words with underscores between, as in " +
		"00014_keep_sums.sql")
)

var numberName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// Pending returns the names of the functions and views whose current text the numbered files
// do not make yet, except schema_version, which each numbered file makes anew. folder is that
// of this package in a checkout.
func Pending(folder string) ([]string, error) {
	_, changed, _, err := pending(os.DirFS(folder))
	names := make([]string, 0, len(changed))
	for _, o := range changed {
		names = append(names, o.name)
	}
	return names, err
}

func pending(from fs.FS) (all []Migration, changed []object, stamp object, err error) {
	all, err = readNumbers(from, "{cell}")
	if err != nil {
		return nil, nil, stamp, err
	}
	current, err := currentObjects(from, words)
	if err != nil {
		return nil, nil, stamp, err
	}
	made := latest(all)
	for _, o := range current {
		switch {
		case o.kind == "function" && o.name == versionFunction:
			stamp = o
		case !slices.Contains(made, o):
			changed = append(changed, o)
		}
	}
	if stamp.name == "" {
		return nil, nil, stamp, fmt.Errorf("functions/%s.sql is not there", versionFunction)
	}
	return all, changed, stamp, nil
}

// Next writes the next numbered file and returns its name. The file has the whole text of
// each function and view that Pending returns, and the version. folder is that of this
// package in a checkout. serves is the oldest migration whose binaries work on a cell with
// the new one; 0: the same as before. The author adds statements of tables before the file
// is committed; after that it never changes.
//
// The error is ErrBadName for a bad name, ErrBadServes for a bad serves, and ErrNothingNew if
// nothing is pending and bare is false.
func Next(folder, name string, serves int64, bare bool) (string, error) {
	if !numberName.MatchString(name) {
		return "", fmt.Errorf("%w: %q is none", ErrBadName, name)
	}
	all, changed, stamp, err := pending(os.DirFS(folder))
	switch {
	case err != nil:
		return "", err
	case len(changed) == 0 && !bare:
		return "", ErrNothingNew
	}
	before := stampOf(all[len(all)-1])
	version := before.migration + 1
	if serves == 0 {
		serves = before.serves
	}
	if serves < before.serves || serves > version {
		return "", fmt.Errorf("%w: %d, must be %d to %d", ErrBadServes, serves, before.serves, version)
	}
	stamp.sql = strings.NewReplacer(
		"{version}", strconv.FormatInt(version, 10), "{serves}", strconv.FormatInt(serves, 10)).Replace(stamp.sql)
	var text strings.Builder
	fmt.Fprintf(&text, "-- Migration %d, %s. Binaries that need migration %d or a newer one work on a cell that has it.\n",
		version, strings.ReplaceAll(name, "_", " "), serves)
	for _, o := range append(changed, stamp) {
		text.WriteString("\n" + o.text())
	}
	file := fmt.Sprintf("%05d_%s.sql", version, name)
	if err := os.WriteFile(filepath.Join(folder, "sql", file), []byte(text.String()), 0o644); err != nil {
		return "", fmt.Errorf("writing migration %s: %w", file, err)
	}
	return file, nil
}
