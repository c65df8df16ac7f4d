// Package heap tunes the garbage collection of a process.
package heap

import "runtime/debug"

const (
	// percent is the allocation, relative to live memory, that triggers a collection. Go's default
	// of 100 is for large heaps. The heap of a component has a few MB, and would be collected many
	// times a second, which costs a tenth of a relayer's work at full speed.
	percent = 400
	// limit is the heap size, in bytes, from which collections become more frequent again.
	limit = 512 << 20
)

// Tune lets the heap of this process grow to five times its live memory, but not for that reason
// above 512 MiB. GOGC and GOMEMLIMIT, if getenv returns them, take precedence.
func Tune(getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}
