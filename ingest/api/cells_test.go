package api_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/door"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// severalOverHTTP is one API of the cells east and west, called with a token for p1 and p2 that both have.
func severalOverHTTP(t *testing.T, both map[string]*cellOverHTTP) (*cellOverHTTP, *door.Routed) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var cells []door.Cell
	for _, setting := range []string{"EAST", "WEST"} {
		cells = append(cells, door.Cell{Setting: setting,
			Config: ledger.Config{URL: both[setting].URL(celltest.API), Cell: both[setting].Schema}})
	}
	store, err := door.OpenRouted(t.Context(), cells)
	must(err)
	t.Cleanup(store.Close)
	must(store.CheckKeys(t.Context()))
	made, err := api.New(api.Config{Cells: store.Settings(), EventKeys: [][]byte{[]byte(strings.Repeat("k", 32))}},
		store, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	must(err)
	c := &cellOverHTTP{fakeDoor: &fakeDoor{t: t, serve: httptest.NewServer(made.Handler())}}
	t.Cleanup(c.serve.Close)
	east, west := both["EAST"].Conn(t, ""), both["WEST"].Conn(t, "")
	token, id, err := operator.CreateToken(t.Context(), east, "railhead", operator.NewToken{Name: "both",
		Participants: []string{"p1", "p2"}, Verbs: []string{"ENQUEUE", "READ", "CANCEL"},
		ExpiresAt: time.Now().Add(time.Hour), Reason: "a test"})
	must(err)
	c.token = token
	stored, err := operator.ReadToken(t.Context(), east, "railhead", id)
	must(err)
	copied, err := operator.CopyToken(t.Context(), west, "railhead", id, stored, "a test")
	if err != nil || !copied {
		t.Fatalf("copying a token: %t, %v", copied, err)
	}
	return c, store
}

