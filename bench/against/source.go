package against

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build is a benchmark made from one state of the source.
type build struct {
	name    string // in the report
	program string
}

// measuring are the files that decide what a drain and an enqueue are, and how their costs are
// measured.
var measuring = []string{
	"bench/bench.go", "bench/modes.go", "bench/enqueue.go", "bench/size.go", "bench/server",
	"bench/systems/railhead.go", "bench/systems/system.go", "bench/systems/tally.go",
}

// prepare builds both benchmarks.
func (c *comparison) prepare(ctx context.Context) error {
	top, err := git(ctx, c.Dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	commit, err := resolve(ctx, top, c.Revision)
	if err != nil {
		return err
	}
	source := filepath.Join(c.temp, "source")
	c.rev = build{commit[:12], filepath.Join(c.temp, "bench-rev")}
	c.tree = build{"tree", filepath.Join(c.temp, "bench-tree")}
	if err := extract(ctx, top, commit, source); err != nil {
		return fmt.Errorf("extracting %s: %w", c.rev.name, err)
	}
	if err := errors.Join(c.compile(ctx, source, c.rev), c.compile(ctx, top, c.tree)); err != nil {
		return err
	}
	changed, err := git(ctx, top, append([]string{"diff", "--name-only", commit, "--"}, measuring...)...)
	if err != nil {
		return err
	}
	if changed != "" {
		c.notes = append(c.notes, fmt.Sprintf("the code that measures differs in %s: what differs below need not be Railhead",
			strings.Join(strings.Fields(changed), ", ")))
	}
	return nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := command{dir: dir, limit: gitLimit, name: "git", args: args}.run(ctx)
	return strings.TrimSpace(string(out)), err
}

// resolve returns the full name of a commit.
func resolve(ctx context.Context, top, revision string) (string, error) {
	commit, err := git(ctx, top, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return "", fmt.Errorf("REV=%s is no commit of this repository", revision)
	}
	return commit, err
}

// extract writes the files of a commit below dir. Unlike a worktree, it leaves nothing in the
// repository, however it ends.
func extract(ctx context.Context, top, commit, dir string) error {
	archive, err := command{dir: top, limit: gitLimit, name: "git",
		args: []string{"archive", "--format=tar", commit}}.run(ctx)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := unpack(root, header, files); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}

func unpack(root *os.Root, header *tar.Header, content io.Reader) error {
	name := filepath.Clean(header.Name)
	switch header.Typeflag {
	case tar.TypeXGlobalHeader: // names the commit
		return nil
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
	default:
		return fmt.Errorf("unexpected kind of file %q in an archive of git", header.Typeflag)
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, header.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// compile builds the benchmark of the source in dir. Both builds are made in the same way: neither
// names a commit or a folder.
func (c *comparison) compile(ctx context.Context, dir string, b build) error {
	c.say("building %s", b.name)
	bench := filepath.Join(dir, "bench")
	if _, err := os.Stat(filepath.Join(bench, "go.mod")); err != nil {
		return fmt.Errorf("%s has no benchmark to be measured by: %w", b.name, err)
	}
	_, err := command{
		dir: bench, env: []string{"GOTMPDIR=" + c.temp}, limit: c.BuildLimit,
		name: c.Go, args: []string{"build", "-buildvcs=false", "-trimpath", "-o", b.program, "."},
	}.run(ctx)
	if err != nil {
		return fmt.Errorf("building %s: %w", b.name, err)
	}
	return nil
}
