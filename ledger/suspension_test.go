package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// unaccepted makes this server one that was never accepted, as a promoted standby is.
func (d *desk) unaccepted() {
	d.t.Helper()
	d.do(`ALTER TABLE railhead.payment_accepted_timelines DISABLE TRIGGER USER`)
	d.do(`DELETE FROM railhead.payment_accepted_timelines`)
	d.do(`ALTER TABLE railhead.payment_accepted_timelines ENABLE ALWAYS TRIGGER payment_accepted_timelines_append_only`)
}

func (d *desk) suspend() {
	d.t.Helper()
	d.must(d.exec.Suspend(d.t.Context(), "worker", outbox.CauseRowsMissing, "in a test", time.Now().Add(time.Hour)))
}

func (d *desk) accept() {
	d.t.Helper()
	if _, err := d.operator().AcceptTimeline(d.t.Context(), d.suspendedAt(), why); err != nil {
		d.t.Fatal(err)
	}
}

// suspendedAt is since when a suspension is open; zero: none is.
func (d *desk) suspendedAt() time.Time {
	d.t.Helper()
	var at pgtype.Timestamptz
	d.must(d.super.QueryRow(d.t.Context(), `SELECT max(opened_at) FROM railhead.payment_outbox_suspensions
		WHERE accepted_at IS NULL`).Scan(&at))
	return at.Time
}

// doubts are the ways in which a send may have been forgotten.
func doubts() map[string]func(*desk) {
	return map[string]func(*desk){"a suspension is open": (*desk).suspend,
		"the timeline is not accepted": (*desk).unaccepted}
}

