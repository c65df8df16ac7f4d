package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

// ErrOtherDirectory is the error if a cell is of another directory than the cell that a process has read first. Its
// map is not used, and it is not called.
var ErrOtherDirectory = errors.New("a cell is of another directory")

// ErrOtherSetting is the error if a connection setting leads to another cell than the one that has this setting.
// Its map is not used, and it is not called.
var ErrOtherSetting = errors.New("a setting leads to another cell")

// ErrNoDirectory is the error if a cell is in no directory and others are: it may have been restored to a time before
// it joined, or its setting leads to a new installation. What it does not have is not called unknown.
var ErrNoDirectory = errors.New("a cell is in no directory")

// errClosed: a cell was opened a second time while it was not known that it is home.
var errClosed = errors.New("the cell is known by another connection: repeat the call")

// learner is what a router knows of one cell.
type learner struct {
	at      place           // as which it was opened; no setting: it is not known
	own     *outbox.CellMap // the last map that was read there; nil: none, or the last one was not taken
	reading int             // the number of the reading that own is of
	refused error           // why the map that was read last was not taken
	failed  error           // of the last reading by read
	tried   time.Time       // when that ended
	shared  shared          // of readings
	closed  bool            // home is known by another connection
}

// learner returns what is known of a cell. The mutex is held.
func (r *Router[C]) learner(cell C) *learner {
	l := r.learners[cell]
	if l == nil {
		l = &learner{shared: shared{pause: pause}}
		r.learners[cell] = l
	}
	return l
}

// Read reads the map of a cell, and takes it in place of the one that the cell gave before, unless a reading that
// began later was faster. The router goes by what any of these maps knows best. The error is ErrOtherDirectory
// if the map is of another directory than the first one that was taken, and ErrOtherSetting if it names another
// setting or schema for the cell, or its own for another one; where no bucket was given to either, it does not say
// it.
func (r *Router[C]) Read(
	ctx context.Context, from C, get func(context.Context) (*outbox.CellMap, error),
) (*outbox.CellMap, error) {
	number := r.begin()
	m, err := get(ctx)
	if err != nil {
		return nil, err
	}
	return r.take(from, number, m)
}

// begin returns the number of a reading that begins.
func (r *Router[C]) begin() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readings++
	return r.readings
}

// take takes what the reading of a cell's map with a number has given, as Read.
func (r *Router[C]) take(from C, number int, m *outbox.CellMap) (*outbox.CellMap, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.learner(from)
	if number < l.reading || l.closed {
		return m, l.refused
	}
	l.reading, l.failed = number, nil
	if l.refused = errors.Join(l.is(m), r.apart(m)); l.refused != nil {
		m = nil
	} else {
		if id := m.Directory(); id != "" && !r.Knows() {
			r.directory.Store(&id)
		}
		if any(from) == any(r.home) {
			r.place(m)
		}
	}
	l.own = m
	known := &outbox.CellMap{}
	for _, each := range r.learners {
		if each.own != nil {
			known.Merge(each.own)
		}
	}
	r.known, r.isSure = known, false
	return m, l.refused
}

// is returns ErrOtherSetting if a map is not that of the cell of this setting.
func (l *learner) is(m *outbox.CellMap) error {
	if l.at.setting == "" {
		return nil
	}
	for _, of := range m {
		if of.Version > 0 && of.Here != (place{of.Setting, of.Schema} == l.at) {
			return fmt.Errorf("%w: the map there says that cell %s, with setting %s and schema %s, is %s one, for setting %s "+
				"and schema %s", ErrOtherSetting, of.Cell, of.Setting, of.Schema,
				map[bool]string{true: "this", false: "another"}[of.Here], l.at.setting, l.at.schema)
		}
	}
	return nil
}

// apart returns ErrOtherDirectory if a map is of another directory than the one that was taken first. The mutex is
// held.
func (r *Router[C]) apart(m *outbox.CellMap) error {
	its, first := m.Directory(), r.directory.Load()
	if its != "" && first != nil && its != *first {
		return fmt.Errorf("%w: its map is of directory %s, and the first one was of directory %s", ErrOtherDirectory, its,
			*first)
	}
	return nil
}

// place notes by the map of home where home is. A cell that was opened as that while it was not known is closed: it
// would be asked for nothing any more. The mutex is held.
func (r *Router[C]) place(m *outbox.CellMap) {
	n := slices.IndexFunc(m[:], func(of outbox.BucketCell) bool { return of.Here })
	if n < 0 {
		return
	}
	r.homeAt = place{m[n].Setting, m[n].Schema}
	stray, opened := r.opened[r.homeAt]
	if delete(r.opened, r.homeAt); opened && any(stray) != any(r.home) {
		r.learners[stray] = &learner{closed: true} // a reading may be under way
		go stray.Close()                           // waits for its calls
	}
}

// read reads the map of a cell, within readWithin.
func (r *Router[C]) read(ctx context.Context, from C) error {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	_, err := r.Read(ctx, from, from.CellMap)
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.learner(from)
	l.failed, l.tried = wrong(err), time.Now()
	return err
}

// learn reads the map of a cell in a reading that calls share. It is an error if the router does not know every
// bucket then.
func (r *Router[C]) learn(ctx context.Context, from C) error {
	r.mu.Lock()
	l := r.learner(from)
	r.mu.Unlock()
	if err := l.shared.wait(ctx, func(ctx context.Context) error { return r.read(ctx, from) }); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.known.Whole() {
		return outbox.ErrNoMap
	}
	return nil
}