// asOne is an API of one cell alone, with the event keys of that of several.
func asOne(t *testing.T, of *cellOverHTTP) *cellOverHTTP {
	t.Helper()
	store, err := door.Open(t.Context(), ledger.Config{URL: of.URL(celltest.API), Cell: of.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	made, err := api.New(api.Config{EventKeys: [][]byte{[]byte(strings.Repeat("k", 32))}}, store, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c := &cellOverHTTP{fakeDoor: &fakeDoor{t: t, serve: httptest.NewServer(made.Handler())}, token: of.token}
	t.Cleanup(c.serve.Close)
	return c
}

// ofP2 is an instruction of p2 with an id.
func ofP2(id string) string { return strings.Replace(instructionOf(id), `"p1"`, `"p2"`, 1) }

// TestSeveralCellsOverHTTP: one API takes the instructions of both cells, and finds, lists and cancels them whichever
// has them; a repeated call after a move stores nothing; a cell that is away stops its own participants alone, and at
// once.
func TestSeveralCellsOverHTTP(t *testing.T) {
	t.Parallel()
	both, at := eastAndWest(t)
	c, store := severalOverHTTP(t, both)
	stored := func(east, west int) {
		t.Helper()
		for setting, want := range map[string]int{"EAST": east, "WEST": west} {
			if got := both[setting].Int(`SELECT count(*) FROM railhead.payment_outbox_keys`); got != want {
				t.Errorf("%d instructions are in %s, want %d", got, setting, want)
			}
		}
	}
	first := c.asks("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1")
	c.want("before the move", first, 201, "sequence_id", "1")
	id := first.field("outbox_id")
	moveP1(t, both, at, "west")
	c.want("a new one after it", c.asks("POST", "/v1/instructions", instructionOf("i-2"), "Idempotency-Key", "k-2"), 201,
		"sequence_id", "2")
	c.want("of the other cell", c.asks("POST", "/v1/instructions", ofP2("i-9"), "Idempotency-Key", "k-1"), 201,
		"sequence_id", "1")
	c.want("a late retry", c.asks("POST", "/v1/instructions", valid, "Idempotency-Key", "k-1"), 200, "replayed", "true",
		"outbox_id", id, "state", payment.Elsewhere)
	stored(2, 1)
	c.want("its status", c.asks("GET", "/v1/instructions/"+id, ""), 200, "state", "PENDING", "certainty", "NOT_SENT",
		"idempotency_key", "k-1")
	c.want("what is in no cell", c.asks("GET", "/v1/instructions/"+payment.NewID().String(), ""), 404)
	list := c.asks("GET", "/v1/instructions?participant_id=p1", "")
	if got := listed(list, true); got != "1 PENDING k-1, 2 PENDING k-2" {
		t.Errorf("the list: %s: %s", got, list.text)
	}
	pages := c.asks("GET", "/v1/instructions?participant_id=p1&limit=1", "")
	pages = c.asks("GET", "/v1/instructions?participant_id=p1&limit=1&after="+pages.field("next"), "")
	if got := listed(pages, false); got != "2 PENDING" {
		t.Errorf("its second page: %s: %s", got, pages.text)
	}
	c.want("its attempts", c.asks("GET", "/v1/instructions/"+id+"/attempts", ""), 200)
	batch := func(prefix string) string {
		var lines strings.Builder
		for _, in := range []string{instructionOf(prefix + "-1"), ofP2(prefix + "-2")} {
			lines.WriteString(strings.Replace(in, "{", fmt.Sprintf(`{"idempotency_key": "%s-%d", `, prefix, lines.Len()), 1))
			lines.WriteString("\n")
		}
		return c.asks("POST", "/v1/instructions/batch", lines.String(), "Content-Type", "application/x-ndjson").text
	}
	if got := batch("batch"); strings.Count(got, `"status":201`) != 2 {
		t.Errorf("a batch for both: %s", got)
	}
	stored(3, 2)

	store.SetAway("WEST", true)
	began := time.Now()
	away := c.asks("POST", "/v1/instructions", instructionOf("i-3"), "Idempotency-Key", "k-3")
	c.want("for the cell that is away", away, 503, "commit", "none")
	c.want("for the other one", c.asks("POST", "/v1/instructions", ofP2("i-10"), "Idempotency-Key", "k-10"), 201)
	if got := batch("away"); strings.Count(got, `"status":201`) != 1 ||
		!strings.Contains(got, "No cell that this process serves takes") {
		t.Errorf("a batch for both while one is away: %s", got)
	}
	for what, path := range map[string]string{
		"what may be there":  "/v1/instructions/" + payment.NewID().String(),
		"a list with a hole": "/v1/instructions?participant_id=p1",
		"its events":         "/v1/events?cell=WEST",
	} {
		c.want(what, c.asks("GET", path, ""), 503)
	}
	c.want("what is in the cell that is there", c.asks("GET", "/v1/instructions/"+id, ""), 200, "state", "PENDING")
	c.want("the other cell's events", c.asks("GET", "/v1/events?cell=EAST", ""), 200)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the calls took %v", took)
	}
	store.SetAway("WEST", false)
	c.want("when it is back", c.asks("POST", "/v1/instructions", instructionOf("i-3"), "Idempotency-Key", "k-3"), 201)
	c.want("a cancel in the old cell", c.asks("POST", "/v1/instructions/"+id+"/cancel", `{"reason": "a test"}`), 200,
		"state", "CANCELLED")
	stored(5, 3)

	// The token of one cell alone serves that cell's participants.
	east := &cellOverHTTP{fakeDoor: c.fakeDoor, token: both["EAST"].token}
	east.want("a token that the cell does not know", east.asks("POST", "/v1/instructions", instructionOf("i-4"),
		"Idempotency-Key", "k-4"), 401)
}

// TestEventsOfSeveralCells: a reader names one cell, cursors begin with it, and a cursor or token of another cell is
// refused.
func TestEventsOfSeveralCells(t *testing.T) {
	t.Parallel()
	both, at := eastAndWest(t)
	c, _ := severalOverHTTP(t, both)
	for n, cell := range []string{"east", "west"} {
		if n > 0 {
			moveP1(t, both, at, cell)
		}
		made := c.asks("POST", "/v1/instructions", instructionOf("i-"+cell), "Idempotency-Key", "k-"+cell)
		c.want("in "+cell, made, 201)
		c.want("its event", c.asks("POST", "/v1/instructions/"+made.field("outbox_id")+"/cancel",
			`{"reason": "a test"}`), 200)
	}
	events := func(query string, headers ...string) answer {
		t.Helper()
		return c.asks("GET", "/v1/events"+query, "", headers...)
	}
	c.want("without a cell", events(""), 400, "field", "query.cell", "rule", "MISSING")
	c.want("of an unknown cell", events("?cell=NORTH"), 400, "field", "query.cell", "rule", "KNOWN")
	var next string
	for _, cell := range []string{"EAST", "WEST"} {
		page := events("?cell=" + cell)
		// Transactions of other tests on the server hold events back, some of them for half a minute.
		for end := time.Now().Add(2 * time.Minute); !strings.Contains(page.text, `"id":`) && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
			page = events("?cell=" + cell)
		}
		c.want("of "+cell, page, 200)
		if strings.Count(page.text, `"id":`) != 1 || !strings.Contains(page.text, `"i-`+strings.ToLower(cell)+`"`) {
			t.Errorf("of %s: %s", cell, page.text)
		}
		next = page.field("next")
		if !strings.HasPrefix(next, cell+".") {
			t.Errorf("a cursor of %s: %s", cell, next)
		}
		c.want("after them", events("?cell="+cell+"&after="+next), 200, "items", "[]")
	}
	_, bare, _ := strings.Cut(next, ".")
	c.want("with the cursor of another cell", events("?cell=EAST&after="+next), 400, "field", "query.after", "rule",
		"CELL")
	c.want("with a cursor of no cell", events("?cell=EAST&after="+bare), 400, "field", "query.after", "rule", "CELL")
	c.want("with half a cursor", events("?cell=EAST&after=EAST.x"), 400, "field", "query.after", "rule", "FORM")
	if t.Failed() {
		return // a stream that is not refused does not end
	}
	c.want("a stream from another cell's place", events("?cell=EAST", "Accept", "text/event-stream", "Last-Event-ID",
		next), 400, "field", "query.after", "rule", "CELL")
	both["EAST"].want("a cell at the API of one", both["EAST"].asks("GET", "/v1/events?cell=EAST", ""), 400, "field",
		"query.cell", "rule", "KNOWN")
	both["EAST"].want("a place of several at the API of one", both["EAST"].asks("GET", "/v1/events?after="+next, ""), 400,
		"field", "query.after", "rule", "FORM")

	token := func(body string) answer { return c.asks("POST", "/v1/events/tokens", body) }
	c.want("a token without a cell", token(`{"expires_in": 600}`), 422, "field", "cell", "rule", "KNOWN")
	c.want("a token of an unknown cell", token(`{"expires_in": 600, "cell": "NORTH"}`), 422, "field", "cell")
	made := token(`{"expires_in": 600, "cell": "WEST"}`)
	c.want("a token", made, 201)
	by := func(query string) answer {
		return c.call("GET", "/v1/events?access_token="+url.QueryEscape(made.field("token"))+query, "", "Authorization", "-")
	}
	if page := by(""); page.status != 200 || !strings.Contains(page.text, `"i-west"`) {
		t.Errorf("by a token of west: %d %s", page.status, page.text)
	}
	c.want("by it, of another cell", by("&cell=EAST"), 403, "rule", "CELL")
	// An API of east alone, with the same keys, makes a token that names no cell.
	made = asOne(t, both["EAST"]).asks("POST", "/v1/events/tokens", `{"expires_in": 600}`)
	c.want("a token of an API of one cell", made, 201)
	c.want("by that, of a cell", by("&cell=WEST"), 403, "rule", "CELL")
}

// TestBatchOfACellWithoutAnAnswer: where the commit of one cell is not known, its lines of a batch say so, and those of
// other cells have their receipts.
func TestBatchOfACellWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	d.fake.fails = func(call string) error {
		if call == "enqueue" && len(d.fake.got) == 1 {
			return &outbox.Fault{SQLState: outbox.StateCommitUnknown, Message: "the connection broke"}
		}
		return nil
	}
	d.fake.got = nil
	var lines []string
	for n := range 2 {
		lines = append(lines, strings.Replace(strings.Replace(valid, "i-1", fmt.Sprintf("i-%d", n), 1), `"rail_type"`,
			fmt.Sprintf(`"idempotency_key": "k-%d", "rail_type"`, n), 1))
	}
	got := d.call("POST", "/v1/instructions/batch", strings.Join(lines, "\n")+"\n", "Content-Type", "application/x-ndjson")
	said := strings.Split(strings.TrimSpace(got.text), "\n")
	if len(said) != 3 || !strings.Contains(said[0], `"status":201`) || !strings.Contains(said[1], `"status":503`) ||
		!strings.Contains(said[1], "commit-unknown") || !strings.Contains(said[1], `"commit":"unknown"`) ||
		!strings.Contains(said[2], `"lines":2`) {
		t.Errorf("answered\n%s", got.text)
	}
	if !strings.Contains(d.log.String(), "the connection broke") {
		t.Errorf("the log: %s", d.log)
	}
}

