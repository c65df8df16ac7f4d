package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/bench/figures"
	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

// scaleModes are the modes that are measured with every size of the archive, and whether a greater
// figure is better.
var scaleModes = map[string]figures.Better{
	"drain": figures.Higher, "enqueue": figures.Higher, "claim p50": figures.Lower, "claim p99": figures.Lower,
	"reaper idle": figures.Lower, "reaper 500 dead": figures.Lower, "status": figures.Lower, "metrics": figures.Lower,
	"payment show": figures.Lower, "payment show recent": figures.Lower,
}

// sized is a database with an archive. It is filled once and used in every
// round, because a copy of it takes minutes.
type sized struct {
	rows int
	db   server.Database
}

// scale measures Railhead with archives of growing size. Within a round every
// size is measured once; which comes first alternates.
func (b *bench) scale(ctx context.Context) error {
	system := systems.Railhead{Quick: true}
	template, err := b.template(ctx, b.plain, system)
	if err != nil {
		return err
	}
	if err := b.checkDisk(); err != nil {
		return err
	}
	var all []sized
	for _, rows := range b.size.archives {
		db, err := b.plain.Create(ctx, "archive", template)
		if err != nil {
			return err
		}
		begun := time.Now()
		next := time.Now().Add(10 * time.Second)
		err = systems.FillArchive(ctx, db, rows, func(done int) {
			if time.Now().After(next) {
				next = time.Now().Add(10 * time.Second)
				b.say("archive of %d rows: %d", rows, done)
			}
		})
		if err != nil {
			return err
		}
		bytes, err := db.Size(ctx)
		if err != nil {
			return err
		}
		b.say("archive of %d rows is filled, in %s; its database has %d MB", rows, time.Since(begun).Round(time.Second),
			bytes/1_000_000)
		all = append(all, sized{rows, db})
	}
	for b.round = range b.options.rounds {
		order := slices.Clone(all)
		if b.round%2 == 1 {
			slices.Reverse(order)
		}
		for _, each := range order {
			b.say("round %d of %d: %d rows", b.round+1, b.options.rounds, each.rows)
			if err := b.scaleOnce(ctx, system, each); err != nil {
				return fmt.Errorf("archive of %d rows: %w", each.rows, err)
			}
		}
	}
	return nil
}

// The disk space of an archive, with its keys and indexes, for each row, and that of the rest of a
// run: WAL up to max_wal_size, and what the measurements add.
const (
	bytesRow  = 750
	bytesRest = 6_000_000_000
)

// checkDisk returns an error if the run would fill the disk.
func (b *bench) checkDisk() error {
	root := b.root
	if root == "" {
		root = "/tmp"
	}
	need := int64(bytesRest)
	for _, rows := range b.size.archives {
		need += int64(rows) * bytesRow
	}
	free, err := freeBytes(root)
	if err != nil {
		return err
	}
	b.say("needs about %d GB below %s, of which %d GB are free", need/1_000_000_000+1, root, free/1_000_000_000)
	if free < need {
		return fmt.Errorf("%s has %d GB free, and this needs %d GB: name another folder with -root, or smaller archives "+
			"with -archive=0,1000000",
			root, free/1_000_000_000, need/1_000_000_000+1)
	}
	return nil
}

// scaledMode returns the name of a mode with one size of the archive.
func scaledMode(mode string, rows int) string { return fmt.Sprintf("%s, %d rows", mode, rows) }

func (b *bench) scaleOnce(ctx context.Context, system systems.System, each sized) error {
	o := systems.Options{Producers: producers, Sparse: true, Base: b.round * 10_000_000}
	session, err := system.Open(ctx, each.db, o)
	if err != nil {
		return err
	}
	defer session.Close()
	runtime.GC()
	name := func(mode string) string { return scaledMode(mode, each.rows) }
	enqueued, err := b.scaleThroughput(ctx, system, each.db, session, name)
	if err != nil {
		return err
	}
	idle, repairing, err := systems.ReaperTurns(ctx, session, enqueued, b.size.deaths)
	if err != nil {
		return err
	}
	b.add(system, name("reaper idle"), "ms", figures.Lower, figures.Median(idle))
	b.add(system, name("reaper 500 dead"), "ms", figures.Lower, figures.Median(repairing))
	if err := b.finishRest(ctx, session, enqueued); err != nil {
		return err
	}
	// The rows that were just claimed are dead in pending, and a scan of it passes over them until
	// autovacuum comes, which is at any moment of the next minute.
	err = each.db.Do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "VACUUM railhead.payment_outbox_pending")
		return err
	})
	if err := errors.Join(err, each.db.Settle(ctx)); err != nil {
		return err
	}
	looked, err := systems.Looks(ctx, session, each.rows)
	if err != nil {
		return err
	}
	b.add(system, name("status"), "ms", figures.Lower, figures.Median(looked.Status))
	b.add(system, name("metrics"), "ms", figures.Lower, figures.Median(looked.Gauges))
	b.add(system, name("payment show"), "ms", figures.Lower, figures.Median(looked.Show))
	b.add(system, name("payment show recent"), "ms", figures.Lower, figures.Median(looked.Recent))
	return nil
}