// prove makes sure that the map of a cell was read before the cell is called: its connection setting may lead to
// another cell, also of another directory that has the same names, settings and versions. A map that can't be read
// is not tried again for awayEvery.
func (r *Router[C]) prove(ctx context.Context, cell C) error {
	r.mu.Lock()
	l := r.learner(cell)
	own, failed := l.own, l.failed
	soon := time.Since(l.tried) < awayEvery
	r.mu.Unlock()
	switch {
	case own != nil && (own.Whole() || own.Directory() != ""): // without a map it may have joined a directory since
		return nil
	case soon && failed != nil:
		return failed
	}
	if err := l.shared.join(ctx, func(ctx context.Context) error { return r.read(ctx, cell) }); err != nil {
		return wrong(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.learner(cell).closed {
		return errClosed
	}
	return nil
}

// wrong returns the refusal of an instruction for a cell that a setting should not lead to, or else the error.
func wrong(err error) error {
	if !errors.Is(err, ErrOtherDirectory) && !errors.Is(err, ErrOtherSetting) {
		return err
	}
	fault := refusal("a connection setting leads to a cell that is not the participant's")
	fault.Detail = err.Error()
	return &wrongCell{fault, err}
}

// wrongCell is the refusal of a cell that is not called at all.
type wrongCell struct {
	*outbox.Fault
	why error // ErrOtherDirectory or ErrOtherSetting
}

func (w *wrongCell) Unwrap() []error { return []error{w.Fault, w.why} }

// look reads the maps of the other cells because one is away, which may have given its buckets
// before, until a pause after one has answered; not more often than awayEvery.
func (r *Router[C]) look(ctx context.Context, away C) {
	r.mu.Lock()
	if time.Since(r.looked) < awayEvery {
		r.mu.Unlock()
		return
	}
	r.looked = time.Now()
	r.mu.Unlock()
	others := slices.DeleteFunc(r.all(), func(cell C) bool { return any(cell) == any(away) })
	answers := make(chan error, len(others))
	for _, cell := range others {
		go func() { answers <- r.learn(context.WithoutCancel(ctx), cell) }() // ends after readWithin
	}
	var soon <-chan time.Time // the others may know better
	for range others {
		select {
		case err := <-answers:
			if err == nil && soon == nil {
				soon = time.After(pause)
			}
		case <-soon:
			return
		case <-ctx.Done():
			return
		}
	}
}

// renew reads the maps of all cells at once. What a cell knew before a failover or a restore is forgotten,
// unless its map can't be read: then its last one counts, because the map of another cell must not decide
// alone what the two contradict each other about. The error is that of cells whose map could not be read.
func (r *Router[C]) renew(ctx context.Context) error {
	var seen []C
	var failed error
	for {
		// A map that was just read may name a cell that was not known.
		next := slices.DeleteFunc(r.all(), func(cell C) bool {
			return slices.ContainsFunc(seen, func(c C) bool { return any(c) == any(cell) })
		})
		if len(next) == 0 {
			return failed
		}
		seen = append(seen, next...)
		failed = errors.Join(failed, r.readAll(ctx, next))
	}
}

// Joined returns ErrNoDirectory if the map that was last read of a cell is none, and another cell has one.
func (r *Router[C]) Joined(cell C) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.learner(cell)
	if !r.Knows() || l.own == nil || l.own.Directory() != "" {
		return nil
	}
	setting := l.at.setting
	if setting == "" {
		setting = "of the first cell"
	}
	return fmt.Errorf("%w: setting %s", ErrNoDirectory, setting)
}

func (r *Router[C]) readAll(ctx context.Context, cells []C) error {
	errs := make([]error, len(cells))
	var reading sync.WaitGroup
	for n, cell := range cells {
		reading.Go(func() { errs[n] = r.read(ctx, cell) })
	}
	reading.Wait()
	return errors.Join(errs...)
}

// doubt renews the map because a cell refused what it should take by it; not more often than awayEvery. Nothing waits
// for it: a cell that hangs would hold up others.
func (r *Router[C]) doubt(ctx context.Context) { go r.dispute(context.WithoutCancel(ctx)) }

// dispute is doubt because maps contradict each other, and waits until they are read.
func (r *Router[C]) dispute(ctx context.Context) {
	r.mu.Lock()
	soon := time.Since(r.renewed) < awayEvery
	if !soon {
		r.renewed = time.Now()
	}
	r.mu.Unlock()
	if !soon {
		_ = r.reread(ctx) // the next try says what is wrong
	}
}

// Fresh reads the maps of all cells, for a caller that is about to say what no cell has. The error is that of
// cells whose map could not be read, or ErrNoDirectory. Every call waits for a reading that has begun after it, and
// one is under way at a time, which all calls since the one before share.
func (r *Router[C]) Fresh(ctx context.Context) error {
	if err := r.reread(ctx); err != nil {
		return err
	}
	for _, cell := range r.all() {
		if err := r.Joined(cell); err != nil {
			return err
		}
	}
	return nil
}

// reread is Fresh, also where a cell is in no directory.
func (r *Router[C]) reread(ctx context.Context) error { return r.fresh.wait(ctx, r.renew) }

// refusal is the fault of an instruction for which the router finds no cell.
func refusal(message string) *outbox.Fault {
	return &outbox.Fault{
		SQLState: outbox.StateOtherCell, Message: message, Field: "participant_id", Rule: "CELL",
		Hint: "Nothing was stored. Repeat the call with the same key and content.",
	}
}
