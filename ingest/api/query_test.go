package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ingest/api"
)

// TestQueriesThatCantBeRead: a part of a query that is dropped would widen what is asked for, at every operation.
func TestQueriesThatCantBeRead(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	id := d.post(valid, "k-1").field("outbox_id")
	for _, at := range []string{
		"GET /v1/instructions?participant_id=p1", "GET /v1/instructions/" + id + "?",
		"GET /v1/instructions/" + id + "/attempts?", "GET /v1/events?participant_id=p1",
		"POST /v1/instructions/" + id + "/cancel?", "POST /v1/instructions?",
		"POST /v1/instructions/batch?", "POST /v1/events/tokens?", "GET /v1/nothing?",
	} {
		method, path, _ := strings.Cut(at, " ")
		for _, part := range []string{"idempotency_key=50%off", "after=Mg%", "limit=1;after=2", "limit=%zz",
			"after=a&after=b", "after=%00", "after=%ff"} {
			got := d.call(method, path+"&"+part, "")
			d.want(at+"&"+part, got, 400)
			if !strings.HasSuffix(got.field("type"), "/bad-request.md") {
				t.Errorf("%s&%s: %s", at, part, got.text)
			}
		}
	}
	d.want("every filter", d.call("GET", "/v1/instructions?participant_id=p1&idempotency_key=50%25off%3B", ""), 200)
	d.want("the highest number", d.call("GET", "/v1/instructions/"+id+"/attempts?after=2147483647", ""), 200)
	d.want("above it", d.call("GET", "/v1/instructions/"+id+"/attempts?after=2147483648", ""), 400)
	d.want("a list of batches", d.call("GET", "/v1/instructions/batch", ""), 405)
	d.want("a participant twice", d.call("GET", "/v1/events?participant_id=p1&participant_id=p1", ""), 200)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.serve.URL+"/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + aToken}, "Accept": {"text/event-stream"},
		"Last-Event-ID": {"a", "b"}}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 400 {
		t.Errorf("a stream from two places: %d", answer.StatusCode)
	}
}

// TestEventTokenIsStrict: a body in which a list may be given twice, in other case too, makes no token.
func TestEventTokenIsStrict(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{EventKeys: [][]byte{[]byte(strings.Repeat("k", 32))}})
	for body, status := range map[string]int{
		`{"expires_in": 10, "participants": ["p1"]}`:                               201,
		`{"expires_in": 10, "participants": null}`:                                 201,
		`{"expires_in": 10}]`:                                                      400,
		`{"expires_in": 10} {}`:                                                    400,
		`{"expires_in": 10, "participants": ["p1"], "Participants": ["p1", "p2"]}`: 400,
		`{"expires_in": 10, "participants": ["p1"], "participants": ["p2"]}`:       400,
		`{"expires_in": "10"}`:                                                     400,
		`[]`:                                                                       400,
		`null`:                                                                     400,
	} {
		d.want(body, d.call("POST", "/v1/events/tokens", body), status)
	}
}

// TestLongNumbers: a number that would be stored with very many digits is refused as too large, in a batch alone.
func TestLongNumbers(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	long := strings.Replace(valid, `"EUR"`, `"EUR", "a": [`+strings.Repeat("1e131071,", 8)+`1]`, 1)
	d.want("alone", d.post(long, "k-1"), 413, "code", "RH005", "field", "payload", "rule", "SIZE")
	line := func(text, key string) string {
		return strings.TrimSuffix(text, "}") + `, "idempotency_key": "` + key + `"}`
	}
	got := d.call("POST", "/v1/instructions/batch", line(valid, "k-1")+"\n"+line(long, "k-2")+"\n"+line(valid, "k-3")+"\n",
		"Content-Type", "application/x-ndjson")
	if lines := strings.Split(got.text, "\n"); len(lines) < 4 || !strings.Contains(lines[0], `"status":201`) ||
		!strings.Contains(lines[1], `"code":"RH005"`) || !strings.Contains(lines[2], `"status":201`) {
		t.Errorf("a batch: %s", got.text)
	}
}

// TestPrincipalOfARepetition: an answer has the principal that is stored, or none.
func TestPrincipalOfARepetition(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	of := func(principal string) string {
		return strings.TrimSuffix(valid, "}") + `, "on_behalf_of": "` + principal + `"}`
	}
	d.want("the first call", d.post(of("clerk 7"), "k-1"), 201, "on_behalf_of", "clerk 7")
	d.want("another one", d.post(of("clerk 8"), "k-1"), 200, "on_behalf_of", "", "differs", "[on_behalf_of]")
	d.want("the same", d.post(of("clerk 7"), "k-1"), 200, "on_behalf_of", "clerk 7", "differs", "[]")
}
