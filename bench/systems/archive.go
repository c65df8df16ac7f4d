package systems

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/internal/test/archive"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/executor"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/reaper"
)

// archiveBase is the number of the archive's first payment; no session counts so far.
const archiveBase = 1_000_000_000

// FillArchive fills a cell's archive with a number of rows of finished instructions, and does what
// autovacuum would have done meanwhile.
func FillArchive(ctx context.Context, db server.Database, rows int, progress func(done int)) error {
	return db.Do(ctx, func(conn *pgx.Conn) error {
		return archive.Fill(ctx, conn, archive.Size{Rows: rows, Base: archiveBase, RailType: railType}, progress)
	})
}

// DeadClaims is the number of claims that a reaper's turn repairs: the most that it takes at once.
const DeadClaims = 500

// budget is long enough for the call of a worker that died: see quickProfile.
const budget = 1500 * time.Millisecond

// idleTurns is the number of turns that find nothing in one figure.
const idleTurns = 21

// ReaperTurns measures, in milliseconds, turns that find nothing and turns that repair the claims
// of workers that died one after the other. It leaves deaths times DeadClaims payments pending,
// numbered from first.
func ReaperTurns(ctx context.Context, session Session, first, deaths int) (idle, repairing []float64, err error) {
	s, ok := session.(*railheadSession)
	if !ok {
		return nil, nil, errors.New("only Railhead has a reaper")
	}
	store, err := executor.Open(ctx, ledger.Config{URL: s.db.URL(relayerLogin), Cell: cell, MaxConns: 2})
	if err != nil {
		return nil, nil, err
	}
	defer store.Close()
	operator, err := operator.Open(ctx, ledger.Config{URL: s.db.URL(operatorLogin), Cell: cell})
	if err != nil {
		return nil, nil, err
	}
	defer operator.Close()
	before, err := operator.TimeBudget(ctx)
	if err != nil {
		return nil, nil, err
	}
	setStart := func(within time.Duration) error {
		_, _, err := operator.SetTimeBudget(ctx, map[string]time.Duration{"start_within": within}, "benchmark of the reaper")
		return err
	}
	if err := setStart(10 * time.Millisecond); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, setStart(before.StartWithin)) }()
	one, err := reaper.New(reaper.Config{
		WorkerID: "bench-reaper-" + payment.NewID().String(),
		Grace:    10 * time.Millisecond, Every: time.Minute, Batch: DeadClaims,
	}, store, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	turn := func(want int) (float64, error) {
		begun := time.Now()
		result, err := one.RunOnce(ctx)
		took := milliseconds(begun)
		if err == nil && result.Repaired != want {
			err = fmt.Errorf("the reaper repaired %d claims, want %d (%+v)", result.Repaired, want, result)
		}
		return took, err
	}
	// The first turn plans its statements and maintains partitions.
	if _, err := turn(0); err != nil {
		return nil, nil, err
	}
	for range idleTurns {
		took, err := turn(0)
		if err != nil {
			return nil, nil, err
		}
		idle = append(idle, took)
	}
	for range deaths {
		if err := s.Fill(ctx, first, DeadClaims); err != nil {
			return nil, nil, err
		}
		first += DeadClaims
		if err := abandon(ctx, store); err != nil {
			return nil, nil, err
		}
		took, err := turn(DeadClaims)
		if err != nil {
			return nil, nil, err
		}
		repairing = append(repairing, took)
	}
	return idle, repairing, nil
}

// abandon claims DeadClaims payments, as a worker that then dies, and waits until the reaper may
// repair the claims.
func abandon(ctx context.Context, store *executor.Executor) error {
	claimed, err := store.Turn(ctx, outbox.Turn{Claim: outbox.ClaimRequest{
		ClaimID: payment.NewID(), WorkerID: "bench-dead",
		Lanes: []outbox.Lane{{RailType: railType, Free: DeadClaims, ProfileVersion: 1, RenderVersion: "noop/1"}},
	}})
	if err != nil {
		return err
	}
	if len(claimed.Claims) != DeadClaims {
		return fmt.Errorf("claimed %d to abandon, want %d", len(claimed.Claims), DeadClaims)
	}
	time.Sleep(budget)
	return nil
}

func milliseconds(begun time.Time) float64 { return float64(time.Since(begun).Microseconds()) / 1000 }

// Looked holds how long each look took, in milliseconds.
type Looked struct {
	Status []float64 // the status of the cell, as `railhead status` reads it
	Gauges []float64 // what a component reads of the database for its metrics
	Show   []float64 // one payment of the archive, as `railhead payment show` reads it
	Recent []float64 // one of the session's own first, the same whatever the archive holds
}

// looks is the number of times that each look is repeated.
const looks = 100

// warmInstructions is the number of a session's first instructions that are certain to exist when
// it is looked at.
const warmInstructions = Participants

// Looks measures the reads of operators and scrapers.
func Looks(ctx context.Context, session Session, rows int) (Looked, error) {
	var all Looked
	s, ok := session.(*railheadSession)
	if !ok {
		return all, errors.New("only Railhead is looked at")
	}
	looker, err := reader.Open(ctx, ledger.Config{URL: s.db.URL(readerLogin), Cell: cell})
	if err != nil {
		return all, err
	}
	defer looker.Close()
	random := rand.New(rand.NewPCG(20, 26))
	for n := range looks + 1 {
		if n == 1 {
			all = Looked{} // the first connects, and reads the catalogue
		}
		begun := time.Now()
		if _, err := looker.Status(ctx); err != nil {
			return all, err
		}
		all.Status = append(all.Status, milliseconds(begun))

		begun = time.Now()
		if _, err := looker.Gauges(ctx, reader.GaugeQuery{}); err != nil {
			return all, err
		}
		all.Gauges = append(all.Gauges, milliseconds(begun))

		recent := s.instruction(random.IntN(warmInstructions)).InstructionID
		took, err := show(ctx, looker, recent)
		if err != nil {
			return all, err
		}
		all.Recent = append(all.Recent, took)
		if rows > 0 {
			if took, err = show(ctx, looker, scattered(archiveBase+random.IntN(rows/archive.RowsEach))); err != nil {
				return all, err
			}
		}
		all.Show = append(all.Show, took)
	}
	return all, nil
}

// show looks one instruction up by its id, reads all of it, and returns the time in milliseconds.
func show(ctx context.Context, reader *reader.Reader, id string) (float64, error) {
	begun := time.Now()
	found, err := reader.Find(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("no instruction %s", id)
	}
	line, err := reader.Timeline(ctx, found[0].OutboxID)
	if err != nil {
		return 0, err
	}
	took := milliseconds(begun)
	if len(line.Attempts) < archive.RowsEach {
		return 0, fmt.Errorf("%s has %d rows, want %d", id, len(line.Attempts), archive.RowsEach)
	}
	return took, nil
}
