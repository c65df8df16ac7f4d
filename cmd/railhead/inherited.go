package main

import (
	"sync"

	"github.com/railhead-pay/railhead/rails"
)

// inherited are the rails that a component has opened last, one of each type. One that is opened anew goes on with
// what they have seen of their destinations, also in a component that is made anew.
type inherited struct {
	mu   sync.Mutex
	last map[string]rails.Rail
}

// take gives a rail that was just opened what the one before it has seen, and keeps it for the next.
func (i *inherited) take(railType string, rail rails.Rail) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if heir, ok := rail.(rails.Heir); ok && i.last[railType] != nil {
		heir.Inherit(i.last[railType])
	}
	if i.last == nil {
		i.last = make(map[string]rails.Rail)
	}
	i.last[railType] = rail
}
