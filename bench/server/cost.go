package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Meter is the resources that the server has used up to a moment.
type Meter struct {
	CPU time.Duration // of the postmaster and its children, gone ones included
	WAL int64         // bytes
	// Records is the number of WAL records. It is known only for what was used between two readings,
	// on a server that has pg_walinspect; 0 means not known.
	Records int64
}

// Since returns what was used between two readings.
func (m Meter) Since(before Meter) Meter {
	return Meter{CPU: m.CPU - before.CPU, WAL: m.WAL - before.WAL}
}

// Read takes a reading.
func (s *Server) Read(ctx context.Context) (Meter, error) {
	var m Meter
	err := s.as(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&m.WAL)
	})
	if err != nil {
		return Meter{}, fmt.Errorf("reading the WAL's position: %w", err)
	}
	m.CPU, err = treeCPU(s.PID())
	return m, err
}

// CountRecords returns what was used between two readings, with the number of WAL records. A few of
// the last records may not be flushed, and are not counted.
func (s *Server) CountRecords(ctx context.Context, before, after Meter) (used Meter, err error) {
	used = after.Since(before)
	err = s.as(ctx, "postgres", func(conn *pgx.Conn) error {
		var has bool
		const available = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_walinspect')"
		if err := conn.QueryRow(ctx, available).Scan(&has); err != nil || !has {
			return err
		}
		if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_walinspect"); err != nil {
			return err
		}
		return conn.QueryRow(ctx, `SELECT coalesce(sum(s.count), 0)::bigint
			FROM pg_get_wal_stats('0/0'::pg_lsn + $1::bigint, least('0/0'::pg_lsn + $2::bigint, pg_current_wal_flush_lsn())) s`,
			before.WAL, after.WAL).Scan(&used.Records)
	})
	if err != nil {
		return used, fmt.Errorf("counting the WAL's records: %w", err)
	}
	return used, nil
}

// clockTick is the unit of times in /proc, which Linux fixes for user space.
const clockTick = 10 * time.Millisecond

// treeCPU returns the user and system time of a process, its live children, and its children that
// were waited for. A child that ends during the reading would be missed or counted twice: the
// reading is then repeated.
func treeCPU(root int) (time.Duration, error) {
	for {
		before, err := readStat(root)
		if err != nil {
			return 0, err
		}
		children, whole, err := childrenCPU(root)
		if err != nil {
			return 0, err
		}
		after, err := readStat(root)
		if err != nil {
			return 0, err
		}
		if whole && before.reaped == after.reaped {
			return time.Duration(after.ticks+after.reaped)*clockTick + children, nil
		}
	}
}

// childrenCPU returns the CPU time of the live children; it is not whole if a child has ended and
// was not waited for yet.
func childrenCPU(root int) (used time.Duration, whole bool, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, false, err
	}
	whole = true
	for _, file := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		child, err := readStat(pid)
		if err != nil {
			continue // it has ended; if it was ours, the postmaster's own line has changed
		}
		if child.parent == root {
			used += cpuOf(pid, child)
			whole = whole && child.state != 'Z'
		}
	}
	return used, whole, nil
}

// cpuOf returns what a process of one thread has used: in nanoseconds where the kernel keeps that
// (proc(5), schedstat), else in ticks.
func cpuOf(pid int, s stat) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err == nil {
		if fields := bytes.Fields(text); len(fields) > 0 {
			if used, err := strconv.ParseInt(string(fields[0]), 10, 64); err == nil && used > 0 {
				return time.Duration(used)
			}
		}
	}
	return time.Duration(s.ticks) * clockTick
}

type stat struct {
	state         byte
	parent        int
	ticks, reaped int64
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	return parseStat(text)
}

// parseStat parses the fields of proc(5) after the command, which is in brackets and may hold
// spaces.
func parseStat(text []byte) (stat, error) {
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 15 {
		return stat{}, fmt.Errorf("unexpected /proc stat line %q", text)
	}
	number := func(field int) int64 { // as proc(5) counts them
		n, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
		return n
	}
	return stat{state: fields[0][0], parent: int(number(4)), ticks: number(14) + number(15),
		reaped: number(16) + number(17)}, nil
}
