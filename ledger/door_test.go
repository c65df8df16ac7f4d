package ledger_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/ingest"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// doorDesk is a desk and the door of its cell.
type doorDesk struct {
	*desk
	door *door.Door
}

func newDoorDesk(t *testing.T) *doorDesk {
	t.Helper()
	d := &doorDesk{desk: newDesk(t)}
	var err error
	d.door, err = door.Open(t.Context(), ledger.Config{URL: d.URL(celltest.API), Cell: d.Schema, MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.door.Close)
	return d
}

var everyVerb = []string{"ENQUEUE", "READ", "CANCEL"}

// token makes a token for participants, and for every verb unless the change says otherwise.
func (d *doorDesk) token(change func(*operator.NewToken), participants ...string) outbox.Bearer {
	d.t.Helper()
	made := operator.NewToken{
		Name: "a test", Participants: participants, Verbs: everyVerb, ExpiresAt: time.Now().Add(time.Hour), Reason: "a test",
	}
	if change != nil {
		change(&made)
	}
	token, _, err := operator.CreateToken(d.t.Context(), d.super, d.Schema, made)
	if err != nil {
		d.t.Fatal(err)
	}
	return outbox.Bearer{Token: outbox.TokenDigest(token)}
}

func (d *doorDesk) instruction(participant, id, key string) payment.Instruction {
	return payment.Instruction{
		InstructionID: id, ParticipantID: participant, IdempotencyKey: key, RailType: "bank",
		Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`),
	}
}

func (d *doorDesk) take(who outbox.Bearer, in payment.Instruction) payment.Receipt {
	d.t.Helper()
	receipt, err := d.door.Enqueue(d.t.Context(), who, outbox.Entrusted{Instruction: in})
	if err != nil {
		d.t.Fatal(err)
	}
	return receipt
}

// refusedBy insists on the state of a refusal.
func refusedBy(t *testing.T, what string, err error, state string) {
	t.Helper()
	if fault, ok := errors.AsType[*outbox.Fault](err); !ok || fault.SQLState != state {
		t.Errorf("%s: %v, want %s", what, err, state)
	}
}

func TestDoor(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1", "p3")
	in := d.instruction("p1", "i-1", "key of the caller")
	first, err := d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in, OnBehalfOf: "clerk 7"})
	d.must(err)
	again := d.take(who, in)
	if !again.Replayed || again.OutboxID != first.OutboxID || first.Replayed || first.State != "PENDING" {
		t.Errorf("first %+v, again %+v", first, again)
	}
	other := in
	other.Payload = []byte(`{"amount": "99.00", "currency": "EUR"}`)
	_, err = d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: other})
	refusedBy(t, "other content", err, outbox.StateConflict)
	second := in
	second.IdempotencyKey = "another key"
	_, err = d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: second})
	refusedBy(t, "a second key", err, outbox.StateSecondKey)

	got, err := d.door.Status(t.Context(), who, first.OutboxID)
	d.must(err)
	if got.InstructionID != "i-1" || got.ParticipantID != "p1" || got.IdempotencyKey != "key of the caller" ||
		got.OnBehalfOf != "clerk 7" ||
		got.State != "PENDING" || got.Certainty != "NOT_SENT" || got.SequenceID != 1 {
		t.Errorf("status %+v", got)
	}
	same(t, "key in the registry", d.text(`SELECT idempotency_key FROM railhead.payment_outbox_keys`),
		fmt.Sprintf("api-%x", sha256.Sum256([]byte("p1\x1fkey of the caller"))))
	same(t, "content of the archive", d.Int(`SELECT count(*) FROM railhead.payment_api_calls WHERE token_id <> ''`), 1)

	for n := 2; n <= 5; n++ {
		d.take(who, d.instruction("p1", fmt.Sprintf("i-%d", n), fmt.Sprintf("k-%d", n)))
	}
	d.take(who, d.instruction("p3", "i-1", "k-1"))
	for _, c := range []struct {
		page outbox.Page
		want string
	}{
		{outbox.Page{ParticipantID: "p1", Most: 2}, "i-1 i-2"},
		{outbox.Page{ParticipantID: "p1", After: 2, Most: 2}, "i-3 i-4"},
		{outbox.Page{ParticipantID: "p1", After: 4}, "i-5"},
		{outbox.Page{ParticipantID: "p1", InstructionID: "i-4"}, "i-4"},
		{outbox.Page{ParticipantID: "p1", IdempotencyKey: "k-3"}, "i-3"},
		{outbox.Page{ParticipantID: "p1", IdempotencyKey: "k-3", InstructionID: "i-4"}, ""},
		{outbox.Page{ParticipantID: "p1", InstructionID: "i-9"}, ""},
		{outbox.Page{ParticipantID: "p3"}, "i-1"},
	} {
		all, err := d.door.List(t.Context(), who, c.page)
		d.must(err)
		var ids []string
		for _, each := range all {
			ids = append(ids, each.InstructionID)
		}
		same(t, fmt.Sprintf("page %+v", c.page), strings.Join(ids, " "), c.want)
	}

	for n := range 2 { // a second cancel has the status too, and changes nothing
		gone, replayed, err := d.door.Cancel(t.Context(), who, first.OutboxID, "the order was withdrawn")
		d.must(err)
		same(t, "a cancel", fmt.Sprint(gone.State, gone.Certainty, gone.Attempts, gone.InstructionID, gone.IdempotencyKey,
			replayed), fmt.Sprint("CANCELLED", "NOT_SENT", 1, "i-1", "key of the caller", n == 1))
	}
	rows, err := d.door.Attempts(t.Context(), who, first.OutboxID, 0, 0)
	d.must(err)
	if len(rows) != 1 || rows[0].State != "CANCELLED" || rows[0].AttemptNo != 1 {
		t.Errorf("attempts %+v", rows)
	}
	if got := d.text(`SELECT reason FROM railhead.payment_operator_log
		WHERE act = 'CANCEL'`); !strings.HasPrefix(got, "token ") || !strings.HasSuffix(got, " (a test): the order was withdrawn") {
		t.Errorf("the log says %q", got)
	}
}

// TestDoorOfTwoParticipants: two tenants with the same ids and keys neither collide nor
// learn of each other.
func TestDoorOfTwoParticipants(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	one, two := d.token(nil, "p1"), d.token(nil, "p2")
	mine := d.take(one, d.instruction("p1", "4711", "1"))
	theirs := d.take(two, d.instruction("p2", "4711", "1"))
	if mine.Replayed || theirs.Replayed || mine.OutboxID == theirs.OutboxID {
		t.Fatalf("%+v and %+v", mine, theirs)
	}
	for what, id := range map[string]payment.ID{"another's": theirs.OutboxID, "none": payment.NewID()} {
		_, err := d.door.Status(t.Context(), one, id)
		if !errors.Is(err, outbox.ErrNotFound) {
			t.Errorf("status of %s: %v", what, err)
		}
		_, err = d.door.Attempts(t.Context(), one, id, 0, 0)
		refusedBy(t, "attempts of "+what, err, outbox.StateNoInstruction)
		_, _, err = d.door.Cancel(t.Context(), one, id, "why not")
		refusedBy(t, "cancel of "+what, err, outbox.StateNoInstruction)
	}
	_, err := d.door.List(t.Context(), one, outbox.Page{ParticipantID: "p2"})
	refusedBy(t, "list of another's", err, outbox.StateForbidden)
	all, err := d.door.List(t.Context(), one, outbox.Page{ParticipantID: ""})
	if len(all) > 0 || err != nil {
		t.Errorf("a list of no participant's: %v, %v", all, err)
	}
	_, err = d.door.Enqueue(t.Context(), one, outbox.Entrusted{Instruction: d.instruction("p2", "4712", "2")})
	refusedBy(t, "enqueue for another", err, outbox.StateForbidden)
	same(t, "instructions of p2", d.Int(`SELECT count(*) FROM railhead.payment_outbox_keys
		WHERE participant_id = 'p2'`), 1)

	// One call carries both, and each gets its own.
	answers, err := d.door.EnqueueBatch(t.Context(), one, []outbox.Entrusted{
		{Instruction: d.instruction("p1", "i-1", "k-1")}, {Instruction: d.instruction("p2", "i-2", "k-2")}, {Instruction: d.instruction("p1", "i-3", "k-3")},
	})
	d.must(err)
	if answers[0].Fault != nil || answers[1].Fault == nil || answers[2].Fault != nil ||
		answers[1].Fault.SQLState != outbox.StateForbidden {
		t.Errorf("%+v", answers)
	}
}

// TestRefusedUsesNoKey: calls of several bearers travel together. One that is refused for its token, or
// for its form, uses no key: the call behind it with the same key, for another instruction, is taken.
func TestRefusedUsesNoKey(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	api := d.Conn(t, celltest.API)
	owner, other := d.token(nil, "p1"), d.token(nil, "p2")
	reader := d.token(func(n *operator.NewToken) { n.Verbs = []string{"READ"} }, "p1")
	for n, c := range []struct {
		what, behalf, want string
		before             outbox.Bearer
	}{
		{"another participant's", "clerk", "RH031 ", other},
		{"one for reading", "clerk", "RH031 ", reader},
		{"one that does not exist", "clerk", "RH030 ", outbox.Bearer{}},
		{"without a principal", " ", "RH002 ", owner},
		{"its own, taken", "clerk", " RH001", owner},
	} {
		key := fmt.Sprintf("k-%d", n)
		got := ""
		d.must(api.QueryRow(t.Context(), `
			SELECT string_agg(coalesce(e.error_code, ''), ' ' ORDER BY e.item)
			FROM railhead.api_enqueue($1, ARRAY[NULL, NULL]::bytea[], ARRAY['first-' || $2, 'second-' || $2], ARRAY['p1', 'p1'], ARRAY[$2, $2],
				ARRAY['bank', 'bank'], array_fill('{"amount": "10.50", "currency": "EUR"}'::jsonb, ARRAY[2]), ARRAY[NULL, NULL]::timestamptz[],
				ARRAY[NULL, NULL]::timestamptz[], ARRAY[1, 1], array_fill('{}'::jsonb, ARRAY[2]), ARRAY[false, true], ARRAY[$3, 'clerk']) e`,
			[][]byte{c.before.Token[:], owner.Token[:]}, key, c.behalf).Scan(&got))
		same(t, "behind "+c.what, got, c.want)
	}
}

// TestDoorIsClosed tries every way to call without a token that is for it.
func TestDoorIsClosed(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	owner := d.token(nil, "p1")
	id := d.take(owner, d.instruction("p1", "i-1", "k-1")).OutboxID
	key := sha256.Sum256([]byte("a public key"))
	expired := d.token(nil, "p1")
	d.do(`ALTER TABLE railhead.payment_api_tokens DISABLE TRIGGER USER`)
	outer := sha256.Sum256(expired.Token[:])
	d.do(`UPDATE railhead.payment_api_tokens SET expires_at = clock_timestamp() - interval '1 second'
		WHERE token_digest = $1`, outer[:])
	d.do(`ALTER TABLE railhead.payment_api_tokens ENABLE ALWAYS TRIGGER payment_api_tokens_kept`)
	revoked := d.token(nil, "p1")
	outer = sha256.Sum256(revoked.Token[:])
	d.do(`SELECT railhead.revoke_api_token($1, 'a test')`, fmt.Sprintf("%x", outer)[:16])
	bound := d.token(func(n *operator.NewToken) { n.Certificate = key[:] }, "p1")
	otherKey := bound
	otherKey.Certificate = make([]byte, 32)
	withKey := bound
	withKey.Certificate = key[:]
	verb := func(verbs ...string) outbox.Bearer {
		return d.token(func(n *operator.NewToken) { n.Verbs = verbs }, "p1")
	}
	for _, c := range []struct {
		name                  string
		who                   outbox.Bearer
		enqueue, read, cancel string // the state of the refusal
	}{
		{"no token", outbox.Bearer{}, "RH030", "RH030", "RH030"},
		{"the stored digest", outbox.Bearer{Token: outer}, "RH030", "RH030", "RH030"},
		{"expired", expired, "RH030", "RH030", "RH030"},
		{"revoked", revoked, "RH030", "RH030", "RH030"},
		{"without its certificate", bound, "RH030", "RH030", "RH030"},
		{"with another certificate", otherKey, "RH030", "RH030", "RH030"},
		{"for another participant", d.token(nil, "p2"), "RH031", "RH010", "RH010"},
		{"for reading", verb("READ"), "RH031", "", "RH031"},
		{"for enqueueing", verb("ENQUEUE"), "", "RH031", "RH031"},
		{"for cancelling", verb("CANCEL"), "RH031", "RH031", "RH020"},
		{"with its certificate", withKey, "", "", ""},
	} {
		state := func(err error) string {
			if fault, ok := errors.AsType[*outbox.Fault](err); ok {
				return fault.SQLState
			}
			if errors.Is(err, outbox.ErrNotFound) {
				return outbox.StateNoInstruction
			}
			d.must(err)
			return ""
		}
		in := d.instruction("p1", "by "+strings.ReplaceAll(c.name, " ", "-"), "k")
		in.IdempotencyKey = in.InstructionID
		_, err := d.door.Enqueue(t.Context(), c.who, outbox.Entrusted{Instruction: in})
		same(t, c.name+": enqueue", state(err), c.enqueue)
		_, err = d.door.Status(t.Context(), c.who, id)
		same(t, c.name+": status", state(err), c.read)
		_, err = d.door.Attempts(t.Context(), c.who, id, 0, 0)
		same(t, c.name+": attempts", state(err), c.read)
		_, err = d.door.List(t.Context(), c.who, outbox.Page{ParticipantID: "p1"})
		same(t, c.name+": list", state(err), strings.Replace(c.read, "RH010", "RH031", 1))
		target := id
		if c.name == "with its certificate" {
			target = d.take(owner, d.instruction("p1", "to be cancelled", "k-2")).OutboxID
		} else if c.name == "for cancelling" {
			d.claimOne(id)
		}
		_, _, err = d.door.Cancel(t.Context(), c.who, target, "a test")
		same(t, c.name+": cancel", state(err), c.cancel)
	}
	if err := d.door.NoteUses(t.Context(), [][32]byte{owner.Token, expired.Token, {}}, []int64{3, 0, 9},
		[]int64{0, 2, 9}); err != nil {
		t.Fatal(err)
	}
	same(t, "noted", d.text(`SELECT string_agg(uses || '/' || refused, ' ' ORDER BY uses)
		FROM railhead.payment_api_uses`), "0/2 3/0")
}

// TestDoorKeyIsOfOneInstruction: over HTTP a participant's key stands for one instruction_id.
func TestDoorKeyIsOfOneInstruction(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	d.take(who, d.instruction("p1", "i-1", "k-1"))
	_, err := d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: d.instruction("p1", "i-2", "k-1")})
	refusedBy(t, "the key of another instruction", err, outbox.StateConflict)
	answers, err := d.door.EnqueueBatch(t.Context(), who, []outbox.Entrusted{
		{Instruction: d.instruction("p1", "i-3", "k-3")}, {Instruction: d.instruction("p1", "i-4", "k-3")}, {Instruction: d.instruction("p1", "i-3", "k-3")},
	})
	d.must(err)
	if answers[0].Fault != nil || answers[1].Fault == nil || answers[2].Fault != nil || !answers[2].Receipt.Replayed {
		t.Errorf("in one batch: %+v", answers)
	}
	for n := range 20 {
		var all sync.WaitGroup
		var taken, refused int
		var mu sync.Mutex
		for _, side := range []string{"a", "b", "c"} {
			all.Go(func() {
				_, err := d.door.Enqueue(t.Context(), who,
					outbox.Entrusted{Instruction: d.instruction("p1", fmt.Sprintf("%s-%d", side, n), fmt.Sprintf("race-%d", n))})
				mu.Lock()
				defer mu.Unlock()
				if fault, ok := errors.AsType[*outbox.Fault](err); ok && fault.SQLState == outbox.StateConflict {
					refused++
				} else if err == nil {
					taken++
				} else {
					t.Errorf("side %s: %v", side, err)
				}
			})
		}
		all.Wait()
		if taken != 1 || refused != 2 {
			t.Errorf("round %d: %d taken, %d refused", n, taken, refused)
		}
	}
}

// TestDoorAndSQL: the same key by SQL and over HTTP is one payment, whichever comes first.
func TestDoorAndSQL(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "participant")
	ingest, err := ingest.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Ingest), Cell: d.Schema})
	d.must(err)
	t.Cleanup(ingest.Close)
	for n := range 20 {
		in := d.instruction("participant", fmt.Sprintf("i-%d", n), fmt.Sprintf("k-%d", n))
		var all sync.WaitGroup
		errs := make([]error, 2)
		all.Go(func() { _, errs[0] = ingest.Enqueue(t.Context(), in) })
		all.Go(func() { _, errs[1] = d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: in}) })
		all.Wait()
		for _, err := range errs {
			if err != nil {
				refusedBy(t, "the second one", err, outbox.StateSecondKey)
			}
		}
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Errorf("round %d: %v and %v", n, errs[0], errs[1])
		}
	}
	same(t, "instructions", d.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`), 20)
	d.must(d.door.CheckKeys(t.Context()))
	d.do(`UPDATE railhead.payment_outbox_settings SET allow_second_key = true`)
	_, err = d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: d.instruction("participant", "i-x", "k-x")})
	if !errors.Is(err, outbox.ErrSecondKeys) {
		t.Errorf("where the cell allows second keys: %v", err)
	}
	if err := d.door.CheckKeys(t.Context()); !errors.Is(err, outbox.ErrSecondKeys) {
		t.Errorf("a check of a cell that allows second keys: %v", err)
	}
}

