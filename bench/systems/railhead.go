package systems

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
)

// Railhead is this repository: the real relayer in this process with the rail
// that accepts at once, and the real enqueue function, each with its own login.
type Railhead struct {
	// Quick gives the rail a send budget so short that a dead worker's claims can
	// be repaired after a second. The noop rail never waits.
	Quick bool
}

const (
	cell      = "railhead"
	railType  = "noop"
	fillBatch = 1000

	ingestLogin   = "bench_ingest"
	relayerLogin  = "bench_relayer"
	operatorLogin = "bench_operator"
	apiLogin      = "bench_api"
	// readerLogin may read everything and change nothing.
	readerLogin = "bench_reader"

	// relayerConns is the number of connections that `railhead relayer` opens.
	relayerConns = 4
	// reaperConns is that of `railhead reaper`.
	reaperConns = 2
)

// profile returns the profile that an operator would apply for such a rail: the defaults, values
// for what has no default, and the number of calls in flight.
func (r Railhead) profile(railType string, concurrency int) []byte {
	timeouts := ""
	if r.Quick {
		timeouts = `, "timeouts": {"connect": "50ms", "tls": "50ms", "write": "50ms", "response_header": "50ms", "body": "50ms"}`
	}
	return fmt.Appendf(nil, `{"rail_type": %q, "acceptance": "FINAL", "answer_covers_key": true, "resend_on_unknown": "SAME_KEY",
		"key_window": "24h", "id_after_refusal": "NEW", "concurrency": %d%s}`, railType, concurrency, timeouts)
}

// Name implements System.
func (Railhead) Name() string { return "railhead" }

// Configured implements System.
func (Railhead) Configured() string {
	return fmt.Sprintf("the relayer of this checkout in process with its default settings and %d connections, the noop "+
		"rail with concurrency %d; "+
		"filled by EnqueueBatch, enqueued by Enqueue, %d participants; relayer and ingest each as a login of their own role",
		relayerConns, rails.MaxConcurrency, Participants)
}

// Missing implements System.
func (Railhead) Missing() string { return "" }

// Install implements System.
func (r Railhead) Install(ctx context.Context, db server.Database) error {
	logins := map[string]string{
		ingestLogin: "railhead_ingest", apiLogin: "railhead_api", relayerLogin: "railhead_executor",
		operatorLogin: "railhead_operator", readerLogin: "railhead_readonly",
	}
	if _, err := install.Prepare(ctx, db.URL(""), cell, logins, install.NoPassword); err != nil {
		return err
	}
	return applyRail(ctx, db, railType, r.profile(railType, rails.MaxConcurrency))
}

func applyRail(ctx context.Context, db server.Database, name string, profile []byte) error {
	operator, err := operator.Open(ctx, ledger.Config{URL: db.URL(operatorLogin), Cell: cell})
	if err != nil {
		return err
	}
	defer operator.Close()
	parsed, err := rails.ParseProfile(profile)
	if err != nil {
		return err
	}
	stored, err := parsed.JSON()
	if err != nil {
		return err
	}
	_, _, err = operator.ApplyRailProfile(ctx, name, stored, "benchmark")
	return err
}

// Open implements System.
func (r Railhead) Open(ctx context.Context, db server.Database, o Options) (Session, error) {
	err := db.Do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, install.Copied(cell))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("accepting the copied rows: %w", err)
	}
	if o.Ordered {
		profile := r.profile(railType, rails.MaxConcurrency)
		profile = append(profile[:len(profile)-1], `, "order": "STRICT"}`...)
		if err := applyRail(ctx, db, railType, profile); err != nil {
			return nil, err
		}
	}
	ingest, err := ingest.Open(ctx, ledger.Config{
		URL: db.URL(ingestLogin), Cell: cell, Name: "bench-ingest",
		MaxConns: int32(min(max(o.Producers, 1), ingestConnsMost)),
	})
	if err != nil {
		return nil, err
	}
	s := &railheadSession{db: db, ingest: ingest, options: o, since: payment.NewID(), release: make(chan struct{})}
	if o.Singly {
		if s.callers, err = openPool(ctx, db.URL(ingestLogin), o.Producers); err != nil {
			ingest.Close()
			return nil, err
		}
	}
	if o.HTTP > 0 {
		if s.api, err = openAPI(ctx, db, o.HTTP); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// ingestConnsMost is the most connections that an Ingest opens. EnqueueTx uses the transactions of
// its callers' own pool.
const ingestConnsMost = 100

type railheadSession struct {
	db      server.Database
	ingest  *ingest.Ingest
	callers *pgxpool.Pool // what EnqueueTx's transactions are begun on; nil: they are not measured
	api     *apiProcess   // nil: they call in this process
	options Options
	since   payment.ID    // everything that is enqueued here comes after it
	release chan struct{} // closed: the hanging rail answers
	hanging atomic.Int64  // calls in flight on it
}

func (s *railheadSession) Close() {
	if s.api != nil {
		if err := s.api.close(); err != nil {
			fmt.Fprintln(os.Stderr, "the API ended:", err)
		}
	}
	s.ingest.Close()
	if s.callers != nil {
		s.callers.Close()
	}
}

// scattered names the payment of a number as callers do, who choose their ids at random:
// neighbours in time are not neighbours in an index. The number is at the end.
func scattered(n int) string {
	number := strconv.Itoa(n)
	sum := md5.Sum([]byte(number))
	return hex.EncodeToString(sum[:8]) + "-" + number
}

// numberOf returns the number of a payment from its name.
func numberOf(name string) (int, bool) {
	_, number, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(number)
	return n, err == nil
}

// instruction returns the payment of a number within the session.
func (s *railheadSession) instruction(n int) payment.Instruction {
	n += s.options.Base
	name, participant := scattered(n), Participant(n)
	if s.options.OneParticipant {
		participant = Participant(0)
	}
	return payment.Instruction{
		InstructionID: name, ParticipantID: participant, IdempotencyKey: "key-" + name,
		RailType: railType, Payload: Payload(n),
	}
}

func (s *railheadSession) Fill(ctx context.Context, first, n int) error {
	for done := 0; done < n; {
		batch := make([]payment.Instruction, min(fillBatch, n-done))
		for i := range batch {
			batch[i] = s.instruction(first + done + i)
		}
		receipts, err := s.ingest.EnqueueBatch(ctx, batch)
		if err != nil {
			return err
		}
		for _, receipt := range receipts {
			if receipt.Fault != nil {
				return receipt.Fault
			}
		}
		done += len(batch)
	}
	return nil
}

func (s *railheadSession) Enqueue(ctx context.Context, n int) error {
	if s.api != nil {
		_, err := s.api.Enqueue(ctx, s.instruction(n))
		return err
	}
	if !s.options.Singly {
		_, err := s.ingest.Enqueue(ctx, s.instruction(n))
		return err
	}
	return pgx.BeginFunc(ctx, s.callers, func(tx pgx.Tx) error {
		_, err := s.ingest.EnqueueTx(ctx, tx, s.instruction(n))
		return err
	})
}

func (s *railheadSession) Count(ctx context.Context) (n int, err error) {
	err = s.db.Do(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT count(*) FROM "+cell+".payment_outbox_attempts WHERE state = 'DISPATCHED' AND "+
			"outbox_id >= $1 AND rail_type = $2",
			[16]byte(s.since), railType).Scan(&n)
	})
	return n, err
}
