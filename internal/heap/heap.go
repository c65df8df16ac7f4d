// Package heap says when the garbage of a process is collected.
package heap

import "runtime/debug"

const (
	// percent of what is live may be allocated before the next collection. Go's own
	// 100 is for large heaps. A component's is a few MB, so it would be collected
	// many times a second: a tenth of a relayer's work at full speed.
	percent = 400
	// limit, in bytes, from which it is collected sooner again.
	limit = 512 << 20
)

// Tune lets the heap of this process grow to five times what is live in it, but
// for that to no more than 512 MiB. GOGC and GOMEMLIMIT win, as far as getenv
// finds them.
func Tune(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}
