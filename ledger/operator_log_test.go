package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// TestLogTail: each act is told once, also one whose transaction commits after that of an
// act with a later number.
func TestLogTail(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o, looker := d.operator(), openReader(t, d.Cell)
	pause := func(reason string) {
		t.Helper()
		_, err := o.PauseRail(t.Context(), "bank", reason, time.Time{})
		d.must(err)
	}
	pause("one")
	// A transaction from before the tail begins, whose act is of an hour ago.
	oldest, err := d.Cell.Conn(t, "").Begin(t.Context())
	d.must(err)
	hourAgo := payment.FloorID(time.Now().Add(-time.Hour))
	_, err = oldest.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act_id, act, subject, reason)
		VALUES ($1, 'PAUSE_RAIL', 'bank', 'from before')`, [16]byte(hourAgo))
	d.must(err)
	tail, err := looker.LogTail(reader.LogFilter{Limit: 1})
	d.must(err)
	seen, cutShort, err := tail.Begin(t.Context())
	d.must(err)
	same(t, "older acts are left out", cutShort, true)
	same(t, "acts at the beginning", len(seen), 1)
	same(t, "the newest act", seen[0].Reason, "one")
	var told []string
	look := func() {
		t.Helper()
		behind, err := tail.Read(t.Context(), func(act reader.LoggedAct) error {
			told = append(told,
				act.Reason)
			return nil
		})
		d.must(err)
		same(t, "fell behind", behind, false)
	}
	look()
	same(t, "told of what was seen", len(told), 0)

	slow, err := d.super.Begin(t.Context())
	d.must(err)
	_, err = slow.Exec(t.Context(), `INSERT INTO railhead.payment_operator_log (act, subject, reason)
		VALUES ('PAUSE_RAIL', 'bank', 'late')`)
	d.must(err)
	pause("two")
	look()
	d.must(slow.Commit(t.Context()))
	look()
	look()
	for n := range 3 {
		pause(fmt.Sprintf("meanwhile %d", n))
		look()
	}
	d.must(oldest.Commit(t.Context()))
	look()
	look()
	want := []string{"two", "late", "meanwhile 0", "meanwhile 1", "meanwhile 2", "from before"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for _, wrong := range []reader.LogFilter{{Limit: 10_001}, {Limit: -1}, {Since: -time.Second}} {
		if _, _, err := looker.OperatorLog(t.Context(), wrong); !errors.Is(err, outbox.ErrUnanswerable) {
			t.Errorf("%+v: %v, want %v", wrong, err, outbox.ErrUnanswerable)
		}
		if _, err := looker.LogTail(wrong); !errors.Is(err, outbox.ErrUnanswerable) {
			t.Errorf("%+v, followed: %v, want %v", wrong, err, outbox.ErrUnanswerable)
		}
	}
}

// TestLogTailBehindATransaction: while a transaction with a number stays open, as one that was prepared and left, only
// acts that came since the last look and are more than can be read make a tail fall behind.
func TestLogTailBehindATransaction(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	open, err := d.Cell.Conn(t, "").Begin(t.Context())
	d.must(err)
	_, err = open.Exec(t.Context(), `SELECT pg_current_xact_id()`)
	d.must(err)
	tail, err := openReader(t, d.Cell).LogTail(reader.LogFilter{Limit: 1})
	d.must(err)
	_, _, err = tail.Begin(t.Context())
	d.must(err)
	for n, step := range []struct {
		acts, told int
		behind     bool
	}{{6000, 6000, false}, {4000, 4000, false}, {0, 0, false}, {1, 1, false}, {10_001, 10_000, true}, {0, 0, false}} {
		d.do(`INSERT INTO railhead.payment_operator_log (act, subject, reason)
			SELECT 'PAUSE_RAIL', 'bank', 'x' FROM generate_series(1, $1::integer)`, step.acts)
		told := 0
		behind, err := tail.Read(t.Context(), func(reader.LoggedAct) error { told++; return nil })
		d.must(err)
		same(t, fmt.Sprintf("step %d: told", n), told, step.told)
		same(t, fmt.Sprintf("step %d: fell behind", n), behind, step.behind)
	}
}
