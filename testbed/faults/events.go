package faults

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/await"
)

// Events is a run in which two processes deliver outcomes to an endpoint that loses a
// share of its answers, while relayers, reapers, these processes and the server are
// killed, a transaction stays open, and an asynchronous standby takes over.
type Events struct {
	Seed    uint64
	Lasting time.Duration // of traffic and blows, before the failover
	Open    time.Duration // of the transaction that holds events
	Lost    float64       // share of the endpoint's answers
}

// EventsReport is the result of an Events run.
type EventsReport struct {
	Report
	Told Told
}

// Told counts the deliveries in the endpoint's journal. They are compared with the archive,
// and with a copy of it from right before the failover, which has lost a part of it.
type Told struct {
	Rows      int // of the archive that are events
	Delivered int // of the rows
	Missing   int // of the rows, those not delivered
	Forged    int // deliveries without a row, or that differ from their row
	Reordered int // events that came after a later one of their instruction
	Repeated  int // deliveries beyond the first of an event
	Forgotten int // events that were delivered, and that the failover has forgotten
	Losses    int // answers that the endpoint has lost
}

// String returns the line that a run is judged by.
func (t Told) String() string {
	return fmt.Sprintf("events: rows=%d delivered=%d missing=%d forged=%d reordered=%d repeated=%d forgotten=%d",
		t.Rows, t.Delivered, t.Missing, t.Forged, t.Reordered, t.Repeated, t.Forgotten)
}

// Good reports whether the run went well, every event was delivered as it happened and in
// order, and answers were lost, events repeated and events forgotten at all.
func (r EventsReport) Good() bool {
	return r.Report.Good() && r.Told.Rows > 0 && r.Told.Missing+r.Told.Forged+r.Told.Reordered == 0 &&
		r.Told.Losses > 0 && r.Told.Repeated > 0 && r.Told.Forgotten > 0
}

// eventsRest bounds the time before and after the blows.
const eventsRest = 10 * time.Minute

// Run makes the run on a lane of its own.
func (e Events) Run(ctx context.Context, built Binaries, out io.Writer) (report EventsReport, err error) {
	within := e.Lasting + e.Open + eventsRest
	ctx, cancel := context.WithTimeoutCause(ctx, within,
		fmt.Errorf("%w: the run took longer than %s", await.ErrNotInTime, within))
	defer cancel()
	lane, err := NewLane(ctx, built)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, lane.Close()) }()
	o := Standard("events", e.Seed)
	o.Relayers, o.Reapers, o.Wave, o.Callers, o.HealWithin = 0, 0, 40, 6, 3*time.Minute
	fmt.Fprintf(out, "events: %s\n", o)
	listening := &listener{Events: e, out: out}
	report.Report = RunOn(ctx, lane, Fault{Name: "events", Quiet: true, Inject: listening.inject}, o)
	report.Told = listening.told
	return report, nil
}

// listener is the state of an Events run.
type listener struct {
	Events
	out        io.Writer
	sink       *sink
	deliverers []*Process
	before     map[string]outcomeRow // of the archive right before the failover
	told       Told
}

// inject makes the whole run up to the wait for rest.
func (l *listener) inject(ctx context.Context, w *World) error {
	l.sink = newSink(l.Seed, l.Lost)
	w.ends = append(w.ends, func(context.Context) error { l.sink.server.Close(); return nil })
	s, err := w.paired(ctx, 3)
	if err != nil {
		return err
	}
	if err := l.startDeliveries(ctx, w); err != nil {
		return err
	}
	w.atRest = append(w.atRest, func(ctx context.Context) error { return l.judge(ctx, w) })
	if err := l.rage(ctx, w); err != nil {
		return err
	}
	return l.failOver(ctx, w, s)
}

