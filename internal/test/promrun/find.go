// Package promrun runs the Prometheus that scripts/install-prometheus.sh finds: promtool, and
// private servers for tests.
package promrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// EnvWithout is the variable that, set to anything, lets tests do without Prometheus. They then
// report that they were skipped.
const EnvWithout = "RAILHEAD_WITHOUT_PROMETHEUS"

// ErrNone means that there is no prometheus on this machine.
var ErrNone = errors.New("no prometheus and promtool here: run make prometheus, or set " + EnvWithout +
	"=1 to go without the tests that need them")

// Programs is the folder that holds prometheus and promtool.
type Programs struct{ dir string }

// Find gets the folder of the programs from the installing script; root is the root of the
// repository. It installs nothing.
func Find(ctx context.Context, root string) (Programs, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(root, "scripts/install-prometheus.sh"), "--find")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return Programs{}, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	return Programs{dir: strings.TrimSpace(string(out))}, nil
}

// Dir returns the folder of the programs, for a PATH.
func (p Programs) Dir() string { return p.dir }

// Promtool runs promtool and returns its output.
func (p Programs) Promtool(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(p.dir, "promtool"), args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("promtool %s: %w", args[0], err)
	}
	return string(out), nil
}
