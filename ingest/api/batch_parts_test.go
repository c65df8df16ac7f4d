package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/outbox"
)

// lineOf is a line of a batch.
func lineOf(participant string, n int) string {
	line := strings.Replace(valid, "i-1", fmt.Sprint("i-", n), 1)
	line = strings.Replace(line, `"p1"`, `"`+participant+`"`, 1)
	return strings.Replace(line, `"rail_type"`, fmt.Sprintf(`"idempotency_key": "k-%d", "rail_type"`, n), 1) + "\n"
}

// batchAnswer is one line of an answer.
type batchAnswer struct {
	Line, Status, Lines int
	End                 bool
	Instruction         struct {
		InstructionID string `json:"instruction_id"`
		SequenceID    int    `json:"sequence_id"`
	}
	Problem struct {
		Type, Code, Commit string
		RetryAfter         int `json:"retry_after"`
	}
}

// answersTo returns the lines of an answer to a batch, and its end.
func answersTo(t *testing.T, said answer) (all []batchAnswer, end batchAnswer) {
	t.Helper()
	for text := range strings.Lines(said.text) {
		var one batchAnswer
		if err := json.Unmarshal([]byte(text), &one); err != nil || one.End == (one.Line == len(all)+1) {
			t.Fatalf("answered %s (%v)", text, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 || !all[len(all)-1].End {
		t.Fatalf("no end in %s", said.text)
	}
	return all[:len(all)-1], all[len(all)-1]
}

// TestChunkOfTooManyLines: a chunk that has more lines than a cell takes at once is stored in parts, in its order.
func TestChunkOfTooManyLines(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		cells []string
		most  map[string]int
	}{
		"one cell":             {nil, map[string]int{"": 100}},
		"one line at once":     {nil, map[string]int{"": 1}},
		"of several cells one": {[]string{"EAST", "WEST"}, map[string]int{"p1": 10}},
		"several cells":        {[]string{"EAST", "WEST"}, map[string]int{"p1": 10, "p2": 50}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, api.Config{Cells: c.cells})
			d.fake.token.Participants, d.fake.most = []string{"p1", "p2"}, c.most
			var body strings.Builder
			for n := range 600 {
				body.WriteString(lineOf(fmt.Sprint("p", 1+n%2), n))
			}
			said := d.call("POST", "/v1/instructions/batch", body.String(), "Content-Type", "application/x-ndjson")
			answers, end := answersTo(t, said)
			for n, one := range answers {
				if one.Status != 201 || one.Instruction.InstructionID != fmt.Sprint("i-", n) {
					t.Fatalf("line %d: %+v", n+1, one)
				}
			}
			if end.Status != 200 || end.Lines != 600 {
				t.Errorf("the end is %+v", end)
			}
			last := map[string]int{}
			for _, in := range d.fake.got {
				var n int
				if _, err := fmt.Sscanf(in.InstructionID, "i-%d", &n); err != nil || n < last[in.ParticipantID] {
					t.Errorf("%s was stored after i-%d (%v)", in.InstructionID, last[in.ParticipantID], err)
				}
				last[in.ParticipantID] = n
			}
		})
	}
}

