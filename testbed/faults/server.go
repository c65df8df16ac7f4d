package faults

import (
	"context"
	"strconv"
	"time"
)

// serverFaults returns the faults of the database server.
func serverFaults() []Fault {
	return []Fault{
		{
			Name: "postgres_crash", About: "immediate stop and start of PostgreSQL under load, 20 times",
			Adjust: func(o *Options) { o.Rounds = 20; o.Wave = 12; o.HealWithin = time.Minute },
			Inject: crashServer,
		},
		{
			Name: "killed_backends", About: "pg_terminate_backend of whatever backend is there, 40 times",
			Adjust: func(o *Options) { o.Rounds = 40; o.Wave = 40 },
			Inject: killBackends,
		},
	}
}

func crashServer(ctx context.Context, w *World) error {
	for round := range w.Options.Rounds {
		if round%4 == 0 {
			if _, err := w.Traffic(w.Options.Wave); err != nil {
				return err
			}
		}
		pause(ctx, time.Duration(50+w.draws.IntN(350))*time.Millisecond)
		if round%5 == 4 {
			if err := w.Snapshot(ctx); err != nil {
				return err
			}
		}
		w.Injected++
		if err := w.Lane.crash(ctx, time.Duration(w.draws.IntN(150))*time.Millisecond); err != nil {
			return err
		}
		w.Hit++
	}
	return nil
}

func killBackends(ctx context.Context, w *World) error {
	for round := range w.Options.Rounds {
		if round%20 == 0 {
			if _, err := w.Traffic(w.Options.Wave); err != nil {
				return err
			}
		}
		pause(ctx, time.Duration(20+w.draws.IntN(120))*time.Millisecond)
		if err := w.killBackend(ctx); err != nil {
			return err
		}
	}
	return w.Snapshot(ctx)
}

// killBackend ends one backend of the installation, preferably one at work.
func (w *World) killBackend(ctx context.Context) error {
	w.Injected++
	var ended int
	err := w.admin.QueryRow(ctx, `SELECT count(*) FROM (
	  SELECT pg_terminate_backend(s.pid) AS ended FROM (
	    SELECT a.pid FROM pg_stat_activity a
	    WHERE a.datname = current_database() AND a.application_name LIKE 'railhead-%'
	    ORDER BY (a.state <> 'idle' AND $1 > 0.3) DESC, md5(a.pid::text || $2::text) LIMIT 1) s) t WHERE t.ended`,
		w.draws.Float64(), strconv.Itoa(w.draws.Int())).Scan(&ended)
	w.Hit += ended
	return err
}
