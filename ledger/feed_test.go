package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// appended is a row of the archive, written by SQL: $1 outbox_id, $2 attempt_no, $3 state, $4
// error_code or ”, $5 outcome_unknown.
const appended = `
	INSERT INTO railhead.payment_outbox_attempts
	  (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, error_code, outcome_unknown, provisional,
	   priority, enqueued_at, next_attempt_at, next_action, send_count, inquiry_count, claimed_at, worker_id)
	VALUES (railhead.uuidv7(), $1, 'p1', 'bank', $2, $3::text::railhead.outbox_attempt_state, nullif($4, ''), $5, false,
	  1, now(), now(), 'SEND', 0, 0, now(), 'worker')`

// subscriber reads the feed by a token.
type subscriber struct {
	*doorDesk
	who  outbox.Subscription
	at   outbox.Place
	page int
}

func (d *doorDesk) subscribe(who outbox.Bearer) *subscriber {
	return &subscriber{doorDesk: d, who: outbox.Subscription{Bearer: who}, page: 100}
}

// hear reads to the end of the feed, and gives the events as "type number" with their instructions.
func (s *subscriber) hear() (told []string, last outbox.Heard) {
	s.t.Helper()
	s.settled()
	return s.hearNow()
}

func (s *subscriber) hearNow() (told []string, last outbox.Heard) {
	s.t.Helper()
	for {
		heard, err := s.door.Events(s.t.Context(), []outbox.Subscription{s.who}, s.at, time.Time{}, s.page)
		s.must(err)
		s.must(heard.Refused[0])
		for _, e := range heard.Events {
			told = append(told, fmt.Sprintf("%s %s %d", e.InstructionID, strings.TrimPrefix(string(e.Type), "payment."),
				e.AttemptNo))
		}
		if s.at = heard.Place; !heard.More {
			return told, heard
		}
	}
}

func (s *subscriber) hears(what, want string) {
	s.t.Helper()
	told, _ := s.hear()
	same(s.t, what, strings.Join(told, ", "), want)
}

// settled waits until no transaction of the server is under way that began before now: those of other tests count, and
// some of them are open for half a minute.
func (d *desk) settled() {
	d.t.Helper()
	now := d.text(`SELECT pg_snapshot_xmax(pg_current_snapshot())::text`)
	d.within(2*time.Minute, "older transactions end", func() bool {
		return d.text(`SELECT (pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8)::text`, now) == "true"
	})
}

func (d *doorDesk) order(who outbox.Bearer, participant, id string) payment.ID {
	return d.take(who, d.instruction(participant, id, "key of "+id)).OutboxID
}

// TestFeedWaitsForOlderTransactions: no row is told that others may come before, so that none that
// commits late is skipped.
func TestFeedWaitsForOlderTransactions(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	late, quick := d.order(who, "p1", "late"), d.order(who, "p1", "quick")
	s := d.subscribe(who)
	open, err := d.Conn(t, "").Begin(t.Context())
	d.must(err)
	defer open.Rollback(t.Context())
	_, err = open.Exec(t.Context(), appended, [16]byte(late), 1, "PARKED", "", true)
	d.must(err)
	d.do(appended, [16]byte(quick), 1, "DISPATCHED", "", false)
	told, heard := s.hearNow()
	if len(told) > 0 || heard.HeldSince.IsZero() {
		t.Errorf("told %v, held since %s", told, heard.HeldSince)
	}
	d.must(open.Commit(t.Context()))
	told, heard = s.hear()
	if got := strings.Join(told, ", "); got != "late needs_attention 1, quick dispatched 1" || !heard.HeldSince.IsZero() {
		t.Errorf("told %s, held since %s", got, heard.HeldSince)
	}
	s.hears("once more", "")
}

