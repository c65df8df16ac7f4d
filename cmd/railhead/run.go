package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/railhead-pay/railhead/internal/heap"
	"github.com/railhead-pay/railhead/internal/metrics"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/internal/tracing/export"
)

// serviceCommands are the commands of long-running services.
func serviceCommands() []*cobra.Command {
	return []*cobra.Command{
		{
			Use: "relayer", Short: "Claim instructions, send them to their rails, record the outcomes",
			Long: "Claim instructions, send them to their rails, record the outcomes.\n\n" +
				"Connects with RAILHEAD_RELAYER_URL as a member of railhead_executor; reads the rails' endpoints and\n" +
				"secrets from RAILHEAD_RAILS_FILE and their profiles from the database. SIGTERM stops claims, gives sends\n" +
				"the setting drain to finish and records them; a second signal ends the process at once.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "relayer") },
		},
		{
			Use: "reaper", Short: "Repair claims of dead workers, end expired instructions, create partitions",
			Long: "Repair the claims of dead workers, end expired instructions, and create the archive's partitions ahead.\n\n" +
				"Connects with RAILHEAD_REAPER_URL as a member of railhead_executor. Any number may run.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "reaper") },
		},
		{
			Use: "run", Short: "Run a relayer and a reaper in one process",
			Long: "Run a relayer and a reaper in one process, each with a database login of its own.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command,
				_ []string) error {
				return serve(cmd.Context(), "relayer", "reaper")
			},
		},
		{
			Use: "callbacks", Short: "Accept callbacks of rails over HTTP, and read those that are kept in streams and topics",
			Long: "Accept callbacks of rails, at POST /callbacks/{rail_type} on RAILHEAD_CALLBACKS_ADDR: signed as\n" +
				"Standard Webhooks, safe to be repeated. Put TLS in front of it. Those of rails with nats.replies or\n" +
				"kafka.replies are read from that stream or topic. Connects with RAILHEAD_CALLBACKS_URL as a member of\n" +
				"railhead_callbacks; the secrets are those of RAILHEAD_RAILS_FILE.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "callbacks") },
		},
		{
			Use: "api", Short: "Accept instructions over HTTP, and return their outcomes",
			Long: "Accept instructions over HTTP on RAILHEAD_API_ADDR, with tokens (railhead token create), and return their\n" +
				"outcomes: docs/openapi.json describes it. Connects with RAILHEAD_API_URL as a member of railhead_api. Set\n" +
				"RAILHEAD_API_CERT_FILE and RAILHEAD_API_KEY_FILE, or put TLS in front of it: tokens go over the wire.\n" +
				"After SIGTERM it accepts no more requests and answers those under way. Any number may run.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "api") },
		},
		eventsCommand(),
		consoleCommand(),
		devCommand(),
	}
}

// makers are the constructors of the components.
func makers() map[string]func(context.Context, settings, *metrics.Set, *slog.Logger) (service.Service, func(), error) {
	return map[string]func(context.Context, settings, *metrics.Set, *slog.Logger) (service.Service, func(), error){
		"relayer": newRelayer, "reaper": newReaper, "callbacks": newCallbacks, "api": newAPI, "events": newEvents,
		"console": newConsole,
	}
}

// serve runs components, with their health endpoints, until the context ends or
// one of them can't go on.
func serve(ctx context.Context, kinds ...string) error {
	// Go's HTTP client prints unsolicited bytes of a rail to the standard logger.
	// Text from outside must not reach a log unchecked.
	stdlog.SetOutput(io.Discard)
	heap.Tune(os.Getenv)
	s, err := readSettings()
	if err != nil {
		return err
	}
	set := metrics.New(buildVersion(), kinds...)
	components := make(map[string]service.Service)
	for _, kind := range kinds {
		each := s
		each.WorkerID = cmp.Or(s.WorkerID, newWorkerID(kind))
		log, err := newLog(each, kind)
		if err != nil {
			return err
		}
		each.traces, err = export.Open(ctx, os.Getenv, kind, buildVersion(), each.WorkerID, log)
		if err != nil {
			return usage(err)
		}
		defer each.traces.Close(ctx)
		one, end, err := makers()[kind](ctx, each, set, log)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		defer end()
		components[kind] = one
	}
	log, err := newLog(s, "health")
	if err != nil {
		return err
	}
	database, end, err := newDatabaseMetrics(ctx, s, kinds[0], set, log)
	if err != nil {
		return err
	}
	defer end()
	return runAll(ctx, s, components, database, set.Handler(log), log)
}

func runAll(
	ctx context.Context, s settings, components map[string]service.Service, database *metrics.Database,
	scrape http.Handler, log *slog.Logger,
) error {
	group, ctx := errgroup.WithContext(ctx)
	// The endpoints run longer than the components, so that a drain can be observed.
	watch, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	probes := make(map[string]probe, len(components))
	for name, each := range components {
		probes[name] = each
	}
	working, stopped := errgroup.WithContext(ctx)
	for _, each := range components {
		working.Go(func() error { return each.Run(stopped) })
	}
	group.Go(func() error {
		defer stopWatch()
		return working.Wait()
	})
	if database != nil {
		group.Go(func() error {
			database.Run(watch)
			return nil
		})
	}
	group.Go(func() error { return serveHealth(watch, s.HTTPAddr, s.HTTPFile, probes, scrape, log) })
	if err := group.Wait(); err != nil {
		return err
	}
	log.Info("stopped in order")
	return nil
}

// newWorkerID returns a name for one start of a process, which is never used again.
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

// buildVersion is the version or commit of the binary.
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

// commit is the commit of a build that Go does not stamp; the Makefile sets it.
var commit string

// buildCommit is the commit from which the binary was built, or a text that it is not known.
func buildCommit() string {
	revision := commit
	if info, ok := debug.ReadBuildInfo(); ok {
		var stamped, modified string
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				stamped = setting.Value
			case "vcs.modified":
				if setting.Value == "true" {
					modified = " with changes"
				}
			}
		}
		if stamped != "" {
			revision = stamped + modified
		}
	}
	if revision == "" {
		return "unknown (built outside version control)"
	}
	return revision
}

// stateFile is where a component remembers the server's identity.
func (s settings) stateFile(kind string) string {
	if s.StateDir == "" {
		return ""
	}
	return filepath.Join(s.StateDir, kind+"-"+s.Cell+"-server.json")
}
