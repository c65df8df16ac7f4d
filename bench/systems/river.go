package systems

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/railhead-pay/railhead/bench/server"
)

// River is riverqueue.com's job queue with the settings of its own `river
// bench`, which trade idle cost for throughput.
type River struct{}

const (
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverWorkers  = 2000
	riverConns    = 20
	riverFill     = 1000
)

// Name implements System.
func (River) Name() string { return "river" }

// Configured implements System.
func (River) Configured() string {
	return fmt.Sprintf("River %s with the settings of `river bench`: fetch cooldown %s, poll %s, %d workers, a pool of "+
		"%d connections; "+
		"filled by InsertMany, enqueued by Insert; done means its completion event, sent after the commit",
		moduleVersion("github.com/riverqueue/river"), riverCooldown, riverPoll, riverWorkers, riverConns)
}

// Missing implements System.
func (River) Missing() string { return "" }

// Install implements System.
func (River) Install(ctx context.Context, db server.Database) error {
	pool, err := openPool(ctx, db.URL(""), 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// Open implements System.
func (River) Open(ctx context.Context, db server.Database, o Options) (Session, error) {
	producers, err := openPool(ctx, db.URL(""), o.Producers)
	if err != nil {
		return nil, err
	}
	// A client without queues only inserts. It notifies at most once in a cooldown, so it needs the
	// short one as well.
	inserter, err := river.NewClient(riverpgxv5.New(producers), &river.Config{
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: quiet(),
	})
	if err != nil {
		producers.Close()
		return nil, err
	}
	s := &riverSession{db: db, producers: producers, inserter: inserter}
	if o.Gathered {
		s.gathered = &gathered{send: s.insertMany}
	}
	return s, nil
}

type riverSession struct {
	db        server.Database
	producers *pgxpool.Pool
	inserter  *river.Client[pgx.Tx]
	gathered  *gathered // nil: a call is an Insert
}

type riverArgs struct {
	N       int             `json:"n"`
	Payment json.RawMessage `json:"payment"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "payment" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	watch Watch
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.watch.Called(job.Args.N, time.Now())
	return nil
}

func (s *riverSession) Close() { s.producers.Close() }

func (s *riverSession) Fill(ctx context.Context, first, n int) error {
	for done := 0; done < n; {
		all := make([]int, min(riverFill, n-done))
		for i := range all {
			all[i] = first + done + i
		}
		if err := s.insertMany(ctx, all); err != nil {
			return err
		}
		done += len(all)
	}
	return nil
}

func (s *riverSession) insertMany(ctx context.Context, all []int) error {
	batch := make([]river.InsertManyParams, len(all))
	for i, n := range all {
		batch[i].Args = riverArgs{N: n, Payment: Payload(n)}
	}
	_, err := s.inserter.InsertMany(ctx, batch)
	return err
}

func (s *riverSession) Enqueue(ctx context.Context, n int) error {
	if s.gathered != nil {
		return s.gathered.enqueue(ctx, n)
	}
	_, err := s.inserter.Insert(ctx, riverArgs{N: n, Payment: Payload(n)}, nil)
	return err
}

func (s *riverSession) Count(ctx context.Context) (n int, err error) {
	err = s.producers.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'").Scan(&n)
	return n, err
}

func (s *riverSession) Work(ctx context.Context, watch Watch) (func() error, error) {
	pool, err := openPool(ctx, s.db.URL(""), riverConns)
	if err != nil {
		return nil, err
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{watch: watch})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll, Logger: quiet(),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers: workers,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: 500_000, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	var listener sync.WaitGroup
	listener.Go(func() {
		for range events {
			watch.Done(1)
		}
	})
	if err := client.Start(ctx); err != nil {
		unsubscribe()
		pool.Close()
		return nil, err
	}
	return func() error {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err := client.Stop(stopping)
		unsubscribe()
		listener.Wait()
		pool.Close()
		return errors.Join(err)
	}, nil
}

// quiet returns a logger of what must not be missed.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// moduleVersion returns the version of a module in this binary.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "of unknown version"
	}
	for _, module := range info.Deps {
		if module.Path == path {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "of unknown version"
}