// TestBatchHoldsBackWhatFollows: once a line may be stored later, those of its participant behind it are not tried, in
// this chunk's successors too: they would come before it.
func TestBatchHoldsBackWhatFollows(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{})
	d.fake.got = nil
	away := 0 // the number of the chunk that meets a cell which is away
	d.fake.fails = func(call string) error {
		if away == 0 && len(d.fake.got) == 200 {
			away = d.fake.batches
		}
		if call == "enqueue" && away > 0 && d.fake.batches == away {
			return &outbox.Fault{SQLState: outbox.StateOtherCell, Message: "its cell is away"}
		}
		return nil
	}
	var lines []string
	for n := range 300 {
		lines = append(lines, strings.Replace(strings.Replace(valid, "i-1", fmt.Sprintf("i-%d", n), 1), `"rail_type"`,
			fmt.Sprintf(`"idempotency_key": "k-%d", "rail_type"`, n), 1))
	}
	got := d.call("POST", "/v1/instructions/batch", strings.Join(lines, "\n")+"\n", "Content-Type", "application/x-ndjson")
	said := strings.Split(strings.TrimSpace(got.text), "\n")
	if len(said) != 301 {
		t.Fatalf("%d answers", len(said))
	}
	created, held := 0, false
	for n, line := range said[:300] {
		switch {
		case strings.Contains(line, `"status":201`) && !held:
			created++
		case strings.Contains(line, `"status":503`) && strings.Contains(line, `"commit":"none"`):
			held = true
		default:
			t.Errorf("line %d: %s", n+1, line)
		}
	}
	if created != 200 {
		t.Errorf("%d lines are stored", created)
	}
}
