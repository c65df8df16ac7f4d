package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
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
				"After SIGTERM it accepts no more requests and answers those under way. Any number may run.\n\n" +
				"With RAILHEAD_CELLS it serves several cells of a directory, each with a connection string of its own, such as\n" +
				"RAILHEAD_API_URL_WEST.",
			Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), "api") },
		},
		eventsCommand(),
		consoleCommand(),
		devCommand(),
	}
}

// maker is the constructor of a component, with what is closed after it has run.
type maker func(context.Context, settings, *metrics.Set, *slog.Logger) (service.Service, func(), error)

// makers are the constructors of the components.
func makers() map[string]maker {
	return map[string]maker{
		"relayer": newRelayer, "reaper": newReaper, "callbacks": newCallbacks, "api": newAPI, "events": newEvents,
		"console": newConsole,
	}
}

// component is one that runs in this process, for one cell.
type component struct {
	kind    string
	setting string // of its cell, if the process works for several
	service service.Service
}

// name is how the component is called among those of all cells.
func (c component) name() string {
	if c.setting == "" {
		return c.kind
	}
	return c.kind + " of " + c.setting
}

// serve runs components, with their health endpoints, until the context ends, one of them can't go on, or the
// reader of their log has left.
func serve(ctx context.Context, kinds ...string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	err := serveLogging(ctx, logPipe{os.Stderr, stop}, kinds...)
	if left := context.Cause(ctx); errors.Is(left, errLogLeft) && (err == nil || errors.Is(err, context.Canceled)) {
		return left
	}
	return err
}

func serveLogging(ctx context.Context, logTo io.Writer, kinds ...string) error {
	// Go's HTTP client prints unsolicited bytes of a rail to the standard logger.
	// Text from outside must not reach a log unchecked.
	stdlog.SetOutput(io.Discard)
	heap.Tune(os.Getenv)
	s, err := readSettings()
	if err != nil {
		return err
	}
	s.logTo, s.together = logTo, len(kinds) > 1
	cells, err := s.cells()
	if err != nil {
		return err
	}
	sets, read, err := setsOf(s, cells, kinds)
	if err != nil {
		return err
	}
	instances := cells
	if kinds[0] == "api" || kinds[0] == "console" { // one serves all of them
		instances = []settings{s}
	}
	var all []component
	for n, cell := range instances {
		for _, kind := range kinds {
			if s.WorkerID != "" && len(kinds) > 1 {
				cell.WorkerID = s.WorkerID + "-" + kind
			}
			one, err := open(ctx, cell, kind, makers()[kind], sets[n], len(instances) > 1)
			if err != nil {
				return err
			}
			defer one.end()
			all = append(all, component{kind, cell.Setting, one})
		}
	}
	log, err := newLog(s, "health")
	if err != nil {
		return err
	}
	var databases []*metrics.Database
	for n, cell := range cells {
		database, end, err := newDatabaseMetrics(ctx, cell, kinds[0], read[n], log)
		if err != nil {
			return err
		}
		defer end()
		if database != nil {
			databases = append(databases, database)
		}
	}
	return runAll(ctx, s, all, databases, sets[0].Handler(log), log)
}

// setsOf are the metrics of each instance of the components, and those of what is read from each cell.
func setsOf(s settings, cells []settings, kinds []string) (sets, read []*metrics.Set, err error) {
	if s.Cells == "" {
		sets = []*metrics.Set{metrics.New(buildVersion(), kinds...)}
		return sets, sets, nil
	}
	if kinds[0] == "api" {
		sets = []*metrics.Set{metrics.NewShared(buildVersion(), kinds...)}
		for _, cell := range cells {
			read = append(read, sets[0].Cell(cell.Setting))
		}
		return sets, read, nil
	}
	var names []string
	for _, cell := range cells {
		names = append(names, cell.Setting)
	}
	for _, kind := range kinds {
		if kind != "relayer" && kind != "reaper" && kind != "console" {
			return nil, nil, usage(fmt.Errorf("RAILHEAD_CELLS: %s works for one cell: unset the variable, and run one process "+
				"for each cell", kind))
		}
	}
	sets = metrics.NewOfCells(buildVersion(), names, kinds...)
	return sets, sets, nil
}

// open makes a component for a cell. One of several cells is made anew when it can't go on, under another name:
// the claims of the one before are those of a dead worker. Its rails go on with what those before have seen.
func open(ctx context.Context, s settings, kind string, of maker, set *metrics.Set, several bool) (made, error) {
	times := 0
	s.rails = &inherited{}
	again := func() (one made, err error) {
		each := s
		times++
		each.WorkerID = s.workerID(kind, times)
		if one.log, err = newLog(each, kind); err != nil {
			return made{}, err
		}
		if each.traces, err = export.Open(ctx, os.Getenv, kind, buildVersion(), each.WorkerID, one.log); err != nil {
			return made{}, usage(err)
		}
		var end func()
		if one.Service, end, err = of(ctx, each, set, one.log); err != nil {
			each.traces.Close(ctx)
			return made{}, fmt.Errorf("%s: %w", component{kind: kind, setting: s.Setting}.name(), err)
		}
		one.end = func() {
			end()
			each.traces.Close(ctx)
		}
		return one, nil
	}
	one, err := again()
	if err != nil || !several {
		return one, err
	}
	kept := &kept{again: again, one: &one, log: one.log}
	return made{Service: kept, end: func() { kept.close(nil) }}, nil
}

func runAll(
	ctx context.Context, s settings, components []component, databases []*metrics.Database,
	scrape http.Handler, log *slog.Logger,
) error {
	group, ctx := errgroup.WithContext(ctx)
	// The endpoints run longer than the components, so that a drain can be observed.
	watch, stopWatch := context.WithCancel(context.WithoutCancel(ctx))
	working, stopped := errgroup.WithContext(ctx)
	for _, each := range components {
		working.Go(func() error { return each.service.Run(stopped) })
	}
	group.Go(func() error {
		defer stopWatch()
		return working.Wait()
	})
	for _, database := range databases {
		group.Go(func() error {
			database.Run(watch)
			return nil
		})
	}
	group.Go(func() error { return serveHealth(watch, s.HTTPAddr, s.HTTPFile, components, scrape, log) })
	if err := group.Wait(); err != nil {
		return err
	}
	log.Info("stopped in order")
	return nil
}

// workerID is the name of a component that is made for the given time in this process. That of a variable is
// completed by what makes it another one than that of any other component of the process: the row of a heartbeat
// has one kind, by which others tell whether a relayer has ever run. A relayer with the name of a reaper, or a reaper
// with that of a relayer, is refused by the statement of heartbeats; rows of components of other kinds are named by
// kind and name.
func (s settings) workerID(kind string, times int) string {
	if s.WorkerID == "" {
		return newWorkerID(kind)
	}
	name := s.WorkerID
	if s.Setting != "" {
		name += "-" + strings.ToLower(s.Setting)
	}
	if times > 1 {
		name += "-" + strconv.Itoa(times)
	}
	return name
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
	if (version == "" || version == "(devel)") && len(commit) >= 12 {
		return commit[:12]
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
	cell := s.Cell
	if s.Setting != "" { // two cells may have one schema, each in its own database
		cell += "-" + s.Setting
	}
	return filepath.Join(s.StateDir, kind+"-"+cell+"-server.json")
}
