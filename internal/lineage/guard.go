// Package lineage detects that the database went back in time: after a failover to a
// standby that lacked commits, a restore to a point in time, or a restored storage
// snapshot. Committed rows are lost then, and a payment without a send in the rows may
// have been sent.
//
// A Guard belongs to one service. It compares the server with the one that was accepted,
// and its own memory, which is kept outside the database, with the rows. If they differ it
// opens a suspension in the database, which applies to every service.
// docs/decisions/0002 explains which facts it compares, and why.
package lineage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Store is the part of the ledger that a Guard uses.
type Store interface {
	// CheckServer reads the state of the server and the latest suspensions.
	CheckServer(ctx context.Context) (outbox.Server, error)
	// Recall compares the memory with the database, and reads which other components have
	// compared or may compare theirs.
	Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error)
	// Suspend opens a suspension, if none is open for this start of the server. If one is open because data went
	// back, it counts as opened now where lookedAt is later than it; a call with its OpenedAt completes what the
	// first one could not wait for.
	Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error
}

// Config is the configuration of a Guard.
type Config struct {
	Name string // the service's worker id
	// File keeps the memory for the next start of the service. Empty: it is not kept.
	File string
}

// Guard compares the server with its memory for one service. It is safe for concurrent use,
// but only one goroutine may call Look at a time.
type Guard struct {
	config Config
	store  Store
	log    *slog.Logger

	mu          sync.Mutex
	memory      outbox.Remembered  // what was confirmed as committed
	fresh       bool               // memory is of this process, or was read from the file
	own         outbox.Remembered  // heartbeats and the last claim of this process
	server      outbox.Server      // the last server that was checked, on which claims are allowed
	looked      clock.Moment       // when it was checked
	passed      bool               // nothing was missing on it since its start
	open        *outbox.Suspension // nil: none is open
	reportedOn  outbox.Server      // the start of the server on which this guard opened it or took it over
	watch       watch              // since it is open
	met         outbox.Server      // the last start of the server that was seen
	metAt       clock.Moment       // when that start was first seen
	beatenAt    clock.Moment       // when a heartbeat was last confirmed
	wait        string             // why nothing is claimed although no suspension is open; empty: claims are allowed
	change      uint64             // counts the changes of memory
	saved       time.Time          // when what the file has was the memory, or what could not be saved
	savedChange uint64             // up to which change
	saving      chan struct{}      // closed when the save under way has ended; nil: none is
	stuck       bool               // the save under way takes too long
	saveFailed  bool               // the last save failed, or takes too long
	unsavedFrom time.Time          // since when; zero: it did not
	flush       func(*os.File) error
}

// New returns a Guard with the memory from its file. If the file is damaged, the error
// explains what to do: with a wrong assumption about the server a payment could be made
// twice.
func New(config Config, store Store, log *slog.Logger) (*Guard, error) {
	g := &Guard{config: config, store: store, log: log, wait: "the server was not checked yet", flush: (*os.File).Sync}
	if config.File == "" {
		return g, nil
	}
	memory, found, err := load(config.File)
	if err != nil {
		return nil, err
	}
	g.memory, g.fresh = memory, found
	return g, writable(config.File)
}

// forgottenAfter is less than the time without a heartbeat after which reapers remove its
// row.
const forgottenAfter = 30 * time.Minute