// TestLocksOfAnEnqueueByToken counts what TestLocksOfAnEnqueue does, of a call over HTTP:
// the token and its index, and the caller's key with its two, come on top. With plans that
// are made it is at most 16, all of which the session keeps to itself; where they are made
// in the same transaction, planning takes 7 more.
func TestLocksOfAnEnqueueByToken(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	const planning, planned = 25, 18
	conn := d.Conn(t, celltest.API)
	few, fast := false, false
	// A strong lock of another test, on whatever relation has the same hash, takes one out of the fast places while it is
	// held; and so many changes of other tests at once that the server forgets them have a session plan again.
	for n, end := 1, time.Now().Add(20*time.Second); n <= 5 || !(few && fast) && time.Now().Before(end); n++ {
		what := fmt.Sprintf("call %d", n)
		if n > 5 {
			time.Sleep(100 * time.Millisecond)
		}
		tx, err := conn.Begin(t.Context())
		d.must(err)
		id := strings.ReplaceAll(what, " ", "-")
		var code *string
		d.must(tx.QueryRow(t.Context(), `
			SELECT error_code FROM railhead.api_enqueue(ARRAY[$1::bytea], ARRAY[NULL::bytea], ARRAY[$2], ARRAY['p1'], ARRAY[$2], ARRAY['bank'],
				ARRAY['{"amount": "1.00", "currency": "EUR"}'::jsonb], ARRAY[NULL::timestamptz], ARRAY[NULL::timestamptz], ARRAY[1], ARRAY['{}'::jsonb],
				ARRAY[false], ARRAY[NULL::text])`, who.Token[:], id).Scan(&code))
		if code != nil {
			t.Fatalf("%s: refused with %s", what, *code)
		}
		pid := int(conn.PgConn().PID())
		locks := d.Int(`SELECT count(DISTINCT relation) FROM pg_locks WHERE pid = $1 AND locktype = 'relation'`, pid)
		list := d.text(`SELECT string_agg(relation::regclass::text || ' ' || mode, ', ' ORDER BY 1) FROM pg_locks
			WHERE pid = $1 AND locktype = 'relation'`, pid)
		if locks == 0 || locks > planning {
			t.Errorf("%s: %d relation locks, want at most %d: %s", what, locks, planning, list)
		}
		shared := d.Int(`SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype = 'relation' AND NOT fastpath`, pid)
		if n > 1 && (locks > planned || shared > 1) {
			t.Logf("%s: %d relation locks, of which %d go through the table that all sessions share: %s", what, locks, shared,
				list)
		}
		few, fast = few || n > 1 && locks <= planned, fast || n > 1 && shared <= 1
		d.must(tx.Commit(t.Context()))
	}
	if !few || !fast {
		t.Errorf("more than %d relation locks each time (%t), or more than one goes through the table that all sessions "+
			"share, each time (%t)", planned, !few, !fast)
	}
}

