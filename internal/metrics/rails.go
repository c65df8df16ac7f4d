package metrics

import (
	"maps"
	"regexp"
	"sync"
	"sync/atomic"
)

// railsMax bounds the values of the label rail. All other rails share otherRail.
const (
	railsMax  = 100
	otherRail = "other"
)

// everyRail is the row of payment_rails that pauses all rails.
const everyRail = "*"

// railShape is the form that the schema allows for rail_type.
var railShape = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// perRail holds a value for each rail, made at the first use of the rail. A look-up takes no lock.
type perRail[T any] struct {
	make func(rail string) T
	mu   sync.Mutex
	all  atomic.Pointer[map[string]T]
}

func newPerRail[T any](make func(rail string) T) *perRail[T] {
	p := &perRail[T]{make: make}
	p.all.Store(&map[string]T{})
	return p
}

// of returns the value of a rail, or the one that all rails beyond the bound share.
func (p *perRail[T]) of(rail string) T {
	if one, ok := (*p.all.Load())[rail]; ok {
		return one
	}
	if !railShape.MatchString(rail) {
		rail = otherRail
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := *p.all.Load()
	if _, ok := known[rail]; !ok && len(known) >= railsMax {
		rail = otherRail
	}
	if one, ok := known[rail]; ok {
		return one
	}
	grown := maps.Clone(known)
	grown[rail] = p.make(rail)
	p.all.Store(&grown)
	return grown[rail]
}
