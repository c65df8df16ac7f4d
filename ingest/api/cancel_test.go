package api_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

// callersOf serves a cell, and returns how a caller is made whose token has these verbs.
func callersOf(t *testing.T, cell *celltest.Cell) func(verbs ...string) *cellOverHTTP {
	t.Helper()
	store, err := door.Open(t.Context(), ledger.Config{URL: cell.URL(celltest.API), Cell: cell.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	made, err := api.New(api.Config{}, store, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(made.Handler())
	t.Cleanup(server.Close)
	admin := cell.Conn(t, "")
	return func(verbs ...string) *cellOverHTTP {
		token, _, err := operator.CreateToken(t.Context(), admin, cell.Schema, operator.NewToken{
			Name: "a test", Participants: []string{"p1"}, Verbs: verbs, ExpiresAt: time.Now().Add(time.Hour), Reason: "a test",
		})
		if err != nil {
			t.Fatal(err)
		}
		return &cellOverHTTP{fakeDoor: &fakeDoor{t: t, serve: server}, token: token}
	}
}

// TestCancelSaysItsCertainty: the answer to a cancel has the certainty, also for a token that may not read, and so has
// the answer to the same call again: a caller that pays in another way goes by it.
func TestCancelSaysItsCertainty(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	caller := callersOf(t, cell)
	reads, cancels := caller("ENQUEUE", "READ", "CANCEL"), caller("ENQUEUE", "CANCEL")
	numbered := func(n string) string { return strings.Replace(valid, "i-1", "i-"+n, 1) }
	restored := func() {
		if _, err := cell.Conn(t, "").Exec(t.Context(), `INSERT INTO railhead.payment_outbox_suspensions
			(worker_id, cause, detail, system_identifier, timeline, server_started_at, known_until, accepted_at, accepted_by, reason)
			VALUES ('w', 'NEW_TIMELINE', 'a restore', '1', 1, now(), now() - interval '1 minute', now(), 'ops', 'compared')`); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []string{"NOT_SENT", "OUTCOME_UNKNOWN"} {
		for _, who := range []*cellOverHTTP{reads, cancels} {
			id := string(rune('1'+n)) + map[bool]string{true: "r", false: "c"}[who == reads]
			made := reads.asks("POST", "/v1/instructions", numbered(id), "Idempotency-Key", "k-"+id)
			reads.want("an enqueue", made, 201)
			if n == 1 && who == reads {
				restored()
			}
			for again := range 2 {
				got := who.asks("POST", "/v1/instructions/"+made.field("outbox_id")+"/cancel", `{"reason": "withdrawn"}`)
				who.want("cancel "+id, got, 200, "state", "CANCELLED", "certainty", want, "instruction_id", "i-"+id,
					"participant_id", "p1", "idempotency_key", "k-"+id, "created_at", made.field("created_at"))
				if replayed := got.header.Get("Idempotent-Replayed"); replayed != map[bool]string{true: "true"}[again == 1] {
					t.Errorf("cancel %s, call %d: Idempotent-Replayed %q", id, again+1, replayed)
				}
			}
		}
	}
	status := cancels.asks("GET", "/v1/instructions", "")
	cancels.want("a read by a token for cancelling", status, 400)
}

// TestWaitWithoutTheRightToRead: an answer says that it has waited only if it has, and 202 only if no outcome is known.
func TestWaitWithoutTheRightToRead(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	caller := callersOf(t, cell)
	reads, enqueues := caller("READ", "CANCEL"), caller("ENQUEUE")
	made := enqueues.asks("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1", "Prefer", "wait=10")
	enqueues.want("an enqueue", made, 201, "state", "PENDING")
	reads.want("a cancel", reads.asks("POST", "/v1/instructions/"+made.field("outbox_id")+"/cancel", `{"reason": "x"}`), 200)
	again := enqueues.asks("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1", "Prefer", "wait=10")
	enqueues.want("the same again", again, 200, "state", "CANCELLED", "replayed", "true")
	for _, one := range []answer{made, again} {
		if one.header.Get("Preference-Applied") != "" || one.header.Get("Retry-After") != "" {
			t.Errorf("it has not waited, and says %v", one.header)
		}
	}
}

// TestDiffersOfNone: a repeated call of which nothing differs is told so, apart from one of which that is not known.
func TestDiffersOfNone(t *testing.T) {
	t.Parallel()
	who := callersOf(t, celltest.New(t))("ENQUEUE")
	urgent := strings.Replace(valid, `"rail_type"`, `"priority": 0, "rail_type"`, 1)
	for n, c := range []struct{ body, want string }{{valid, "none"}, {valid, "[]"}, {urgent, "[priority]"}} {
		got := who.asks("POST", "/v1/instructions", c.body, "Idempotency-Key", "k-1")
		differs := "none"
		if _, there := got.fields["differs"]; there {
			differs = got.field("differs")
		}
		if got.status >= 300 || differs != c.want {
			t.Errorf("call %d: %s, want %s: %s", n+1, differs, c.want, got.text)
		}
	}
	who.want("a moment that RFC 3339 can't write", who.asks("POST", "/v1/instructions", strings.NewReplacer("i-1", "i-2",
		`"rail_type"`, `"expires_at": "9999-12-31T23:59:59-05:00", "rail_type"`).Replace(valid), "Idempotency-Key", "k-2"),
		422, "field", "expires_at", "rule", "RANGE")
}

// TestListByState: a list takes each state that an instruction may have, and refuses any other word, of which an
// empty page would say that there is no such instruction.
func TestListByState(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	states := []string{"PENDING", "CONFLICT", payment.Elsewhere}
	for _, state := range payment.States() {
		if state != payment.LateOutcome {
			states = append(states, string(state))
		}
	}
	for _, state := range states {
		d.want(state, d.call("GET", "/v1/instructions?participant_id=p1&state="+state, ""), 200)
	}
	for _, word := range []string{"dispatched", "LATE_OUTCOME", "PAID"} {
		d.want(word, d.call("GET", "/v1/instructions?participant_id=p1&state="+word, ""), 400, "field", "query.state")
	}
}
