package mutants

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// embedding maps the packages that embed SQL as a file system to the file that embeds it.
var embedding = map[string]string{"migrations": "migrations.go", "ledger": "ledger.go", "proofs": "proofs.go"}

// ofSQL reports whether a mutant edits only SQL files of the packages in embedding and is caught
// by a test.
func (m Mutant) ofSQL() bool {
	return m.Catcher.Fault == "" && !slices.ContainsFunc(m.Edits, func(e Edit) bool {
		top, _, _ := strings.Cut(e.File, "/")
		_, embedded := embedding[top]
		return !embedded || !strings.HasSuffix(e.File, ".sql") || strings.Count(e.File, "/") == 1
	})
}

// module is the path of the product's module.
const module = "github.com/railhead-pay/railhead"

// ldflags returns the linker flags, which hold the place of the SQL if programs read it from the
// disk. Only linking differs from one copy to another, and a program that a test starts from its
// own binary knows the place too.
func (t *tree) ldflags() string {
	flags := "-s -w"
	if !t.read {
		return flags
	}
	for _, name := range slices.Sorted(maps.Keys(embedding)) {
		flags += fmt.Sprintf(" -X '%s/%s.diskRoot=%s'", module, name, t.root)
	}
	return flags
}

// diskFiles replaces the embedded files of a package.
const diskFiles = `package %[1]s

import (
	"io/fs"
	"os"
	"path/filepath"
)

type diskFiles struct{ fs.FS }

func (d diskFiles) ReadFile(name string) ([]byte, error)       { return fs.ReadFile(d.FS, name) }
func (d diskFiles) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(d.FS, name) }

var diskRoot string // set by the linker

var files = diskFiles{os.DirFS(filepath.Join(diskRoot, %[1]q))}
`

// readFromDisk changes a copy of the tree so that its programs read its SQL from the disk when
// they start: a mutant of SQL is another text for the same program.
func readFromDisk(root string) error {
	var all []error
	for name, file := range embedding {
		path := filepath.Join(root, name, file)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		before, rest, ok := strings.Cut(string(text), "//go:embed ")
		_, after, declared := strings.Cut(rest, "\nvar files embed.FS\n")
		if !ok || !declared || strings.Count(before, "\t\"embed\"\n") != 1 || strings.Contains(after, "embed.") {
			return fmt.Errorf("%s embeds its files in another way: bring package mutants up to date", path)
		}
		before = strings.Replace(before, "\t\"embed\"\n", "", 1)
		all = append(all,
			os.WriteFile(path, []byte(before+after), 0o644),
			os.WriteFile(filepath.Join(root, name, "disk_files.go"), fmt.Appendf(nil, diskFiles, name), 0o644))
	}
	return errors.Join(all...)
}
