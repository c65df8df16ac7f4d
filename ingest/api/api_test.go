package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// fakeDoor is an API over a fake ledger.
type fakeDoor struct {
	t     *testing.T
	fake  *fakeStore
	api   *api.API
	log   *syncBuffer
	serve *httptest.Server
}

type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newDoor(t *testing.T, config api.Config) *fakeDoor {
	t.Helper()
	d := &fakeDoor{t: t, fake: newFake(), log: &syncBuffer{}}
	var err error
	d.api, err = api.New(config, d.fake, nil, slog.New(slog.NewTextHandler(d.log,
		&slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	d.serve = httptest.NewServer(d.api.Handler())
	t.Cleanup(d.serve.Close)
	return d
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
	fields map[string]any
}

func (a answer) field(name string) string {
	if value, ok := a.fields[name]; ok {
		return fmt.Sprint(value)
	}
	return ""
}

// call sends a request with the token; headers are pairs, and "-" takes one away.
func (d *fakeDoor) call(method, path, body string, headers ...string) answer {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.serve.URL+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+aToken)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for n := 0; n < len(headers); n += 2 {
		if headers[n+1] == "-" {
			request.Header.Del(headers[n])
		} else {
			request.Header.Set(headers[n], headers[n+1])
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header, text: string(text)}
	json.Unmarshal(text, &a.fields) //nolint:errcheck // some answers are no JSON
	return a
}

const valid = `{"instruction_id": "i-1", "participant_id": "p1", "rail_type": "bank", "payload": {"amount": "10.50", "currency": "EUR"}}`

func (d *fakeDoor) post(body, key string, headers ...string) answer {
	d.t.Helper()
	return d.call("POST", "/v1/instructions", body, append([]string{"Idempotency-Key", key}, headers...)...)
}

func (d *fakeDoor) want(what string, got answer, status int, fields ...string) {
	d.t.Helper()
	if got.status != status {
		d.t.Errorf("%s: %d, want %d: %s", what, got.status, status, got.text)
	}
	for n := 0; n < len(fields); n += 2 {
		if got.field(fields[n]) != fields[n+1] {
			d.t.Errorf("%s: %s is %q, want %q: %s", what, fields[n], got.field(fields[n]), fields[n+1], got.text)
		}
	}
	if status >= 400 && (got.header.Get("Content-Type") != "application/problem+json" ||
		!strings.HasPrefix(got.field("type"), "https://") || got.field("status") != fmt.Sprint(status)) {
		d.t.Errorf("%s: no problem: %v %s", what, got.header, got.text)
	}
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	first := d.post(valid, "k-1", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	d.want("the first call", first, 201, "state", "PENDING", "replayed", "false", "instruction_id", "i-1",
		"idempotency_key", "k-1", "sequence_id", "1")
	if first.header.Get("Location") != "/v1/instructions/"+first.field("outbox_id") ||
		first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("headers %v", first.header)
	}
	if got := d.fake.got[0].Headers["traceparent"]; got == "" {
		t.Error("the trace did not go along")
	}
	again := d.post(valid, `"k-1"`)
	d.want("the same again, its key as a structured string", again, 200, "replayed", "true", "outbox_id",
		first.field("outbox_id"))
	if again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("headers %v", again.header)
	}
	d.want("all fields", d.post(`{"instruction_id": "i-2", "participant_id": "p1", "rail_type": "bank", "payload": {"amount": "1", "currency": "EUR"},
		"not_before": "2026-11-21T09:00:00Z", "expires_at": "2027-11-21T10:00:00.5+01:00", "priority": 0, "send_once": true, "on_behalf_of": "clerk 7"}`, "k-2"), 201, "on_behalf_of", "clerk 7")
	if in := d.fake.got[len(d.fake.got)-1]; in.Priority != payment.PriorityUrgent || !in.SendOnce ||
		in.NotBefore.IsZero() || in.ExpiresAt.IsZero() {
		t.Errorf("took %+v", in)
	}

	spoiled := func(from, to string) string { return strings.Replace(valid, from, to, 1) }
	for _, c := range []struct {
		what   string
		got    answer
		status int
		fields []string
	}{
		{"other content", d.post(spoiled("10.50", "11.00"), "k-1"), 409, []string{"code", "RH001", "field", "idempotency_key", "rule", "SAME_CONTENT"}},
		{"another participant", d.post(spoiled("p1", "p2"), "k-9"), 403, []string{"code", "RH031"}},
		{"no key", d.post(valid, "-"), 400, nil},
		{"no token", d.post(valid, "k", "Authorization", "-"), 401, nil},
		{"another scheme", d.post(valid, "k", "Authorization", "Basic "+aToken), 401, nil},
		{"an unknown token", d.post(valid, "k", "Authorization", "Bearer rht_x"), 401, nil},
		{"no JSON", d.post("{", "k"), 400, nil},
		{"no object", d.post("[]", "k"), 400, nil},
		{"null", d.post("null", "k"), 400, nil},
		{"two values", d.post(valid+valid, "k"), 400, nil},
		{"a name twice", d.post(spoiled(`"rail_type"`, `"participant_id": "p2", "rail_type"`), "k"), 400, nil},
		{"a name twice in the payload", d.post(spoiled(`"currency"`, `"amount": "1", "currency"`), "k"), 400, nil},
		{"no type", d.post(valid, "k", "Content-Type", "-"), 415, nil},
		{"another type", d.post(valid, "k", "Content-Type", "text/plain"), 415, nil},
		{"too long", d.post(spoiled("10.50", strings.Repeat("1", 200<<10)), "k"), 413, nil},
		{"an unknown field", d.post(spoiled(`"rail_type"`, `"amount": 1, "rail_type"`), "k"), 422, []string{"field", "amount", "rule", "UNKNOWN_FIELD"}},
		{"other letters", d.post(spoiled(`"rail_type"`, `"Rail_Type"`), "k"), 422, []string{"field", "Rail_Type", "rule", "UNKNOWN_FIELD"}},
		{"a number as id", d.post(spoiled(`"i-1"`, `17`), "k"), 422, []string{"field", "instruction_id", "rule", "FORM"}},
		{"a moment without zone", d.post(spoiled(`"rail_type"`, `"expires_at": "2027-01-01T00:00:00", "rail_type"`), "k"), 422, []string{"field", "expires_at", "rule", "MOMENT"}},
		{"a moment that is none", d.post(spoiled(`"rail_type"`, `"expires_at": "0001-01-01T01:00:00+01:00", "rail_type"`), "k"), 422, []string{"field", "expires_at", "rule", "MOMENT"}},
		{"an empty moment", d.post(spoiled(`"rail_type"`, `"not_before": "", "rail_type"`), "k"), 422, []string{"field", "not_before", "rule", "MOMENT"}},
		{"send_once", d.post(spoiled(`"rail_type"`, `"send_once": "true", "rail_type"`), "k"), 422, []string{"field", "send_once", "rule", "FORM"}},
		{"a priority", d.post(spoiled(`"rail_type"`, `"priority": 3, "rail_type"`), "k"), 422, []string{"field", "priority", "rule", "RANGE"}},
		{"a key in the body", d.post(spoiled(`"rail_type"`, `"idempotency_key": "k", "rail_type"`), "k"), 422, []string{"field", "idempotency_key", "rule", "UNKNOWN_FIELD"}},
		{"another path", d.call("GET", "/v2/instructions", ""), 404, []string{"type", outbox.ProblemsAt + "no-such-operation.md"}},
		{"another method", d.call("DELETE", "/v1/instructions/"+first.field("outbox_id"), ""), 405,
			[]string{"type", outbox.ProblemsAt + "method-not-allowed.md"}},
		{"a query that is not known", d.call("GET", "/v1/instructions?participant_id=p1&order=desc", ""), 400, nil},
		{"a limit", d.call("GET", "/v1/instructions?participant_id=p1&limit=201", ""), 400, []string{"field", "query.limit"}},
		{"no participant", d.call("GET", "/v1/instructions", ""), 400, []string{"field", "query.participant_id"}},
		{"an id that is none", d.call("GET", "/v1/instructions/4711", ""), 404, nil},
		{"an id that is not there", d.call("GET", "/v1/instructions/"+payment.NewID().String(), ""), 404, nil},
	} {
		d.want(c.what, c.got, c.status, c.fields...)
	}
	if len(d.fake.known) != 2 {
		t.Errorf("%d instructions are there, want 2", len(d.fake.known))
	}
}

// TestCommitWord tests that each 5xx to an enqueue contains whether anything may be stored.
func TestCommitWord(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	var failure error
	d.fake.fails = func(call string) error {
		if call == "enqueue" {
			return failure
		}
		return nil
	}
	for _, c := range []struct {
		err          error
		status       int
		commit, code string
		retry        bool
	}{
		{fmt.Errorf("x: %w", outbox.ErrCommitUnknown), 503, "unknown", "", true},
		{errors.New("connecting: refused"), 503, "none", "", true},
		{outbox.ErrBusy, 503, "none", "", true},
		{&outbox.Fault{SQLState: outbox.StateEnqueueClosed, Message: "closed by ops_1: their secret reason", Field: "rail_type", Rule: "CLOSED"}, 503, "none", "RH014", true},
		{&outbox.Fault{SQLState: outbox.StateSecondKeys}, 503, "none", "RH032", true},
		{&outbox.Fault{SQLState: outbox.StateSecondKey, Field: "idempotency_key", Rule: "ONE_KEY"}, 409, "", "RH007", false},
		{&outbox.Fault{SQLState: outbox.StateTooLarge}, 413, "", "RH005", false},
		{&outbox.Fault{SQLState: outbox.StateUnknownRail}, 422, "", "RH003", false},
		{&outbox.Fault{SQLState: outbox.StateToken}, 401, "", "", false},
		{&outbox.Fault{SQLState: "22P05", Message: "the text is 10.50"}, 422, "", "22P05", false},
	} {
		failure = c.err
		got := d.post(valid, "k")
		d.want(c.err.Error(), got, c.status, "commit", c.commit, "code", c.code)
		if (got.header.Get("Retry-After") != "") != c.retry || strings.Contains(got.text, "secret") ||
			strings.Contains(got.text, "10.50") {
			t.Errorf("%v: %v %s", c.err, got.header, got.text)
		}
	}
	d.api.SetAway(true)
	d.want("the database is away", d.post(valid, "k"), 503, "commit", "none")
	d.api.SetAway(false)
	failure = nil
	d.want("it is back", d.post(valid, "k"), 201)
}

// TestNothingIsEchoed tests that neither the answer that refuses a body nor the log contains a
// value of the body.
func TestNothingIsEchoed(t *testing.T) {
	t.Parallel()
	const marker = "DE02120300000000202051"
	d := newDoor(t, api.Config{})
	d.fake.fails = func(call string) error {
		if call == "enqueue" || call == "batch" {
			return outbox.ErrCommitUnknown
		}
		return nil
	}
	for _, body := range []string{
		marker, `"` + marker + `"`, `{"payload": "` + marker, `{"payload": "` + marker + `"}`,
		`{"instruction_id": {"x": "` + marker + `"}}`,
		`{"priority": "` + marker + `"}`, `{"expires_at": "` + marker + `"}`, `{"payload": {"a": "` + marker + `", "a": 1}}`,
		`{"payload": {"a": "` + marker + "\xff" + `"}}`, `{"on_behalf_of": ["` + marker + `"]}`,
		strings.Replace(valid, "10.50", marker, 1),
		strings.Repeat(marker, 10_000),
	} {
		for _, got := range []answer{
			d.post(body, "k"),
			d.call("POST", "/v1/instructions/batch", strings.ReplaceAll(body, "\n", " "), "Content-Type",
				"application/x-ndjson"),
			d.call("POST", "/v1/instructions/"+payment.NewID().String()+"/cancel", body),
		} {
			if strings.Contains(got.text, marker) {
				t.Errorf("%.60s: answered %s", body, got.text)
			}
		}
	}
	if strings.Contains(d.log.String(), marker) {
		t.Errorf("the log: %s", d.log)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{WaitMax: time.Second})
	late := d.post(valid, "k-1", "Prefer", "respond-async, wait=1")
	d.want("no outcome in time", late, 202, "state", "PENDING", "certainty", "NOT_SENT", "replayed", "false")
	if late.header.Get("Location") == "" || late.header.Get("Retry-After") == "" ||
		late.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("headers %v", late.header)
	}
	close(d.fake.rests)
	got := d.post(valid, "k-1", "Prefer", "wait=900")
	d.want("the outcome", got, 200, "state", "DISPATCHED", "certainty", "ACCEPTED", "replayed", "true")
	d.want("asked with a wait", d.call("GET", "/v1/instructions/"+late.field("outbox_id"), "", "Prefer", "wait=1"), 200,
		"state", "DISPATCHED")
	d.fake.fails = func(call string) error {
		if call == "status" {
			return errors.New("the database went away")
		}
		return nil
	}
	// It is stored all the same.
	unknown := d.post(strings.Replace(valid, "i-1", "i-2", 1), "k-2", "Prefer", "wait=1")
	d.want("no word of the outcome", unknown, 202, "state", "PENDING")
	if got := unknown.header.Get("Preference-Applied"); got != "" {
		t.Errorf("it has not waited, and says that it applied %q", got)
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	for n := range 5 {
		d.want("enqueue", d.post(strings.Replace(valid, "i-1", fmt.Sprintf("i-%d", n), 1), fmt.Sprintf("k-%d", n)), 201)
	}
	var ids []string
	next := ""
	for range 5 {
		got := d.call("GET", "/v1/instructions?participant_id=p1&limit=2&after="+next, "")
		d.want("a page", got, 200)
		for _, each := range got.fields["items"].([]any) {
			ids = append(ids, each.(map[string]any)["instruction_id"].(string))
		}
		if next = got.field("next"); next == "" {
			break
		}
	}
	if strings.Join(ids, " ") != "i-0 i-1 i-2 i-3 i-4" {
		t.Errorf("pages hold %v", ids)
	}
	d.want("a cursor that is none", d.call("GET", "/v1/instructions?participant_id=p1&after=-1", ""), 400)
	d.want("in a state", d.call("GET", "/v1/instructions?participant_id=p1&state=FAILED", ""), 200, "items", "[]")
	first := d.post(strings.Replace(valid, "i-1", "i-0", 1), "k-0")
	path := "/v1/instructions/" + first.field("outbox_id")
	d.want("attempts", d.call("GET", path+"/attempts", ""), 200)
	d.want("a cancel without a reason", d.call("POST", path+"/cancel", `{}`), 422, "field", "reason")
	d.want("a cancel", d.call("POST", path+"/cancel", `{"reason": "withdrawn"}`), 200, "state", "CANCELLED")
	again := d.call("POST", path+"/cancel", `{"reason": "withdrawn"}`)
	d.want("the same again", again, 200, "state", "CANCELLED")
	if again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("headers %v", again.header)
	}
	for key, each := range d.fake.known {
		each.State = "DISPATCHED"
		d.fake.known[key] = each
	}
	d.want("too late", d.call("POST", path+"/cancel", `{"reason": "withdrawn"}`), 409, "code", "RH020")
	d.want("none", d.call("POST", "/v1/instructions/"+payment.NewID().String()+"/cancel", `{"reason": "withdrawn"}`), 404)
}

// TestPagesSayWhatTheyAnswer: a caller can hold an empty page to its call only if it says what was asked.
func TestPagesSayWhatTheyAnswer(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	made := d.post(valid, "k-1")
	d.want("enqueue", made, 201)
	id := made.field("outbox_id")
	for path, want := range map[string]string{
		"?participant_id=p1": `{"participant_id":"p1"}`,
		"?participant_id=p1&instruction_id=i-%2B%22+9&idempotency_key=k%26": `{"participant_id":"p1",` +
			`"instruction_id":"i-+\" 9","idempotency_key":"k&"}`,
		"?participant_id=p1&instruction_id=&idempotency_key=k-1": `{"participant_id":"p1","idempotency_key":"k-1"}`,
		"?participant_id=p1&after=Mg&limit=7&state=FAILED":       `{"participant_id":"p1","after":"Mg","state":"FAILED"}`,
		"/" + strings.ToUpper(id) + "/attempts":                  `{"outbox_id":"` + id + `"}`,
		"/" + id + "/attempts?after=3&limit=7":                   `{"outbox_id":"` + id + `","after":3}`,
	} {
		got := d.call("GET", "/v1/instructions"+path, "")
		d.want(path, got, 200)
		var page struct {
			Query json.RawMessage `json:"query"`
		}
		if err := json.Unmarshal([]byte(got.text), &page); err != nil {
			t.Fatal(err)
		}
		if said := strings.ReplaceAll(string(page.Query), `\u0026`, "&"); said != want {
			t.Errorf("%s: the page says that it answers %q, want %s", path, said, want)
		}
		if kept := got.header.Get("Cache-Control"); kept != "no-store" {
			t.Errorf("%s: Cache-Control is %q, want no-store", path, kept)
		}
	}
}

// TestMarkOfACall: each answer repeats the mark of its call, of 1 to 64 letters, digits, - and _, and no other one.
func TestMarkOfACall(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	sixtyFour := strings.Repeat("aZ09-_x7", 8)
	for mark, want := range map[string]string{"a": "a", sixtyFour: sixtyFour, sixtyFour + "a": "", "": "", "a b": "",
		"a\t": "a", "caf\u00e9": "", "<script>": "", "a,b": ""} {
		for path, status := range map[string]int{"?participant_id=p1": 200, "?nonsense=1": 400, "/x/y/z": 404,
			"?participant_id=p2": 200} {
			got := d.call("GET", "/v1/instructions"+path, "", outbox.CallHeader, mark)
			if got.status != status || got.header.Get(outbox.CallHeader) != want {
				t.Errorf("%s, %q: %d, %q", path, mark, got.status, got.header.Get(outbox.CallHeader))
			}
		}
		for _, path := range []string{"", "/batch"} {
			got := d.call("POST", "/v1/instructions"+path, "{}", outbox.CallHeader, mark)
			if got.header.Get(outbox.CallHeader) != want {
				t.Errorf("POST %s, %q: %d, %q", path, mark, got.status, got.header.Get(outbox.CallHeader))
			}
		}
		got := d.call("GET", "/v1/instructions", "", outbox.CallHeader, mark, "Authorization", "Bearer no")
		if got.status != 401 || got.header.Get(outbox.CallHeader) != want {
			t.Errorf("without a token: %d, %q", got.status, got.header.Get(outbox.CallHeader))
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	d.fake.token.RequestsPerMinute = 12 // bursts of two
	for n := range 2 {
		d.want("within the quota", d.post(valid, "k-1"), 201-n)
	}
	over := d.post(valid, "k-1")
	d.want("over it", over, 429)
	if over.header.Get("Retry-After") == "" {
		t.Errorf("headers %v", over.header)
	}
	if err := d.api.NoteUses(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.fake.noted[outbox.TokenDigest(aToken)]; got != [2]int64{3, 0} {
		t.Errorf("noted %v", got)
	}

	d = newDoor(t, api.Config{})
	d.fake.token.InForce = false
	d.want("revoked", d.post(valid, "k-1"), 401)
	d.want("revoked", d.post(valid, "k-1"), 401)
	if err := d.api.NoteUses(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.fake.noted[outbox.TokenDigest(aToken)]; got != [2]int64{0, 2} ||
		!strings.Contains(d.log.String(), "0011223344556677") {
		t.Errorf("noted %v; log %s", got, d.log)
	}

	d = newDoor(t, api.Config{})
	d.fake.token.Certificate = make([]byte, 32)
	d.want("without its certificate", d.post(valid, "k-1"), 401)
}

// TestBatchUnderAQuota: a line over the quota says after how many seconds it, those before it and the batch that
// carries them have room, up to the ten seconds' worth that may come at once.
func TestBatchUnderAQuota(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	d.fake.token.RequestsPerMinute = 24 // bursts of four, of which the batch itself is one
	var body strings.Builder
	for n := range 9 {
		line := strings.Replace(valid, `"rail_type"`, fmt.Sprintf(`"idempotency_key": "k-%d", "rail_type"`, n), 1)
		body.WriteString(strings.Replace(line, "i-1", fmt.Sprint("i-", n), 1) + "\n")
	}
	said := d.call("POST", "/v1/instructions/batch", body.String(), "Content-Type", "application/x-ndjson")
	var waits []int
	for text := range strings.Lines(said.text) {
		var line struct {
			Problem struct {
				RetryAfter int `json:"retry_after"`
			}
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		waits = append(waits, line.Problem.RetryAfter)
	}
	if got := fmt.Sprint(waits); got != "[0 0 0 5 8 10 10 10 10 0]" {
		t.Errorf("waits %s in\n%s", got, said.text)
	}
}

// TestBatch writes a line, reads its answer, and writes the next: both ways at once.
func TestBatch(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	body, lines := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), "POST", d.serve.URL+"/v1/instructions/batch", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+aToken)
	request.Header.Set("Content-Type", "application/x-ndjson")
	line := func(n int) string {
		return strings.Replace(strings.Replace(valid, "i-1", fmt.Sprintf("i-%d", n), 1), `"rail_type"`,
			fmt.Sprintf(`"idempotency_key": "k-%d", "rail_type"`, n), 1) + "\n"
	}
	var sent sync.WaitGroup
	next := make(chan string, 1)
	sent.Go(func() {
		defer lines.Close()
		for text := range next {
			if _, err := io.WriteString(lines, text); err != nil {
				t.Error(err)
			}
		}
	})
	next <- line(1)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answers := bufio.NewReader(response.Body)
	read := func(what string, status int) map[string]any {
		t.Helper()
		text, err := answers.ReadBytes('\n')
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var got map[string]any
		if err := json.Unmarshal(text, &got); err != nil || got["status"] != float64(status) {
			t.Errorf("%s: %s, want %d (%v)", what, text, status, err)
		}
		return got
	}
	read("the first line", 201)
	next <- line(1)
	read("the same again", 200)
	next <- line(2)
	read("another", 201)
	next <- "{}\n"
	read("one without a key", 422)
	next <- "no JSON\n"
	read("one that can't be read", 400)
	next <- strings.Replace(line(3), "p1", "p2", 1)
	read("another participant's", 403)
	close(next)
	end := read("the end", 200)
	if end["end"] != true || end["lines"] != 6.0 || end["created"] != 2.0 || end["replayed"] != 1.0 ||
		end["refused"] != 3.0 {
		t.Errorf("the end is %v", end)
	}
	sent.Wait()

	var many strings.Builder
	for n := range 1000 {
		many.WriteString(line(100 + n))
	}
	before := d.fake.batches
	got := d.call("POST", "/v1/instructions/batch", many.String(), "Content-Type", "application/x-ndjson")
	if all := strings.Split(strings.TrimSpace(got.text), "\n"); len(all) != 1001 ||
		!strings.Contains(all[1000], `"created":1000`) {
		t.Errorf("%d lines, the last %s", len(all), all[len(all)-1])
	}
	if calls := d.fake.batches - before; calls < 4 || calls > 100 {
		t.Errorf("%d calls of the store for 1,000 lines", calls)
	}

	d.fake.fails = func(call string) error {
		if call == "batch" {
			return outbox.ErrCommitUnknown
		}
		return nil
	}
	got = d.call("POST", "/v1/instructions/batch", line(1)+line(2), "Content-Type", "application/x-ndjson")
	if strings.Count(got.text, `"commit":"unknown"`) != 3 {
		t.Errorf("a commit that is not known: %s", got.text)
	}
	d.want("a batch of another type", d.call("POST", "/v1/instructions/batch", line(1)), 415)
}

// served runs the API on a listener of its own.
func served(t *testing.T, d *fakeDoor) (addr string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.api.Serve(ctx, listener) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	return listener.Addr().String(), stop
}

// TestSlowClientsAreCut tests that a silent connection is closed.
func TestSlowClientsAreCut(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{IdleMax: 200 * time.Millisecond, ConnectionsMax: 2})
	addr, _ := served(t, d)
	for _, text := range []string{
		"", "POST /v1/inst", "POST /v1/instructions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + aToken +
			"\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\n{",
		"POST /v1/instructions/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + aToken +
			"\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n\r\n{",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		rest, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("%.20q: not cut: %v %s", text, err, rest)
		}
		if whole := strings.Contains(text, "\r\n\r\n"); whole && !strings.Contains(string(rest), "/request-timeout.md") {
			t.Errorf("%.30q: it is not said that it may be repeated: %s", text, rest)
		}
	}
	if len(d.fake.known) > 0 {
		t.Errorf("half a request was taken: %v", d.fake.known)
	}
}

// TestDrain tests that requests under way at a stop get their answer.
func TestDrain(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	addr, stop := served(t, d)
	d.serve.URL = "http://" + addr
	entered, leave := make(chan bool, 1), make(chan bool)
	d.fake.fails = func(call string) error {
		if call == "enqueue" {
			entered <- true
			<-leave
		}
		return nil
	}
	var got answer
	var all sync.WaitGroup
	all.Go(func() { got = d.post(valid, "k-1", "Prefer", "wait=30") })
	<-entered
	stopped := make(chan error, 1)
	all.Go(func() { stopped <- stop() })
	close(leave)
	begun := time.Now()
	all.Wait()
	d.want("under way", got, 202, "state", "PENDING")
	if err := <-stopped; err != nil || time.Since(begun) > 20*time.Second {
		t.Errorf("stopped after %s: %v", time.Since(begun), err)
	}
}

// TestOpenAPI compares the committed document with that of the API.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	raw, err := d.api.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Indent(&text, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	text.WriteByte('\n')
	golden := filepath.Join("..", "..", "docs", "openapi.json")
	if *update {
		if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, text.Bytes()) {
		t.Errorf("docs/openapi.json is not what the API gives: review it, then run go test ./ingest/api -run TestOpenAPI " +
			"-update")
	}
	var given, want any
	got := d.call("GET", "/openapi.json", "", "Authorization", "-")
	if json.Unmarshal([]byte(got.text), &given) != nil || json.Unmarshal(raw, &want) != nil ||
		fmt.Sprint(given) != fmt.Sprint(want) {
		t.Errorf("GET /openapi.json: %d %.200s", got.status, got.text)
	}
}

// TestBrokenBatches tests that a caller that disconnects in the middle of a batch keeps no place of
// one.
func TestBrokenBatches(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{BatchesMax: 1})
	addr, _ := served(t, d)
	d.serve.URL = "http://" + addr
	line := strings.Replace(valid, `"rail_type"`, `"idempotency_key": "k-1", "rail_type"`, 1) + "\n"
	for range 10 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, "POST /v1/instructions/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+aToken+
			"\r\nContent-Type: application/x-ndjson\r\nContent-Length: 10000\r\n\r\n"+line)
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		got := d.call("POST", "/v1/instructions/batch", line, "Content-Type", "application/x-ndjson")
		if got.status == http.StatusOK && strings.Contains(got.text, `"end":true`) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no batch is taken any more: %d %s", got.status, got.text)
		}
	}
}

