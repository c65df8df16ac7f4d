package alertdrill

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
)

// wornXID is the next transaction id of the worn server, 0.78 of the way. It is the first of a file of pg_xact, which
// the server then makes by itself.
const wornXID = 1600 << 20

// startWorn starts a separate cell on a server whose next transaction id is wornXID, while its databases have frozen
// nothing since initdb, and a reaper for it. Its autovacuum leaves them so.
func (w *world) startWorn(ctx context.Context) (err error) {
	server, err := pgserver.Start(ctx, pgserver.Options{Settings: map[string]string{
		"autovacuum_freeze_max_age": "2000000000",
	}})
	if err != nil {
		return err
	}
	w.worn = server
	w.closing = append(w.closing, func() { _ = server.StopImmediate(context.Background()) })
	if err := server.Halt(ctx); err != nil {
		return err
	}
	reset := exec.CommandContext(ctx, server.Binaries().Path("pg_resetwal"), "-x", strconv.Itoa(wornXID), server.DataDir())
	reset.Dir = "/"
	credential, err := pgserver.Credential()
	if err != nil {
		return err
	}
	reset.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if said, err := reset.CombinedOutput(); err != nil {
		return fmt.Errorf("moving the transaction ids on: %w: %s", err, said)
	}
	if err := server.Restart(ctx); err != nil {
		return err
	}
	if _, err := install.On(ctx, server, cell, timeBudget); err != nil {
		return err
	}
	return w.startAs(ctx, "reaper", "reaper-worn", "worn",
		"RAILHEAD_REAPER_URL="+server.URL(install.Database, install.Reaper),
		"RAILHEAD_METRICS_URL="+server.URL(install.Database, install.Auditor))
}

// freeze runs VACUUM (FREEZE) in every database of the worn server, template0 included.
func (w *world) freeze(ctx context.Context) error {
	all := []string{"postgres", "template1", "template0", install.Database}
	if err := w.onWorn(ctx, "postgres", `ALTER DATABASE template0 ALLOW_CONNECTIONS true`); err != nil {
		return err
	}
	for _, database := range all {
		if err := w.onWorn(ctx, database, `VACUUM (FREEZE)`); err != nil {
			return fmt.Errorf("freezing %s: %w", database, err)
		}
	}
	return w.onWorn(ctx, "postgres", `ALTER DATABASE template0 ALLOW_CONNECTIONS false`)
}

func (w *world) onWorn(ctx context.Context, database, statement string) (err error) {
	conn, err := pgx.Connect(ctx, w.worn.URL(database, pgserver.Superuser))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	_, err = conn.Exec(ctx, statement)
	return err
}