// scaleThroughput measures enqueue, drain and, at a low rate, the delay until the rail is called.
func (b *bench) scaleThroughput(
	ctx context.Context, system systems.System, db server.Database, session systems.Session, name func(string) string,
) (int, error) {
	single := b.size.enqueue / 4
	_, err := produce(ctx, session, producers, 0, warm)
	if err := errors.Join(err, db.Settle(ctx)); err != nil {
		return 0, err
	}
	begun := time.Now()
	if _, err := produce(ctx, session, producers, warm, single); err != nil {
		return 0, err
	}
	b.add(system, name("enqueue"), "payments/s", figures.Higher, float64(single)/time.Since(begun).Seconds())
	n := warm + single + b.size.scaled
	if err := errors.Join(session.Fill(ctx, warm+single, b.size.scaled), db.Settle(ctx)); err != nil {
		return 0, err
	}
	tally := systems.NewTally()
	begun = time.Now()
	stop, err := session.Work(ctx, tally.Watch())
	if err != nil {
		return 0, err
	}
	err = tally.AwaitIn(ctx, session, n)
	b.add(system, name("drain"), "payments/s", figures.Higher, float64(n)/tally.LastDone().Sub(begun).Seconds())
	if err == nil {
		err = pour(ctx, session, tally, n, int(b.size.latency.Seconds()*latencyRate))
		n += int(b.size.latency.Seconds() * latencyRate)
	}
	if err := errors.Join(err, tally.AwaitIn(ctx, session, n), stop()); err != nil {
		return 0, err
	}
	milliseconds := inMilliseconds(tally.Delays())
	b.add(system, name("claim p50"), "ms", figures.Lower, figures.Percentile(milliseconds, 50))
	b.add(system, name("claim p99"), "ms", figures.Lower, figures.Percentile(milliseconds, 99))
	return n, check(ctx, session, n)
}

// finishRest runs workers until they have finished what the reaper returned to pending.
func (b *bench) finishRest(ctx context.Context, session systems.Session, enqueued int) error {
	abandoned := b.size.deaths * systems.DeadClaims
	tally := systems.NewTally()
	stop, err := session.Work(ctx, tally.Watch())
	if err != nil {
		return err
	}
	if err := errors.Join(tally.AwaitIn(ctx, session, abandoned), stop()); err != nil {
		return err
	}
	return check(ctx, session, enqueued+abandoned)
}

// scaleSelves compares every size with the first.
func (b *bench) scaleSelves() map[string]string {
	all := make(map[string]string)
	for mode := range scaleModes {
		for _, rows := range b.size.archives[1:] {
			all[scaledMode(mode, rows)] = scaledMode(mode, b.size.archives[0])
		}
	}
	return all
}

// asGood is the share of the figure without an archive that must remain with one.
const asGood = 0.9

func (b *bench) scaleTargets() []figures.Target {
	var all []figures.Target
	for mode, better := range scaleModes {
		if mode == "claim p99" {
			continue // too noisy for a tenth
		}
		for _, rows := range b.size.archives[1:] {
			target := figures.Target{System: "railhead", Mode: scaledMode(mode, rows), Against: figures.ToSelf, AtLeast: asGood}
			if better == figures.Lower {
				target.AtLeast, target.AtMost = 0, 1/asGood
			}
			all = append(all, target)
		}
	}
	slices.SortFunc(all, func(x, y figures.Target) int {
		if x.Mode < y.Mode {
			return -1
		}
		return 1
	})
	return all
}
