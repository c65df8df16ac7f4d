// Package slowflush builds the shim that makes flushes of the private server
// slow: a disk whose flush takes microseconds hides what a commit costs.
package slowflush

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed shim/slowflush.c
var source []byte

// ErrNoCompiler means that no cc was found.
var ErrNoCompiler = errors.New("no cc")

// Build compiles the shim into dir, which the server's account must be able to
// read, and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", ErrNoCompiler
	}
	file, library := filepath.Join(dir, "slowflush.c"), filepath.Join(dir, "slowflush.so")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		return "", err
	}
	output, err := exec.CommandContext(ctx, cc, "-O2", "-shared", "-fPIC", "-Wall", "-o", library, file,
		"-ldl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compiling the shim: %w\n%s", err, output)
	}
	return library, os.Chmod(library, 0o755)
}

// Environment returns the variables that tell the shim how long to wait.
func Environment(delay time.Duration) map[string]string {
	return map[string]string{"SLOWFLUSH_US": strconv.FormatInt(delay.Microseconds(), 10)}
}
