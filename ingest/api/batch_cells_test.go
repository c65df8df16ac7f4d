package api_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
	"github.com/railhead-pay/railhead/outbox"
)

// TestBatchWhileAllCellsFail: a batch ends once chunks without an answer have taken the time of two.
func TestBatchWhileAllCellsFail(t *testing.T) {
	t.Parallel()
	d := newDoor(t, api.Config{Cells: []string{"EAST", "WEST"}, StoreTimeout: 500 * time.Millisecond})
	var body strings.Builder
	d.fake.token.Participants = nil
	for n := range 5000 {
		p := fmt.Sprint("p", n)
		d.fake.token.Participants = append(d.fake.token.Participants, p)
		line := strings.Replace(ofP2(fmt.Sprint("i-", n)), `"p2"`, `"`+p+`"`, 1)
		body.WriteString(strings.Replace(line, "{", fmt.Sprintf(`{"idempotency_key": "k-%d", `, n), 1) + "\n")
	}
	d.fake.fails = func(call string) error {
		if call != "batch" {
			return nil
		}
		time.Sleep(550 * time.Millisecond)
		return errors.New("it does not answer")
	}
	said := d.call("POST", "/v1/instructions/batch", body.String(), "Content-Type", "application/x-ndjson")
	lines := strings.Split(strings.TrimSpace(said.text), "\n")
	if end := lines[len(lines)-1]; d.fake.batches != 2 || !strings.Contains(end, `"status":503`) {
		t.Errorf("%d chunks were tried, and the end is %s", d.fake.batches, end)
	}
}

// TestBatchWhoseCellFails: the API of several cells reads on after a chunk that its cell did not answer: lines of that
// participant are held back, and those of others are stored. An API of one cell does not, and says so.
func TestBatchWhoseCellFails(t *testing.T) {
	t.Parallel()
	several := []string{"EAST", "WEST"}
	for what, c := range map[string]struct {
		cells []string
		fails error
		says  string // of the first line
		want  []int  // the status of each line, and of the end
	}{
		"unknown": {several, outbox.ErrCommitUnknown, `"commit":"unknown"`, []int{503, 503, 201, 200}},
		"no room": {several, errors.New("no space is left"), `"commit":"none"`, []int{503, 503, 201, 200}},
		// Such lines are not held back, so nothing may come after them.
		"refused":         {several, &outbox.Fault{SQLState: outbox.StateInvalid}, `"RH002"`, []int{422, 422}},
		"one cell":        {nil, outbox.ErrCommitUnknown, `"commit":"unknown"`, []int{503, 503}},
		"one of a router": {several[:1], outbox.ErrCommitUnknown, `"commit":"unknown"`, []int{503, 503}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, api.Config{Cells: c.cells})
			d.fake.token.Participants = []string{"p1", "p2"}
			d.fake.fails = func(call string) error {
				if call == "batch" && d.fake.batches == 1 {
					return c.fails
				}
				return nil
			}
			body, in := io.Pipe()
			request, err := http.NewRequestWithContext(t.Context(), "POST", d.serve.URL+"/v1/instructions/batch", body)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+aToken)
			request.Header.Set("Content-Type", "application/x-ndjson")
			said := make(chan struct{}, len(c.want)+1)
			go func() { // each line in a chunk of its own
				for n, participant := range []string{"p1", "p1", "p2"} {
					line := strings.Replace(ofP2(fmt.Sprint("i-", n)), `"p2"`, `"`+participant+`"`, 1)
					line = strings.Replace(line, "{", fmt.Sprintf(`{"idempotency_key": "k-%d", `, n), 1)
					if _, err := io.WriteString(in, line+"\n"); err != nil {
						return // the batch has ended
					}
					<-said
				}
				in.Close()
			}()
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			answers := bufio.NewScanner(response.Body)
			var lines []string
			for answers.Scan() {
				lines = append(lines, answers.Text())
				said <- struct{}{}
			}
			in.CloseWithError(io.ErrClosedPipe)
			if len(lines) != len(c.want) {
				t.Fatalf("answered\n%s", strings.Join(lines, "\n"))
			}
			for n, status := range c.want {
				if !strings.Contains(lines[n], fmt.Sprintf(`"status":%d`, status)) {
					t.Errorf("line %d is %s, want %d", n+1, lines[n], status)
				}
			}
			end, read := lines[len(lines)-1], len(lines)-1
			if !strings.Contains(lines[0], c.says) || !strings.Contains(end, fmt.Sprintf(`"lines":%d`, read)) ||
				read == 3 && (!strings.Contains(lines[1], `"commit":"none"`) || !strings.Contains(end, `"created":1,"refused":2`)) {
				t.Errorf("answered\n%s", strings.Join(lines, "\n"))
			}
		})
	}
}
