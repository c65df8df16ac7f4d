package reaper_test

import (
	"testing"

	"github.com/railhead-pay/railhead/reaper"
)

// TestHeartbeatsOfARestoredBackup restores a backup of yesterday, with the heartbeats of its
// relayers, and starts a reaper without a memory. The reaper keeps the heartbeats: they show that
// the cell has sent, so that the lanes stay suspended, and what may have been sent neither expires
// nor is claimed.
func TestHeartbeatsOfARestoredBackup(t *testing.T) {
	t.Parallel()
	for _, ago := range []string{"23 hours", "25 hours"} {
		y := newYard(t, never)
		y.do(`ALTER TABLE railhead.payment_accepted_timelines DISABLE TRIGGER USER`)
		y.do(`UPDATE railhead.payment_accepted_timelines SET accepted_at = accepted_at - interval '1 year'`)
		y.do(`ALTER TABLE railhead.payment_accepted_timelines ENABLE ALWAYS TRIGGER payment_accepted_timelines_append_only`)
		y.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched, stale_after_ms)
			VALUES ('relayer-before', 'relayer', 'h', 'v', 'running', now() - interval '9 days', now() - $1::text::interval, true, 1000)`, ago)
		id := y.enqueue() // and sent, which the backup has not
		y.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(id))
		r := y.reaper(func(c *reaper.Config) { c.Every = 1e9 })
		same(t, ago+": suspended at first", y.once(r).Suspended, true)
		same(t, ago+": settled after one turn", y.text(`SELECT railhead.server_is_settled()::text`), "false")
		same(t, ago+": suspended in the second turn", y.once(r).Suspended, true)
		same(t, ago+": fate", y.fate(id), "SEND sends=0")
		same(t, ago+": relayers ran here",
			y.text(`SELECT known::text FROM railhead.recall_memory(NULL, NULL, NULL, NULL, NULL, NULL, 'relayer-new')`), "true")
	}
}
