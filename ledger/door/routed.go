package door

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/internal/route"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Cell is one of the cells of a Routed: the name of its connection setting, and how to connect.
type Cell struct {
	Setting string
	ledger.Config
}

// Routed is a Door for each of several cells, over which participants are spread. A cell that is
// away stops its own participants alone. Each cell checks the token of a call itself: one that is in
// force in one cell alone serves the participants of that cell. It is safe for concurrent use.
type Routed struct {
	cells  []*served
	router *route.Router[*served]
}

// OpenRouted connects lazily to several cells. The map of the first one is read first.
func OpenRouted(ctx context.Context, cells []Cell) (*Routed, error) {
	if len(cells) == 0 {
		return nil, errors.New("a routed door needs a cell")
	}
	r := &Routed{}
	for _, each := range cells {
		d, err := Open(ctx, each.Config)
		if err != nil {
			r.Close()
			return nil, fmt.Errorf("setting %s: %w", each.Setting, err)
		}
		d.db.Prefer(route.Statements)
		r.cells = append(r.cells, &served{Door: d, setting: each.Setting, schema: each.Config.Cell,
			calls: make(chan struct{}, route.CallsMost), router: func() *route.Router[*served] { return r.router },
			home: func() *served { return r.cells[0] }})
	}
	r.router = route.New(r.cells[0], r.cells[0].setting, r.cells[0].schema, r.Settings(),
		func(setting, schema string) (*served, error) {
			cell, err := r.of(setting)
			if err == nil && cell.schema != schema { // another cell of the same server, which has the setting too
				return nil, fmt.Errorf("%w: setting %s with schema %s (it is served with %s)", outbox.ErrNoSetting, setting, schema,
					cell.schema)
			}
			return cell, err
		})
	for _, cell := range r.cells {
		r.router.Place(cell, cell.setting, cell.schema)
		r.router.Hold(cell.db, cell.setting, cell.schema)
	}
	return r, nil
}

// Close ends every connection.
func (r *Routed) Close() {
	for _, each := range r.cells {
		each.Close()
	}
}

// Settings are the names of the cells' settings, in the order in which they were given.
func (r *Routed) Settings() []string {
	all := make([]string, 0, len(r.cells))
	for _, each := range r.cells {
		all = append(all, each.setting)
	}
	return all
}

// of returns the cell of a setting. A setting that leads to a schema of another cell is noticed by
// that cell's own map: see served.read.
func (r *Routed) of(setting string) (*served, error) {
	n := slices.IndexFunc(r.cells, func(c *served) bool { return c.setting == setting })
	if n < 0 {
		return nil, fmt.Errorf("%w: setting %s", outbox.ErrNoSetting, setting)
	}
	return r.cells[n], nil
}

// Token is Door.Token in any cell, one in which the token is in force if there is such a cell. If none
// has the token and one is away, the error is that of the cell. A cell counts as away that does not answer
// within tokenAfter of another one, and for tokenSkip after that for tokens that others do not have.
func (r *Routed) Token(ctx context.Context, digest [32]byte) (outbox.Token, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	found, failed := outbox.Token{}, error(nil)
	err := fmt.Errorf("%w: no cell has it", outbox.ErrToken)
	answered := false
	for a := range ask(waiting, r.cells, func(ctx context.Context, c *served) (outbox.Token, error) {
		if time.Now().UnixNano() < c.skip.Load() {
			return outbox.Token{}, fmt.Errorf("%w: setting %s: it has just left a token unanswered", route.ErrAway, c.setting)
		}
		return c.Token(ctx, digest)
	}) {
		switch {
		case a.Err == nil && a.Value.InForce:
			return a.Value, nil
		case a.Err == nil:
			found, err = a.Value, nil
		case !errors.Is(a.Err, outbox.ErrToken):
			failed = errors.Join(failed, a.Err)
		}
		switch {
		case answered && ctx.Err() == nil && errors.Is(a.Err, context.Canceled):
			a.Cell.skip.Store(time.Now().Add(tokenSkip).UnixNano())
		case !answered && (a.Err == nil || errors.Is(a.Err, outbox.ErrToken)):
			answered = true
			defer time.AfterFunc(tokenAfter, cancel).Stop()
		}
	}
	if failed != nil {
		return outbox.Token{}, failed
	}
	return found, err
}

// Enqueue is Door.Enqueue in the participant's cell.
func (r *Routed) Enqueue(
	ctx context.Context, who outbox.Bearer, in outbox.Entrusted,
) (receipt payment.Receipt, err error) {
	err = r.router.Do(ctx, in.ParticipantID, func(cell *served) error {
		if err := cell.present(); err != nil {
			return err
		}
		receipt, err = cell.Enqueue(ctx, who, in)
		return err
	})
	return receipt, err
}

