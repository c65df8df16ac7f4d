package service

import (
	"errors"
	"fmt"
	"strings"

	"github.com/railhead-pay/railhead/outbox"
)

// Fill sets a field to a default if it has its zero value.
func Fill[T comparable](field *T, standard T) {
	if *field == *new(T) {
		*field = standard
	}
}

// Bounds collects the faults of a configuration, so that New returns all of them at once.
type Bounds struct{ faults []error }

// Refuse adds a fault.
func (b *Bounds) Refuse(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

// WorkerID adds a fault if heartbeats can't have this name.
func (b *Bounds) WorkerID(id string) {
	if id == "" || len(id) > 200 {
		b.Refuse("the worker id must be 1 to 200 bytes")
	}
	// Rows of components that are neither relayers nor reapers are named by kind, colon and worker id.
	for _, kind := range outbox.ComponentKinds() {
		if strings.HasPrefix(id, kind+":") {
			b.Refuse("the worker id begins with %q, as the rows of heartbeats of that kind do: give another one", kind+":")
		}
	}
}

// Err returns all faults; nil for none.
func (b *Bounds) Err() error { return errors.Join(b.faults...) }

// Within adds a fault if a value is not from low to high.
func Within[T ~int | ~int64](b *Bounds, name string, value, low, high T) {
	if value < low || value > high {
		b.Refuse("%s is %v, must be %v to %v", name, value, low, high)
	}
}
