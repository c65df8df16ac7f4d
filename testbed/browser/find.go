// Package browser drives the headless Chromium that scripts/install-browser.sh finds: it opens pages as a person
// does, by mouse or by keyboard alone, and reports what their consoles say, what axe-core says of them, and how
// they are laid out.
package browser

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

// EnvWithout is the variable that, set to anything, lets tests go without Chromium. They then say that they were
// skipped.
const EnvWithout = "RAILHEAD_WITHOUT_BROWSER"

// ErrNone means that there is no Chromium on this machine.
var ErrNone = errors.New("no Chromium and axe-core here: run make browser, or set " + EnvWithout +
	"=1 to go without the tests that need them")

// Programs are the browser, and the script of axe-core.
type Programs struct{ Chromium, Axe string }

// Find asks the installing script where the programs are; root is the repository's folder. It installs nothing.
func Find(ctx context.Context, root string) (Programs, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(root, "scripts/install-browser.sh"), "--find").Output()
	if err != nil {
		return Programs{}, fmt.Errorf("%w (%w)", ErrNone, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		return Programs{}, fmt.Errorf("%w: install-browser.sh printed %q", ErrNone, lines)
	}
	for _, file := range lines {
		if _, err := os.Stat(file); err != nil {
			return Programs{}, fmt.Errorf("%w: %w", ErrNone, err)
		}
	}
	return Programs{Chromium: lines[0], Axe: lines[1]}, nil
}
