package service

import (
	"errors"
	"fmt"
)

// Fill sets a field that has its zero value to its default.
func Fill[T comparable](field *T, standard T) {
	if *field == *new(T) {
		*field = standard
	}
}

// Bounds collects what is wrong with a configuration, so that New returns every fault at once.
type Bounds struct{ faults []error }

// Refuse adds a fault.
func (b *Bounds) Refuse(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

// WorkerID refuses a name that heartbeats can't have.
func (b *Bounds) WorkerID(id string) {
	if id == "" || len(id) > 200 {
		b.Refuse("the worker id must be 1 to 200 bytes")
	}
}

// Err is nil, or every fault.
func (b *Bounds) Err() error { return errors.Join(b.faults...) }

// Within refuses a value that is not low to high.
func Within[T ~int | ~int64](b *Bounds, name string, value, low, high T) {
	if value < low || value > high {
		b.Refuse("%s is %v, must be %v to %v", name, value, low, high)
	}
}