// TestFeedOfOnePayment: rows of an instruction are told in the order of their numbers, also where
// the transaction of the later one has the lower number, in pages of any size, and each once.
func TestFeedOfOnePayment(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	one, other := d.order(who, "p1", "one"), d.order(who, "p1", "other")
	first, err := d.Conn(t, "").Begin(t.Context())
	d.must(err)
	defer first.Rollback(t.Context())
	_, err = first.Exec(t.Context(), appended, [16]byte(other), 1, "UNKNOWN", "", true) // it has its number now
	d.must(err)
	d.do(appended, [16]byte(one), 1, "UNKNOWN", "", true)
	d.do(appended, [16]byte(one), 2, "PARKED", "", true)
	d.do(appended, [16]byte(one), 3, "LATE_OUTCOME", "", true)
	_, err = first.Exec(t.Context(), appended, [16]byte(one), 4, "DISPATCHED", "", false)
	d.must(err)
	d.must(first.Commit(t.Context()))
	d.do(appended, [16]byte(other), 2, "PARKED", "", true)
	for page := 1; page <= 7; page++ {
		s := d.subscribe(who)
		s.page = page
		told, _ := s.hear()
		last := map[string]string{}
		for _, each := range told {
			name, rest, _ := strings.Cut(each, " ")
			last[name] += " " + rest
		}
		same(t, fmt.Sprintf("pages of %d", page), fmt.Sprint(len(told), last),
			"5 map[one: outcome_unknown 1 needs_attention 2 dispatched 4 other: outcome_unknown 1 needs_attention 2]")
	}
	d.settled()
	// One who resumes after any of them misses none.
	heard, err := d.door.Events(t.Context(), []outbox.Subscription{d.subscribe(who).who}, outbox.Place{}, time.Time{}, 100)
	d.must(err)
	last := 0
	for n, e := range heard.Events {
		if !e.Last {
			continue
		}
		last++
		rest, err := d.door.Events(t.Context(), []outbox.Subscription{d.subscribe(who).who}, e.At, time.Time{}, 100)
		d.must(err)
		told := map[payment.ID]bool{}
		for _, each := range rest.Events {
			told[each.AttemptID] = true
		}
		for _, later := range heard.Events[n+1:] {
			if !told[later.AttemptID] {
				t.Errorf("who resumes after %s %d misses %s %d", e.InstructionID, e.AttemptNo, later.InstructionID, later.AttemptNo)
			}
		}
	}
	same(t, "events to resume from", last, 3)
}

// TestEventTypes: what each row is told as.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	s := d.subscribe(who)
	for n, c := range []struct {
		rows [][3]any // state, error_code, outcome_unknown
		want string
	}{
		{[][3]any{{"DISPATCHING", "", false}, {"DISPATCHED", "", false}}, "dispatched 2"},
		{[][3]any{{"DISPATCHING", "", false}, {"RETRYABLE", "", false}, {"DISPATCHING", "", false}, {"FAILED", "", false}}, "failed 4"},
		{[][3]any{{"FAILED", "EXPIRED", false}}, "expired 1"},
		{[][3]any{{"CANCELLED", "", false}}, "cancelled 1"},
		{[][3]any{{"DISPATCHING", "", false}, {"ACCEPTED", "", true}, {"INQUIRING", "", true}, {"UNKNOWN", "", true}, {"INQUIRING", "", true}, {"DISPATCHED", "", false}}, "accepted 2, dispatched 6"},
		{[][3]any{{"DISPATCHING", "", false}, {"UNKNOWN", "", true}, {"INQUIRING", "", true}, {"ZOMBIE_REQUEUE", "", true}, {"PARKED", "", true}}, "outcome_unknown 2, needs_attention 5"},
		{[][3]any{{"DISPATCHING", "", false}, {"ZOMBIE_REQUEUE", "", true}, {"INQUIRING", "", true}, {"RETRYABLE", "", false}, {"DISPATCHING", "", false}, {"UNKNOWN", "", true}}, "outcome_unknown 2, outcome_unknown 6"},
		{[][3]any{{"FAILED", "", false}, {"REPLAYED", "", false}, {"LATE_OUTCOME", "", false}}, "failed 1, replayed 2"},
		// What comes late may be the first that says it.
		{[][3]any{{"FAILED", "", false}, {"REPLAYED", "", false}, {"LATE_OUTCOME", "", true}, {"DISPATCHING", "", true}, {"UNKNOWN", "", true}}, "failed 1, replayed 2, outcome_unknown 3"},
		{[][3]any{{"LATE_OUTCOME", "", true}, {"LATE_OUTCOME", "", true}, {"DISPATCHED", "", false}}, "outcome_unknown 1, dispatched 3"},
		{[][3]any{{"DISPATCHED", "", false}, {"LATE_OUTCOME", "", true}}, "dispatched 1"},
	} {
		name := fmt.Sprint("i", n)
		id := d.order(who, "p1", name)
		for no, row := range c.rows {
			d.do(appended, [16]byte(id), no+1, row[0], row[1], row[2])
		}
		told, _ := s.hear()
		same(t, name, strings.ReplaceAll(strings.Join(told, ", "), name+" ", ""), c.want)
	}
}

// TestEventOfAContradiction: evidence against what stood there is told as a conflict, by whichever
// way it comes, and once.
func TestEventOfAContradiction(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	id := d.order(who, "p1", "one")
	s := d.subscribe(who)
	claim := d.claim(lane("bank", 9, 0))[id]
	d.record(told(payment.Policy{}, claim, payment.ResultRefusedFinal, ""))
	s.hears("refused", "one failed 2")
	same(t, "evidence", d.late(told(payment.Policy{}, claim, payment.ResultAccepted, "ref")), payment.VerdictConflict)
	s.hears("executed after all", "one conflict 3")
	d.do(`UPDATE railhead.payment_dead_letters SET status = 'resolved'`)
	other := d.subscribe(who)
	other.hears("after the letter has ended", "one failed 2, one conflict 3")
}