// TestPlacesOfBatches tests that no token occupies the places of others, that a token without the
// right to enqueue occupies none, and that none occupies one without a time limit.
func TestPlacesOfBatches(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{IdleMax: 300 * time.Millisecond, BatchTimeMax: 3 * time.Second})
	line := `{"instruction_id": "i-1", "participant_id": "p1", "rail_type": "bank", "payload": {"amount": "10.50", "currency": "EUR"}, "idempotency_key": "k"}` + "\n"
	// drip sends a line, and then a line feed now and then, until the answer has come.
	drip := func() (ended chan time.Duration) {
		ended = make(chan time.Duration, 1)
		conn, err := net.Dial("tcp", d.serve.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, err = io.WriteString(conn, "POST /v1/instructions/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+aToken+
			"\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"+fmt.Sprintf("%x\r\n%s\r\n", len(line),
			line))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		go func() {
			for err := error(nil); err == nil; time.Sleep(100 * time.Millisecond) {
				_, err = io.WriteString(conn, "1\r\n\n\r\n")
			}
		}()
		go func() {
			io.Copy(io.Discard, conn) //nolint:errcheck // it ends
			ended <- time.Since(begun)
		}()
		return ended
	}
	first, second := drip(), drip()
	enqueued := func() int {
		d.fake.mu.Lock()
		defer d.fake.mu.Unlock()
		return d.fake.batches
	}
	for end := time.Now().Add(10 * time.Second); enqueued() < 2; { // then both are in
		if time.Now().After(end) {
			t.Fatal("two batches are not taken")
		}
		runtime.Gosched()
	}
	held := false
	for range 50 {
		if got := d.call("POST", "/v1/instructions/batch", line, "Content-Type", "application/x-ndjson"); got.status == 429 {
			held = true
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !held {
		t.Error("a third batch of the token is taken")
	}
	for _, ended := range []chan time.Duration{first, second} {
		select {
		case took := <-ended:
			if took > 8*time.Second {
				t.Errorf("a batch without a line lasts %s", took)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a batch without a line has no end")
		}
	}
	d.want("afterwards", d.call("POST", "/v1/instructions/batch", line, "Content-Type", "application/x-ndjson"), 200)
	d.want("too many blank lines", d.call("POST", "/v1/instructions/batch", strings.Repeat("\n", 10_001)+line,
		"Content-Type", "application/x-ndjson"), 200)
	other := newDoor(t, api.Config{})
	other.fake.token.Verbs = []string{"READ", "CANCEL"}
	other.want("not for enqueuing", other.call("POST", "/v1/instructions/batch", line, "Content-Type",
		"application/x-ndjson"), 403)
}

// TestPathsAndMethods: a path that is not as the API describes it, and a method that a path has not, are answered with
// a problem: a caller that follows no redirect would otherwise take an empty answer for a success.
func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for call, want := range map[string]string{
		"POST //v1/instructions": "404 no-such-operation", "POST /v1//instructions": "404 no-such-operation",
		"POST /v1/./instructions": "404 no-such-operation", "POST /v1/x/../instructions": "404 no-such-operation",
		"POST /v1/instructions/": "404 no-such-operation", "GET //v1/events": "404 no-such-operation",
		"POST //v1/instructions/batch": "404 no-such-operation", "GET //": "404 no-such-operation",
		"PUT /v1/instructions": "405 method-not-allowed GET, POST", "DELETE /v1/events": "405 method-not-allowed GET",
		"GET /v1/events/tokens": "405 method-not-allowed POST", "PATCH /v1/nothing": "404 no-such-operation",
		"PUT /v1/instructions/batch": "405 method-not-allowed GET, POST",
	} {
		method, path, _ := strings.Cut(call, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, d.serve.URL+path, strings.NewReader(valid))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+aToken)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var problem struct{ Type string }
		err = json.NewDecoder(response.Body).Decode(&problem)
		response.Body.Close()
		kind := strings.TrimSuffix(strings.TrimPrefix(problem.Type, outbox.ProblemsAt), outbox.ProblemsEnd)
		got := strings.TrimSpace(fmt.Sprint(response.StatusCode, " ", kind, " ", response.Header.Get("Allow")))
		if err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", call, got, want, err)
		}
	}
}
