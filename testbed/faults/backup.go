package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// backup is a base backup and the WAL that was archived since. A restore from it to a
// point in time starts a new timeline. The archive does not change: the same backup
// restored twice starts the same new timeline twice.
type backup struct {
	base, wal string
	target    string // the recovery target setting that names the mark
	restored  bool   // what the server writes now is on another timeline, and not archived
}

// newBackup stops the lane's server to take a base backup, and archives WAL from then on.
func newBackup(ctx context.Context, w *World) (rewind, error) {
	b := &backup{base: w.newFolder("base"), wal: w.newFolder("wal")}
	// The server runs as another account when this process is root.
	if err := errors.Join(os.Mkdir(b.wal, 0o777), os.Chmod(b.wal, 0o777)); err != nil {
		return nil, err
	}
	for _, sql := range []string{
		"ALTER SYSTEM SET archive_mode = on",
		"ALTER SYSTEM SET archive_command = 'cp %p " + b.wal + "/%f.new && mv " + b.wal + "/%f.new " + b.wal + "/%f'",
	} {
		if _, err := w.admin.Exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("%s: %w", sql, err)
		}
	}
	if err := w.copyServer(ctx, b.base); err != nil {
		return nil, err
	}
	return b, w.restart(ctx)
}

// mark records the target of the restore, and draws whether it is a time or a position in
// the WAL.
func (b *backup) mark(ctx context.Context, w *World) error {
	var at time.Time
	var position string
	if err := w.admin.QueryRow(ctx, `SELECT clock_timestamp(), pg_current_wal_insert_lsn()::text`).Scan(&at, &position); err != nil {
		return err
	}
	b.target = "recovery_target_lsn = '" + position + "'"
	if w.draws.IntN(2) == 0 {
		b.target = "recovery_target_time = '" + at.UTC().Format("2006-01-02 15:04:05.000000+00") + "'"
	}
	return nil
}

// lose archives the WAL that was written until now, unless the server was restored, and
// kills the server.
func (b *backup) lose(ctx context.Context, w *World) error {
	if b.restored {
		return w.Lane.Server.Kill9()
	}
	var last string
	if err := w.admin.QueryRow(ctx, `SELECT pg_walfile_name(pg_switch_wal())`).Scan(&last); err != nil {
		return err
	}
	if err := await.Until(ctx, startedWithin, "the WAL to be archived", func() (bool, error) {
		_, err := os.Stat(filepath.Join(b.wal, last))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}); err != nil {
		return err
	}
	return w.Lane.Server.Kill9()
}

func (b *backup) raise(ctx context.Context, w *World) error {
	if err := w.replaceData(ctx, b.base); err != nil {
		return err
	}
	b.restored = true
	data := w.Lane.Server.DataDir()
	none := "recovery_target_time = ''"
	if strings.HasPrefix(b.target, "recovery_target_time") {
		none = "recovery_target_lsn = ''"
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(data, "recovery.signal"), nil, 0o644),
		configure(data, "archive_mode = off", "restore_command = 'cp "+b.wal+"/%f %p'", none, b.target,
			"recovery_target_action = promote"),
	); err != nil {
		return err
	}
	if err := w.restart(ctx); err != nil {
		return err
	}
	return await.Until(ctx, startedWithin, "the restore to end", func() (bool, error) {
		var recovering bool
		err := w.admin.QueryRow(ctx, `SELECT pg_is_in_recovery()`).Scan(&recovering)
		return !recovering, err
	})
}
