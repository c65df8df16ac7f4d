// Command railsim runs one simulated bank as a process. See the package railsim for what it does and
// `railsim -help` for its flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/railhead-pay/railhead/railsim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "railsim:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It returns nil after a clean end.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	cfg, err := opts.config()
	if err != nil {
		return err
	}
	cfg.Log = slog.New(slog.NewTextHandler(stderr, nil))
	if opts.summary {
		return summarise(cfg.LedgerPath, os.Stdout)
	}
	bank, err := railsim.New(cfg)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", opts.listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), bank.Close())
	}
	served := make(chan error, 1)
	go func() { served <- bank.Serve(l) }()
	if err := announce(opts.addrFile, l.Addr().String()); err != nil {
		return errors.Join(err, bank.Close(), <-served)
	}
	cfg.Log.Info("bank is open", "addr", l.Addr().String(), "ledger", cfg.LedgerPath, "seed", cfg.Seed, "mode", cfg.Mode)
	select {
	case <-ctx.Done():
		return errors.Join(bank.Close(), <-served)
	case err := <-served:
		return errors.Join(err, bank.Close())
	}
}

// announce writes the bound address so that a reader of the file sees all of it or no file: the connection is already
// listened on, so a process that finds the file can connect.
func announce(path, addr string) error {
	if path == "" {
		return nil
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write address: %w", err)
	}
	_, err = tmp.WriteString(addr + "\n")
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write address: %w", err), os.Remove(tmp.Name()))
	}
	return nil
}
