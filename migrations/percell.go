package migrations

import "sync"

// perCell keeps what make gives for a cell. Every ledger that is opened checks the schema, and the texts that it is
// checked against are embedded: a process puts them together once.
type perCell[T any] struct {
	make func(cell string) (T, error)

	mu   sync.Mutex
	kept map[string]T
}

// of gives what was made for a cell. An error is not kept.
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