// Look compares the server with the memory, and opens a suspension if rows may be missing.
// Until it has been called since the last start of the server, nothing may be claimed. An
// error means that the server could not be read, or that it may lose committed transactions
// (outbox.ErrUnsafeServer).
func (g *Guard) Look(ctx context.Context) error {
	server, err := g.store.CheckServer(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	memory, remembers := g.memory, g.fresh
	compared := g.passed && g.server.Same(server)
	if !g.met.Same(server) {
		g.met, g.metAt = server, clock.Now()
	}
	met, here := g.metAt.Age(), g.server.Same(server)
	// Compared by id too: the server's clock may be behind the one of SeenAt.
	accepted := g.open != nil && server.HasAccepted(g.open.ID)
	ended := memory.Accepted
	vanished := g.open != nil && !server.Has(g.open.ID) && !acceptedSince(server, g.open.OpenedAt, memory)
	if accepted || remembers && acceptedSince(server, memory.SeenAt, memory) {
		// An operator has compared since then, so the memory proves nothing any more.
		memory, g.own, remembers = outbox.Remembered{}, outbox.Remembered{}, false
	}
	if g.own.Name != "" {
		memory.Name, memory.Beats = g.own.Name, g.own.Beats
	}
	if !g.own.OutboxID.IsZero() {
		memory.OutboxID, memory.AttemptNo, memory.ClaimedAt = g.own.OutboxID, g.own.AttemptNo, g.own.ClaimedAt
	}
	g.mu.Unlock()

	open, suspended := server.OpenSuspension()
	recall, err := g.store.Recall(ctx, g.config.Name, memory)
	if err != nil {
		return err
	}
	compared = compared || accepted && here || acceptedHere(server)
	finding := examine(server, memory, recall,
		check{vanished: vanished, compared: compared, remembers: remembers, met: met})
	g.watchServer(server, open, suspended)
	reported, looked := suspended && g.reported(open, server), server.Now
	if suspended && open.ServerStartedAt.Equal(server.StartedAt) && open.Timeline == server.Timeline &&
		!slices.Contains(ended, open.ID) {
		looked = open.OpenedAt // nothing that this guard misses was there since: it never saw the end of the suspension
	}
	if cause, detail := finding.suspends(open, suspended); cause != "" && !reported {
		if err := g.store.Suspend(ctx, g.config.Name, cause, detail, looked); err != nil {
			g.waitBecause(detail)
			return err
		}
		g.setReported(server)
		if server, err = g.store.CheckServer(ctx); err != nil {
			g.waitBecause(detail)
			return err
		}
		open, suspended = server.OpenSuspension()
		if finding.cause != "" && suspended { // the database may know a better cause
			g.log.ErrorContext(ctx, "lanes suspended: the database may have lost committed rows", "cause", open.Cause,
				"detail", open.Detail, "system_identifier", server.SystemIdentifier, "timeline", server.Timeline)
		}
	}
	g.adopt(ctx, server, open, suspended, finding)
	if reported {
		return g.repeat(ctx, server, open)
	}
	return nil
}

// reported reports whether this guard has already opened the open suspension on this start of
// the server, or has taken it over.
func (g *Guard) reported(open outbox.Suspension, server outbox.Server) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open != nil && g.open.ID == open.ID && g.reportedOn.Same(server)
}

func (g *Guard) setReported(server outbox.Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reportedOn = server
}

func (g *Guard) waitBecause(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait = why
}

// adopt sets the state of the guard by the result of a comparison.
func (g *Guard) adopt(
	ctx context.Context, server outbox.Server, open outbox.Suspension, suspended bool, finding finding,
) {
	if change, age := g.take(ctx, server, open, suspended, finding); change > 0 {
		g.keep(ctx, change, age)
	}
}

// take is adopt up to the file. It returns the change that the file has to have, 0 if none, and how old the memory in
// the file may be.
func (g *Guard) take(
	ctx context.Context, server outbox.Server, open outbox.Suspension, suspended bool, finding finding,
) (change uint64, age time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.open
	g.server, g.looked, g.wait, g.open, g.passed = server, clock.Now(), "", nil, false
	switch {
	case suspended:
		g.open = &open
		if was == nil || was.ID != open.ID {
			g.log.WarnContext(ctx, "a suspension is open",
				"cause", open.Cause, "detail", open.Detail, "known_until", open.KnownUntil)
		}
		return 0, 0 // the memory is kept until an operator has accepted the server
	case finding.cause != "":
		g.wait = finding.detail
		return 0, 0
	case finding.wait != "":
		g.wait = finding.wait
		return 0, 0
	}
	if was != nil {
		g.log.InfoContext(ctx, "an operator has accepted the server: lanes continue",
			"system_identifier", server.SystemIdentifier, "timeline", server.Timeline)
	}
	g.passed = true
	age = g.remember(server)
	return g.change, age
}

// acceptedSince reports whether an operator has compared and accepted the server after a
// time, or the cell was created after it. It ignores acceptances that were known before and
// those in the future: a clock that was ahead has dated them.
func acceptedSince(server outbox.Server, at time.Time, known outbox.Remembered) bool {
	since := func(accepted time.Time) bool { return accepted.After(at) && !accepted.After(server.Now) }
	if since(server.AcceptedAt) && !server.AcceptedAt.Equal(known.AcceptedAt) {
		return true
	}
	return slices.ContainsFunc(server.Suspensions, func(s outbox.Suspension) bool {
		return since(s.AcceptedAt) && !slices.Contains(known.Accepted, s.ID)
	})
}