// TestNothingEndsWhileSuspended: no word that may be wrong about a forgotten send
// ends a payment, until an operator has compared.
func TestNothingEndsWhileSuspended(t *testing.T) {
	t.Parallel()
	for name, doubt := range doubts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			expired, waits, failed := d.enqueue(), d.enqueue(), plights["FAILED"](d)
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() - interval '1 second'
				WHERE outbox_id = $1`, [16]byte(expired))
			doubt(d)
			ended, err := d.exec.Expire(t.Context(), "reaper", 10)
			d.must(err)
			same(t, "expired", len(ended), 0)
			ended, err = d.exec.ExpireOnly(t.Context(), "reaper", expired)
			d.must(err)
			same(t, "expired alone", len(ended), 0)
			o := d.operator()
			_, err = o.CancelPayment(t.Context(), waits, why)
			refusedWith(t, "cancel", err, "RH020", "a cancellation has to wait")
			_, err = o.ReplayPayment(t.Context(), failed, time.Time{}, why)
			refusedWith(t, "replay", err, "RH020", "a replay has to wait")
			same(t, "rows", d.rows(expired)+d.rows(waits), "")
			d.accept()
			ended, err = d.exec.Expire(t.Context(), "reaper", 10)
			d.must(err)
			same(t, "expired after it", len(ended), 1)
			_, err = o.CancelPayment(t.Context(), waits, why)
			d.must(err)
			_, err = o.ReplayPayment(t.Context(), failed, time.Time{}, why)
			d.must(err)
			d.gapless()
		})
	}
}

// TestCallbackWhileSuspended: proof of execution ends a payment, a refusal is kept
// and ends nothing, whether the payment waits, was sent once or was parked.
func TestCallbackWhileSuspended(t *testing.T) {
	t.Parallel()
	for name, doubt := range doubts() {
		for result, want := range map[payment.Result][3]string{
			payment.ResultRefused: {"LATE_OUTCOME", "DISPATCHING LATE_OUTCOME",
				"DISPATCHING ZOMBIE_REQUEUE(1) PARKED LATE_OUTCOME"},
			payment.ResultExecuted: {"LATE_OUTCOME DISPATCHED", "DISPATCHING DISPATCHED(1)",
				"DISPATCHING ZOMBIE_REQUEUE(1) PARKED LATE_OUTCOME DISPATCHED"},
		} {
			t.Run(name+" "+string(result), func(t *testing.T) {
				t.Parallel()
				d := newDesk(t)
				open, parked := d.claimOne(d.enqueue()), d.claimOne(d.enqueue())
				d.record(lost(never, parked))
				waits := d.enqueue()
				doubt(d)
				for n, id := range []payment.ID{waits, open.OutboxID, parked.OutboxID} {
					d.late(callback(id, result, "ref"))
					same(t, "rows", d.rows(id), want[n])
				}
				d.gapless()
			})
		}
	}
}

// TestRefusalAfterTheAcceptance: what a restore may have forgotten can't be counted
// among the sends that a refusal speaks of, unless the rail keeps one outcome a key and
// a send of it is known.
func TestRefusalAfterTheAcceptance(t *testing.T) {
	t.Parallel()
	const again = "DISPATCHING ZOMBIE_REQUEUE(1) LATE_OUTCOME(1)"
	for _, c := range []struct {
		name    string
		profile string
		prepare func(*desk)
		want    [3]string
	}{
		{"never suspended", `{}`, func(*desk) {}, [3]string{"DISPATCHING FAILED(1)", "LATE_OUTCOME FAILED", again + " FAILED(1)"}},
		{"accepted", `{}`, func(d *desk) { d.suspend(); d.accept() }, [3]string{"DISPATCHING LATE_OUTCOME", "LATE_OUTCOME", again}},
		{"one outcome a key", `{"answer_covers_key": true}`, func(d *desk) { d.suspend(); d.accept() }, [3]string{"DISPATCHING LATE_OUTCOME", "LATE_OUTCOME", again}},
		// What the rail reports by itself may be a forgotten send that it refused for now; what it answers covers that.
		{"one outcome a key, all the while", `{"answer_covers_key": true, "resend_on_unknown": "SAME_KEY", "key_window": "1h"}`, func(d *desk) {
			d.suspend()
			d.accept()
			d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at`)
			d.do(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER ALL`)
			d.do(`UPDATE railhead.payment_rail_profiles SET applied_at = now() - interval '1 day'`)
		}, [3]string{"DISPATCHING LATE_OUTCOME", "LATE_OUTCOME", again}},
		{"long after", `{}`, func(d *desk) {
			d.suspend()
			d.accept()
			d.do(`UPDATE railhead.payment_outbox_settings SET repeated_within = interval '0'`)
		}, [3]string{"DISPATCHING FAILED(1)", "LATE_OUTCOME FAILED", again + " FAILED(1)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(`SELECT railhead.apply_rail_profile('bank', $1::jsonb, 'set by a test')`, c.profile)
			c.prepare(d)
			claim, waits := d.claimOne(d.enqueue()), d.enqueue()
			for n, id := range []payment.ID{claim.OutboxID, waits} {
				d.late(callback(id, payment.ResultRefused, ""))
				want := c.want[n]
				if got := d.rows(id); got != want {
					t.Errorf("rows %d: got %s, want %s", n, got, want)
				}
			}
			repeated := sentOnce(d)
			d.late(evidence(sameKey, repeated, "refused", ""))
			same(t, "rows of what is repeated, and finally refused", d.rows(repeated.OutboxID), c.want[2])
			d.gapless()
		})
	}
}

// TestClaimHonoursASuspension lane by lane.
func TestClaimHonoursASuspension(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.do(`SELECT railhead.apply_rail_profile('other', '{}', 'set by a test')`)
	there, here := d.enqueueOn("other"), d.enqueue()
	d.suspend()
	goesOn := lane("other", 5, 0)
	goesOn.GoesOn = true
	claims := d.claim(lane("bank", 5, 0), goesOn)
	if _, ok := claims[there]; !ok || len(claims) != 1 {
		t.Errorf("claimed %d, want the lane that goes on", len(claims))
	}
	d.accept()
	if claims = d.claim(lane("bank", 5, 0)); len(claims) != 1 || claims[here].OutboxID != here {
		t.Errorf("claimed %d after it", len(claims))
	}
}

// TestKnownUntil is the newest moment that the data knows from before this start of
// the server, and for two restores the older one.
func TestKnownUntil(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	known := func() string {
		return d.text(`SELECT coalesce((SELECT CASE WHEN known_until = '-infinity' THEN '-infinity'
			ELSE to_char(known_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') END FROM railhead.payment_outbox_suspensions
			WHERE accepted_at IS NULL), '')`)
	}
	beat := func(name, started, ticked string) {
		d.do(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
			VALUES ($1, 'relayer', 'h', 'v', 'running', $2::timestamptz, $3::timestamptz, true)`, name, started, ticked)
	}
	here := d.text(`SELECT pg_postmaster_start_time()::text`)
	beat("on this start", here, "2026-05-01 00:00Z")
	d.suspend()
	same(t, "nothing is known from before", known(), "-infinity")
	d.accept()

	beat("older", "2025-12-01", "2026-01-01 00:00Z")
	beat("newest", "2025-12-01", "2026-02-01 00:00Z")
	beat("on a start that it did not vouch for", "2026-02-02", "2026-02-03 00:00Z")
	d.do(`UPDATE railhead.outbox_heartbeats SET vouched = false WHERE server_started_at = '2026-02-02'`)
	// A callback endpoint has not seen what was sent: it vouches for nothing, on this start or before.
	beat("callback", "2026-02-02", "2026-02-04 00:00Z")
	beat("callback that goes on", here, "2026-05-01 00:00Z")
	d.do(`UPDATE railhead.outbox_heartbeats SET kind = 'callback', name = 'callback:' || name, tick_before_start = '2026-02-04 00:00Z'
		WHERE name LIKE 'callback%'`)
	d.suspend()
	same(t, "known until", known(), "2026-02-01 00:00")
	d.do(`UPDATE railhead.outbox_heartbeats SET last_tick_at = '2026-03-01 00:00Z' WHERE name = 'newest'`)
	d.suspend()
	same(t, "a second caller on the same start", known(), "2026-02-01 00:00")
	same(t, "suspensions", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_suspensions`), "2")

	// Another start takes it over: the least counts, and it was opened now.
	opened := d.text(`SELECT opened_at::text FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`)
	otherStart := func() {
		d.do(`UPDATE railhead.payment_outbox_suspensions SET server_started_at = server_started_at - interval '1 day'
			WHERE accepted_at IS NULL`)
		d.suspend()
	}
	otherStart()
	same(t, "a newer moment on another start", known(), "2026-02-01 00:00")
	if again := d.text(`SELECT opened_at::text FROM railhead.payment_outbox_suspensions
		WHERE accepted_at IS NULL`); again == opened {
		t.Errorf("opened at %s as before", again)
	}
	d.do(`UPDATE railhead.outbox_heartbeats SET last_tick_at = '2026-01-15 00:00Z' WHERE name = 'newest'`)
	otherStart()
	same(t, "an older moment on another start", known(), "2026-01-15 00:00")
	same(t, "suspensions", d.text(`SELECT count(*)::text FROM railhead.payment_outbox_suspensions`), "2")
	d.accept()

	// A beat on this start keeps the last one before it.
	d.do(`DELETE FROM railhead.outbox_heartbeats WHERE name <> 'newest'`)
	for range 2 {
		if _, err := d.exec.Heartbeat(t.Context(),
			outbox.Heartbeat{Name: "newest", Kind: "relayer", Host: "h", Version: "v", Status: "running"}); err != nil {
			t.Fatal(err)
		}
	}
	d.suspend()
	same(t, "the tick before the start", known(), "2026-01-15 00:00")
	d.accept()

	// Another start, which no component has vouched for, was between.
	d.do(`UPDATE railhead.outbox_heartbeats SET vouched = false, server_started_at = '2026-01-16', last_tick_at = '2026-01-17'`)
	d.suspend()
	same(t, "the tick before a start that was not vouched for", known(), "2026-01-15 00:00")
	d.accept()
	if _, err := d.exec.Heartbeat(t.Context(),
		outbox.Heartbeat{Name: "newest", Kind: "relayer", Host: "h", Version: "v", Status: "running"}); err != nil {
		t.Fatal(err)
	}
	d.suspend()
	same(t, "the same after a beat", known(), "2026-01-15 00:00")
	d.accept()

	// A clock that was ahead, and was put back: no key window begins in time to come, and no
	// profile that is applied from now on was in force before.
	beat("ahead", "2025-12-01", "2100-01-01 00:00Z")
	d.suspend()
	same(t, "known after it was opened", d.text(`SELECT (known_until > opened_at + interval '1 second')::text
		FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`), "false")
}

// TestHeartbeatOnAnotherStart is refused, so that it can't hide what is missing.
func TestHeartbeatOnAnotherStart(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	server, err := d.exec.CheckServer(t.Context())
	d.must(err)
	beat := outbox.Heartbeat{Name: "relayer", Kind: "relayer", Host: "h", Version: "v", Status: "running",
		Looked: server.StartedAt, Vouched: true}
	for want := range int64(2) {
		pulse, err := d.exec.Heartbeat(t.Context(), beat)
		d.must(err)
		same(t, "beats", pulse.Beats, want+1)
	}
	beat.Looked = server.StartedAt.Add(-time.Second)
	if _, err := d.exec.Heartbeat(t.Context(), beat); !errors.Is(err, outbox.ErrServerChanged) {
		t.Errorf("on another start: %v", err)
	}
	same(t, "beats", d.text(`SELECT beats::text FROM railhead.outbox_heartbeats`), "2")
}

// TestRecall: who vouches, who is awaited and what is known, from before this start.
func TestRecall(t *testing.T) {
	t.Parallel()
	longAgo, err := payment.ParseID("016f5e66-e800-7000-8000-000000000000") // of January 2020
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, c := range map[string]struct {
		sql     string
		memory  outbox.Remembered
		want    outbox.Recall
		awaited string
	}{
		"nothing ran":                      {`SELECT`, outbox.Remembered{}, outbox.Recall{}, ""},
		"its own name before, on this one": {beats("me", "here", "0 s", "running", true), outbox.Remembered{}, outbox.Recall{Vouched: true, Known: true}, ""},
		"its own name, before this start":  {beats("me", "before", "0 s", "running", true), outbox.Remembered{}, outbox.Recall{Known: true}, ""},
		"another, alive when it ended":     {beats("other", "before", "1 hour", "running", true), outbox.Remembered{SeenAt: now}, outbox.Recall{Known: true, AwaitedFor: 15 * time.Second}, "other"},
		"another, stopped":                 {beats("other", "before", "1 hour", "stopped", true), outbox.Remembered{SeenAt: now}, outbox.Recall{Known: true}, ""},
		"a memory older than a heartbeat":  {beats("other", "before", "1 hour", "stopped", true), outbox.Remembered{SeenAt: now.Add(-2 * time.Hour)}, outbox.Recall{Known: true, Outdated: true}, ""},
		"a heartbeat that is missing":      {`SELECT`, outbox.Remembered{Name: "gone", Beats: 1, SeenAt: now}, outbox.Recall{BeatsMissing: true}, ""},
		"one of long ago":                  {`SELECT`, outbox.Remembered{Name: "gone", Beats: 1, SeenAt: now.Add(-25 * time.Hour)}, outbox.Recall{Outdated: true}, ""},
		"fewer heartbeats":                 {beats("me", "here", "0 s", "running", true), outbox.Remembered{Name: "me", Beats: 2, SeenAt: now}, outbox.Recall{BeatsMissing: true, Vouched: true, Known: true}, ""},
		"fewer, since long ago":            {beats("me", "before", "26 hours", "running", true), outbox.Remembered{Name: "me", Beats: 2, SeenAt: now.Add(-25 * time.Hour)}, outbox.Recall{BeatsMissing: true, Known: true}, ""},
		"fewer, made anew since":           {beats("me", "here", "0 s", "running", true), outbox.Remembered{Name: "me", Beats: 2, SeenAt: now.Add(-25 * time.Hour)}, outbox.Recall{Vouched: true, Known: true}, ""},
		"a claim that is missing":          {`SELECT`, outbox.Remembered{OutboxID: payment.NewID(), AttemptNo: 1, ClaimedAt: now, SeenAt: now}, outbox.Recall{ClaimMissing: true}, ""},
		"a claim of long ago":              {`SELECT`, outbox.Remembered{OutboxID: payment.NewID(), AttemptNo: 1, ClaimedAt: now.Add(-25 * time.Hour), SeenAt: now}, outbox.Recall{ClaimMissing: true}, ""},
		"a claim whose month has left":     {`SELECT`, outbox.Remembered{OutboxID: longAgo, AttemptNo: 1, ClaimedAt: now.Add(-25 * time.Hour), SeenAt: now}, outbox.Recall{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.do(c.sql)
			got, err := d.exec.Recall(t.Context(), "me", c.memory)
			d.must(err)
			c.want.Patience = outbox.DefaultTimeBudget().HeartbeatStale
			same(t, "awaited", strings.Join(got.Awaited, " "), c.awaited)
			got.Awaited = nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// beats plants a heartbeat of a relayer.
func beats(name, start, ago, status string, vouched bool) string {
	at := `pg_postmaster_start_time()`
	if start == "before" {
		at += ` - interval '1 day'`
	}
	return fmt.Sprintf(`INSERT INTO railhead.outbox_heartbeats (name, kind, host, version, status, server_started_at, last_tick_at, vouched)
		VALUES ('%s', 'relayer', 'h', 'v', '%s', %s, now() - interval '%s', %t)`, name, status, at, ago, vouched)
}

// TestShowWhileSuspended: what looks as if it had never been sent may have been.
func TestShowWhileSuspended(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id := d.enqueue()
	says := ""
	show := func() (word reader.Certainty) {
		line, err := openReader(t, d.Cell).Timeline(t.Context(), id)
		d.must(err)
		word, says = line.Certainty()
		return word
	}
	same(t, "at first", show(), reader.NotSent)
	d.suspend()
	same(t, "while suspended", show(), reader.OutcomeUnknown)
	if !strings.Contains(says, "lanes are suspended since") {
		t.Errorf("while suspended it says %q", says)
	}
	d.accept()
	same(t, "after the acceptance, by data of no known time", show(), reader.OutcomeUnknown)
	d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
	d.do(`UPDATE railhead.payment_outbox_suspensions SET known_until = opened_at`)
	same(t, "after the acceptance", show(), reader.NotSent)
}

// TestAcceptedMeanwhile: an operator accepts between the look of a service and what
// it makes of it. The lanes are not suspended anew.
func TestAcceptedMeanwhile(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	open := func() int {
		return d.Int(`SELECT count(*) FROM railhead.payment_outbox_suspensions WHERE accepted_at IS NULL`)
	}
	server, err := d.exec.CheckServer(t.Context())
	d.must(err)
	d.must(d.exec.Suspend(t.Context(), "worker", outbox.CauseRowsMissing, "in a test", server.Now))
	same(t, "open", open(), 1)
	mustExec(t, d.Conn(t, celltest.Operator), `SELECT railhead.accept_timeline('compared', (SELECT s.opened_at
		FROM railhead.payment_outbox_suspensions s WHERE s.accepted_at IS NULL))`)
	d.must(d.exec.Suspend(t.Context(), "another", outbox.CauseRowsMissing, "found before that", server.Now))
	same(t, "open after the acceptance", open(), 0)
	server, err = d.exec.CheckServer(t.Context())
	d.must(err)
	d.must(d.exec.Suspend(t.Context(), "another", outbox.CauseRowsMissing, "found after it", server.Now))
	same(t, "open after another look", open(), 1)
}
