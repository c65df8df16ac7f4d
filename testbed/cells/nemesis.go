package cells

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// act is something that an operator does, or that breaks.
type act struct {
	name   string
	weight int // how often it is drawn
	do     func(w *world, ctx context.Context, draws *rand.Rand) error
}

// operations are what operators do, one after the other. Each has to happen once at least.
var operations = []act{
	{"cell assign", 3, (*world).assign},
	{"cell move", 5, (*world).move},
	{"cell sync", 1, func(w *world, ctx context.Context, draws *rand.Rand) error {
		w.insist(ctx, draws, nil, "cell", "sync")
		return nil
	}},
	{"dead-letter replay", 2, (*world).replay},
}

// breakages are what breaks meanwhile. Each has to happen once at least.
var breakages = []act{
	{"kill of a PostgreSQL", 2, (*world).killCluster},
	{"kill of a relayer", 3, kill("relayer")},
	{"kill of a reaper", 1, kill("reaper")},
	{"kill of a receiver of callbacks", 1, kill("callbacks")},
	{"kill of an API", 2, (*world).killAPI},
	{"cut", 3, (*world).cut},
}

// killedCommand is what else the nemesis does; the others are what callers have to meet.
const killedCommand = "kill of an operator's command"

var others = []string{killedCommand, assignment, moving, callOverHTTP, "refusal of an old map", "unknown outcome",
	"repetition of an old key", lateAnswer, "refusal of another amount", "refusal of a second key"}

// lateAnswer is a repetition of a key that was used before its participant moved.
const lateAnswer = "repetition after a move"

// missing are the acts that never happened.
func (w *world) missing() (never []string) {
	names := slices.Clone(others)
	for _, one := range slices.Concat(operations, breakages) {
		names = append(names, one.name)
	}
	w.noting.Lock()
	defer w.noting.Unlock()
	return slices.DeleteFunc(names, func(name string) bool { return w.done[name] > 0 })
}

func (w *world) operateAll(ctx context.Context, draws *rand.Rand) error {
	return w.actAll(ctx, draws, operations, func() time.Duration { return 600 * time.Millisecond })
}

// breakAll breaks things ever more seldom when the time is over, so that what is missing can happen on a slow machine.
func (w *world) breakAll(ctx context.Context, draws *rand.Rand) error {
	begun := time.Now()
	return w.actAll(ctx, draws, breakages, func() time.Duration {
		return 5*time.Second + max(0, time.Since(begun)-w.Lasting)
	})
}

// soon is the longest wait before an act that was never done.
const soon = time.Second

// actAll does each act once, and then draws, until the time is over. It waits before each, most() at the most.
func (w *world) actAll(ctx context.Context, draws *rand.Rand, acts []act, most func() time.Duration) error {
	var all []act
	for _, one := range acts {
		all = append(all, slices.Repeat([]act{one}, one.weight)...)
	}
	for n := 0; ; n++ {
		one, wait := all[draws.IntN(len(all))], most()
		if n < len(acts) {
			one, wait = acts[n], min(soon, wait)
		}
		pause(ctx, time.Duration(draws.Int64N(int64(wait))))
		if ctx.Err() != nil {
			return nil
		}
		w.note("%s begins", one.name)
		if err := one.do(w, ctx, draws); err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		w.note("%s is over", one.name)
		w.count(one.name)
	}
}

// The bounds of an operator who repeats a command.
const (
	insistFor  = 20 * time.Second
	refusals   = 3 // a server that was just started may not be accepted yet
	killWithin = 500 * time.Millisecond
)

// insist repeats a command until it has done its work, or the state keeps refusing it. One of three is killed
// meanwhile, at some moment. The cell is the operator's own; nil: any.
func (w *world) insist(ctx context.Context, draws *rand.Rand, own *cell, args ...string) (code int) {
	refused := 0
	for end := time.Now().Add(insistFor); ; pause(ctx, between) {
		at, kill := own, time.Duration(0)
		if at == nil {
			at = w.cells[draws.IntN(len(w.cells))]
		}
		if draws.IntN(3) == 0 {
			kill = time.Duration(1 + draws.Int64N(int64(killWithin)))
		}
		_, code = w.operate(ctx, at, kill, args...)
		switch code {
		case 0, 7, 8: // done, done in part, done where it could be
			return code
		case 9:
			refused++
		case -1:
			if kill > 0 && ctx.Err() == nil {
				w.count(killedCommand)
			}
		}
		if refused == refusals || ctx.Err() != nil || time.Now().After(end) {
			return code
		}
	}
}

// comeWithin is when new participants come at the latest in buckets that are being assigned. After comeAtMost of
// them the buckets are left alone.
const (
	comeWithin = 3 * time.Second
	comeAtMost = 2
)

// assignment is an act of an operator that gave buckets.
const assignment = "assignment"

