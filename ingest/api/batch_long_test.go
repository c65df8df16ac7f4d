package api_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ingest/api"
)

// TestLineThatIsTooLong: a line over the bound is refused as a single instruction of its size is, and those behind it
// are read, as long as the bound of the whole batch allows.
func TestLineThatIsTooLong(t *testing.T) {
	t.Parallel()
	long := strings.Replace(lineOf("p1", 9), "10.50", strings.Repeat("1", 200<<10), 1)
	for what, c := range map[string]struct {
		body string
		want []int // the status of each line, and of the end
	}{
		"in the middle":      {lineOf("p1", 1) + long + lineOf("p1", 2), []int{201, 413, 201, 200}},
		"first and again":    {long + long + lineOf("p1", 1), []int{413, 413, 201, 200}},
		"last, without end":  {lineOf("p1", 1) + strings.TrimSpace(long), []int{201, 413, 200}},
		"very long":          {strings.Repeat("x", 40<<20) + "\n" + lineOf("p1", 1), []int{413, 201, 200}},
		"over all bounds":    {lineOf("p1", 1) + strings.Repeat("x", 65<<20) + "\n" + lineOf("p1", 2), []int{201, 413, 413}},
		"over them together": {strings.Repeat(strings.Repeat("x", 33<<20)+"\n", 2) + lineOf("p1", 2), []int{413, 413, 413}},
		"of blanks":          {strings.Repeat(" ", 200<<10) + "\n" + lineOf("p1", 1), []int{201, 200}},
		"behind many blanks": {strings.Repeat(" ", 200<<10) + lineOf("p1", 1), []int{413, 200}},
	} {
		t.Run(what, func(t *testing.T) {
			d := newDoor(t, api.Config{})
			said := d.call("POST", "/v1/instructions/batch", c.body, "Content-Type", "application/x-ndjson")
			answers, end := answersTo(t, said)
			var got []int
			for _, one := range append(answers, end) {
				if got = append(got, one.Status); one.Status == 413 && !strings.HasSuffix(one.Problem.Type, "/too-large.md") {
					t.Errorf("%+v", one)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) || end.Lines != len(answers) {
				t.Errorf("answered %.600s", said.text)
			}
		})
	}
	d := newDoor(t, api.Config{})
	if got := d.post(long, "k"); got.status != 413 || !strings.HasSuffix(got.field("type"), "/too-large.md") {
		t.Errorf("alone: %d %s", got.status, got.text)
	}
}

// TestLongLineThatComesSlowly: the rest of a line that is too long has the time of the batch while bytes come. Once
// none come, the batch ends.
func TestLongLineThatComesSlowly(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		stalls bool
		want   string
	}{
		"it comes":  {false, "[413 201 200]"},
		"it stalls": {true, "[408]"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, api.Config{IdleMax: 2 * time.Second})
			body, in := io.Pipe()
			defer in.Close()
			go func() {
				piece := bytes.Repeat([]byte("x"), 64<<10)
				_, err := in.Write(bytes.Repeat(piece, 3))
				for n := 0; n < 8 && err == nil; n++ {
					time.Sleep(300 * time.Millisecond)
					_, err = in.Write(piece)
				}
				if c.stalls || err != nil {
					return
				}
				_, err = io.WriteString(in, "\n"+lineOf("p1", 1))
				in.CloseWithError(err)
			}()
			request, err := http.NewRequestWithContext(t.Context(), "POST", d.serve.URL+"/v1/instructions/batch", body)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+aToken)
			request.Header.Set("Content-Type", "application/x-ndjson")
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			answers, end := answersTo(t, answer{text: string(text)})
			var got []int
			for _, one := range append(answers, end) {
				got = append(got, one.Status)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("answered %s", text)
			}
		})
	}
}
