package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// diskFaults returns the fault that fills the disk of the server. The server's data is
// moved to a small file system of its own, for which this process has to be root.
func diskFaults() []Fault {
	return []Fault{{
		Name: "disk_full",
		About: "the file system of data and WAL fills under load until the server can write no more, and is given room " +
			"again",
		Adjust: func(o *Options) { o.Relayers, o.Reapers, o.Wave, o.Rounds = 0, 0, 60, 1 }, Quiet: true,
		Inject: fillDisk,
	}}
}

// roomMiB is the space that the small file system has beyond the data, in MiB.
const roomMiB = 60

func fillDisk(ctx context.Context, w *World) error {
	if os.Geteuid() != 0 {
		return errors.New("a full disk needs a small file system, and mounting one needs root: run this fault as root")
	}
	size := int64(0)
	err := filepath.Walk(w.Lane.Server.DataDir(), func(_ string, info os.FileInfo, err error) error {
		if err == nil {
			size += info.Size()
		}
		return nil
	})
	if err != nil {
		return err
	}
	small := filepath.Join(w.dir, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, fmt.Sprintf("mode=755,size=%d", size+roomMiB<<20)); err != nil {
		return fmt.Errorf("mounting a small file system: %w", err)
	}
	w.ends = append(w.ends, func(context.Context) error { return syscall.Unmount(small, syscall.MNT_DETACH) })
	if err := w.move(ctx, filepath.Join(small, "data")); err != nil {
		return err
	}
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	pause(ctx, time.Duration(200+w.draws.IntN(300))*time.Millisecond)
	w.Injected++
	filler := filepath.Join(small, "filler")
	if err := fill(filler); err != nil {
		return err
	}
	// The preallocated files are soon used up: each switch of the WAL needs a new file.
	until := time.Now().Add(6 * time.Second)
	for time.Now().Before(until) {
		if _, err := w.admin.Exec(ctx, `SELECT pg_switch_wal()`); err != nil {
			w.Hit++
		}
		pause(ctx, 100*time.Millisecond)
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	// The server ends itself when it can't write its WAL; it is started again here.
	if err := w.Lane.Server.Restart(ctx); err != nil {
		return fmt.Errorf("starting with room again: %w", err)
	}
	return nil
}

// fill writes to a file until the file system is full.
func fill(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for {
		if _, err = file.Write(block); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}
