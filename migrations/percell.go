package migrations

import "sync"

// perCell caches the result of make for each cell. Every ledger that is opened checks the
// schema against embedded texts, which a process has to prepare only once.
type perCell[T any] struct {
	make func(cell string) (T, error)

	mu   sync.Mutex
	kept map[string]T
}

// of returns the result for a cell. It does not cache errors.
func (p *perCell[T]) of(cell string) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if made, ok := p.kept[cell]; ok {
		return made, nil
	}
	made, err := p.make(cell)
	if err != nil {
		return made, err
	}
	if p.kept == nil {
		p.kept = make(map[string]T)
	}
	p.kept[cell] = made
	return made, nil
}