// startDeliveries starts two processes that deliver to the sink.
func (l *listener) startDeliveries(ctx context.Context, w *World) error {
	file := filepath.Join(w.dir, "events.yaml")
	text := fmt.Sprintf("endpoints:\n  - {id: sink, url: %q, secrets: [\"env:WEBHOOK_SECRET\"], all_participants: "+
		"true, from: BEGINNING, allow_private: true, timeout: 5s}\n", l.sink.server.URL)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	w.env = append(w.env, "RAILHEAD_EVENTS_FILE="+file,
		"WEBHOOK_SECRET="+base64.StdEncoding.EncodeToString([]byte(sinkSecret)))
	for range 2 {
		if err := l.startDeliverer(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (l *listener) startDeliverer(ctx context.Context, w *World) error {
	p, err := w.startService(ctx, kindEvents, w.newName(kindEvents), w.url(loginEvents), nil)
	if p != nil {
		l.deliverers = append(l.deliverers, p)
		w.ends = append(w.ends, func(context.Context) error { return p.Stop(30 * time.Second) })
	}
	if err != nil {
		return err
	}
	return w.awaitReady(ctx, p)
}

// rage keeps traffic flowing, deals one blow after another, and holds a transaction open
// in between.
func (l *listener) rage(ctx context.Context, w *World) error {
	if err := blowBanks(ctx, w); err != nil {
		return err
	}
	all := []func(context.Context, *World) error{
		blowKillRelayer, blowKillReaper, blowFreeze, blowBackend, blowBackend, blowBackend, blowBanks, l.killDeliverer,
		l.killDeliverer,
	}
	end := time.Now().Add(l.Lasting)
	var open pgx.Tx
	var opened time.Time
	var number string // of the transaction
	crashed := false
	for ctx.Err() == nil && (time.Now().Before(end) || open != nil) {
		if w.Calling() < 2 {
			if _, err := w.Traffic(w.Options.Wave); err != nil {
				return err
			}
		}
		pause(ctx, time.Duration(200+w.draws.IntN(800))*time.Millisecond)
		switch {
		case open == nil && opened.IsZero() && time.Until(end) < l.Lasting/2:
			if !crashed { // a crash later would end the transaction
				if err := blowCrash(ctx, w); err != nil {
					return err
				}
				crashed = true
			}
			conn, err := pgx.Connect(ctx, w.Lane.Server.URL("postgres", "")) // another database of the server
			if err != nil {
				return err
			}
			w.ends = append(w.ends, func(ctx context.Context) error { return conn.Close(ctx) })
			if open, err = conn.Begin(ctx); err != nil {
				return err
			}
			if err := open.QueryRow(ctx, `SELECT pg_current_xact_id()::text`).Scan(&number); err != nil {
				return err
			}
			opened = time.Now()
			fmt.Fprintf(l.out, "events: a transaction stays open for %s, %d deliveries noted\n", l.Open, len(l.sink.noted()))
		case open != nil && time.Since(opened) > l.Open:
			fmt.Fprintf(l.out, "events: the transaction ends, %d deliveries noted\n", len(l.sink.noted()))
			if err := l.isHeld(ctx, w, number); err != nil {
				return err
			}
			if err := open.Rollback(ctx); err != nil {
				return err
			}
			open = nil
		}
		if err := all[w.draws.IntN(len(all))](ctx, w); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// isHeld checks that no event was delivered that was written after a transaction that is
// still open.
func (l *listener) isHeld(ctx context.Context, w *World, number string) error {
	var after []string
	err := w.admin.QueryRow(ctx, `
		SELECT coalesce(array_agg('evt_' || replace(a.attempt_id::text, '-', '') || '_' || a.attempt_no), '{}')
		FROM `+cell+`.payment_outbox_attempts a
		WHERE a.xact > $1::text::xid8 AND a.state NOT IN ('DISPATCHING', 'INQUIRING')`, number).Scan(&after)
	if err != nil {
		return err
	}
	if len(after) == 0 {
		w.Broken("nothing was written while the transaction was open")
	}
	held := make(map[string]bool, len(after))
	for _, id := range after {
		held[id] = true
	}
	for _, d := range l.sink.noted() {
		if held[rowOf(d.ID)] {
			w.Broken("%s was told although a transaction before it was open", d.ID)
			break
		}
	}
	return nil
}

// rowOf returns the part of an event's id that is its row's: it ends with the row's number.
func rowOf(id string) string {
	parts := strings.SplitN(id, "_", 4)
	return strings.Join(parts[:min(3, len(parts))], "_")
}

// killDeliverer kills one of the two delivering processes, and starts another.
func (l *listener) killDeliverer(ctx context.Context, w *World) error {
	w.Injected++
	if err := w.living(l.deliverers).Kill(); err != nil {
		return err
	}
	w.Hit++
	return l.startDeliverer(ctx, w)
}

// failOver lets the standby fall behind while events are still delivered, keeps a copy of
// the archive, and promotes the standby.
func (l *listener) failOver(ctx context.Context, w *World, s *standby) error {
	// What a bank executes late could not be distinguished from what the failover forgot.
	if err := errors.Join(w.Dedupes.Spoil(ctx), w.Bare.Spoil(ctx), w.AwaitCallers(ctx)); err != nil {
		return err
	}
	if _, err := w.AwaitRest(ctx); err != nil {
		return err
	}
	if err := l.caughtUp(ctx, w); err != nil {
		return err
	}
	w.Injected++
	s.wire.Cut()
	if _, err := w.Traffic(w.Options.Wave); err != nil {
		return err
	}
	noted := len(l.sink.noted())
	if err := await.Until(ctx, time.Minute, "events that will be forgotten",
		func() (bool, error) { return len(l.sink.noted()) > noted+10, nil }); err != nil {
		return err
	}
	l.sink.close(true) // nothing is delivered after the copy
	var err error
	if l.before, err = l.rows(ctx, w); err != nil {
		return err
	}
	last, err := w.dies(ctx, s)
	if err != nil {
		return err
	}
	w.windows = append(w.windows, Window{From: last, To: time.Now()})
	l.sink.close(false)
	fmt.Fprintf(l.out, "events: the standby took over, %d deliveries noted\n", len(l.sink.noted()))
	if err := w.heldUntilAccepted(ctx); err != nil {
		return err
	}
	w.Hit++
	_, err = w.Traffic(w.Options.Wave)
	return err
}
