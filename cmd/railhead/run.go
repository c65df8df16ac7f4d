package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// serviceCommands are the ones that stay up.
func serviceCommands() []*cobra.Command {
	return []*cobra.Command{
		{
			Use: "relayer", Short: "Claim instructions, send them to their rails, record the outcomes",
			Long: "Claim instructions, send them to their rails, record the outcomes.\n\n" +
				"Connects by RAILHEAD_RELAYER_URL as a member of railhead_executor; reads the rails' endpoints and\n" +
				"secrets from RAILHEAD_RAILS_FILE and their profiles from the database. SIGTERM stops claiming, lets\n" +
				"sends finish for RAILHEAD_DRAIN and records them; a second signal ends the process at once.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), true, false) },
		},
		{
			Use: "reaper", Short: "Repair what dead workers left, expire, keep partitions ahead",
			Long: "Repair what dead workers left, end what has expired, keep the archive's partitions ahead.\n\n" +
				"Connects by RAILHEAD_REAPER_URL as a member of railhead_executor. Any number may run.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), false, true) },
		},
		{
			Use: "run", Short: "Run a relayer and a reaper in one process",
			Long: "Run a relayer and a reaper in one process, each with a database login of its own.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), true, true) },
		},
		devCommand(),
	}
}

// component is something that runs until its context ends.
type component interface {
	probe
	Run(ctx context.Context) error
}

// serve runs the components asked for, with their health endpoints, until the
// context ends or one of them can't go on.
func serve(ctx context.Context, withRelayer, withReaper bool) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	worker := s.WorkerID
	components := make(map[string]component)
	var log *slog.Logger
	start := func(kind string, make func(settings, *slog.Logger) (component, func(), error)) (func(), error) {
		each := s
		each.WorkerID = cmp.Or(worker, newWorkerID(kind))
		logger, err := newLog(each, kind)
		if err != nil {
			return nil, err
		}
		log = logger
		one, end, err := make(each, logger)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		components[kind] = one
		return end, nil
	}
	if withRelayer {
		end, err := start("relayer", func(s settings, log *slog.Logger) (component, func(), error) { return newRelayer(ctx, s, log) })
		if err != nil {
			return err
		}
		defer end()
	}
	if withReaper {
		end, err := start("reaper", func(s settings, log *slog.Logger) (component, func(), error) { return newReaper(ctx, s, log) })
		if err != nil {
			return err
		}
		defer end()
	}
	return runAll(ctx, s, components, log)
}

func runAll(ctx context.Context, s settings, components map[string]component, log *slog.Logger) error {
	group, ctx := errgroup.WithContext(ctx)
	// The endpoints outlive the components, so that a drain can be watched.
	watch, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	probes := make(map[string]probe, len(components))
	for name, each := range components {
		probes[name] = each
	}
	working, stopped := errgroup.WithContext(ctx)
	for _, name := range sortedKeys(components) {
		working.Go(func() error { return components[name].Run(stopped) })
	}
	group.Go(func() error {
		defer stopWatch()
		return working.Wait()
	})
	group.Go(func() error { return serveHealth(watch, s.HTTPAddr, s.HTTPFile, probes, log) })
	if err := group.Wait(); err != nil {
		return err
	}
	log.Info("stopped in order")
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range maps.Keys(m) {
		keys = append(keys, key)
	}
	return keys
}

// newWorkerID names a process start, unique for ever.
func newWorkerID(kind string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return strings.ToLower(fmt.Sprintf("%s-%s-%d-%s", kind, host, os.Getpid(), rand.Text()[:10]))
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// buildVersion is what the binary was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			version = setting.Value[:12]
		}
	}
	return version
}

// stateFile is where a component remembers the server's identity.
func (s settings) stateFile(kind string) string {
	if s.StateDir == "" {
		return ""
	}
	return filepath.Join(s.StateDir, kind+"-"+s.Cell+"-server.json")
}
