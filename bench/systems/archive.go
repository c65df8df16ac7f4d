package systems

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

//go:embed sql/archive.sql
var archiveSQL string

const (
	rowsEach     = 2 // a claim and its outcome
	archiveBatch = 50_000
)

// FillArchive puts so many rows of finished instructions into a cell's archive,
// and does what autovacuum would have done meanwhile.
func FillArchive(ctx context.Context, db server.Database, rows int, progress func(done int)) error {
	all := rows / rowsEach
	return db.Do(ctx, func(conn *pgx.Conn) error {
		// Flushes are not what is measured here.
		if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
			return err
		}
		for first := 0; first < all; first += archiveBatch {
			last := min(first+archiveBatch, all) - 1
			if _, err := conn.Exec(ctx, archiveSQL, first, last, all); err != nil {
				return fmt.Errorf("filling the archive: %w", err)
			}
			progress((last + 1) * rowsEach)
		}
		_, err := conn.Exec(ctx, `INSERT INTO railhead.participant_outbox_sequences (participant_id, next_sequence_id)
			SELECT 'participant-' || lpad(p::text, 4, '0'), ($1::integer + 999 - p) / 1000 + 1 FROM generate_series(0, 999) p`, all)
		if err != nil {
			return err
		}
		for _, statement := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// DeadClaims is the number of claims that a reaper's turn repairs: as many as it takes at once.
const DeadClaims = 500

// budget is long enough for the call of a worker that died: see quickProfile.
const budget = 1500 * time.Millisecond

// ReaperTurns measures one turn that finds nothing, and one that repairs the
// claims of a worker that died. It leaves DeadClaims payments pending, numbered
// from first.
func ReaperTurns(ctx context.Context, session Session, first int) (idle, repairing time.Duration, err error) {
	s, ok := session.(*railheadSession)
	if !ok {
		return 0, 0, errors.New("only Railhead has a reaper")
	}
	store, err := ledger.OpenExecutor(ctx, ledger.Config{URL: s.db.URL(relayerLogin), Cell: cell, MaxConns: 2})
	if err != nil {
		return 0, 0, err
	}
	defer store.Close()
	one, err := reaper.New(reaper.Config{
		WorkerID: "bench-reaper-" + payment.NewID().String(), Zombie: time.Second, StartWithin: 10 * time.Millisecond,
		Grace: 10 * time.Millisecond, HeartbeatStale: time.Second, Every: time.Minute, Batch: DeadClaims,
	}, store, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, 0, err
	}
	turn := func(want int) (time.Duration, error) {
		begun := time.Now()
		result, err := one.RunOnce(ctx)
		took := time.Since(begun)
		if err == nil && result.Repaired != want {
			err = fmt.Errorf("the reaper repaired %d claims, want %d (%+v)", result.Repaired, want, result)
		}
		return took, err
	}
	// The first turn plans its statements and looks after partitions.
	if _, err := turn(0); err != nil {
		return 0, 0, err
	}
	if idle, err = turn(0); err != nil {
		return 0, 0, err
	}
	if err := s.Fill(ctx, first, DeadClaims); err != nil {
		return 0, 0, err
	}
	claimed, err := store.Turn(ctx, payment.Turn{Claim: payment.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "bench-dead",
		Lanes: []payment.Lane{{RailType: railType, Free: DeadClaims, ProfileVersion: 1, RenderVersion: "noop/1"}},
	}})
	if err != nil || len(claimed.Claims) != DeadClaims {
		return 0, 0, errors.Join(err, fmt.Errorf("claimed %d to abandon, want %d", len(claimed.Claims), DeadClaims))
	}
	time.Sleep(budget)
	repairing, err = turn(DeadClaims)
	return idle, repairing, err
}

// Looks measures what people look at: the status of the cell, and one payment
// of the archive as `railhead payment show` reads it. Medians are the caller's.
func Looks(ctx context.Context, session Session, archive int) (status, show []float64, err error) {
	s, ok := session.(*railheadSession)
	if !ok {
		return nil, nil, errors.New("only Railhead is looked at")
	}
	reader, err := ledger.OpenReader(ctx, ledger.Config{URL: s.db.URL(readerLogin), Cell: cell})
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	milliseconds := func(begun time.Time) float64 { return float64(time.Since(begun).Microseconds()) / 1000 }
	random := rand.New(rand.NewPCG(20, 26))
	for range looks {
		begun := time.Now()
		if _, err := reader.Status(ctx, 15*time.Second); err != nil {
			return nil, nil, err
		}
		status = append(status, milliseconds(begun))

		id := instruction(s.options.Base + random.IntN(warmInstructions)).InstructionID
		if archive > 0 {
			id = fmt.Sprintf("archive-%d", random.IntN(archive/rowsEach))
		}
		begun = time.Now()
		found, err := reader.Find(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		line, err := reader.Timeline(ctx, found[0].OutboxID)
		if err != nil {
			return nil, nil, err
		}
		show = append(show, milliseconds(begun))
		if len(line.Attempts) < rowsEach {
			return nil, nil, fmt.Errorf("%s has %d rows, want %d", id, len(line.Attempts), rowsEach)
		}
	}
	return status, show, nil
}

// looks is how often each is looked at.
const looks = 100

// warmInstructions is how many of a session's first instructions are sure to be
// there when it is looked at.
const warmInstructions = 80
