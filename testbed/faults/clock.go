package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// clockFaults returns the faults in which the database's clock jumps. The server runs
// under libfaketime, which reads its offset from a file. The services can't run under it:
// a Go program reads the clock from the kernel without the C library, where no such
// library can intercept the call.
func clockFaults() []Fault {
	late := func(o *Options) { o.Relayers, o.Reapers, o.Wave = 0, 0, 24 }
	return []Fault{
		{
			Name: "clock_of_database_ahead", About: "the database's clock jumps an hour ahead under load, and back",
			Adjust: late, Quiet: true,
			Inject: func(ctx context.Context, w *World) error { return jumpClock(ctx, w, time.Hour) },
		},
		{
			Name: "clock_of_database_behind", About: "the database's clock jumps an hour back under load, and ahead again",
			Adjust: late, Quiet: true,
			Inject: func(ctx context.Context, w *World) error { return jumpClock(ctx, w, -time.Hour) },
		},
	}
}

// findFaketime returns the path of libfaketime.
func findFaketime() (string, error) {
	for _, pattern := range []string{
		os.Getenv("RAILHEAD_FAKETIME"), "/var/cache/railhead/faketime/usr/lib/*/faketime/libfaketime.so.1",
		"build/faketime/usr/lib/*/faketime/libfaketime.so.1", "../../build/faketime/usr/lib/*/faketime/libfaketime.so.1",
		"/usr/lib/*/faketime/libfaketime.so.1",
	} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) == 1 {
			return filepath.Abs(found[0])
		}
	}
	return "", errors.New("libfaketime is not here: scripts/install-fault-tools.sh unpacks it, or name it in " +
		"RAILHEAD_FAKETIME")
}

func jumpClock(ctx context.Context, w *World, by time.Duration) error {
	library, err := findFaketime()
	if err != nil {
		return err
	}
	offset := filepath.Join(w.dir, "offset")
	if err := os.WriteFile(offset, []byte("+0\n"), 0o644); err != nil {
		return err
	}
	if err := w.move(ctx, filepath.Join(w.dir, "moved"), "LD_PRELOAD="+library, "FAKETIME_TIMESTAMP_FILE="+offset,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_RESET=1"); err != nil {
		return err
	}
	for range w.Options.Rounds {
		if _, err := w.Traffic(w.Options.Wave); err != nil {
			return err
		}
		pause(ctx, time.Duration(200+w.draws.IntN(300))*time.Millisecond)
		for _, seconds := range []float64{by.Seconds(), 0} {
			w.Injected++
			// A rename replaces the file atomically, because the server may read it at any moment.
			if err := os.WriteFile(offset+".new", fmt.Appendf(nil, "%+.0f\n", seconds), 0o644); err != nil {
				return err
			}
			if err := os.Rename(offset+".new", offset); err != nil {
				return err
			}
			var now time.Time
			if err := w.admin.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
				return err
			}
			if off := time.Until(now).Seconds() - seconds; off > -30 && off < 30 {
				w.Hit++
			}
			pause(ctx, time.Duration(1000+w.draws.IntN(1500))*time.Millisecond)
		}
	}
	return nil
}
