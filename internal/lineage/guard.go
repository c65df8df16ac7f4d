// Package lineage notices that the database went back in time: a failover to a
// standby that lacked commits, a restore, a storage snapshot that was put back.
// Rows that were committed are gone then, and a payment that looks as if it had
// never been sent may have been.
//
// A Guard belongs to one service. It compares the server with what was accepted,
// and what it remembers from outside the database with what the rows say; where
// they differ it opens a suspension in the database, which binds every service.
// docs/decisions/0002 says which facts tell, and why.
package lineage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/clock"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// Store is what a Guard needs of the ledger.
type Store interface {
	// CheckServer reads the server's facts and the latest suspensions.
	CheckServer(ctx context.Context) (outbox.Server, error)
	// Recall asks for what is remembered, and who else vouches for the server.
	Recall(ctx context.Context, name string, memory outbox.Remembered) (outbox.Recall, error)
	// Suspend opens a suspension, if none is open for this start of the server.
	Suspend(ctx context.Context, name string, cause outbox.SuspensionCause, detail string, lookedAt time.Time) error
}

// Config says whose guard it is.
type Config struct {
	Name string // the service's worker id
	// File keeps the memory for the next start of the service. Empty: there is none.
	File string
}

// Guard is safe for use by many goroutines; Look is called by one at a time.
type Guard struct {
	config Config
	store  Store
	log    *slog.Logger

	mu         sync.Mutex
	memory     outbox.Remembered // what is known to be committed
	fresh      bool              // memory is of this process, or was read from the file
	own        outbox.Remembered // heartbeats and the last claim of this process
	server     outbox.Server     // that was looked at last, and may be claimed on
	looked     clock.Moment      // when that was
	passed     bool              // nothing was found missing on that server, in that start of it
	open       *outbox.Suspension
	reportedOn outbox.Server // the start of the server on which this guard has opened it, or taken it over
	met        outbox.Server // the start of the server that was looked at last
	metAt      clock.Moment  // and when it was first
	beatenAt   clock.Moment  // when a heartbeat was confirmed last
	wait       string        // why nothing is claimed although no suspension is open; empty: it is
	saved      time.Time
	savedClaim time.Time // when a claim was saved last
	saveFailed bool      // the last save failed
}

// New reads the memory from its file. One that is damaged is an error that says
// what to do: a guess about who the server was could pay twice.
func New(config Config, store Store, log *slog.Logger) (*Guard, error) {
	g := &Guard{config: config, store: store, log: log, wait: "the server was not looked at yet"}
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

// forgottenAfter is less than the silence after which reapers remove a heartbeat.
const forgottenAfter = 30 * time.Minute

// Look compares the server with the memory, and opens a suspension where rows may
// be missing. Until it has been called on the present start of the server, nothing
// may be claimed. An error means that the server could not be asked, or may not be
// trusted with money (outbox.ErrUnsafeServer).
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
	// By name as well: the server's clock may be behind the one of SeenAt.
	accepted := g.open != nil && server.HasAccepted(g.open.ID)
	vanished := g.open != nil && !server.Has(g.open.ID) && !acceptedSince(server, g.open.OpenedAt, memory)
	if accepted || remembers && acceptedSince(server, memory.SeenAt, memory) {
		// An operator has compared since: it proves nothing any more.
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
	finding := examine(server, memory, recall, check{vanished: vanished, compared: compared, remembers: remembers, met: met})
	if cause, detail := finding.suspends(open, suspended); cause != "" && !(suspended && g.reported(open, server)) {
		if err := g.store.Suspend(ctx, g.config.Name, cause, detail, server.Now); err != nil {
			g.waitBecause(detail)
			return err
		}
		g.setReported(server)
		if finding.cause != "" {
			g.log.ErrorContext(ctx, "lanes suspended: the database may have forgotten what was committed", "cause", cause, "detail", detail,
				"system_identifier", server.SystemIdentifier, "timeline", server.Timeline)
		}
		if server, err = g.store.CheckServer(ctx); err != nil {
			g.waitBecause(detail)
			return err
		}
		open, suspended = server.OpenSuspension()
	}
	g.adopt(ctx, server, open, suspended, finding)
	return nil
}

// reported reports whether this guard has opened the suspension that is open on this start of
// the server, or has taken it over: what it found is said already.
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

// adopt takes over what a look has found.
func (g *Guard) adopt(ctx context.Context, server outbox.Server, open outbox.Suspension, suspended bool, finding finding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.open
	g.server, g.looked, g.wait, g.open, g.passed = server, clock.Now(), "", nil, false
	switch {
	case suspended:
		g.open = &open
		if was == nil {
			g.log.WarnContext(ctx, "a suspension is open", "cause", open.Cause, "detail", open.Detail, "known_until", open.KnownUntil)
		}
		return // what is remembered is compared until an operator has looked
	case finding.cause != "":
		g.wait = finding.detail
		return
	case finding.wait != "":
		g.wait = finding.wait
		return
	}
	if was != nil {
		g.log.InfoContext(ctx, "an operator has accepted the server: lanes go on", "system_identifier", server.SystemIdentifier, "timeline", server.Timeline)
	}
	g.passed = true
	g.remember(ctx, server)
}

// acceptedSince reports whether an operator has compared and accepted the server
// after a moment, or the cell was made after it. An acceptance that was known before, or
// whose time is yet to come, may be of before it: a clock that was ahead has dated it.
func acceptedSince(server outbox.Server, at time.Time, known outbox.Remembered) bool {
	since := func(accepted time.Time) bool { return accepted.After(at) && !accepted.After(server.Now) }
	if since(server.AcceptedAt) && !server.AcceptedAt.Equal(known.AcceptedAt) {
		return true
	}
	return slices.ContainsFunc(server.Suspensions, func(s outbox.Suspension) bool {
		return since(s.AcceptedAt) && !slices.Contains(known.Accepted, s.ID)
	})
}

// acceptedHere reports whether an operator has accepted what was suspended on this start of
// the server. The times of acceptances do not tell: an earlier start's clock may have been ahead.
func acceptedHere(server outbox.Server) bool {
	return slices.ContainsFunc(server.Suspensions, func(s outbox.Suspension) bool {
		return !s.Open() && s.ServerStartedAt.Equal(server.StartedAt) && s.Timeline == server.Timeline
	})
}

// Beat is the heartbeat that the service may send now: one on a start of the
// server that was not looked at is refused, so that it can't hide a missing one.
func (g *Guard) Beat(beat outbox.Heartbeat) outbox.Heartbeat {
	g.mu.Lock()
	defer g.mu.Unlock()
	beat.Looked, beat.Vouched = g.server.StartedAt, g.wait == "" && g.open == nil
	return beat
}

// Beaten notes a heartbeat that was confirmed, and how many the row counts with it,
// those of an earlier process of the same name included. A lower count than before is
// left to the next look, unless the silence was so long that a reaper may have removed the
// row.
func (g *Guard) Beaten(beats int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.beatenAt.Age() < forgottenAfter {
		beats = max(beats, g.own.Beats+1)
	}
	g.own.Name, g.own.Beats, g.beatenAt = g.config.Name, beats, clock.Now()
}

// Claimed notes the last of the claims that were confirmed together, before any of
// them is sent.
func (g *Guard) Claimed(ctx context.Context, claims []payment.Claim) {
	if len(claims) == 0 {
		return
	}
	last := &claims[len(claims)-1]
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own.OutboxID, g.own.AttemptNo, g.own.ClaimedAt = last.OutboxID, last.AttemptNo, last.ClaimedAt
	if g.passed {
		g.memory.OutboxID, g.memory.AttemptNo, g.memory.ClaimedAt = last.OutboxID, last.AttemptNo, last.ClaimedAt
		if time.Since(g.savedClaim) >= saveClaimsEvery {
			g.keep(ctx)
			g.savedClaim = time.Now()
		}
	}
}

// Server is the one that was looked at, and that claims are for.
func (g *Guard) Server() outbox.Server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.server
}