// assign gives free buckets to a cell, while new participants may come in these buckets.
func (w *world) assign(ctx context.Context, draws *rand.Rand) error {
	taken := make(map[int]bool)
	w.mu.Lock()
	for _, id := range w.known {
		taken[outbox.BucketOf(id)] = true
	}
	var free []int
	for len(free) == 0 {
		for range 1 + draws.IntN(6) {
			if bucket := draws.IntN(outbox.Buckets); !taken[bucket] {
				free = append(free, bucket)
			}
		}
	}
	if draws.IntN(2) == 0 {
		w.free, w.coming, w.comeFrom = free, comeAtMost, time.Now().Add(time.Duration(draws.Int64N(int64(comeWithin))))
	}
	w.mu.Unlock()
	// Another cell than the first that the bucket had.
	to := (free[0]*len(w.cells)/outbox.Buckets + 1 + draws.IntN(len(w.cells)-1)) % len(w.cells)
	if w.insist(ctx, draws, nil, "cell", "assign", w.cells[to].name, listed(free), "--reason", "the nemesis") == 0 {
		w.count(assignment)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.coming = 0
	return nil
}

// moving is an act of an operator by which a bucket has changed its cell.
const moving = "move"

// move moves buckets with payments to a cell, while their participants go on. One of six is cancelled after its
// first try.
func (w *world) move(ctx context.Context, draws *rand.Rand) error {
	w.mu.Lock()
	var used []int
	for range 1 + draws.IntN(3) {
		used = append(used, outbox.BucketOf(w.known[draws.IntN(len(w.known))]))
	}
	w.used = used
	w.mu.Unlock()
	command := []string{"cell", "move", w.cells[draws.IntN(len(w.cells))].name, listed(used), "--reason", "the nemesis"}
	if draws.IntN(6) == 0 {
		w.operate(ctx, w.cells[draws.IntN(len(w.cells))], time.Duration(1+draws.Int64N(int64(killWithin))), command...)
		command = append(command, "--cancel")
	}
	command = append(command, "--drain", "5s")
	begun := time.Now()
	code := w.insist(ctx, draws, nil, command...)
	changed := w.changed(ctx, used, begun)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = nil
	for _, bucket := range changed {
		w.hasMoved[bucket] = begun
	}
	switch {
	case code != 0:
		w.broken = append(w.broken, command)
	case len(changed) > 0:
		w.count(moving)
	}
	return nil
}

// changed returns which of the buckets have changed their cell since then, as far as a cell can say.
func (w *world) changed(ctx context.Context, some []int, since time.Time) (all []int) {
	for _, c := range w.cells {
		rows, err := c.admin.Query(ctx, `SELECT DISTINCT bucket FROM payment_cell_changes
			WHERE bucket = ANY($1) AND changed_at > $2`, some, since)
		if err != nil {
			continue
		}
		if buckets, err := pgx.CollectRows(rows, pgx.RowTo[int]); err == nil {
			all = append(all, buckets...)
		}
	}
	return all
}

func listed(buckets []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(buckets), " ", ","), "[]")
}

// replay sends dead letters of a cell again that the bank refused.
func (w *world) replay(ctx context.Context, draws *rand.Rand) error {
	c := w.cells[draws.IntN(len(w.cells))]
	ids, err := c.ids(ctx, payment.Failed)
	if err == nil && len(ids) > 0 {
		w.insist(ctx, draws, c, slices.Concat([]string{"dead-letter", "replay"}, ids, []string{"--reason", "once more"})...)
	}
	return nil // the cell may be away
}

// syncEvery is how often a timer compares the maps.
const syncEvery = time.Second

// syncAll does what a timer and the person on call do.
func (w *world) syncAll(ctx context.Context, draws *rand.Rand) error {
	for ; ctx.Err() == nil; pause(ctx, syncEvery) {
		w.sync(ctx, draws)
	}
	return nil
}

// sync compares the maps, and accepts servers: none has lost anything, since they are killed and never restored.
func (w *world) sync(ctx context.Context, draws *rand.Rand) (code int) {
	_, code = w.operate(ctx, w.cells[draws.IntN(len(w.cells))], 0, "cell", "sync")
	for _, c := range w.cells {
		var since string
		err := c.admin.QueryRow(ctx, `SELECT to_char(opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
			FROM payment_outbox_suspensions WHERE accepted_at IS NULL`).Scan(&since)
		if err == nil {
			w.count("timeline accept")
			w.operate(ctx, c, 0, "timeline", "accept", "--since", since, "--reason", "it was killed, and lost nothing")
		}
	}
	return code
}

func (w *world) killCluster(ctx context.Context, draws *rand.Rand) error {
	server := w.clusters[draws.IntN(len(w.clusters))]
	if err := server.Kill9(); err != nil {
		return err
	}
	pause(ctx, time.Duration(draws.Int64N(int64(1500*time.Millisecond))))
	return server.Restart(context.WithoutCancel(ctx))
}

func kill(kind string) func(w *world, ctx context.Context, draws *rand.Rand) error {
	return func(w *world, _ context.Context, draws *rand.Rand) error {
		s := w.cells[draws.IntN(len(w.cells))].services[kind]
		if err := s.kill(); err != nil {
			return err
		}
		return s.start()
	}
}

func (w *world) killAPI(_ context.Context, draws *rand.Rand) error {
	s := w.apis[draws.IntN(len(w.apis))]
	if err := s.kill(); err != nil {
		return err
	}
	return s.start()
}

// cut refuses every connection of a cell for a while, that of its own services too.
func (w *world) cut(ctx context.Context, draws *rand.Rand) error {
	c := w.cells[draws.IntN(len(w.cells))]
	c.wire.Cut()
	pause(ctx, 300*time.Millisecond+time.Duration(draws.Int64N(int64(1500*time.Millisecond))))
	return c.wire.Mend()
}