// TestPartsOfAChunk: what an earlier part leaves for later holds up its participant in the parts behind it. A part
// whose commit is not known ends the batch, and those behind it are not tried.
func TestPartsOfAChunk(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		line, whole error // how the store answers once 50 lines are stored: each line, or the call
		commit      string
	}{
		"held":  {&outbox.Fault{SQLState: outbox.StateOtherCell, Message: "its cell is away"}, nil, "none"},
		"ended": {nil, outbox.ErrCommitUnknown, "unknown"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, api.Config{})
			d.fake.token.Participants, d.fake.most = []string{"p1", "p2"}, map[string]int{"": 10}
			failed := 0 // the call that has failed
			d.fake.fails = func(call string) error {
				if failed == 0 && len(d.fake.got) >= 50 && call == "batch" {
					failed = d.fake.batches
				}
				switch {
				case failed != d.fake.batches || failed == 0:
					return nil
				case call == "batch":
					return c.whole
				default:
					return c.line
				}
			}
			var body strings.Builder
			for n := range 200 {
				body.WriteString(lineOf("p1", n))
			}
			body.WriteString(lineOf("p2", 200)) // no line holds it up
			said := d.call("POST", "/v1/instructions/batch", body.String(), "Content-Type", "application/x-ndjson")
			answers, end := answersTo(t, said)
			stored := slices.IndexFunc(answers, func(one batchAnswer) bool { return one.Status != 201 })
			goesOn := c.whole == nil
			if known := d.fake.known["k-200"].ParticipantID != ""; stored < 50 || known != goesOn ||
				known != (answers[len(answers)-1].Status == 201) {
				t.Fatalf("%d lines are stored, and the last is: %t %+v", stored, known, answers[len(answers)-1])
			}
			doubted := 0
			for _, one := range answers[stored:min(len(answers), 200)] {
				if one.Status != 503 || doubted >= 10 && one.Problem.Commit != "none" {
					t.Fatalf("%+v", one)
				}
				if one.Problem.Commit == "unknown" {
					doubted++
				}
			}
			if goesOn && (doubted > 0 || len(answers) != 201 || end.Status != 200) ||
				!goesOn && (doubted == 0 || end.Status != 503) || end.Lines != len(answers) {
				t.Errorf("%d lines in doubt, %d answers, and the end %+v", doubted, len(answers), end)
			}
		})
	}
}

// TestPartsUnderAQuota: a line over the quota does not hold up those before it, which are sent in parts. One of those
// that may be stored later does.
func TestPartsUnderAQuota(t *testing.T) {
	t.Parallel()
	for want, fails := range map[string]bool{"[201 201 201 429 429 429]": false, "[201 503 503 429 429 429]": true} {
		d := newDoor(t, api.Config{})
		d.fake.token.RequestsPerMinute = 24 // bursts of four, of which the batch itself is one
		d.fake.most = map[string]int{"": 1}
		failed := false
		d.fake.fails = func(call string) error {
			if fails && call == "enqueue" && len(d.fake.got) == 1 && !failed {
				failed = true
				return &outbox.Fault{SQLState: outbox.StateOtherCell, Message: "its cell is away"}
			}
			return nil
		}
		var body strings.Builder
		for n := range 6 {
			body.WriteString(lineOf("p1", n))
		}
		said := d.call("POST", "/v1/instructions/batch", body.String(), "Content-Type", "application/x-ndjson")
		answers, _ := answersTo(t, said)
		var got []int
		for _, one := range answers {
			got = append(got, one.Status)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("answered %v, want %s", got, want)
		}
	}
}

// TestChunkOfTooManyLinesOverTheLedger is the same over two real cells, which take few lines at once.
func TestChunkOfTooManyLinesOverTheLedger(t *testing.T) {
	t.Parallel()
	both, at := eastAndWest(t)
	c, _ := severalOverHTTP(t, both)
	moveP1(t, both, at, "west")
	both["EAST"].Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 7")
	both["WEST"].Exec("UPDATE railhead.payment_outbox_settings SET batch_items_max = 2")
	var body strings.Builder
	for n := range 60 {
		body.WriteString(lineOf(fmt.Sprint("p", 1+n%2), n))
	}
	said := c.asks("POST", "/v1/instructions/batch", body.String(), "Content-Type", "application/x-ndjson")
	answers, end := answersTo(t, said)
	for n, one := range answers {
		if one.Status != 201 || one.Instruction.SequenceID != 1+n/2 {
			t.Errorf("line %d: %+v", n+1, one)
		}
	}
	if len(answers) != 60 || end.Status != 200 {
		t.Errorf("%d answers, and the end %+v", len(answers), end)
	}
}
