package mutants

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bench is a copy of the tree in which guards are removed.
type Bench struct {
	root string
	out  io.Writer
	// controlled are the catchers that passed with every guard in place.
	controlled map[Catcher]bool
}

// NewBench copies the tree at root into dir.
func NewBench(root, dir string, out io.Writer) (*Bench, error) {
	b := &Bench{root: dir, out: out, controlled: make(map[Catcher]bool)}
	return b, copyTree(root, dir)
}

// copyTree copies the files of the repository: no history, nothing built, no
// failures that a property test has kept.
func copyTree(from, to string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "build" || entry.Name() == "rapid" || strings.HasPrefix(name, ".") && name != "."):
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

// Errors of a mutant.
var (
	// ErrMissed: the guard is gone and its catcher is content.
	ErrMissed = errors.New("nothing noticed that the guard is gone")
	// ErrUnhit: the fault that should notice was never met, which proves nothing.
	ErrUnhit = errors.New("the fault was not met, so that it could notice nothing")
	// ErrControl: the catcher fails with the guard in place too.
	ErrControl = errors.New("the catcher fails though every guard is in place")
)

// Catch shows that the catcher passes with the guard and fails without it.
func (b *Bench) Catch(ctx context.Context, m Mutant) error {
	begun := time.Now()
	if !b.controlled[m.Catcher] {
		if caught, output, err := b.run(ctx, m.Catcher); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		} else if caught {
			return fmt.Errorf("%s: %w: %s\n%s", m.Name, ErrControl, m.Catcher, output)
		}
		b.controlled[m.Catcher] = true
	}
	control := time.Since(begun)
	undo, err := m.apply(b.root)
	if err == nil {
		err = b.compiles(ctx, m)
	}
	caught, output := false, ""
	if err == nil {
		caught, output, err = b.run(ctx, m.Catcher)
	}
	if err := errors.Join(err, undo(), b.forget(m.Catcher)); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	why := reason(output)
	switch {
	case !caught:
		return fmt.Errorf("%s: %w: %s\n%s", m.Name, ErrMissed, m.Catcher, output)
	case why == "":
		return fmt.Errorf("%s: %w: %s\n%s", m.Name, ErrUnhit, m.Catcher, output)
	}
	fmt.Fprintf(b.out, "caught %-26s by %s (%s, control %s): %s\n", m.Name, m.Catcher,
		(time.Since(begun) - control).Round(time.Second), control.Round(time.Second), why)
	return nil
}

// forget removes what a property test keeps of its failure: it would be tried
// again under the next mutant.
func (b *Bench) forget(c Catcher) error {
	if c.Package == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(b.root, c.Package, "testdata", "rapid"))
}

// compiles tells a mutant that does not compile from one that is caught.
func (b *Bench) compiles(ctx context.Context, m Mutant) error {
	args := []string{"build", "./..."}
	if m.Catcher.Package != "" {
		args = []string{"test", "-run", "^$", m.Catcher.Package}
	}
	if output, err := b.command(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("does not compile: %w\n%s", err, output)
	}
	return nil
}

// run runs a catcher and reports whether it has caught something.
func (b *Bench) run(ctx context.Context, c Catcher) (caught bool, output string, err error) {
	for try := range max(c.Tries, c.Seeds, 1) {
		command := b.command(ctx, "go", "test", "-count=1", "-timeout", "10m", "-run", c.Test, c.Package)
		if c.Fault != "" {
			command = b.command(ctx, "go", "run", "./proofs/faultsrun", "-evidence", "", "-lanes", "1",
				"-fault", c.Fault, "-seed", strconv.Itoa(try+1))
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
		case c.Fault == "" && !bytes.Contains(text, []byte("--- FAIL")) && !bytes.Contains(text, []byte("panic:")):
			return false, "", fmt.Errorf("%s did not run: %w\n%s", c, exit, tail(text))
		case c.Fault != "" && !bytes.Contains(text, []byte("exit status 8")):
			return false, "", fmt.Errorf("%s did not run: %w\n%s", c, exit, tail(text))
		}
		return true, tail(text), nil
	}
	return false, "", nil
}

func (b *Bench) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = b.root
	// The copy has no history to be stamped with.
	command.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	return command
}

// tail is what people need to see of an output.
func tail(text []byte) string {
	const most = 6000
	return string(text[max(0, len(text)-most):])
}

// noise are the beginnings of lines that say nothing of what was noticed.
var noise = []string{"run:", "good", "past", "faults:", "BAD", "---", "===", "the fault was never hit", "logs and ledgers:",
	"exit status", "time=", "{", "To reproduce", "Failed test output", "faultsrun:", "FAIL"}

// reason is the first line that says what was noticed, "" if none does: what a
// test reports with its place, or else anything.
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
