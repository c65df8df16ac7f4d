package faults

import (
	"context"
	"time"
)

// restoreFaults returns the faults in which the data goes back to an earlier moment,
// without the sends that were made since.
func restoreFaults() []Fault {
	// The window is longer than a restore takes, so that the time without a server alone
	// does not outlast it.
	const window = 15 * time.Second
	short := func(o *Options) {
		lateStart(o)
		o.KeyWindow, o.MaxSends = window, 3 // a rail's re-sends have to fit in
	}
	byKey := []string{Keyed, Asked}
	one := func(name, about string, adjust func(*Options), inject func(context.Context, *World) error) Fault {
		return Fault{Name: name, About: about, Adjust: adjust, Inject: inject, Quiet: true}
	}
	return []Fault{
		one("restore_recent", "a restore to a point in time, seconds ago: what was sent since comes back as unsent, on a "+
			"new timeline",
			lateStart, func(ctx context.Context, w *World) error {
				return forget(ctx, w, newBackup, oblivion{goOn: byKey})
			}),
		one("restore_old", "a restore to a point in time longer ago than the banks remember a key",
			short, func(ctx context.Context, w *World) error {
				return forget(ctx, w, newBackup, oblivion{alive: true, lasting: window + 1500*time.Millisecond})
			}),
		one("restore_twice", "the same backup restored twice, to the same timeline: the operator accepts it after the "+
			"first time",
			lateStart, func(ctx context.Context, w *World) error {
				return forget(ctx, w, newBackup, oblivion{goOn: byKey, again: true})
			}),
		one("restore_repeat", "callers repeat calls that were acknowledged and executed, and that the restore forgot",
			lateStart, func(ctx context.Context, w *World) error {
				return forget(ctx, w, newBackup, oblivion{goOn: byKey, repeat: true})
			}),
		one("restore_repeat_late", "callers repeat such calls once the operator has accepted the restored server, and the "+
			"banks answer in words of their own",
			lateStart, func(ctx context.Context, w *World) error {
				return forget(ctx, w, newBackup, oblivion{goOn: byKey, late: byKey})
			}),
		one("snapshot_same_timeline", "the server goes on from a storage snapshot: the same identity and timeline, the "+
			"WAL at an earlier position",
			lateStart, func(ctx context.Context, w *World) error {
				return forget(ctx, w, newImage, oblivion{goOn: byKey})
			}),
		one("snapshot_wal_passed", "the server goes on from a storage snapshot and writes more WAL than was lost before "+
			"any service sees it",
			lateStart, func(ctx context.Context, w *World) error {
				return forget(ctx, w, newImage, oblivion{goOn: byKey, passed: true})
			}),
	}
}