// acceptedHere reports whether an operator has accepted a suspension of this start of the
// server. It does not compare times: the clock of an earlier start may have been ahead.
func acceptedHere(server outbox.Server) bool {
	return slices.ContainsFunc(server.Suspensions, func(s outbox.Suspension) bool {
		return !s.Open() && s.ServerStartedAt.Equal(server.StartedAt) && s.Timeline == server.Timeline
	})
}

// Looked reports whether this guard has compared a server. Before that a service sends no heartbeat, not even its last
// one: it could hide a lost one, and would look like that of a relayer that has worked.
func (g *Guard) Looked() bool { return !g.Server().StartedAt.IsZero() }

// Beat completes the heartbeat that the service sends now. The database refuses a heartbeat
// on a start of the server that was not checked, so that it can't hide a missing one.
func (g *Guard) Beat(beat outbox.Heartbeat) outbox.Heartbeat {
	g.mu.Lock()
	defer g.mu.Unlock()
	beat.Looked, beat.Vouched = g.server.StartedAt, g.wait == "" && g.open == nil
	return beat
}

// Beaten records a confirmed heartbeat. Beats is the count in its row, including those of
// earlier processes of the same name. If it is lower than before, the memory keeps the
// expected count, so that the next Look finds heartbeats missing; unless the last heartbeat
// is so old that a reaper may have removed the row.
func (g *Guard) Beaten(beats int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.beatenAt.Age() < forgottenAfter {
		g.watch.beat(g.config.Name, beats)
		beats = max(beats, g.own.Beats+1)
	}
	g.own.Name, g.own.Beats, g.beatenAt = g.config.Name, beats, clock.Now()
}

// Server returns the server that was last checked, for which claims are made.
func (g *Guard) Server() outbox.Server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.server
}

// Allows reports whether a lane may be claimed, and whether it continues although a
// suspension is open: its rail de-duplicates by key, and its key window covers the time in
// which sends may be lost, and those of earlier restores whose keys the rail may still
// remember. The rules are those of the profiles under which the sends that may be lost were
// made; write is the longest time that the bytes of a send take.
func (g *Guard) Allows(policy payment.Policy, rules []payment.KeyRules, write time.Duration) (claimed, goesOn bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.wait != "":
		return false, false
	case g.open == nil:
		return true, false
	default:
		// The oldest payment of which a send may be lost.
		oldest := payment.Claim{
			Action: payment.ActionSend, ClaimedAt: g.server.Now.Add(g.looked.Age()), SentUnder: rules,
		}
		goesOn = policy.MayLeave(g.server.Weigh(oldest), 0, write)
		return goesOn, goesOn
	}
}

// Weigh adds to a claim the sends that, by the suspensions, may have been made without a row.
func (g *Guard) Weigh(claim payment.Claim) payment.Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.server.Weigh(claim)
}

// Suspended reports whether no instruction may be ended: a suspension is open, or the server
// was not compared with the memory yet.
func (g *Guard) Suspended() bool { return g.Reason() != "" }

// Waiting reports whether Look should be called again soon, because the guard waits for other
// components.
func (g *Guard) Waiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait != ""
}

// Reason returns why lanes are suspended, and what ends that; empty: they are not.
func (g *Guard) Reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open != nil {
		since := g.open.OpenedAt.UTC().Format(time.RFC3339)
		return fmt.Sprintf("lanes are suspended since %s (%s): %s. Compare with the rails what was sent after %s, "+
			"then: railhead timeline accept --since %s --reason ...",
			since, g.open.Cause, g.open.Detail, moment(g.open.KnownUntil), since)
	}
	return g.wait
}

func moment(at time.Time) string {
	if at.Unix() <= 0 {
		return "the beginning (the data does not say how far it went back)"
	}
	return at.UTC().Format(time.RFC3339)
}

// errBadMemory is the error of a file that can't be read or written.
var errBadMemory = errors.New("the remembered server can't be read")

// ErrBadMemory reports whether a start failed because of the memory's file.
func ErrBadMemory(err error) bool { return errors.Is(err, errBadMemory) }