// TestTokensAreKept: of a token nothing changes but that it is revoked, and none goes.
func TestTokensAreKept(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1")
	d.take(who, d.instruction("p1", "i-1", "k-1"))
	for _, change := range []string{
		`UPDATE railhead.payment_api_tokens SET participants = '{p2}'`,
		`UPDATE railhead.payment_api_tokens SET verbs = '{READ}'`,
		`UPDATE railhead.payment_api_tokens SET expires_at = expires_at + interval '1 day'`,
		`UPDATE railhead.payment_api_tokens SET expires_at = expires_at + interval '1 day', revoked_at = clock_timestamp()`,
		`DELETE FROM railhead.payment_api_tokens`,
		`TRUNCATE railhead.payment_api_tokens`,
		`UPDATE railhead.payment_api_calls SET token_id = 'x'`,
		`DELETE FROM railhead.payment_api_calls`,
	} {
		_, err := d.super.Exec(t.Context(), change)
		if fault, ok := errors.AsType[*pgconn.PgError](err); !ok || fault.Code != "P0001" {
			t.Errorf("%s: %v", change, err)
		}
	}
	op, err := operator.Open(t.Context(), ledger.Config{URL: d.URL(celltest.Operator), Cell: d.Schema})
	d.must(err)
	t.Cleanup(op.Close)
	listed, _, err := op.Reader().Tokens(t.Context())
	d.must(err)
	if len(listed) != 1 || !listed[0].RevokedAt.IsZero() || !slices.Equal(listed[0].Participants, []string{"p1"}) {
		t.Fatalf("listed %+v", listed)
	}
	for n, want := range []bool{true, false} {
		was, err := op.RevokeToken(t.Context(), listed[0].ID, "a test")
		d.must(err)
		same(t, fmt.Sprintf("revocation %d", n+1), was, want)
	}
	d.do(`DO $$ BEGIN UPDATE railhead.payment_api_tokens SET revoked_at = NULL; EXCEPTION WHEN raise_exception
		THEN NULL; END $$`)
	_, err = d.door.Enqueue(t.Context(), who, outbox.Entrusted{Instruction: d.instruction("p1", "i-2", "k-2")})
	refusedBy(t, "after the revocation", err, outbox.StateToken)
	if _, err := op.RevokeToken(t.Context(), "no such token", "a test"); !errors.Is(err, outbox.ErrNotFound) {
		t.Errorf("revoking none: %v", err)
	}
	made := operator.NewToken{Name: "n", Participants: []string{"p"}, Verbs: everyVerb,
		ExpiresAt: time.Now().Add(time.Hour), Reason: "r"}
	for what, spoil := range map[string]func(*operator.NewToken){
		"no participant":  func(n *operator.NewToken) { n.Participants = []string{} },
		"an unknown verb": func(n *operator.NewToken) { n.Verbs = []string{"PAY"} },
		"no expiry soon":  func(n *operator.NewToken) { n.ExpiresAt = time.Now().Add(500 * 24 * time.Hour) },
		"expired already": func(n *operator.NewToken) { n.ExpiresAt = time.Now().Add(-time.Hour) },
		"no reason":       func(n *operator.NewToken) { n.Reason = " " },
		"no name":         func(n *operator.NewToken) { n.Name = "" },
		"a short key":     func(n *operator.NewToken) { n.Certificate = []byte("short") },
		"a quota below 1": func(n *operator.NewToken) { n.RequestsPerMinute = -1 },
	} {
		bad := made
		spoil(&bad)
		_, _, err := operator.CreateToken(t.Context(), d.super, d.Schema, bad)
		refusedBy(t, what, err, outbox.StateInvalid)
	}
}

