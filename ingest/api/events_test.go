package api_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// listener reads a stream.
type listener struct {
	t      *testing.T
	answer *http.Response
	lines  chan string // closed at the end
	cancel context.CancelFunc
}

// listen opens a stream; headers are pairs.
func (d *fakeDoor) listen(address string, headers ...string) *listener {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	request, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Authorization", "Bearer "+aToken)
	for n := 0; n < len(headers); n += 2 {
		if headers[n+1] == "-" {
			request.Header.Del(headers[n])
		} else {
			request.Header.Set(headers[n], headers[n+1])
		}
	}
	l := &listener{t: d.t, cancel: cancel, lines: make(chan string, 1000)}
	if l.answer, err = http.DefaultClient.Do(request); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { cancel(); l.answer.Body.Close() })
	go func() {
		defer close(l.lines)
		for text := bufio.NewScanner(l.answer.Body); text.Scan(); {
			l.lines <- text.Text()
		}
	}()
	return l
}

// next is the next event: its cursor, its name and its data. A name of "" is the end.
func (l *listener) next() (id, name string, data map[string]any) {
	l.t.Helper()
	for {
		select {
		case line, open := <-l.lines:
			if !open {
				return id, "", nil
			}
			field, value, _ := strings.Cut(line, ": ")
			switch {
			case field == "id":
				id = value
			case field == "event":
				name = value
			case field == "data":
				json.Unmarshal([]byte(value), &data) //nolint:errcheck // then it is empty
			case line == "" && name != "":
				return id, name, data
			}
		case <-time.After(10 * time.Second):
			l.t.Fatal("nothing comes")
		}
	}
}

// wants reads one event, which must be this one.
func (l *listener) wants(e payment.Event) (cursor string) {
	l.t.Helper()
	id, name, data := l.next()
	if name != string(e.Type) || fmt.Sprint(data["id"]) != e.Name() {
		l.t.Fatalf("%s %v, want %s %s", name, data["id"], e.Type, e.Name())
	}
	return id
}

func (d *fakeDoor) events(query string) (names []string, page answer) {
	d.t.Helper()
	page = d.call("GET", "/v1/events"+query, "")
	items, _ := page.fields["items"].([]any)
	for _, each := range items {
		names = append(names, each.(map[string]any)["id"].(string))
	}
	return names, page
}

