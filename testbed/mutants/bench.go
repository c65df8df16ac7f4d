package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bench holds copies of the tree in which guards are removed, one at a time.
type Bench struct {
	bin      string    // where the programs go
	env      []string  // in addition to this process's own
	built    *tree     // compiled anew for each mutant
	read     *tree     // its programs read their SQL from the disk: for mutants of SQL, they are compiled once
	controls *controls // shared by the lanes of a series
}

// tree is one copy.
type tree struct {
	root string
	name string // begins the names of its programs
	read bool   // its programs read their SQL from the disk
	// programs are those of the tree with every guard in place, by package.
	programs map[string]string
}

// NewBench copies the tree at root into dir. Its catchers have env in addition to
// the environment of this process.
func NewBench(root, dir string, env ...string) (*Bench, error) {
	b := &Bench{bin: filepath.Join(dir, "bin"), env: env, controls: newControls()}
	for _, one := range []struct {
		name string
		tree **tree
	}{{"tree", &b.built}, {"read", &b.read}} {
		t := &tree{root: filepath.Join(dir, one.name), name: one.name, read: one.tree == &b.read,
			programs: make(map[string]string)}
		if err := copyTree(root, t.root); err != nil {
			return nil, err
		}
		*one.tree = t
	}
	return b, readFromDisk(b.read.root)
}

// copyTree copies the files of the repository, without its history, its build results, and the
// failures that a property test has kept.
func copyTree(from, to string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case skipped(name, entry):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, info.Mode().Perm())
	})
}

// skipped reports whether a folder is not part of the tree.
func skipped(name string, entry fs.DirEntry) bool {
	return entry.IsDir() && (name == "build" || entry.Name() == "rapid" || strings.HasPrefix(name, ".") && name != ".")
}

// Errors of a mutant.
var (
	// ErrMissed means that the guard is removed and its catcher still passes.
	ErrMissed = errors.New("nothing noticed that the guard is gone")
	// ErrUnhit means that the fault that should notice never occurred, which proves nothing.
	ErrUnhit = errors.New("the fault was not met, so that it could notice nothing")
	// ErrControl means that the catcher fails with the guard in place too.
	ErrControl = errors.New("the catcher fails though every guard is in place")
)

// Caught is how a mutant was noticed.
type Caught struct {
	Reason        string // the first line that says what was noticed
	Took, Control time.Duration
}

// Catch checks that the catcher passes with the guard and fails without it.
func (b *Bench) Catch(ctx context.Context, m Mutant) (Caught, error) {
	begun := time.Now()
	t := b.treeOf(m)
	if err := b.control(ctx, t, m.Catcher); err != nil {
		return Caught{}, fmt.Errorf("%s: %w", m.Name, err)
	}
	control := time.Since(begun)
	undo, err := m.apply(t.root)
	program := t.programs[m.Catcher.Package]
	if err == nil && t == b.built {
		program, err = b.build(ctx, t, m.Catcher, "mutant")
	}
	caught, output := false, ""
	if err == nil {
		caught, output, err = b.run(ctx, t, program, m.Catcher)
	}
	if err := errors.Join(err, undo(), t.forget(m.Catcher)); err != nil {
		return Caught{}, fmt.Errorf("%s: %w", m.Name, err)
	}
	why := reason(output)
	switch {
	case !caught:
		return Caught{}, fmt.Errorf("%s: %w: %s\n%s", m.Name, ErrMissed, m.Catcher, output)
	case why == "":
		return Caught{}, fmt.Errorf("%s: %w: %s\n%s", m.Name, ErrUnhit, m.Catcher, output)
	}
	return Caught{Reason: why, Took: time.Since(begun) - control, Control: control}, nil
}

// treeOf returns the copy in which a mutant is made.
func (b *Bench) treeOf(m Mutant) *tree {
	if m.ofSQL() {
		return b.read
	}
	return b.built
}

// forget removes the failure that a property test has kept: it would be tried again under the next
// mutant.
func (t *tree) forget(c Catcher) error {
	if c.Package == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(t.root, c.Package, "testdata", "rapid"))
}

// rig is the folder of the module that is not part of the product.
const rig = "testbed"

// moduleOf returns the folder of the module that has a package, and the package's path within the
// module.
func moduleOf(pkg string) (folder, within string) {
	pkg = filepath.ToSlash(filepath.Clean(pkg))
	if below, ok := strings.CutPrefix(pkg, rig+"/"); ok {
		return rig, "./" + below
	}
	return ".", "./" + pkg
}

