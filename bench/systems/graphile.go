package systems

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/bench/server"
)

// Graphile is graphile-worker, with the settings that its documentation recommends for throughput,
// in a Node process of its own.
type Graphile struct {
	dir     string // where npm has installed it
	version string
	missing string
}

//go:embed graphile/worker.mjs
var graphileWorker []byte

// The newest version, and the newest that runs on a Node older than 22.18.
const (
	graphileNewest = "0.18.0"
	graphileOlder  = "0.17.3"
)

// npmWithin bounds the installation.
const npmWithin = 2 * time.Minute

// NewGraphile installs graphile-worker below dir, once, if Node and npm are there.
func NewGraphile(ctx context.Context, dir string) *Graphile {
	node, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return &Graphile{missing: "no node"}
	}
	g := &Graphile{version: graphileOlder}
	if atLeast(strings.TrimSpace(string(node)), 22, 18) {
		g.version = graphileNewest
	}
	if g.dir, err = filepath.Abs(filepath.Join(dir, "graphile-worker-"+g.version)); err == nil {
		err = g.install(ctx)
	}
	if err != nil {
		g.missing = err.Error()
	}
	return g
}

func (g *Graphile) install(ctx context.Context) error {
	if _, err := os.Stat(g.dir); err == nil {
		return g.writeWorker()
	}
	// An interrupted installation must not pass for a complete one.
	part := g.dir + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, npmWithin)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--prefix", part,
		"graphile-worker@"+g.version)
	npm.WaitDelay = time.Second // its own children may keep the pipe open
	if output, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm could not install graphile-worker %s within %s: %w: %.300s", g.version, npmWithin,
			errors.Join(err, ctx.Err()), strings.Join(strings.Fields(string(output)), " "))
	}
	if err := os.Rename(part, g.dir); err != nil {
		return err
	}
	return g.writeWorker()
}

func (g *Graphile) writeWorker() error {
	return os.WriteFile(filepath.Join(g.dir, "worker.mjs"), graphileWorker, 0o644)
}

// atLeast reports whether a version such as v22.18.1 is at least major.minor.
func atLeast(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(version, "v%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// Name implements System.
func (g *Graphile) Name() string { return "graphile" }

// Configured implements System.
func (g *Graphile) Configured() string {
	return fmt.Sprintf("graphile-worker %s in a Node process of its own: concurrentJobs 24, localQueue.size 500, "+
		"completeJobBatchDelay 0; filled by "+
		"add_jobs, enqueued by add_job in SQL; done means that its row is gone; a drain is timed from its first job, so "+
		"that starting Node does not count", g.version)
}

// Missing implements System.
func (g *Graphile) Missing() string { return g.missing }

// Install implements System.
func (g *Graphile) Install(ctx context.Context, db server.Database) error {
	output, err := g.command(ctx, db, "migrate").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

func (g *Graphile) command(ctx context.Context, db server.Database, do string) *exec.Cmd {
	command := exec.CommandContext(ctx, "node", "worker.mjs", do)
	command.Dir = g.dir
	command.Env = append(os.Environ(), "PGHOST="+db.SocketDir(), "PGPORT="+db.Port(), "PGUSER="+server.Superuser,
		"PGDATABASE="+db.Name, "NODE_ENV=production")
	return command
}

// Open implements System.
func (g *Graphile) Open(ctx context.Context, db server.Database, o Options) (Session, error) {
	pool, err := openPool(ctx, db.URL(""), o.Producers)
	if err != nil {
		return nil, err
	}
	return &graphileSession{system: g, db: db, pool: pool}, nil
}

type graphileSession struct {
	system   *Graphile
	db       server.Database
	pool     *pgxpool.Pool
	enqueued atomic.Int64
}

// Outside reports that the workers are in a process of their own, which takes time to start and
// does not report when an outcome is durable.
func (s *graphileSession) Outside() bool { return true }

func (s *graphileSession) Close() { s.pool.Close() }

func (s *graphileSession) Fill(ctx context.Context, first, n int) error {
	for done := 0; done < n; {
		payloads := make([]string, min(fillBatch, n-done))
		for i := range payloads {
			payloads[i] = graphilePayload(first + done + i)
		}
		_, err := s.pool.Exec(ctx, `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
			SELECT ROW('payment', p, NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
			FROM unnest($1::json[]) AS t(p)))`, payloads)
		if err != nil {
			return err
		}
		done += len(payloads)
	}
	s.enqueued.Add(int64(n))
	return nil
}

func graphilePayload(n int) string { return fmt.Sprintf(`{"n": %d, "payment": %s}`, n, Payload(n)) }

func (s *graphileSession) Enqueue(ctx context.Context, n int) error {
	_, err := s.pool.Exec(ctx, "SELECT FROM graphile_worker.add_job('payment', $1::json)", graphilePayload(n))
	if err == nil {
		s.enqueued.Add(1)
	}
	return err
}

// Count returns how many payments were enqueued and no longer exist: a finished job is deleted.
func (s *graphileSession) Count(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM graphile_worker._private_jobs").Scan(&n)
	return int(s.enqueued.Load()) - n, err
}

func (s *graphileSession) Work(ctx context.Context, watch Watch) (func() error, error) {
	command := s.system.command(ctx, s.db, "work")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	var reader sync.WaitGroup
	ready := make(chan struct{})
	reader.Go(func() { readCalls(out, ready, watch) })
	stop := func() error {
		in.Close()
		reader.Wait()
		return command.Wait()
	}
	select {
	case <-ready:
		return stop, nil
	case <-time.After(30 * time.Second):
		return nil, errors.Join(errors.New("graphile-worker did not start within 30 s"), command.Process.Kill(), stop())
	}
}

func readCalls(out io.Reader, ready chan struct{}, watch Watch) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		number, micros, ok := strings.Cut(lines.Text(), " ")
		if !ok {
			close(ready)
			continue
		}
		n, err1 := strconv.Atoi(number)
		at, err2 := strconv.ParseInt(micros, 10, 64)
		if err1 == nil && err2 == nil {
			watch.Called(n, time.UnixMicro(at))
		}
	}
}
