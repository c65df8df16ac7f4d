package alertdrill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// errNoFaketime means that the clock can't be moved on this machine.
var errNoFaketime = errors.New("no libfaketime here: run scripts/install-faketime.sh")

// startAhead starts a separate cell whose database server's clock runs ahead, and a reaper for it.
// The machine's own clock must not be moved, and Go programs read the kernel's clock directly, so
// only the server's clock is moved.
func (w *world) startAhead(ctx context.Context) error {
	library, err := exec.CommandContext(ctx, filepath.Join(w.root, "scripts/install-faketime.sh"), "--find").Output()
	if err != nil {
		return fmt.Errorf("%w (%w)", errNoFaketime, err)
	}
	// The server may run under another account, which has to read the file.
	if w.aheadDir, err = os.MkdirTemp("/tmp", "ahead-"); err != nil {
		return err
	}
	w.closing = append(w.closing, func() { os.RemoveAll(w.aheadDir) })
	if err := errors.Join(os.Chmod(w.aheadDir, 0o755), w.setAhead(5*time.Second)); err != nil {
		return err
	}
	preload := map[string]string{
		"LD_PRELOAD": strings.TrimSpace(string(library)), "FAKETIME_TIMESTAMP_FILE": w.aheadFile(), "FAKETIME_NO_CACHE": "1",
	}
	for name, value := range preload {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	server, err := pgserver.Start(ctx, pgserver.Options{})
	for name := range preload {
		err = errors.Join(err, os.Unsetenv(name))
	}
	if err != nil {
		return err
	}
	w.ahead = server
	w.closing = append(w.closing, func() { _ = server.StopImmediate(context.Background()) })
	if _, err := install.On(ctx, server, cell, timeBudget); err != nil {
		return err
	}
	return w.startAs(ctx, "reaper", "reaper-ahead", "ahead",
		"RAILHEAD_REAPER_URL="+server.URL(install.Database, install.Reaper),
		"RAILHEAD_METRICS_URL="+server.URL(install.Database, install.Auditor))
}

func (w *world) aheadFile() string { return filepath.Join(w.aheadDir, "offset") }

// setAhead sets by how much that server's clock runs ahead from now on.
func (w *world) setAhead(by time.Duration) error {
	draft := w.aheadFile() + ".new"
	if err := os.WriteFile(draft, fmt.Appendf(nil, "+%ds\n", int(by.Seconds())), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, w.aheadFile())
}
