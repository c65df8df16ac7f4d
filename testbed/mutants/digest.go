package mutants

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// narrow are the packages whose tests depend only on the packages that they import: they build no
// program, and read no file of another folder but documents. The tests of all other packages, and
// faults, count as depending on the whole tree.
var narrow = []string{
	"./payment", "./schedule", "./ledger", "./ledger/internal/enqueue", "./relayer", "./reaper", "./rails",
	"./rails/callback", "./rails/codes", "./rails/httpjson", "./rails/railconfig", "./acl", "./ingest/callback",
	"./internal/lineage",
}

// digests holds the digests of what catchers depend on, so that a caught mutant is not tried again
// after a change that can't affect its catcher.
type digests struct {
	root  string
	whole string
	of    map[string]string // by package
}

func newDigests(root string) (*digests, error) {
	whole, err := digestOf(root)
	return &digests{root: root, whole: whole, of: make(map[string]string)}, err
}

// key returns a name for a mutant, with the digest of what its catcher depends on and of the files
// that it edits.
func (d *digests) key(ctx context.Context, m Mutant) (string, error) {
	pkg := m.Catcher.Package
	if m.Catcher.Fault != "" || !slices.Contains(narrow, pkg) {
		return keyOf(d.whole, m), nil
	}
	digest, ok := d.of[pkg]
	if !ok {
		var err error
		if digest, err = d.imported(ctx, pkg); err != nil {
			return "", err
		}
		d.of[pkg] = digest
	}
	sum := sha256.New()
	fmt.Fprintln(sum, digest)
	for _, edit := range m.Edits {
		if err := add(sum, d.root, edit.File); err != nil {
			return "", err
		}
	}
	return keyOf(hex.EncodeToString(sum.Sum(nil)), m), nil
}

// imported returns the digest of the folders of the repository's packages that a package and its
// tests import, of the files that determine which other modules they get, and of the folder of this
// package, which determines how a catcher is run and what counts as caught.
func (d *digests) imported(ctx context.Context, pkg string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-f", "{{if not .Standard}}{{.Dir}}{{end}}", pkg)
	var said bytes.Buffer
	list.Dir, list.Stderr = d.root, &said
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("listing what %s imports: %w: %s", pkg, err, said.Bytes())
	}
	root, err := filepath.Abs(d.root)
	if err != nil {
		return "", err
	}
	var folders []string
	for dir := range strings.Lines(string(out)) {
		if rel, err := filepath.Rel(root, strings.TrimSpace(dir)); err == nil && filepath.IsLocal(rel) {
			folders = append(folders, filepath.ToSlash(rel))
		}
	}
	if len(folders) == 0 {
		return "", fmt.Errorf("%s imports no package below %s", pkg, root)
	}
	if folder := path.Dir(List); isPackage(d.root, folder) {
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version())
	for _, file := range []string{"go.mod", "go.sum"} {
		if err := add(sum, d.root, file); err != nil {
			return "", err
		}
	}
	for _, folder := range folders {
		if err := addFolder(sum, d.root, folder, folders); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

// addFolder adds the files of a package, and those of the folders below it (testdata, embedded
// SQL) except folders that are packages of their own.
func addFolder(sum hash.Hash, root, folder string, packages []string) error {
	return fs.WalkDir(os.DirFS(root), folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name != folder && (skipped(name, entry) || slices.Contains(packages, name) || isPackage(root, name)) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || strings.HasSuffix(name, ".md") || name == List:
			return nil
		default:
			return add(sum, root, name)
		}
	})
}

// isPackage reports whether a folder has Go files of its own.
func isPackage(root, folder string) bool {
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	return err == nil && len(files) > 0
}

// digestOf returns the digest of all files of a tree that can change what a catcher does: neither
// its documents nor the list of mutants can.
func digestOf(root string) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case skipped(name, entry):
			return fs.SkipDir
		case !entry.Type().IsRegular() || strings.HasSuffix(name, ".md") || name == List:
			return nil
		default:
			return add(sum, root, name)
		}
	})
	return hex.EncodeToString(sum.Sum(nil)[:12]), err
}

func add(sum hash.Hash, root, name string) error {
	file, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return err
	}
	fmt.Fprintln(sum, name)
	_, err = io.Copy(sum, file)
	return errors.Join(err, file.Close())
}