// TestSubscriptions: what a token is not for is not told, and what others read does not matter.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	all := d.token(nil, "p1", "p2", "p3")
	first, second := d.token(nil, "p1"), d.token(nil, "p2", "p3")
	writes := d.token(func(n *operator.NewToken) { n.Verbs = []string{"ENQUEUE"} }, "p1")
	for n, participant := range []string{"p1", "p2", "p3"} {
		d.do(appended, [16]byte(d.order(all, participant, fmt.Sprint("i", n+1))), 1, "DISPATCHED", "", false)
	}
	d.do(appended, [16]byte(d.order(all, "p1", "i4")), 1, "FAILED", "", false)
	d.settled()
	subscriptions := []outbox.Subscription{
		{Bearer: all}, {Bearer: first}, {Bearer: second}, {Bearer: second, Participants: []string{"p3"}},
		{Bearer: all, Types: []payment.EventType{payment.EventFailed}}, {Bearer: all, Participants: []string{"p1", "p2"}, Types: []payment.EventType{payment.EventDispatched}},
		{Bearer: writes}, {Bearer: first, Participants: []string{"p2"}}, {Bearer: first, Participants: []string{"p1", "p2"}}, {Bearer: outbox.Bearer{Token: [32]byte{1}}},
		{Bearer: all, Participants: []string{}}, {Bearer: all, Participants: []string{`p1","p2`, `{`, `\`}},
	}
	heard, err := d.door.Events(t.Context(), subscriptions, outbox.Place{}, time.Time{}, 100)
	d.must(err)
	got := make([]string, len(subscriptions))
	for _, e := range heard.Events {
		for _, n := range e.For {
			got[n] += e.InstructionID + " "
		}
	}
	same(t, "told", fmt.Sprintf("%q", got), fmt.Sprintf("%q",
		[]string{"i1 i2 i3 i4 ", "i1 i4 ", "i2 i3 ", "i3 ", "i4 ", "i1 i2 ", "", "", "", "", "", ""}))
	for n := range subscriptions {
		want := map[int]error{6: outbox.ErrForbidden, 7: outbox.ErrForbidden, 8: outbox.ErrForbidden, 9: outbox.ErrToken,
			11: outbox.ErrForbidden}[n]
		if got := heard.Refused[n]; !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("subscription %d is refused by %v, want %v", n, got, want)
		}
	}
	// What is revoked, or expires, hears no more from the next look on.
	d.do(`UPDATE railhead.payment_api_tokens SET revoked_at = clock_timestamp() WHERE participants = '{p1}'
		AND 'READ' = ANY (verbs)`)
	heard, err = d.door.Events(t.Context(), subscriptions[1:2], outbox.Place{}, time.Time{}, 100)
	d.must(err)
	if len(heard.Events) > 0 || !errors.Is(heard.Refused[0], outbox.ErrToken) {
		t.Errorf("revoked: %+v", heard)
	}
}

// TestPlaces: from now on, from a moment on, and after a failover that forgot rows.
func TestPlaces(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	s := d.subscribe(who)
	d.settled()
	begin, err := d.door.Newest(t.Context(), s.who)
	d.must(err)
	for n := range 6 {
		d.do(appended, [16]byte(d.order(who, "p1", fmt.Sprint("i", n))), 1, "DISPATCHED", "", false)
	}
	s.at = begin
	s.hears("from the beginning", "i0 dispatched 1, i1 dispatched 1, i2 dispatched 1, i3 dispatched 1, i4 dispatched "+
		"1, i5 dispatched 1")
	known, err := outbox.ParsePlace(s.at.String())
	d.must(err)
	same(t, "cursor", known, s.at)
	newest, err := d.door.Newest(t.Context(), s.who)
	d.must(err)
	same(t, "from now on", newest, s.at)

	d.do(`ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER`)
	d.do(`UPDATE railhead.payment_outbox_attempts a SET created_at = now() - (6 - k.sequence_id) * interval '40 minutes'
		FROM railhead.payment_outbox_keys k WHERE k.outbox_id = a.outbox_id`)
	heard, err := d.door.Events(t.Context(), []outbox.Subscription{s.who}, outbox.Place{},
		time.Now().Add(-100*time.Minute), 100)
	d.must(err)
	if len(heard.Events) != 3 || heard.Events[0].InstructionID != "i3" {
		t.Errorf("since 100 minutes ago: %+v", heard.Events)
	}
	// One that began before the moment and is under way is told, whenever it commits.
	before := d.subscribe(who)
	long, quick := d.order(who, "p1", "i6"), d.order(who, "p1", "i7")
	open, err := d.Conn(t, "").Begin(t.Context())
	d.must(err)
	defer open.Rollback(t.Context())
	var number string
	d.must(open.QueryRow(t.Context(), `SELECT pg_current_xact_id()::text`).Scan(&number))
	d.do(appended, [16]byte(quick), 1, "RETRYABLE", "", false)
	d.do(`UPDATE railhead.payment_outbox_attempts SET created_at = created_at - interval '3 minutes'
		WHERE outbox_id = $1`, [16]byte(quick))
	from, err := d.door.Events(t.Context(), []outbox.Subscription{s.who}, outbox.Place{}, time.Now().Add(-time.Second),
		100)
	d.must(err)
	same(t, "begins with what is under way", d.text(`SELECT (railhead.outcome_feed_since(now() + interval '2 minutes') <= $1::text::xid8)::text`, number), "true")
	_, err = open.Exec(t.Context(), appended, [16]byte(long), 1, "CANCELLED", "", false)
	d.must(err)
	d.must(open.Commit(t.Context()))
	if before.at = from.Place; before.at.AttemptID.IsZero() {
		t.Error("a place that the feed has come to has no row")
	}
	before.hears("since a second ago", "i6 cancelled 1")
	// A place that is made up is no further than the feed.
	ahead, err := d.door.Events(t.Context(), []outbox.Subscription{s.who},
		outbox.Place{System: newest.System, Xact: 1 << 62}, time.Time{}, 100)
	d.must(err)
	if newest, err := d.door.Newest(t.Context(), s.who); err != nil || newest.Before(ahead.Place) ||
		ahead.Place.Xact == 1<<62 {
		t.Errorf("a place ahead leads to %+v, the newest is %+v, %v", ahead.Place, newest, err)
	}
	d.do(`DELETE FROM railhead.payment_outbox_attempts WHERE state IN ('RETRYABLE', 'CANCELLED')`)
	s.at = newest
	// The newest row is forgotten, and its number goes to another transaction.
	d.do(`DELETE FROM railhead.payment_outbox_attempts WHERE xact = $1::text::xid8`, fmt.Sprint(s.at.Xact))
	told, last := s.hear()
	if got := strings.Join(told, ", "); got != "i4 dispatched 1" || !last.WentBack {
		t.Errorf("after a failover %s is told, %+v", got, last)
	}
	for what, change := range map[string]func(*outbox.Place){
		"another row's number": func(p *outbox.Place) { p.AttemptID = payment.NewID() },
		"another server":       func(p *outbox.Place) { p.System++ },
		"another transaction":  func(p *outbox.Place) { p.Xact++ },
	} {
		s.at = last.Place
		if change(&s.at); s.at.AttemptID.IsZero() {
			t.Fatal("the place has no row")
		}
		heard, err := d.door.Events(t.Context(), []outbox.Subscription{s.who}, s.at, time.Time{}, 100)
		d.must(err)
		if !heard.WentBack || len(heard.Events) == 0 {
			t.Errorf("%s: %+v", what, heard)
		}
	}
}

// TestFeedReadsWhatIsNew: a look at the newest rows costs what is new, whatever the archive holds.
func TestFeedReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	d.do(`INSERT INTO railhead.payment_outbox_attempts
		(attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state, outcome_unknown, provisional)
		SELECT railhead.uuidv7(), railhead.uuidv7(), 'i' || n, 'p', n, 'k', 'bank', 1, 'RETRYABLE', false, false
		FROM generate_series(1, 20000) n`)
	d.do(appended, [16]byte(d.order(who, "p1", "one")), 1, "DISPATCHED", "", false)
	d.settled()
	place, err := d.door.Newest(t.Context(), d.subscribe(who).who)
	d.must(err)
	d.do(appended, [16]byte(d.order(who, "p1", "two")), 1, "DISPATCHED", "", false)
	d.settled()
	conn := d.Conn(t, "")
	d.must(pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		read := func() (n int) {
			d.must(tx.QueryRow(t.Context(), `SELECT sum(pg_stat_get_xact_tuples_returned(c.oid)) FROM pg_class c
				WHERE c.relnamespace = 'railhead'::regnamespace AND c.relkind IN ('r', 'i')`).Scan(&n))
			return n
		}
		before := read()
		var events int
		d.must(tx.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE kind = 'EVENT')
			FROM railhead.api_events(ARRAY[$1::bytea], ARRAY[NULL::bytea], ARRAY[NULL::text], ARRAY[NULL::text],
			NULL, $2, $3::text::xid8, $4, $5, $6, 2000)`, who.Token[:], fmt.Sprint(place.System), fmt.Sprint(place.Xact), [16]byte(place.OutboxID), place.AttemptNo, [16]byte(place.AttemptID)).Scan(&events))
		if n := read() - before; n > 60 || events != 1 {
			t.Errorf("%d events, %d rows and index entries read", events, n)
		}
		return nil
	}))
}
