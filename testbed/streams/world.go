package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/railhead-pay/railhead"
	"github.com/railhead-pay/railhead/internal/test/await"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/testbed/brokers"
)

// world is the installation in which the faults are made.
type world struct {
	Options
	server   *pgserver.Server
	admin    *pgxpool.Pool
	callers  *railhead.Client
	lanes    []*lane
	stream   *natsLog
	relayers []*service
	reaper   *service
	draws    *rand.Rand
	enqueued map[string]string // the rails of instructions that were acknowledged
	made     Count
	faults   atomic.Int64 // that were made
}

// service is a process that is started again as it was after it was killed.
type service struct {
	child.Command
	*child.Process
	health string // file of its health address, if it has one
}

// streamName is the stream of a run.
const streamName = "PAYMENTS"

// window is the stream's window of duplicates, and the profile's key window.
const window = 10 * time.Minute

// settings are those of the stream. Nothing limits the messages of a subject, so that a repeated message
// is kept from it by its own headers alone.
func settings(duplicates time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: streamName, Subjects: []string{"payments.>"}, Storage: jetstream.FileStorage, Replicas: 1,
		Duplicates: duplicates,
	}
}

func newWorld(ctx context.Context, o Options) (*world, error) {
	w := &world{Options: o, draws: rand.New(rand.NewPCG(o.Seed, 1)), enqueued: make(map[string]string)}
	for _, step := range []func(context.Context) error{
		w.startDatabase, w.startNATS, w.startKafka, w.applyRails, w.startServices, w.startConsumers,
	} {
		if err := step(ctx); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(w.Out, "brokers: "+format+"\n", args...) }

// persist repeats what a broker that starts does not answer.
func persist(ctx context.Context, what string, do func(context.Context) error) error {
	var last error
	err := await.Until(ctx, time.Minute, what, func() (bool, error) {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		last = do(try)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

func (w *world) startDatabase(ctx context.Context) (err error) {
	w.server, err = pgserver.Start(ctx, pgserver.Options{
		LogFile:  filepath.Join(w.Evidence, "postgres.log"),
		Settings: map[string]string{"max_connections": "100", "shared_buffers": "128MB"},
	})
	if err != nil {
		return fmt.Errorf("starting a private PostgreSQL: %w", err)
	}
	admin, err := install.On(ctx, w.server, migrations.DefaultCell, outbox.TimeBudget{
		ClaimTimeout: 15 * time.Second, StartWithin: time.Second, RecordWithin: 2 * time.Second, Drain: 2 * time.Second,
		HeartbeatStale: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	if w.admin, err = pgxpool.New(ctx, admin); err != nil {
		return err
	}
	if _, err := w.admin.Exec(ctx, "CREATE DATABASE "+consumerDatabase); err != nil {
		return err
	}
	theirs, err := pgx.Connect(ctx, w.consumerURL())
	if err != nil {
		return err
	}
	defer theirs.Close(context.WithoutCancel(ctx))
	if _, err := theirs.Exec(ctx, consumerSchema); err != nil {
		return err
	}
	w.callers, err = railhead.Open(ctx, railhead.Config{URL: w.url(install.Ingest), ApplicationName: "brokers"})
	return err
}

func (w *world) url(login string) string { return w.server.URL(install.Database, login) }

func (w *world) consumerURL() string { return w.server.URL(consumerDatabase, pgserver.Superuser) }

// profiles have the rail of NATS keep the order of each participant, and answer every unknown outcome by another send,
// none by an inquiry. That of Kafka parks each, behind which an order would wait for an operator.
const profiles = `rails:
  - rail_type: nats
    adapter: nats
    profile:
      acceptance: FINAL
      order: STRICT
      answer_covers_key: true
      resend_on_unknown: SAME_KEY
      key_window: %s
      retry: {max_sends: 20, shape: EXPONENTIAL, base: 200ms, cap: 2s, jitter: 0.2}
      timeouts: {connect: 500ms, tls: 500ms, write: 500ms, response_header: 1s, body: 500ms}
      concurrency: 64
      breaker: {failure_ratio: 0.9, minimum_requests: 40, window: 10s, open_for: 300ms, half_open_max: 2}
    nats:
      servers: [%q]
      allow_plaintext: true
      stream: %s
      subject: payments.{participant_id}.{rail_key}
      replicas: 1
      clock_skew: 100ms
  - rail_type: kafka
    adapter: kafka
    profile:
      acceptance: FINAL
      resend_on_unknown: NEVER
      refuses_before_processing: true
      id_after_refusal: SAME
      retry: {max_sends: 20, shape: EXPONENTIAL, base: 200ms, cap: 2s, jitter: 0.2}
      timeouts: {connect: 500ms, tls: 500ms, write: 500ms, response_header: 1s, body: 500ms}
      concurrency: 16
      breaker: {failure_ratio: 0.5, minimum_requests: 10, window: 10s, open_for: 300ms, half_open_max: 1}
    kafka:
      servers: [%q]
      allow_plaintext: true
      topic: %s
      partitions: %d
      replicas: 1
`

func (w *world) railsFile() string { return filepath.Join(w.Evidence, "rails.yaml") }

func (w *world) applyRails(ctx context.Context) error {
	text := fmt.Sprintf(profiles, window, w.lanes[0].proxy.URL(), streamName, w.lanes[1].proxy.URL(), brokers.Topic,
		brokers.TopicPartitions)
	if err := os.WriteFile(w.railsFile(), []byte(text), 0o600); err != nil {
		return err
	}
	_, err := w.operate(ctx, "rail", "apply", w.railsFile(), "--reason", "a run of make brokers")
	return err
}

// operate runs a command of an operator, and returns what it prints.
func (w *world) operate(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, filepath.Join(w.Binaries, "railhead"), args...)
	command.Env = append(child.Clean(os.Environ()), "RAILHEAD_OPERATOR_URL="+w.url(install.Operator),
		"RAILHEAD_READER_URL="+w.url(install.Readonly))
	var said strings.Builder
	command.Stderr = &said
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("railhead %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return output, nil
}

// program returns a service that runs one of the programs and logs its output under its name.
func (w *world) program(name, binary string, env []string, args ...string) *service {
	return &service{Command: child.In(w.Evidence, name, filepath.Join(w.Binaries, binary), env, args...)}
}

func (w *world) startServices(ctx context.Context) error {
	for _, each := range []struct{ name, kind, variable, login string }{
		{"relayer-1", "relayer", "RAILHEAD_RELAYER_URL", install.Relayer},
		{"relayer-2", "relayer", "RAILHEAD_RELAYER_URL", install.Relayer},
		{"reaper", "reaper", "RAILHEAD_REAPER_URL", install.Reaper},
	} {
		health := filepath.Join(w.Evidence, each.name+".health")
		s := w.program(each.name, "railhead", []string{
			each.variable + "=" + w.url(each.login), "RAILHEAD_RAILS_FILE=" + w.railsFile(), "RAILHEAD_LOG_FORMAT=json",
			"RAILHEAD_HTTP_ADDR_FILE=" + health, "RAILHEAD_STATE_DIR=" + filepath.Join(w.Evidence, "state-"+each.name),
			"RAILHEAD_HEARTBEAT_EVERY=300ms", "RAILHEAD_REAP_EVERY=500ms", "RAILHEAD_REAP_GRACE=1s", "RAILHEAD_POLL=200ms",
			"RAILHEAD_STORE_TIMEOUT=5s",
		}, each.kind)
		s.health = health
		if each.kind == "relayer" {
			w.relayers = append(w.relayers, s)
		} else {
			w.reaper = s
		}
		if err := s.start(); err != nil {
			return err
		}
		if err := s.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) startConsumers(context.Context) error {
	for _, l := range w.lanes {
		if err := l.consumer.start(); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) start() (err error) {
	if s.health != "" {
		if err := os.Remove(s.health); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	s.Process, err = s.Command.Start()
	return err
}

// awaitReady waits until the process reports that it is ready.
func (s *service) awaitReady(ctx context.Context) error {
	addr, err := s.AwaitFile(ctx, s.health)
	if err != nil {
		return err
	}
	return s.AwaitReady(ctx, addr)
}

// kill ends the process by SIGKILL.
func (s *service) kill() error {
	if err := s.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// restart kills the process and starts it again, without waiting until it is ready.
func (s *service) restart() error {
	if err := s.kill(); err != nil {
		return err
	}
	return s.start()
}

// stop ends the process gracefully, unless it was never started or has ended.
func (s *service) stop() error {
	if s == nil || s.Process == nil {
		return nil
	}
	return s.Stop(30 * time.Second)
}

// end stops everything.
func (w *world) end(ctx context.Context) error {
	var all []error
	for _, s := range append(append([]*service{}, w.relayers...), w.reaper) {
		all = append(all, s.stop())
	}
	for _, l := range w.lanes {
		all = append(all, l.consumer.stop())
		if l.log != nil {
			l.log.close()
		}
		all = append(all, l.broker.stop())
		if l.proxy != nil {
			l.proxy.Close()
		}
	}
	if w.callers != nil {
		w.callers.Close()
	}
	if w.admin != nil {
		w.admin.Close()
	}
	if w.server != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		all = append(all, w.server.Stop(last))
	}
	return errors.Join(all...)
}