func TestEventPages(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	d.fake.token.Participants = []string{"p1", "p3"}
	var mine []string
	for n := range 250 {
		participant := []string{"p1", "p2", "p3"}[n%3]
		what := []payment.EventType{payment.EventDispatched, payment.EventFailed}[n/3%2]
		if e := d.fake.happens(participant, what); participant != "p2" {
			mine = append(mine, e.Name())
		}
	}
	var all []string
	next, pages := "", 0
	for {
		names, page := d.events("?limit=50" + next)
		d.want("a page", page, 200)
		all = append(all, names...)
		next = "&after=" + page.field("next")
		if pages++; page.field("more") != "true" {
			break
		}
	}
	if strings.Join(all, " ") != strings.Join(mine, " ") || pages != 4 {
		t.Errorf("%d events in %d pages, want %d in 4", len(all), pages, len(mine))
	}
	if names, page := d.events("?limit=50" + next); len(names) != 0 || page.field("more") != "false" ||
		"&after="+page.field("next") != next {
		t.Errorf("at the end: %v", page.text)
	}
	if names, _ := d.events("?participant_id=p3&types=payment.failed,payment.expired&limit=200"); len(names) != 41 {
		t.Errorf("%d of p3 have failed", len(names))
	}
	if names, _ := d.events("?since=" + time.Now().Add(time.Minute).UTC().Format(time.RFC3339)); len(names) != 0 {
		t.Errorf("%d are of later", len(names))
	}
	for query, field := range map[string]string{
		"?limit=0": "query.limit", "?limit=201": "query.limit", "?limit=x": "query.limit", "?after=x": "query.after",
		"?after=" + strings.Repeat("A", 71): "query.after",
		"?since=yesterday":                  "query.since", "?types=payment.made": "query.types", "?types=": "query.types",
		"?unknown=1": "query.unknown", "?%zz": "",
		"?limit=1&limit=2": "", "?since=2026-11-26T09:00:00Z" + next: "query.since",
	} {
		got := d.call("GET", "/v1/events"+query, "")
		d.want(query, got, 400)
		if got.field("field") != field {
			t.Errorf("%s is refused for %q", query, got.field("field"))
		}
	}
	d.want("another's", d.call("GET", "/v1/events?participant_id=p2", ""), 403)
	d.want("another's of a long name", d.call("GET", "/v1/events?participant_id="+strings.Repeat("x", 20<<10), ""), 403)
	d.fake.fails = func(string) error { return errors.New("away") }
	d.want("the database is away", d.call("GET", "/v1/events", ""), 503)
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{StreamBeat: 50 * time.Millisecond})
	d.fake.happens("p1", payment.EventFailed)
	l := d.listen(d.serve.URL + "/v1/events")
	if got := l.answer.Header.Get("Content-Type"); l.answer.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("%d %s", l.answer.StatusCode, got)
	}
	d.fake.happens("p2", payment.EventDispatched)
	second := d.fake.happens("p1", payment.EventDispatched)
	cursor := l.wants(second)
	third := d.fake.happens("p1", payment.EventConflict)
	l.wants(third)
	// A caller that reconnects gets the events after its last one.
	again := d.listen(d.serve.URL+"/v1/events", "Last-Event-ID", cursor)
	again.wants(third)
	// One from a moment on, of some types.
	typed := d.listen(d.serve.URL + "/v1/events?types=payment.failed&since=2026-01-01T00:00:00Z")
	if _, name, _ := typed.next(); name != "payment.failed" {
		t.Errorf("told %q", name)
	}
	fourth := d.fake.happens("p1", payment.EventDispatched)
	l.wants(fourth)
	again.wants(fourth)
	beats := 0
	for beats < 2 {
		select {
		case line := <-typed.lines:
			if line == ":" || strings.HasPrefix(line, "id: ") {
				beats++
			}
		case <-time.After(5 * time.Second):
			t.Fatal("no sign of life")
		}
	}
	// The database goes away, and comes back.
	d.fake.mu.Lock()
	d.fake.fails = func(call string) error { return errors.New("away") }
	d.fake.mu.Unlock()
	time.Sleep(400 * time.Millisecond)
	d.fake.mu.Lock()
	d.fake.fails = nil
	d.fake.mu.Unlock()
	fifth := d.fake.happens("p1", payment.EventDispatched)
	l.wants(fifth)
	// The stream of a revoked token ends, with the reason.
	d.fake.mu.Lock()
	d.fake.token.InForce = false
	d.fake.mu.Unlock()
	d.fake.happens("p1", payment.EventFailed)
	if _, name, data := l.next(); name != "end" || fmt.Sprint(data["status"]) != "401" {
		t.Errorf("told %s %v", name, data)
	}
	if _, name, _ := l.next(); name != "" {
		t.Errorf("told %s after the end", name)
	}
	if got := d.listen(d.serve.URL+"/v1/events", "Last-Event-ID", "x"); got.answer.StatusCode != 400 &&
		got.answer.StatusCode != 401 {
		t.Errorf("a cursor that is none: %d", got.answer.StatusCode)
	}
}

