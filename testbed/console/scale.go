package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/railhead-pay/railhead/internal/test/archive"
	"github.com/railhead-pay/railhead/testbed/browser"
)

// loads is how often each page is opened.
const loads = 10

// paintedWithin is the bound on the first paint of a page, for the median of its loads.
const paintedWithin = 300 * time.Millisecond

// Scale fills the archive, and measures how soon pages show their first content. The last line is what it is judged by.
func Scale(ctx context.Context, o Options) (err error) {
	settings := map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "30min"}
	w, err := newWorld(ctx, o, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.end(o, err)) }()
	if err := w.fillArchive(ctx, o); err != nil {
		return err
	}
	payments, err := w.fill(ctx, ordinary, []string{"ops"})
	if err != nil {
		return err
	}
	old, err := w.oldPayment(ctx)
	if err != nil {
		return err
	}
	link, err := w.console(ctx, "console-scale", "read")
	if err != nil {
		return err
	}
	b, err := browser.Start(ctx, o.Programs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	k := &walker{hand: hands[0], names: payments["ops"], out: o, tally: &tally{}}
	k.judges = false
	if k.tab, err = b.Open(browser.View{}); err != nil {
		return err
	}
	defer k.tab.Close()
	if err := k.login(ctx, link); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	late := 0
	for _, page := range []struct{ name, path string }{
		{"Overview", "/"}, {"Payments", "/payments"}, {"Payments of a rail", "/payments?rail=bank&state=DISPATCHED"},
		{"a Payment with trouble", "/payments/{parked}"}, {"a Payment of the archive", "/payments/" + old},
	} {
		painted, answered, err := k.paints(page.path)
		if err != nil {
			return fmt.Errorf("%s: %w", page.name, err)
		}
		p50 := painted[len(painted)/2]
		o.say("%-24s first paint p50 %3.0f ms, worst %3.0f ms; answered p50 %3.0f ms, worst %3.0f ms", page.name,
			p50, painted[len(painted)-1], answered[len(answered)/2], answered[len(answered)-1])
		if p50 > float64(paintedWithin.Milliseconds()) {
			late++
		}
	}
	o.say("rows=%d loads=%d within=%s late=%d", o.Rows, loads, paintedWithin, late)
	if late > 0 {
		return ErrBroken
	}
	return nil
}

// paints opens a page so often, and returns when it showed its first content and when its answer came, each in
// milliseconds and sorted. The first load of all is no part of it: it connects, and parses what the browser keeps.
func (k *walker) paints(path string) (painted, answered []float64, err error) {
	for n := range loads + 1 {
		if _, err := k.tab.Go("about:blank"); err != nil {
			return nil, nil, err
		}
		status, err := k.tab.Go(k.base + k.names.in(path))
		if err != nil || status != 200 {
			return nil, nil, fmt.Errorf("status %d: %w", status, err)
		}
		took, err := k.tab.Timing()
		if err != nil {
			return nil, nil, err
		}
		if n > 0 {
			painted, answered = append(painted, took.Painted), append(answered, took.Answered)
		}
	}
	slices.Sort(painted)
	slices.Sort(answered)
	return painted, answered, nil
}

func (w *world) fillArchive(ctx context.Context, o Options) error {
	conn, err := w.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	begun := time.Now()
	next := begun.Add(10 * time.Second)
	err = archive.Fill(ctx, conn.Conn(), archive.Size{Rows: o.Rows, RailType: "bank"}, func(done int) {
		if time.Now().After(next) {
			next = time.Now().Add(10 * time.Second)
			o.say("archive of %d rows: %d", o.Rows, done)
		}
	})
	if err == nil {
		o.say("archive of %d rows is filled, in %s", o.Rows, time.Since(begun).Round(time.Second))
	}
	return err
}

// oldPayment is one from the first days of the archive.
func (w *world) oldPayment(ctx context.Context) (id string, err error) {
	err = w.admin.QueryRow(ctx, `SELECT k.outbox_id FROM `+cell+`.payment_outbox_keys k ORDER BY k.outbox_id LIMIT 1`).Scan(&id)
	return id, err
}
