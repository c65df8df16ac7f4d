package systems

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/railhead-pay/railhead/bench/server"
)

var (
	//go:embed sql/pgbench_drain.sql
	pgbenchDrain []byte
	//go:embed sql/pgbench_enqueue.sql
	pgbenchEnqueue []byte
)

// pgbenchStop bounds a pgbench that hangs.
const pgbenchStop = 5 * time.Minute

// PgbenchDrain drains n payments of a floor's database with one client and returns the payments in
// a second.
func PgbenchDrain(ctx context.Context, program string, db server.Database, n int) (float64, error) {
	rate, err := pgbench(ctx, program, db, pgbenchDrain, 1, (n+floorBatch-1)/floorBatch)
	return rate * floorBatch, err
}

// PgbenchEnqueue enqueues n payments in a floor's database with a number of clients, and returns
// the payments in a second.
func PgbenchEnqueue(ctx context.Context, program string, db server.Database, clients, n int) (float64, error) {
	return pgbench(ctx, program, db, pgbenchEnqueue, clients, n/clients)
}

// pgbench runs a script a number of times by each client, and returns the runs in a second.
func pgbench(
	ctx context.Context, program string, db server.Database, script []byte, clients, times int,
) (float64, error) {
	dir, err := os.MkdirTemp("", "railhead-pgbench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "script.sql")
	if err := os.WriteFile(file, script, 0o644); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, pgbenchStop)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--no-vacuum", "--protocol=prepared", "--file="+file,
		"--client="+strconv.Itoa(clients), "--jobs="+strconv.Itoa(min(clients, 2)), "--transactions="+strconv.Itoa(times))
	command.Env = append(os.Environ(), "PGHOST="+db.SocketDir(), "PGPORT="+db.Port(), "PGUSER="+server.Superuser,
		"PGDATABASE="+db.Name, "LC_ALL=C")
	output, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, output)
	}
	return pgbenchRate(output, clients*times)
}

// pgbenchRate reads the rate from a report, and returns an error if it has fewer runs than were
// asked for.
func pgbenchRate(report []byte, want int) (float64, error) {
	var rate float64
	done := false
	for line := range bytes.Lines(report) {
		if rest, ok := bytes.CutPrefix(line, []byte("tps = ")); ok {
			if _, err := fmt.Sscanf(string(rest), "%g", &rate); err != nil {
				return 0, fmt.Errorf("pgbench's rate %q: %w", rest, err)
			}
		}
		if rest, ok := bytes.CutPrefix(line, []byte("number of transactions actually processed: ")); ok {
			done = bytes.HasPrefix(rest, fmt.Appendf(nil, "%d/", want))
		}
	}
	if !done || rate <= 0 {
		return 0, fmt.Errorf("pgbench did not do all of %d runs:\n%s", want, report)
	}
	return rate, nil
}