// TestStreamsOfMany tests that one read serves all streams at the end of the feed, and that each
// gets only what it may read.
func TestStreamsOfMany(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{StreamsMax: 120})
	d.fake.token.Participants = []string{"p1", "p2"}
	var all []*listener
	for n := range 60 {
		all = append(all, d.listen(d.serve.URL+"/v1/events?participant_id="+[]string{"p1", "p2"}[n%2]))
	}
	if got := d.listen(d.serve.URL + "/v1/events"); got.answer.StatusCode != 503 {
		t.Errorf("one stream more: %d", got.answer.StatusCode)
	}
	looked := func() int {
		d.fake.mu.Lock()
		defer d.fake.mu.Unlock()
		return d.fake.looks
	}
	before := looked()
	for n := 0; ; n++ { // all are in once one look at a time is enough
		time.Sleep(600 * time.Millisecond)
		now := looked()
		if now-before <= 4 {
			before = now
			break
		}
		if before = now; n == 20 {
			t.Fatal("each looks by itself")
		}
	}
	var told [2][]payment.Event
	for n := range 20 {
		told[n%2] = append(told[n%2], d.fake.happens([]string{"p1", "p2"}[n%2], payment.EventDispatched))
	}
	for n, l := range all {
		for _, e := range told[n%2] {
			l.wants(e)
		}
	}
	if looks := looked() - before; looks > 30 {
		t.Errorf("%d looks for 60 streams", looks)
	}
	all[0].cancel()
	for n := 0; ; n++ {
		if got := d.listen(d.serve.URL + "/v1/events"); got.answer.StatusCode == 200 {
			break
		}
		if n == 50 {
			t.Fatal("the place of a stream that ended is not given to another")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestStreamAfterAFailover tests that events which reuse the numbers of forgotten ones are sent to
// streams that stayed open, also to one that had read further than the new server has.
func TestStreamAfterAFailover(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	for range 10 {
		d.fake.happens("p1", payment.EventFailed)
	}
	early := d.listen(d.serve.URL + "/v1/events?since=2026-01-01T00:00:00Z")
	for range 10 {
		early.next()
	}
	late := d.listen(d.serve.URL + "/v1/events")
	both := d.fake.happens("p1", payment.EventDispatched)
	early.wants(both)
	late.wants(both)
	d.fake.mu.Lock()
	d.fake.feed = d.fake.feed[:3]
	d.fake.mu.Unlock()
	news := map[string]bool{}
	for range 4 {
		news[d.fake.happens("p1", payment.EventDispatched).Name()] = true
	}
	for _, l := range []*listener{early, late} {
		told := map[string]bool{}
		for len(told) < len(news) {
			_, name, data := l.next()
			if name == "" {
				t.Fatal("the stream has ended")
			}
			if id := fmt.Sprint(data["id"]); news[id] {
				told[id] = true
			}
		}
		more := d.fake.happens("p1", payment.EventConflict)
		for {
			_, name, data := l.next()
			if name == "" {
				t.Fatal("the stream has ended")
			}
			if fmt.Sprint(data["id"]) == more.Name() {
				break
			}
		}
	}
}

// TestStreamFurtherThanAFailover tests that a stream which has read by itself what a failover forgets, and waits for
// the others, is told the events that have the numbers of the forgotten ones.
func TestStreamFurtherThanAFailover(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	for range 3 {
		d.fake.happens("p1", payment.EventFailed)
	}
	early, at := d.listen(d.serve.URL+"/v1/events?since=2026-01-01T00:00:00Z"), ""
	for range 3 {
		at, _, _ = early.next()
	}
	// It has joined once reads begin by themselves.
	before := d.fake.looked()
	for ; d.fake.looked() < before+2; time.Sleep(10 * time.Millisecond) {
	}
	lost := []payment.Event{d.fake.happens("p1", payment.EventDispatched), d.fake.happens("p1", payment.EventDispatched)}
	d.fake.mu.Lock()
	d.fake.fails = func(call string) error { // the read of all is cut off, each by itself is not
		if call == "events" && d.fake.places > 200 {
			return errors.New("away")
		}
		return nil
	}
	d.fake.mu.Unlock()
	late := d.listen(d.serve.URL + "/v1/events?after=" + at)
	late.wants(lost[0])
	late.wants(lost[1])
	d.fake.mu.Lock()
	d.fake.feed, d.fake.fails = d.fake.feed[:3], nil
	d.fake.mu.Unlock()
	news := d.fake.happens("p1", payment.EventConflict)
	for _, l := range []*listener{early, late} {
		for id := ""; id != news.Name(); {
			_, name, data := l.next()
			if name == "" {
				t.Fatal("the stream has ended")
			}
			id = fmt.Sprint(data["id"])
		}
	}
}

// TestStreamsJoinABusyFeed tests that streams which begin while events are written without a pause are soon
// served by one read, and are told each event once and in order.
func TestStreamsJoinABusyFeed(t *testing.T) {
	t.Parallel()
	const streams = 40
	d := newDoor(t, api.Config{StreamsMax: 2 * streams})
	d.fake.slow = 15 * time.Millisecond
	d.fake.happens("p1", payment.EventFailed)
	var all []*listener
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for n := range streams {
		all = append(all, d.listen(d.serve.URL+"/v1/events"))
		if n%10 == 9 {
			<-ticker.C
			d.fake.happens("p1", payment.EventDispatched)
		}
	}
	joined, looks := 0, d.fake.looked()
	for n := 1; joined == 0; n++ {
		<-ticker.C
		d.fake.happens("p1", payment.EventDispatched)
		if n%200 == 0 { // a second: one read for all each 250 ms is four
			now := d.fake.looked()
			if now-looks <= 6 {
				joined = n
			} else if n > 2000 {
				t.Fatalf("%d reads a second for %d streams", now-looks, streams)
			}
			looks = now
		}
	}
	last := d.fake.happens("p1", payment.EventConflict)
	for n, l := range all {
		before := 0.0
		for {
			_, name, data := l.next()
			if name == "" {
				t.Fatal("the stream has ended")
			}
			sequence := data["data"].(map[string]any)["sequence_id"].(float64)
			if before > 0 && sequence != before+1 {
				t.Fatalf("stream %d: event %g comes after %g", n, sequence, before)
			}
			if before = sequence; fmt.Sprint(data["id"]) == last.Name() {
				break
			}
		}
	}
}

// TestStreamOfAQuietReader tests that a reader without events, or without recent ones, resumes
// where it was and not from now on.
func TestStreamOfAQuietReader(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{StreamBeat: 200 * time.Millisecond})
	d.fake.happens("p2", payment.EventFailed)
	end := time.After(20 * time.Second)
	cursor := func(l *listener) string {
		t.Helper()
		for {
			select {
			case line := <-l.lines:
				if id, is := strings.CutPrefix(line, "id: "); is {
					return id
				}
			case <-end:
				t.Fatal("no cursor")
			}
		}
	}
	l := d.listen(d.serve.URL + "/v1/events")
	first := cursor(l)
	missed := d.fake.happens("p1", payment.EventDispatched)
	d.listen(d.serve.URL+"/v1/events", "Last-Event-ID", first).wants(missed)
	l.wants(missed)
	// Events of others advance its place.
	d.fake.happens("p2", payment.EventFailed)
	last := cursor(l)
	for place, _ := outbox.ParsePlace(last); place.Xact < 3; place, _ = outbox.ParsePlace(last) {
		last = cursor(l)
	}
}

// TestSlowStream tests that a stream that is not read is ended, delays no other, and can be
// resumed.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{IdleMax: 500 * time.Millisecond, StreamsMax: 4})
	quick := d.listen(d.serve.URL + "/v1/events")
	conn, err := net.Dial("tcp", d.serve.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer "+
		"%s\r\n\r\n", aToken)
	for n := 0; ; n++ { // it has its place once there is none for a third
		got := d.listen(d.serve.URL + "/v1/events")
		got.cancel()
		if got.answer.StatusCode == 503 {
			break
		}
		if n == 100 {
			t.Fatal("the slow one has no place")
		}
		time.Sleep(50 * time.Millisecond)
	}
	for range 40 {
		for range 500 {
			d.fake.happens("p1", payment.EventDispatched)
		}
		for range 500 {
			if _, name, _ := quick.next(); name == "" {
				t.Fatal("the quick one is ended")
			}
		}
	}
	for n := 0; ; n++ { // its place is another's
		if got := d.listen(d.serve.URL + "/v1/events"); got.answer.StatusCode == 200 {
			break
		}
		if n == 100 {
			t.Fatal("a stream that is not read has no end")
		}
		time.Sleep(50 * time.Millisecond)
	}
	for text := bufio.NewScanner(conn); text.Scan(); {
		if id, is := strings.CutPrefix(text.Text(), "id: "); is {
			resumed := d.listen(d.serve.URL+"/v1/events", "Last-Event-ID", id)
			if _, name, _ := resumed.next(); name == "" && resumed.answer.StatusCode == 200 {
				t.Error("it does not resume")
			}
			return
		}
	}
	t.Error("it was told nothing")
}

