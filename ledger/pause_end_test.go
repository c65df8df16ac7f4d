package ledger_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestEndPauses: a pause ends when its end has come, and no other does; the log says so.
func TestEndPauses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	d.enqueue()
	end := func(want ...string) {
		t.Helper()
		ended, err := d.exec.EndPauses(t.Context())
		d.must(err)
		slices.Sort(ended)
		if !slices.Equal(ended, want) {
			t.Errorf("ended %v, want %v", ended, want)
		}
	}
	soon := time.Now().Add(time.Hour)
	for _, rail := range []string{"bank", "*"} {
		_, err := o.PauseRail(t.Context(), rail, why, soon)
		d.must(err)
	}
	_, err := o.PauseParticipant(t.Context(), "participant", why, soon)
	d.must(err)
	end()
	same(t, "claimed while it is paused", len(d.claim(lane("bank", 1, 1))), 0)
	d.do(`UPDATE railhead.payment_rails SET paused_until = now() WHERE paused`)
	d.do(`UPDATE railhead.payment_paused_participants SET paused_until = now()`)
	end("everything", "participant participant", "rail bank")
	same(t, "claimed after the end", len(d.claim(lane("bank", 1, 1))), 1)
	same(t, "the log of it", d.text(`SELECT string_agg(actor || ' ' || act || ': ' || reason, '; ' ORDER BY act)
		FROM railhead.payment_operator_log WHERE reason LIKE 'the end%' AND subject <> '*'`),
		"railhead_relayer_login RESUME_PARTICIPANT: the end of the pause has come: "+why+"; railhead_relayer_login "+
			"RESUME_RAIL: the end of the pause has come: "+why)

	// One without an end stays, also where another operator would have it end.
	wasRunning, err := o.PauseRail(t.Context(), "bank", why, time.Time{})
	d.must(err)
	same(t, "was running", wasRunning, true)
	wasRunning, err = o.PauseRail(t.Context(), "bank", "another", soon)
	d.must(err)
	same(t, "was running at the second", wasRunning, false)
	end()
	pause, err := o.Reader().RailPause(t.Context(), "bank")
	d.must(err)
	if pause == nil || pause.Reason != why+"; and "+celltest.Operator+": another" || !pause.Until.IsZero() {
		t.Errorf("the pause is %+v", pause)
	}
	_, err = o.PauseRail(t.Context(), "bank", why, time.Now().Add(-time.Second))
	refusedWith(t, "an end that is over", err, "RH002", "must be in the future")
}

// TestEndPausesWakes: the relayers hear of the end of a pause, whatever else ended with it.
func TestEndPausesWakes(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for what, act := range map[string]string{
		"rail":        `UPDATE railhead.payment_rails SET paused = true, paused_by = 'o', paused_at = now(), pause_reason = 'r', paused_until = now() WHERE rail_type = 'bank'`,
		"participant": `INSERT INTO railhead.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until) VALUES ('p', 'o', 'r', now())`,
	} {
		d.do(act)
		listener := d.Conn(t, celltest.Relayer)
		_, err := listener.Exec(t.Context(), `LISTEN "railhead.outbox_pending"`)
		d.must(err)
		_, err = d.exec.EndPauses(t.Context())
		d.must(err)
		ctx, done := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := listener.WaitForNotification(ctx); err != nil {
			t.Errorf("the end of a %s's pause wakes no relayer: %v", what, err)
		}
		done()
	}
}

// TestPausedWhileItEnds: a participant who is paused while another session is about to end an earlier pause is paused
// when the call returns, which says that the participant was not. A pause that is prolonged stays the one that it was.
func TestPausedWhileItEnds(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]string{
		"by the reaper":   `SELECT railhead.end_pauses()`,
		"by a resumption": `SELECT railhead.resume_participant('participant', 'the file is corrected')`,
		"by none":         `SELECT 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			o := d.operator()
			d.enqueue()
			d.do(`INSERT INTO railhead.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until)
				VALUES ('participant', 'another', 'the first', now())`)
			other := d.Conn(t, "")
			_, err := other.Exec(t.Context(), `BEGIN; SELECT FROM railhead.payment_paused_participants FOR UPDATE`)
			d.must(err)
			type answer struct {
				wasRunning bool
				err        error
			}
			answers := make(chan answer, 1)
			go func() {
				was, err := o.PauseParticipant(t.Context(), "participant", "the second", time.Time{})
				answers <- answer{was, err}
			}()
			(&cellDesk{desk: d}).waitForLock()
			_, err = other.Exec(t.Context(), ends+`; COMMIT`)
			d.must(err)
			got := <-answers
			d.must(got.err)
			pause, err := o.Reader().ParticipantPause(t.Context(), "participant")
			d.must(err)
			if pause == nil || !pause.Until.IsZero() {
				t.Fatalf("the pause is %+v", pause)
			}
			want := "the second"
			if name == "by none" {
				want = "the first; and " + celltest.Operator + ": the second"
			}
			same(t, "its reason", pause.Reason, want)
			same(t, "was running", got.wasRunning, want == "the second")
			same(t, "claimed", len(d.claim(lane("bank", 1, 1))), 0)
			// An earlier end changes nothing.
			_, err = o.PauseParticipant(t.Context(), "participant", "the third", time.Now().Add(time.Hour))
			d.must(err)
			pause, err = o.Reader().ParticipantPause(t.Context(), "participant")
			d.must(err)
			if pause == nil || !pause.Until.IsZero() {
				t.Errorf("after one with an end it is %+v", pause)
			}
		})
	}
}

// TestPauseOfTwoEnds: of two ends the later one counts.
func TestPauseOfTwoEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	o := d.operator()
	d.enqueue()
	early, late := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	for _, until := range []time.Time{early, late, early} {
		_, err := o.PauseParticipant(t.Context(), "participant", why, until)
		d.must(err)
	}
	pause, err := o.Reader().ParticipantPause(t.Context(), "participant")
	d.must(err)
	if pause == nil || pause.Until.Sub(late).Abs() > time.Millisecond {
		t.Errorf("the pause is %+v, and not until %s", pause, late)
	}
}