// TestUnreadableLineOfABatch: lines that the server can't read are refused by themselves, and the others are stored in
// one transaction, or none is.
func TestUnreadableLineOfABatch(t *testing.T) {
	t.Parallel()
	d := newDoorDesk(t)
	who := d.token(nil, "p1", "p2")
	d.do(`CREATE FUNCTION railhead.no_room() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF NEW.participant_id = 'p2'
		THEN RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'no space is left'; END IF; RETURN NEW; END $$`)
	d.do(`CREATE TRIGGER no_room BEFORE INSERT ON railhead.payment_outbox_keys FOR EACH ROW EXECUTE FUNCTION railhead.no_room()`)
	text := d.instruction("p1", "i-2", "k-2")
	text.Payload = []byte(`{"amount": "10.50", "currency": "EUR", "text": "\ud800"}`)
	all := []outbox.Entrusted{{Instruction: d.instruction("p1", "i-1", "k-1")}, {Instruction: text},
		{Instruction: d.instruction("p1", "i-3", "k-3"), OnBehalfOf: "a\x00b"}, {Instruction: d.instruction("p1", "i-4", "k-4")},
		{Instruction: d.instruction("p2", "i-5", "k-5")}}
	_, err := d.door.EnqueueBatch(t.Context(), who, all)
	if err == nil || errors.Is(err, outbox.ErrCommitUnknown) {
		t.Errorf("nothing is stored, and it says %v", err)
	}
	same(t, "stored without room for one", d.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`), 0)
	d.do(`DROP TRIGGER no_room ON railhead.payment_outbox_keys`)
	results, err := d.door.EnqueueBatch(t.Context(), who, all)
	d.must(err)
	for n, want := range []int64{1, 0, 0, 2, 1} {
		if got := results[n]; (got.Fault == nil) != (want > 0) || got.Receipt.SequenceID != want {
			t.Errorf("line %d: %+v, want number %d", n+1, got, want)
		}
	}
	same(t, "transactions", d.Int(`SELECT count(DISTINCT xmin::text) FROM railhead.payment_outbox_keys`), 1)
	if results, err = d.door.EnqueueBatch(t.Context(), who, all[1:3]); err != nil || results[0].Fault == nil ||
		results[1].Fault == nil {
		t.Errorf("a batch of none that can be read: %+v, %v", results, err)
	}
}
