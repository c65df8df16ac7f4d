package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/internal/httpclient"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// cellOverHTTP is a cell with an API of its own, called with a token for p1.
type cellOverHTTP struct {
	*celltest.Cell
	*fakeDoor
	token    string
	operator *operator.Operator
}

func (c *cellOverHTTP) asks(method, path, body string, headers ...string) answer {
	c.t.Helper()
	return c.call(method, path, body, append(headers, "Authorization", "Bearer "+c.token)...)
}

// eastAndWest are two cells of one directory. East has every bucket.
func eastAndWest(t *testing.T) (both map[string]*cellOverHTTP, at cells.Acts) {
	t.Helper()
	both = map[string]*cellOverHTTP{}
	at = cells.Acts{Settings: []string{"EAST", "WEST"}, Schema: "railhead",
		Open: func(ctx context.Context, setting, schema string) (*operator.Operator, error) {
			return operator.Open(ctx, ledger.Config{URL: both[setting].URL(celltest.Operator), Cell: schema, MaxConns: 2})
		}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, setting := range at.Settings {
		c := &cellOverHTTP{Cell: celltest.New(t), fakeDoor: &fakeDoor{t: t}}
		store, err := door.Open(t.Context(), ledger.Config{URL: c.URL(celltest.API), Cell: c.Schema})
		must(err)
		t.Cleanup(store.Close)
		made, err := api.New(api.Config{}, store, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
		must(err)
		c.serve = httptest.NewServer(made.Handler())
		t.Cleanup(c.serve.Close)
		c.token, _, err = operator.CreateToken(t.Context(), c.Conn(t, ""), c.Schema, operator.NewToken{
			Name: "p1", Participants: []string{"p1"}, Verbs: []string{"ENQUEUE", "READ", "CANCEL"},
			ExpiresAt: time.Now().Add(time.Hour), Reason: "a test",
		})
		must(err)
		both[setting] = c
		c.operator, err = at.Open(t.Context(), setting, "railhead")
		must(err)
		t.Cleanup(c.operator.Close)
	}
	spec := func(setting string) reader.Cell {
		return reader.Cell{Name: strings.ToLower(setting), Setting: setting, Schema: "railhead"}
	}
	_, err := cells.First(t.Context(), spec("EAST"), "a test", at)
	must(err)
	n, _, err := cells.Add(t.Context(), both["EAST"].operator, spec("WEST"), "a test", at)
	must(err)
	n.Close()
	return both, at
}

// moveP1 moves the bucket of p1 to a cell.
func moveP1(t *testing.T, both map[string]*cellOverHTTP, at cells.Acts, to string) {
	t.Helper()
	n, m, err := cells.Move(t.Context(), both["EAST"].operator, to, []int{outbox.BucketOf("p1")},
		cells.Moving{Reason: "a test", Said: func(string) {}}, at)
	if err != nil || m.Buckets != 1 {
		t.Fatalf("moving p1 to %s: %+v, %v", to, m, err)
	}
	n.Close()
}

// instructionOf is an instruction of p1 with an id.
func instructionOf(id string) string { return strings.Replace(valid, `"i-1"`, `"`+id+`"`, 1) }

// TestMovedParticipant: the API of the cell to which a participant was moved answers a late retry as a replay,
// pays nothing again, and says of the payment that it is in another cell, however it is asked. The old cell
// still answers for it.
func TestMovedParticipant(t *testing.T) {
	t.Parallel()
	both, at := eastAndWest(t)
	east, west := both["EAST"], both["WEST"]
	first := east.asks("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1")
	east.want("the first call", first, 201, "state", "PENDING", "sequence_id", "1")
	east.want("the second", east.asks("POST", "/v1/instructions", instructionOf("i-2"), "Idempotency-Key", "k-2"), 201)
	id := first.field("outbox_id")
	moveP1(t, both, at, "west")

	began := time.Now()
	for _, headers := range [][]string{nil, {"Prefer", "wait=20"}} {
		late := west.asks("POST", "/v1/instructions", valid, append(headers, "Idempotency-Key", "k-1")...)
		west.want("a late retry", late, 200, "state", payment.Elsewhere, "replayed", "true", "outbox_id", id,
			"sequence_id", "1", "created_at", first.field("created_at"), "idempotency_key", "k-1")
		if late.header.Get("Idempotent-Replayed") != "true" || late.header.Get("Preference-Applied") != "" ||
			late.header.Get("Retry-After") != "" || late.header.Get("Location") != "/v1/instructions/"+id {
			t.Errorf("the headers of a late retry: %v", late.header)
		}
		asked := west.asks("GET", "/v1/instructions/"+id, "", headers...)
		west.want("its address", asked, 200, "state", payment.Elsewhere, "instruction_id", "i-1", "participant_id", "p1",
			"sequence_id", "1", "created_at", first.field("created_at"), "idempotency_key", "")
		for _, field := range []string{"certainty", "attempts", "changed_at", "waits_for_person"} {
			if _, said := asked.fields[field]; said {
				t.Errorf("%s of a payment in another cell is said: %s", field, asked.text)
			}
		}
		if asked.header.Get("Preference-Applied") != "" {
			t.Errorf("the headers of its status: %v", asked.header)
		}
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("what comes to another cell was waited for: %s", took)
	}
	batch := west.asks("POST", "/v1/instructions/batch", strings.Replace(valid, "{", `{"idempotency_key": "k-1", `, 1)+"\n",
		"Content-Type", "application/x-ndjson")
	if !strings.Contains(batch.text, `"status":200`) || !strings.Contains(batch.text, `"state":"ELSEWHERE"`) {
		t.Errorf("the same in a batch: %s", batch.text)
	}

	west.want("other content", west.asks("POST", "/v1/instructions", strings.Replace(valid, "10.50", "10.51", 1),
		"Idempotency-Key", "k-1"), 409, "code", "RH001")
	west.want("a second key", west.asks("POST", "/v1/instructions", valid, "Idempotency-Key", "k-3"), 409, "code", "RH007")
	reused := west.asks("POST", "/v1/instructions", instructionOf("i-3"), "Idempotency-Key", "k-1")
	west.want("its key for another instruction", reused, 409, "code", "RH001", "field", "idempotency_key",
		"rule", "SAME_CONTENT")
	if !strings.Contains(reused.text, "this idempotency_key was first used for another instruction_id") {
		t.Errorf("its key for another instruction: %s", reused.text)
	}
	batch = west.asks("POST", "/v1/instructions/batch", strings.Replace(instructionOf("i-3"), "{",
		`{"idempotency_key": "k-1", `, 1)+"\n", "Content-Type", "application/x-ndjson")
	if !strings.Contains(batch.text, "this idempotency_key was first used for another instruction_id") {
		t.Errorf("its key for another instruction in a batch: %s", batch.text)
	}
	west.want("its attempts", west.asks("GET", "/v1/instructions/"+id+"/attempts", ""), 409, "code", "RH020")
	west.want("its cancel", west.asks("POST", "/v1/instructions/"+id+"/cancel", `{"reason": "a test"}`), 409, "code", "RH020")
	if got := west.Int(`SELECT count(*) FROM railhead.payment_outbox_keys`); got != 0 {
		t.Errorf("%d instructions were enqueued again", got)
	}

	west.want("the next one", west.asks("POST", "/v1/instructions", instructionOf("i-3"), "Idempotency-Key", "k-3"), 201,
		"sequence_id", "3")
	for query, want := range map[string]string{
		"":                     "1 ELSEWHERE, 2 ELSEWHERE, 3 PENDING",
		"&limit=2":             "1 ELSEWHERE, 2 ELSEWHERE",
		"&limit=2&after=Mg":    "3 PENDING",
		"&state=ELSEWHERE":     "1 ELSEWHERE, 2 ELSEWHERE",
		"&instruction_id=i-2":  "2 ELSEWHERE",
		"&instruction_id=i-3":  "3 PENDING",
		"&idempotency_key=k-1": "1 ELSEWHERE k-1",
		"&idempotency_key=k-3": "3 PENDING k-3",
		"&idempotency_key=k-9": "",
	} {
		list := west.asks("GET", "/v1/instructions?participant_id=p1"+query, "")
		if got := listed(list, strings.Contains(want, "k-")); list.status != 200 || got != want {
			t.Errorf("the list with %q: %s, want %s: %s", query, got, want, list.text)
		}
	}

	east.want("the old cell's answer", east.asks("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1"), 200,
		"state", "PENDING", "replayed", "true")
	east.want("the old cell's status", east.asks("GET", "/v1/instructions/"+id, ""), 200, "state", "PENDING",
		"certainty", "NOT_SENT", "idempotency_key", "k-1")
	east.want("a new one in the old cell", east.asks("POST", "/v1/instructions", instructionOf("i-4"),
		"Idempotency-Key", "k-4"), 503, "code", "RH009")
	stranger, _, err := operator.CreateToken(t.Context(), west.Conn(t, ""), west.Schema, operator.NewToken{
		Name: "p2", Participants: []string{"p2"}, Verbs: []string{"READ"}, ExpiresAt: time.Now().Add(time.Hour),
		Reason: "a test",
	})
	if err != nil {
		t.Fatal(err)
	}
	west.want("another participant's look", west.call("GET", "/v1/instructions/"+id, "", "Authorization",
		"Bearer "+stranger), 404)

	// When the bucket comes home, each cell's payments are shown once.
	moveP1(t, both, at, "east")
	home := east.asks("GET", "/v1/instructions?participant_id=p1", "")
	if got := listed(home, false); got != "1 PENDING, 2 PENDING, 3 ELSEWHERE" {
		t.Errorf("the list at home: %s: %s", got, home.text)
	}
	moveP1(t, both, at, "west")
	again := west.asks("GET", "/v1/instructions?participant_id=p1&limit=3", "")
	if got := listed(again, false); got != "1 ELSEWHERE, 2 ELSEWHERE, 3 PENDING" {
		t.Errorf("the list after it came twice: %s: %s", got, again.text)
	}
}

// listed are the numbers and states of a list, and the keys where they are asked for.
func listed(list answer, keys bool) string {
	items, _ := list.fields["items"].([]any)
	all := make([]string, 0, len(items))
	for _, item := range items {
		one, _ := item.(map[string]any)
		text := fmt.Sprintf("%v %v", one["sequence_id"], one["state"])
		if keys {
			text += fmt.Sprintf(" %v", one["idempotency_key"])
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// TestMovedParticipantByClient: the Go client of the new cell's API returns the state, and does not wait for it.
func TestMovedParticipantByClient(t *testing.T) {
	t.Parallel()
	both, at := eastAndWest(t)
	clients := map[string]*httpclient.HTTP{}
	for setting, c := range both {
		var err error
		clients[setting], err = httpclient.NewHTTP(httpclient.Config{BaseURL: c.serve.URL, ParticipantID: "p1",
			Token: func(context.Context) (string, error) { return c.token, nil }, Attempts: 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	in := payment.Instruction{InstructionID: "i-1", ParticipantID: "p1", IdempotencyKey: "k-1", RailType: "bank",
		Payload: []byte(`{"amount": "10.50", "currency": "EUR"}`)}
	key := payment.Key{InstructionID: "i-1", IdempotencyKey: "k-1"}
	first, err := clients["EAST"].Enqueue(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	moveP1(t, both, at, "west")
	again, err := clients["WEST"].Enqueue(t.Context(), in)
	if err != nil || !again.Replayed || again.State != payment.Elsewhere || again.OutboxID != first.OutboxID {
		t.Errorf("a late retry: %+v, %v", again, err)
	}
	results, err := clients["WEST"].EnqueueBatch(t.Context(), []payment.Instruction{in})
	if err != nil || results[0].Fault != nil || results[0].Receipt.State != payment.Elsewhere {
		t.Errorf("the same in a batch: %+v, %v", results, err)
	}
	status, err := clients["WEST"].Status(t.Context(), key)
	if err != nil || status.State != payment.Elsewhere || status.OutboxID != first.OutboxID || status.Certainty != "" ||
		status.HasEnded() || status.Rests() {
		t.Errorf("its status: %+v, %v", status, err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	status, err = clients["WEST"].Await(waiting, key)
	if !errors.Is(err, outbox.ErrOtherCell) || status.State != payment.Elsewhere || waiting.Err() != nil {
		t.Errorf("waiting for it: %+v, %v", status, err)
	}
	if status, err = clients["EAST"].Status(t.Context(), key); err != nil || status.State != "PENDING" {
		t.Errorf("its status in the old cell: %+v, %v", status, err)
	}
}
