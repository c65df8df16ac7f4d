package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func (d *desk) keyOf(id payment.ID) ingest.Key {
	d.t.Helper()
	instruction, key, _ := strings.Cut(d.text(
		`SELECT instruction_id || ' ' || idempotency_key FROM railhead.payment_outbox_keys WHERE outbox_id = $1`, [16]byte(id)), " ")
	return ingest.Key{InstructionID: instruction, IdempotencyKey: key}
}

// TestStatusOfEveryPlight: a caller is told what the timeline of the payment says, in
// every state that an operator finds one in, and before and after each act.
func TestStatusOfEveryPlight(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ingest := openIngest(t, d.Cell, 4)
	reader := openReader(t, d.Cell)
	check := func(name string, id payment.ID) {
		status, err := ingest.Status(t.Context(), d.keyOf(id))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		line, err := reader.Timeline(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		word, _ := line.Certainty()
		if status.OutboxID != id || status.Certainty != string(word) || status.State != line.State ||
			status.Attempts != len(line.Attempts) ||
			status.WaitsForPerson != line.DeadLetter.Open() || status.SequenceID != line.SequenceID {
			t.Errorf("%s: the caller is told %+v, the timeline says %s, %s, %d rows, a letter that is open %v",
				name, status, word, line.State, len(line.Attempts), line.DeadLetter.Open())
		}
	}
	for name, bring := range plights {
		id := bring(d)
		check(name, id)
		if testing.Short() {
			continue
		}
		for _, hand := range hands {
			id := bring(d)
			if hand.do(d.operator(), t, id) == nil {
				check(name+", "+hand.name, id)
			}
		}
	}
	d.do(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '1 hour')`)
	for _, name := range []string{"pending, never sent", "DISPATCHED", "FAILED"} {
		d.do(`ALTER TABLE railhead.payment_outbox_suspensions DISABLE TRIGGER ALL`)
		d.do(`DELETE FROM railhead.payment_outbox_suspensions`)
		id := plights[name](d)
		d.do(`SELECT railhead.suspend_outbox('w', 'LOG_WENT_BACK', 'a test', now() - interval '1 hour')`)
		check(name+", suspended", id)
	}
}

// TestStatusIsForItsOwn: a login sees what it has enqueued itself, and what a login has
// that shares a role with it; that both are of railhead_ingest is not enough.
func TestStatusIsForItsOwn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	suffix := strings.ReplaceAll(payment.NewID().String(), "-", "")
	mine, other, team, inner := "status_mine_"+suffix, "status_other_"+suffix, "status_team_"+suffix,
		"status_inner_"+suffix
	d.do(`CREATE ROLE ` + mine + ` LOGIN IN ROLE railhead_ingest`)
	d.do(`CREATE ROLE ` + other + ` LOGIN IN ROLE railhead_ingest`)
	d.do(`CREATE ROLE ` + team)
	d.do(`CREATE ROLE ` + inner + ` IN ROLE ` + team)
	as := func(login, sql string) (rows int) {
		t.Helper()
		conn := d.Conn(t, "")
		mustExec(t, conn, `SET SESSION AUTHORIZATION `+login)
		if err := conn.QueryRow(t.Context(), sql).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		mustExec(t, conn, `RESET SESSION AUTHORIZATION`)
		return rows
	}
	as(mine, `SELECT count(*) FROM railhead.enqueue_payment_outbox('i', 'p1', 'k', 'bank', '{"amount": "1.00", "currency": "EUR"}')`)
	const ask = `SELECT count(*) FROM railhead.payment_status('i', 'k')`
	same(t, "its own", as(mine, ask), 1)
	same(t, "another login of the same kind", as(other, ask), 0)
	d.do(`GRANT ` + team + ` TO ` + mine)
	same(t, "one of them is in a role", as(other, ask), 0)
	d.do(`GRANT ` + inner + ` TO ` + other)
	same(t, "both are", as(other, ask), 1)
	d.do(`REVOKE ` + inner + ` FROM ` + other)
	same(t, "no longer", as(other, ask), 0)
	rules := d.text(`SELECT pg_get_functiondef('railhead.logins_sharing_a_role(text)'::regprocedure)`)
	matrix, err := acl.Load()
	d.must(err)
	for _, role := range matrix.Roles {
		if !strings.Contains(rules, "'"+role.Name+"'") {
			t.Errorf("%s counts as a role that logins share", role.Name)
		}
	}
	for _, shared := range []string{"pg_monitor", "railhead_readonly"} {
		d.do(`GRANT ` + shared + ` TO ` + mine)
		d.do(`GRANT ` + shared + ` TO ` + other)
		same(t, "both of "+shared, as(other, ask), 0)
	}
	for _, role := range []string{mine, other, inner, team} {
		d.do(`DROP ROLE ` + role)
	}
}

// TestStatuses keeps the order that it was asked in, and its bounds.
func TestStatuses(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	client := openIngest(t, d.Cell, 4)
	first, second := d.enqueue(), d.enqueue()
	none := ingest.Key{InstructionID: "none", IdempotencyKey: "none"}
	all, err := client.Statuses(t.Context(), []ingest.Key{d.keyOf(second), none, d.keyOf(first), d.keyOf(second)})
	if err != nil {
		t.Fatal(err)
	}
	if all[0].OutboxID != second || all[1] != nil || all[2].OutboxID != first || all[3].OutboxID != second {
		t.Errorf("got %v", all)
	}
	if _, err := client.Status(t.Context(), none); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
	if all, err := client.Statuses(t.Context(), nil); err != nil || len(all) != 0 {
		t.Errorf("of nothing: %v, %v", all, err)
	}
	if _, err := client.Statuses(t.Context(), make([]ingest.Key, ingest.StatusesMax+1)); !errors.Is(err,
		outbox.ErrInvalid) {
		t.Errorf("of too many: %v", err)
	}
	conn := d.Conn(t, celltest.Ingest)
	_, err = conn.Exec(t.Context(), `SELECT railhead.payment_status_batch(ARRAY['a', 'b'], ARRAY['a'])`)
	same(t, "arrays of two lengths", ledger.SQLState(err), outbox.StateInvalid)
}

// TestAwait: who waits is woken by whatever lets the payment rest, and not by what
// leaves it waiting for the rail.
func TestAwait(t *testing.T) {
	t.Parallel()
	never := payment.Policy{ResendOnUnknown: payment.ResendNever}
	for name, test := range map[string]struct {
		end  func(*desk, payment.ID)
		want string
	}{
		"executed": {func(d *desk, id payment.ID) { d.record(told(sameKey, d.claimOne(id), payment.ResultAccepted, "b-1")) }, "DISPATCHED ACCEPTED false"},
		"executed, with one that is not": {func(d *desk, id payment.ID) {
			other := d.enqueue()
			d.record(told(sameKey, d.claimOne(id), payment.ResultAccepted, "b-1"),
				told(sameKey, d.claimOne(other), payment.ResultUnknown, ""))
		}, "DISPATCHED ACCEPTED false"},
		"executed, with another": {func(d *desk, id payment.ID) {
			other := d.enqueue()
			d.record(told(sameKey, d.claimOne(id), payment.ResultAccepted, "b-1"),
				told(sameKey, d.claimOne(other), payment.ResultAccepted, "b-2"))
		}, "DISPATCHED ACCEPTED false"},
		"refused":   {func(d *desk, id payment.ID) { d.record(told(sameKey, d.claimOne(id), payment.ResultRefusedFinal, "")) }, "FAILED REFUSED true"},
		"parked":    {func(d *desk, id payment.ID) { d.record(told(never, d.claimOne(id), payment.ResultUnknown, "")) }, "PARKED OUTCOME_UNKNOWN true"},
		"cancelled": {func(d *desk, id payment.ID) { d.must(hands[0].do(d.operator(), d.t, id)) }, "CANCELLED NOT_SENT false"},
		"expired": {func(d *desk, id payment.ID) {
			d.do(`UPDATE railhead.payment_outbox_pending SET expires_at = now() WHERE outbox_id = $1`, [16]byte(id))
			_, err := d.exec.Expire(d.t.Context(), "reaper", 10)
			d.must(err)
		}, "FAILED NOT_SENT true"},
		"quarantined":   {func(d *desk, id payment.ID) { d.must(d.quarantine(id, "x")) }, "PENDING NOT_SENT true"},
		"by a callback": {func(d *desk, id payment.ID) { d.late(callback(id, payment.ResultExecuted, "ref")) }, "DISPATCHED ACCEPTED false"},
		"late": {func(d *desk, id payment.ID) {
			claim := d.claimOne(id)
			d.record(lost(sameKey, claim))
			d.late(told(sameKey, claim, payment.ResultAccepted, "ref"))
		}, "DISPATCHED ACCEPTED false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			ingest := openIngest(t, d.Cell, 4)
			id := d.enqueue()
			key := d.keyOf(id)
			got := make(chan string, 1)
			go func() {
				status, err := ingest.Await(t.Context(), key)
				if err != nil {
					got <- err.Error()
					return
				}
				got <- fmt.Sprintf("%s %s %v", status.State, status.Certainty, status.WaitsForPerson)
			}()
			// The session that hears holds the lock.
			d.eventually("a caller waits", func() bool {
				return d.Int(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
					AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
			})
			// Its look after that is over: only a word makes it look before five seconds.
			time.Sleep(100 * time.Millisecond)
			begun := time.Now()
			test.end(d, id)
			select {
			case word := <-got:
				same(t, "outcome", word, test.want)
				if took := time.Since(begun); took > 4*time.Second {
					t.Errorf("it was told after %s: by asking, not by a word", took)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it waits still")
			}
		})
	}
}

// TestToldTogether: the outcomes of one turn are told in as few words as hold them, each once, whether or
// not something follows from one of them.
func TestToldTogether(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]payment.Result{"all executed": payment.ResultAccepted,
		"one is unknown": payment.ResultUnknown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			ids := make(map[payment.ID]int)
			for range 220 {
				ids[d.enqueue()] = 0
			}
			hearing := d.Conn(t, celltest.Ingest)
			if _, err := hearing.Exec(t.Context(), `SELECT railhead.listen_for_outcomes()`); err != nil {
				t.Fatal(err)
			}
			var outcomes []payment.Outcome
			for id, claim := range d.claim(d.inForce(lane("bank", 300, 300))) {
				if len(outcomes) > 0 {
					outcomes = append(outcomes, told(sameKey, claim, payment.ResultAccepted, claim.OutboxID.String()))
				} else if outcomes = append(outcomes, told(sameKey, claim, more, "first")); more == payment.ResultUnknown {
					delete(ids, id)
				}
			}
			same(t, "claimed", len(outcomes), 220)
			d.record(outcomes...)
			if _, err := d.Conn(t, celltest.Ingest).Exec(t.Context(), `SELECT pg_notify('railhead.payment_outcomes', 'end')`); err != nil {
				t.Fatal(err)
			}
			words := 0
			for ; ; words++ {
				word, err := hearing.WaitForNotification(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if word.Payload == "end" {
					break
				}
				for each := range strings.SplitSeq(word.Payload, " ") {
					id, err := payment.ParseID(each)
					if err != nil {
						t.Fatal(err)
					}
					ids[id]++
				}
			}
			same(t, "words", words, (len(ids)+199)/200)
			for id, times := range ids {
				if times != 1 {
					t.Errorf("%s was told %d times", id, times)
				}
			}
		})
	}
}

// TestAwaitWithoutItsSession asks by itself, when the session that hears is lost again
// and again; and gives up with its context.
func TestAwaitWithoutItsSession(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ingest := openIngest(t, d.Cell, 4)
	id := d.enqueue()
	key := d.keyOf(id)
	got := make(chan error, 1)
	go func() {
		_, err := ingest.Await(t.Context(), key)
		got <- err
	}()
	hearing := `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l WHERE l.locktype = 'advisory'
		AND l.mode = 'ExclusiveLock'
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	d.eventually("a session is lost", func() bool { return d.Int(hearing) > 0 })
	d.record(told(sameKey, d.claimOne(id), payment.ResultAccepted, "b-1"))
	for done := false; !done; {
		select {
		case err := <-got:
			d.must(err)
			done = true
		case <-time.After(10 * time.Millisecond):
			d.Int(hearing)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	waiting := d.enqueue()
	status, err := ingest.Await(ctx, d.keyOf(waiting))
	if ctx.Err() == nil || err == nil || status.State != "PENDING" {
		t.Errorf("at the end of its context: %+v, %v", status, err)
	}
}
