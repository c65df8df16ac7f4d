package ledger_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestSuspendedAgain: an operator who has compared a suspension does not accept what went back after that. A component
// says so by the time when it looked; what it says of before the suspension changes nothing in it.
func TestSuspendedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	worker := d.Conn(t, celltest.Relayer)
	suspends := func(cause, looked string) {
		t.Helper()
		_, err := worker.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', $1, 'a test', `+looked+`)`, cause)
		d.must(err)
	}
	suspends("ROWS_MISSING", "clock_timestamp()")
	d.do(`UPDATE railhead.payment_outbox_suspensions SET opened_at = opened_at - interval '1 minute'`)
	compared := d.suspendedAt()
	for _, cause := range []string{"ROWS_MISSING", "LOG_WENT_BACK"} {
		_, err := worker.Exec(t.Context(), `SELECT railhead.suspend_outbox('w', $1, 'a test', $2)`, cause, compared)
		d.must(err)
	}
	suspends("NO_MEMORY", "clock_timestamp()")
	same(t, "opened at, by what was known", d.suspendedAt(), compared)

	suspends("LOG_WENT_BACK", "clock_timestamp()")
	_, err := d.operator().AcceptTimeline(t.Context(), compared, why)
	refusedWith(t, "accepting what was compared before", err, "RH020", "but you have compared the suspension of")
	same(t, "suspensions", d.Int(`SELECT count(*) FROM railhead.payment_outbox_suspensions`), 1)
	d.accept()
}