// EnqueueBatch is Door.EnqueueBatch in a transaction of each cell. The instructions of a cell that is
// away have a fault of outbox.ErrOtherCell, those of one whose commit is not known one of
// outbox.ErrCommitUnknown, and the others are stored. After outbox.ErrCommitUnknown some may be stored.
func (r *Routed) EnqueueBatch(
	ctx context.Context, who outbox.Bearer, all []outbox.Entrusted,
) ([]outbox.ReceiptOrFault, error) {
	return r.router.Batch(ctx, len(all), func(n int) string { return all[n].ParticipantID },
		func(ctx context.Context, cell *served, items []int) ([]outbox.ReceiptOrFault, error) {
			if err := cell.present(); err != nil {
				return nil, err
			}
			some := make([]outbox.Entrusted, len(items))
			for n, item := range items {
				some[n] = all[item]
			}
			return cell.EnqueueBatch(ctx, who, some)
		})
}

// Events is Door.Events of the one cell that every subscription names.
func (r *Routed) Events(
	ctx context.Context, all []outbox.Subscription, from outbox.Place, since time.Time, most int,
) (outbox.Heard, error) {
	if len(all) == 0 {
		return outbox.Heard{Place: from}, nil
	}
	cell, err := r.feed(all[0])
	if err != nil {
		return outbox.Heard{}, err
	}
	return cell.Events(ctx, all, from, since, most)
}

// Newest is Door.Newest of the cell that the subscription names.
func (r *Routed) Newest(ctx context.Context, who outbox.Subscription) (outbox.Place, error) {
	cell, err := r.feed(who)
	if err != nil {
		return outbox.Place{}, err
	}
	return cell.Newest(ctx, who)
}

// feed returns the cell of a subscription, unless it is away.
func (r *Routed) feed(who outbox.Subscription) (*served, error) {
	cell, err := r.of(who.Cell)
	if err == nil {
		err = cell.present()
	}
	return cell, err
}

// NoteUses is Door.NoteUses in every cell that is reached, because a process does not know for which
// cell a token was used. The error is that of all cells if none was reached within noteWithin: then the same
// uses may be noted again.
func (r *Routed) NoteUses(ctx context.Context, tokens [][32]byte, uses, refused []int64) error {
	ctx, cancel := context.WithTimeout(ctx, noteWithin)
	defer cancel()
	var failed error
	noted := false
	for a := range ask(ctx, r.cells, func(ctx context.Context, c *served) (struct{}, error) {
		return struct{}{}, c.NoteUses(ctx, tokens, uses, refused)
	}) {
		noted, failed = noted || a.Err == nil, errors.Join(failed, a.Err)
	}
	if noted {
		return nil
	}
	return failed
}

// CheckKeys is Door.CheckKeys in every cell. It also returns ErrOtherSetting if a setting leads to
// another cell, ErrOtherDirectory if two cells are of different ones, and ErrNoDirectory if a cell is in none and
// others are in one. The error names the cells, those that were not reached included.
func (r *Routed) CheckKeys(ctx context.Context) error {
	var failed error
	for a := range ask(ctx, r.cells, func(ctx context.Context, c *served) (struct{}, error) {
		err := c.CheckKeys(ctx)
		if err == nil {
			err = c.read(ctx)
		}
		return struct{}{}, err
	}) {
		if a.Err != nil {
			failed = errors.Join(failed, fmt.Errorf("setting %s: %w", a.Cell.setting, a.Err))
		}
	}
	return failed
}

// Heartbeat is Door.Heartbeat in the cell of a setting. It is an error, too, if the setting leads to
// another cell, or to one of another directory or of none: then it is recorded there all the same.
func (r *Routed) Heartbeat(ctx context.Context, setting string, beat outbox.Heartbeat) (outbox.Pulse, error) {
	cell, err := r.of(setting)
	if err != nil {
		return outbox.Pulse{}, err
	}
	pulse, err := cell.Heartbeat(ctx, beat)
	if err == nil {
		err = cell.read(ctx) // each time: an address may lead elsewhere since
	}
	return pulse, err
}

// SetAway sets whether the cell of a setting is unavailable, as the caller's heartbeats find it. While
// it is, every call that needs it fails at once.
func (r *Routed) SetAway(setting string, away bool) {
	cell, err := r.of(setting)
	if err != nil {
		return
	}
	if away {
		cell.proven.Store(false)
	}
	cell.away.Store(away)
}