// TestStreamOutlivesARequest tests that the bounds of a request do not apply to a stream, which
// ends when the process stops.
func TestStreamOutlivesARequest(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{IdleMax: 200 * time.Millisecond, WaitMax: 100 * time.Millisecond,
		StoreTimeout: 100 * time.Millisecond, StreamBeat: 100 * time.Millisecond, Drain: 5 * time.Second})
	near, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- d.api.Serve(ctx, near) }()
	l := d.listen("http://" + near.Addr().String() + "/v1/events")
	time.Sleep(1500 * time.Millisecond)
	l.wants(d.fake.happens("p1", payment.EventDispatched))
	stop()
	if _, name, _ := l.next(); name != "" {
		t.Errorf("told %s", name)
	}
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a stream holds up the stop")
	}
}

func secretOf(t *testing.T) []byte {
	t.Helper()
	secret := make([]byte, 32)
	rand.Read(secret) //nolint:errcheck // it never fails
	return secret
}

func TestEventTokens(t *testing.T) {
	t.Parallel()
	first, second := secretOf(t), secretOf(t)
	d := newDoor(t, api.Config{EventKeys: [][]byte{first}, Origins: []string{"https://shop.example"}})
	d.fake.token.Participants = []string{"p1", "p3"}
	mine := d.fake.happens("p1", payment.EventFailed)
	d.fake.happens("p3", payment.EventFailed)
	d.fake.happens("p1", payment.EventDispatched)
	create := func(body string) answer { return d.call("POST", "/v1/events/tokens", body) }
	for body, status := range map[string]int{
		`{"expires_in": 9}`: 422, `{"expires_in": 86401}`: 422, `{"expires_in": 1e3}`: 400, `{}`: 422, `[]`: 400, `{"expires_in": 60, "for": "p1"}`: 400,
		`{"expires_in": 60, "participants": []}`: 422, `{"expires_in": 60, "participants": ["p2"]}`: 403, `{"expires_in": 60, "types": ["payment.made"]}`: 422,
		`{"expires_in": 60, "participants": ["p1", "p2"]}`: 403, `{"expires_in": 60, "types": []}`: 422,
	} {
		if got := create(body); got.status != status {
			t.Errorf("%s: %d, want %d: %s", body, got.status, status, got.text)
		}
	}
	made := create(`{"expires_in": 60, "participants": ["p1"], "types": ["payment.failed"]}`)
	d.want("a token", made, 201)
	token := made.field("token")
	read := func(d *fakeDoor, token, query string, headers ...string) ([]string, answer) {
		t.Helper()
		got := d.call("GET", "/v1/events?access_token="+url.QueryEscape(token)+query, "",
			append([]string{"Authorization", "-"}, headers...)...)
		var names []string
		items, _ := got.fields["items"].([]any)
		for _, each := range items {
			names = append(names, each.(map[string]any)["id"].(string))
		}
		return names, got
	}
	names, got := read(d, token, "", "Origin", "https://shop.example")
	if d.want("by the address", got, 200); len(names) != 1 || names[0] != mine.Name() ||
		got.header.Get("Access-Control-Allow-Origin") != "https://shop.example" {
		t.Errorf("told %v, %v", names, got.header)
	}
	if _, got := read(d, token, "", "Origin",
		"https://other.example"); got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("pages of any origin read it")
	}
	if _, got := read(d, "rhe_none", "", "Origin", "https://shop.example"); got.status != 401 ||
		got.header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("a page does not learn that it is refused: %d, %v", got.status, got.header)
	}
	d.want("by the header", d.call("GET", "/v1/events", "", "Authorization", "Bearer "+token), 200)
	for query, status := range map[string]int{"&participant_id=p3": 403, "&types=payment.dispatched": 403,
		"&participant_id=p1": 200, "&types=payment.failed": 200} {
		if _, got := read(d, token, query); got.status != status {
			t.Errorf("%s: %d, want %d", query, got.status, status)
		}
	}
	// The token is for nothing else, and no other token is accepted in an address.
	d.want("another operation", d.call("GET", "/v1/instructions?participant_id=p1", "", "Authorization", "Bearer "+token),
		401)
	d.want("a token by a token", d.call("POST", "/v1/events/tokens", `{"expires_in": 60}`, "Authorization",
		"Bearer "+token), 401)
	if _, got := read(d, aToken, ""); got.status != 401 {
		t.Errorf("a token in the address: %d", got.status)
	}
	if _, got := read(d, token, "&access_token=x"); got.status != 401 {
		t.Errorf("two tokens: %d", got.status)
	}
	// Each byte counts.
	for at := range token {
		for _, other := range []byte{'A', 'z', '9', '-', '_', '=', ' ', 0x7f} {
			if token[at] == other {
				continue
			}
			if _, got := read(d, token[:at]+string(other)+token[at+1:], ""); got.status != 401 {
				t.Fatalf("byte %d changed to %q: %d", at, other, got.status)
			}
		}
		if _, got := read(d, token[:at], ""); got.status != 401 {
			t.Fatalf("cut at byte %d: %d", at, got.status)
		}
	}
	// Keys rotate: the new one seals, the old one opens for a while.
	rotated := newDoor(t, api.Config{EventKeys: [][]byte{second, first}})
	rotated.fake.token.Participants = []string{"p1", "p3"}
	if _, got := read(rotated, token, ""); got.status != 200 {
		t.Errorf("by the old key: %d", got.status)
	}
	newer := rotated.call("POST", "/v1/events/tokens", `{"expires_in": 60}`).field("token")
	if _, got := read(d, newer, ""); got.status != 401 {
		t.Errorf("by a key that is not known: %d", got.status)
	}
	// It ends with the token that it narrows, and by itself.
	short := create(`{"expires_in": 10}`).field("token")
	l := d.listen(d.serve.URL+"/v1/events?access_token="+short, "Authorization", "-")
	if l.answer.StatusCode != 200 {
		t.Fatalf("a stream: %d", l.answer.StatusCode)
	}
	ended := endOf(l)
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Error("a stream outlives its token")
	}
	if _, got := read(d, short, ""); got.status != 401 {
		t.Errorf("after its time: %d", got.status)
	}
	d.fake.mu.Lock()
	d.fake.token.InForce = false
	d.fake.mu.Unlock()
	if _, got := read(d, token, ""); got.status != 401 {
		t.Errorf("after the other was revoked: %d", got.status)
	}
	// Reads by it do not count against the quota for payments, and have their own.
	bounded := newDoor(t, api.Config{EventKeys: [][]byte{first}})
	bounded.fake.token.RequestsPerMinute = 12 // two at once
	token = bounded.call("POST", "/v1/events/tokens", `{"expires_in": 60}`).field("token")
	refused := 0
	for n := range 60 {
		if _, got := read(bounded, token, ""); got.status == 429 {
			refused++
		} else if got.status != 200 || n >= 55 && refused == 0 {
			t.Fatalf("call %d: %d", n, got.status)
		}
	}
	if got := bounded.post(valid, "k"); got.status != 201 || refused == 0 {
		t.Errorf("an enqueue: %d; %d refused", got.status, refused)
	}
	none := newDoor(t, api.Config{})
	none.want("without a key", none.call("POST", "/v1/events/tokens", `{"expires_in": 60}`), 501)
	if _, err := api.New(api.Config{EventKeys: [][]byte{[]byte("short")}}, newFake(), nil, nil); err == nil {
		t.Error("a short key is taken")
	}
}

// endOf is closed at the end of a stream.
func endOf(l *listener) chan struct{} {
	ended := make(chan struct{})
	go func() {
		for range l.lines {
		}
		close(ended)
	}()
	return ended
}
