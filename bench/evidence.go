package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/bench/server"
	"github.com/railhead-pay/railhead/bench/systems"
)

// waitsEvery is the time between two samples of what sessions wait for.
const waitsEvery = 10 * time.Millisecond

func (b *bench) prepareEvidence(ctx context.Context) error {
	if err := os.MkdirAll(b.evidence, 0o755); err != nil {
		return err
	}
	db := b.plain.Postgres()
	return db.Do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE EXTENSION pg_stat_statements")
		return err
	})
}

// watch collects where time is spent during one measurement, if evidence was asked for: a CPU
// profile of this process, the server's statements, and what its sessions wait for. The returned
// function ends the collection and writes it.
func (b *bench) watch(
	ctx context.Context, db server.Database, system systems.System, name string,
) (func() error, error) {
	if b.evidence == "" || db.Server() != b.plain {
		return func() error { return nil }, nil
	}
	stem := filepath.Join(b.evidence, strings.ReplaceAll(fmt.Sprintf("%s-%s-%d", system.Name(), name, b.round+1), " ",
		"-"))
	err := b.plain.Postgres().Do(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_stat_statements_reset()")
		return err
	})
	if err != nil {
		return nil, err
	}
	file, err := os.Create(stem + ".pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	sampling, stop := context.WithCancel(ctx)
	waits := make(map[string]int)
	var sampler sync.WaitGroup
	sampler.Go(func() { sampleWaits(sampling, b.plain.Postgres(), db.Name, waits) })
	return func() error {
		stop()
		sampler.Wait()
		pprof.StopCPUProfile()
		text, err := b.statements(ctx, db)
		text += "\nsamples  session and what it waits for\n" + ranked(waits)
		return errors.Join(err, file.Close(), os.WriteFile(stem+".txt", []byte(text), 0o644))
	}, nil
}

func sampleWaits(ctx context.Context, db server.Database, of string, waits map[string]int) {
	db.Do(context.WithoutCancel(ctx), func(conn *pgx.Conn) error {
		tick := time.NewTicker(waitsEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			rows, err := conn.Query(context.WithoutCancel(ctx), `
				SELECT application_name || '  ' || coalesce(state, backend_type) || '  ' ||
				  coalesce(wait_event_type || ':' || wait_event, 'running') || '  ' ||
				  regexp_replace(left(regexp_replace(query, '^(--[^\n]*\n|\s)*', '', 'g'), 60), '\s+', ' ', 'g')
				FROM pg_stat_activity WHERE datname = $1 AND state <> 'idle'`, of)
			if err != nil {
				return err
			}
			seen, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			for _, each := range seen {
				waits[each]++
			}
		}
	})
}

func (b *bench) statements(ctx context.Context, of server.Database) (string, error) {
	var out strings.Builder
	err := b.plain.Postgres().Do(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `
			SELECT format('%s ms total  %s calls  %s ms mean  %s rows  %s hit  %s read  %s dirtied  %s B WAL  | %s',
			  round(total_exec_time::numeric, 1), calls, round(mean_exec_time::numeric, 3), rows,
			  shared_blks_hit, shared_blks_read, shared_blks_dirtied, wal_bytes,
			  regexp_replace(left(regexp_replace(query, '^(--[^\n]*\n|\s)*', '', 'g'), 110), '\s+', ' ', 'g'))
			FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
			WHERE d.datname = $1 ORDER BY total_exec_time DESC LIMIT 25`, of.Name)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		out.WriteString(strings.Join(lines, "\n") + "\n")
		return err
	})
	return out.String(), err
}

// ranked lists counts, the largest first.
func ranked(counts map[string]int) string {
	var out strings.Builder
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	for _, key := range keys[:min(len(keys), 40)] {
		fmt.Fprintf(&out, "%7d  %s\n", counts[key], key)
	}
	return out.String()
}