// build builds the program of a catcher, and no other, from the tree as it is. A failure to build
// tells a mutant that does not compile from one that is caught.
func (b *Bench) build(ctx context.Context, t *tree, c Catcher, what string) (program string, err error) {
	prefix := what + "-" + t.name + "-"
	if err := os.MkdirAll(b.bin, 0o755); err != nil {
		return "", err
	}
	program = filepath.Join(b.bin, prefix+"testbed")
	folder, args := rig, []string{"build", "-ldflags=" + t.ldflags(), "-o", program, "./cmd/testbed"}
	if c.Package != "" {
		program = filepath.Join(b.bin, prefix+strings.ReplaceAll(filepath.Clean(c.Package), "/", "-")+".test")
		var pkg string
		folder, pkg = moduleOf(c.Package)
		args = []string{"test", "-c", "-vet=off", "-ldflags=" + t.ldflags()}
		if filepath.Clean(c.Package) != "payment" { // whose tests count millions of cases
			// Most of the time goes into compiling a package's tests anew for one run.
			args = append(args, "-gcflags="+pkg+"=-N -l -dwarf=false")
		}
		args = append(args, "-o", program, pkg)
	}
	if output, err := b.command(ctx, filepath.Join(t.root, folder), "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", errors.Join(err, ctx.Err()), output)
	}
	return program, nil
}

// exitBroken is the exit code of testbed when a rule did not hold.
const exitBroken = 8

// run runs a catcher and reports whether it has caught something.
func (b *Bench) run(ctx context.Context, t *tree, program string, c Catcher) (caught bool, output string, err error) {
	for try := range max(c.Tries, c.Seeds, 1) {
		command := b.test(ctx, t, program, c.Package, c.Test)
		if c.Fault != "" {
			command = b.command(ctx, t.root, program, "faults", "-evidence", "", "-lanes", "1", "-fault", c.Fault, "-seed",
				strconv.Itoa(try+1))
		}
		text, err := command.CombinedOutput()
		exit, ended := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil && c.Fault == "" && bytes.Contains(text, []byte("no tests to run")):
			return false, "", fmt.Errorf("%s: there is no such test", c)
		case err == nil:
			continue
		case !ended || ctx.Err() != nil:
			return false, "", fmt.Errorf("running %s: %w", c, errors.Join(err, ctx.Err()))
		case bytes.Contains(text, []byte("panic: test timed out")):
			return false, "", fmt.Errorf("%s did not end in time, which shows nothing\n%s", c, tail(text))
		case c.Fault == "" && !bytes.Contains(text, []byte("--- FAIL")) && !bytes.Contains(text, []byte("panic:")):
			return false, "", fmt.Errorf("%s did not run: %w\n%s", c, exit, tail(text))
		case c.Fault != "" && exit.ExitCode() != exitBroken:
			return false, "", fmt.Errorf("%s did not run: %w\n%s", c, exit, tail(text))
		}
		return true, tail(text), nil
	}
	return false, "", nil
}

// test runs tests of a package in a tree.
func (b *Bench) test(ctx context.Context, t *tree, program, pkg, tests string, args ...string) *exec.Cmd {
	return b.command(ctx, filepath.Join(t.root, pkg), program,
		append([]string{"-test.timeout=15m", "-test.failfast", "-test.run=" + tests}, args...)...)
}

func (b *Bench) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	// The copy has no history for a version stamp. Without the copy's path in the binaries, all
	// copies share one build cache, and with it all packages that no mutant changes.
	command.Env = append(append(os.Environ(), b.env...), "GOFLAGS=-buildvcs=false -trimpath")
	if name == "go" { // compilers that live for seconds need not collect their garbage
		command.Env = append(command.Env, "GOGC=400")
	}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	return command
}

// tail returns the end of an output, for messages.
func tail(text []byte) string {
	const most = 6000
	return string(text[max(0, len(text)-most):])
}

// noise are the beginnings of lines that do not tell what was noticed.
var noise = []string{"run:", "good", "past", "faults:", "BAD", "---", "===", "the fault was never hit",
	"logs and ledgers:",
	"exit status", "time=", "{", "To reproduce", "Failed test output", "testbed faults:", "FAIL"}

// reason returns the first line that tells what was noticed, or "" if none does: what a test
// reports with its place, or else any line.
func reason(output string) string {
	first := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		isNoise := func(start string) bool { return strings.HasPrefix(line, start) }
		if line == "" || slices.ContainsFunc(noise, isNoise) || strings.Contains(line, "[rapid]") {
			continue
		}
		line = line[:min(len(line), 160)]
		if strings.Contains(line, "_test.go:") {
			return line
		}
		if first == "" {
			first = line
		}
	}
	return first
}