// Allows reports whether a lane may be claimed, and whether it goes on although a
// suspension is open: its rail de-duplicates by key, and its key window covers the
// time since the newest moment that the data knows, and that of each restore before
// that the rail may know keys of yet. The rules are those of the profiles that the sends
// which may be forgotten were made under, and a send takes so long at most to be written.
func (g *Guard) Allows(policy payment.Policy, rules []payment.KeyRules, write time.Duration) (claimed, goesOn bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.wait != "":
		return false, false
	case g.open == nil:
		return true, false
	default:
		// As the oldest payment that a send of may be forgotten.
		oldest := payment.Claim{Action: payment.ActionSend, ClaimedAt: g.server.Now.Add(g.looked.Age()), SentUnder: rules}
		goesOn = policy.MayLeave(g.server.Weigh(oldest), 0, write)
		return goesOn, goesOn
	}
}

// Weigh adds to a claim what suspensions say of sends that its rows do not know.
func (g *Guard) Weigh(claim payment.Claim) payment.Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.server.Weigh(claim)
}

// Suspended reports whether nothing may be ended: a suspension is open, or the
// server was not compared with the memory yet.
func (g *Guard) Suspended() bool { return g.Reason() != "" }

// Waiting reports whether the next look should come soon: others are awaited.
func (g *Guard) Waiting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wait != ""
}

// Reason says why lanes are suspended, and what ends it; empty: they are not.
func (g *Guard) Reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open != nil {
		since := g.open.OpenedAt.UTC().Format(time.RFC3339)
		return fmt.Sprintf("lanes are suspended since %s (%s): %s. Compare with the rails what was sent after %s, "+
			"then: railhead timeline accept --since %s --reason ...", since, g.open.Cause, g.open.Detail, moment(g.open.KnownUntil), since)
	}
	return g.wait
}

func moment(at time.Time) string {
	if at.Unix() <= 0 {
		return "the beginning (the data does not say how far it went back)"
	}
	return at.UTC().Format(time.RFC3339)
}

// errBadMemory is a file that says nothing of the server.
var errBadMemory = errors.New("the remembered server can't be read")

// ErrBadMemory reports whether a start failed because of the memory's file.
func ErrBadMemory(err error) bool { return errors.Is(err, errBadMemory) }

func list(names []string) string { return strings.Join(names, ", ") }
