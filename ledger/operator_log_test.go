package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
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
	seen, cutShort, err := looker.OperatorLog(t.Context(), reader.LogFilter{Limit: 1})
	d.must(err)
	same(t, "older acts are left out", cutShort, true)
	tail, err := looker.LogTail(t.Context(), reader.LogFilter{}, seen)
	d.must(err)
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
	if len(told) != 2 || told[0] != "two" || told[1] != "late" {
		t.Errorf("told %v, want two and then late", told)
	}
	for _, wrong := range []reader.LogFilter{{Limit: 10_001}, {Limit: -1}, {Since: -time.Second}} {
		if _, _, err := looker.OperatorLog(t.Context(), wrong); !errors.Is(err, outbox.ErrInvalid) {
			t.Errorf("%+v: %v, want %v", wrong, err, outbox.ErrInvalid)
		}
	}
}
