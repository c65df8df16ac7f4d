package systems

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/payment"
)

// Floor is the least SQL that claims into an archive and records an outcome:
// no roles, no checks, no idempotency, no sequence, no repair, one lane. It is
// what the disk and the server allow, not something to use.
type Floor struct{}

// floorBatch is how many payments a worker claims at once.
const floorBatch = 100

// floorPoll is the wait after a claim that found nothing.
const floorPoll = 5 * time.Millisecond

const floorSchema = `
CREATE TABLE pending (
  id          uuid PRIMARY KEY,
  n           bigint NOT NULL,
  participant text NOT NULL,
  due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  payload     jsonb NOT NULL
);
CREATE INDEX pending_due ON pending (due_at, id);
CREATE TABLE attempts (
  id          uuid NOT NULL,
  attempt_no  integer NOT NULL,
  state       text NOT NULL,
  n           bigint NOT NULL,
  participant text NOT NULL,
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  payload     jsonb,
  PRIMARY KEY (id, attempt_no)
);`

// The DELETE finds its rows by address alone: as a join it becomes, without fresh statistics and
// with dead rows, a scan of the whole table.
const floorClaim = `
WITH picked AS MATERIALIZED (
  SELECT ctid FROM pending WHERE due_at <= statement_timestamp() ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM pending WHERE ctid = ANY (ARRAY(SELECT ctid FROM picked)) RETURNING id, n, participant, payload
)
INSERT INTO attempts (id, attempt_no, state, n, participant, payload)
SELECT id, 1, 'DISPATCHING', n, participant, payload FROM gone ORDER BY id
RETURNING id, n`

const floorRecord = `
INSERT INTO attempts (id, attempt_no, state, n, participant)
SELECT id, 2, 'DISPATCHED', n, '' FROM unnest($1::uuid[], $2::bigint[]) AS t(id, n) ORDER BY id`

const floorEnqueue = `INSERT INTO pending (id, n, participant, payload) VALUES ($1, $2, $3, $4)`

const floorRing = `WITH one AS (INSERT INTO pending (id, n, participant, payload) VALUES ($1, $2, $3, $4))
SELECT pg_notify('pending', '')`

// Name implements System.
func (Floor) Name() string { return "floor" }

// Configured implements System.
func (Floor) Configured() string {
	return fmt.Sprintf("bare SQL over pgx: one INSERT an enqueue; claims %d into an archive (commit), records %d "+
		"outcomes (commit), one after the "+
		"other; looks again after %s when idle, and is rung by NOTIFY where latency is measured", floorBatch, floorBatch,
		floorPoll)
}

// Missing implements System.
func (Floor) Missing() string { return "" }

// Install implements System.
func (Floor) Install(ctx context.Context, db server.Database) error {
	return db.Do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, floorSchema)
		return err
	})
}

// Open implements System.
func (Floor) Open(ctx context.Context, db server.Database, o Options) (Session, error) {
	pool, err := openPool(ctx, db.URL(""), o.Producers)
	if err != nil {
		return nil, err
	}
	return &floorSession{pool: pool, url: db.URL(""), options: o}, nil
}

type floorSession struct {
	pool    *pgxpool.Pool
	url     string
	options Options
}

func (s *floorSession) Close() { s.pool.Close() }

func (s *floorSession) Fill(ctx context.Context, first, n int) error {
	rows := pgx.CopyFromSlice(n, func(i int) ([]any, error) {
		return []any{[16]byte(payment.NewID()), first + i, Participant(first + i), Payload(first + i)}, nil
	})
	_, err := s.pool.CopyFrom(ctx, pgx.Identifier{"pending"}, []string{"id", "n", "participant", "payload"}, rows)
	return err
}

func (s *floorSession) Enqueue(ctx context.Context, n int) error {
	statement := floorEnqueue
	if s.options.Sparse {
		statement = floorRing
	}
	_, err := s.pool.Exec(ctx, statement, [16]byte(payment.NewID()), n, Participant(n), Payload(n))
	return err
}

func (s *floorSession) Count(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM attempts WHERE state = 'DISPATCHED'").Scan(&n)
	return n, err
}

func (s *floorSession) Work(ctx context.Context, watch Watch) (func() error, error) {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return nil, err
	}
	if s.options.Sparse {
		if _, err := conn.Exec(ctx, "LISTEN pending"); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var worker sync.WaitGroup
	var failed error
	worker.Go(func() { failed = s.work(ctx, conn, watch) })
	return func() error {
		cancel()
		worker.Wait()
		return errors.Join(failed, conn.Close(context.WithoutCancel(ctx)))
	}, nil
}

func (s *floorSession) work(ctx context.Context, conn *pgx.Conn, watch Watch) error {
	for {
		count, err := floorTurn(context.WithoutCancel(ctx), conn, watch)
		if err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if count == 0 {
			s.idle(ctx, conn)
		}
	}
}

func (s *floorSession) idle(ctx context.Context, conn *pgx.Conn) {
	wait := floorPoll
	if s.options.Sparse {
		wait = 100 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if s.options.Sparse {
		conn.WaitForNotification(ctx) // a timeout leaves the connection whole
		return
	}
	<-ctx.Done()
}

func floorTurn(ctx context.Context, conn *pgx.Conn, watch Watch) (int, error) {
	rows, err := conn.Query(ctx, floorClaim, floorBatch)
	if err != nil {
		return 0, err
	}
	var ids [][16]byte
	var numbers []int64
	var id [16]byte
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error {
		ids, numbers = append(ids, id), append(numbers, n)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	now := time.Now()
	for _, n := range numbers {
		watch.Called(int(n), now)
	}
	if _, err := conn.Exec(ctx, floorRecord, ids, numbers); err != nil {
		return 0, err
	}
	watch.Done(len(ids))
	return len(ids), nil
}

// openPool opens all connections of a pool before anything is timed.
func openPool(ctx context.Context, url string, size int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(max(size, 1))
	config.MinConns = config.MaxConns
	return pgxpool.NewWithConfig(ctx, config)
}
