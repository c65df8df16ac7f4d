package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/railhead-pay/railhead/outbox"
)

// pythonCaller returns the caller of docs/ingest.md, with shorter waits.
func pythonCaller(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/ingest.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "with the standard library only:\n")
	_, block, found := strings.Cut(section, "```python\n")
	block, _, ended := strings.Cut(block, "```\n")
	const waits = "(0.5, 1, 2, 4, 8)"
	if !found || !ended || strings.Count(block, waits) != 1 {
		t.Fatalf("docs/ingest.md has no caller in Python that waits %s", waits)
	}
	return strings.Replace(block, waits, "(0, 0, 0)", 1)
}

// TestPythonCaller runs the caller of docs/ingest.md against answers of the API, and of anything else on the way to it.
// What is not the API's answer about its payment is none, whatever it is, and leaves the outcome in doubt.
func TestPythonCaller(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	caller := pythonCaller(t)
	type say func(w http.ResponseWriter)
	text := func(status int, said string) say {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			io.WriteString(w, said) //nolint:errcheck // a test
		}
	}
	raw := func(said string) say {
		return func(w http.ResponseWriter) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(conn, said) //nolint:errcheck // a test
				conn.Close()
			}
		}
	}
	about := func(changes ...string) say {
		fields := map[string]string{"outbox_id": "x", "instruction_id": "INV-21", "participant_id": "p1",
			"idempotency_key": "INV-21-a", "state": "DISPATCHED", "certainty": "ACCEPTED", "rail_reference": "R-1"}
		for n := 0; n < len(changes); n += 2 {
			if fields[changes[n]] = changes[n+1]; changes[n+1] == "" {
				delete(fields, changes[n])
			}
		}
		said, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return text(http.StatusOK, string(said))
	}
	problem := func(status int, rest string) say {
		return text(status, `{"type": "`+outbox.ProblemsAt+`any.md", "title": "no"`+rest+`}`)
	}
	aged := func(age string, then say) say {
		return func(w http.ResponseWriter) {
			w.Header().Set("Age", age)
			then(w)
		}
	}
	elsewhere := func(w http.ResponseWriter) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	}
	const (
		paid    = "DISPATCHED ACCEPTED R-1"
		doubt   = "it is not known whether it is stored"
		nothing = "nothing was stored"
		refused = `"title": "no"`
	)
	none, busy := problem(503, `, "commit": "none"`), problem(429, "")
	for what, c := range map[string]struct {
		says  []say // the last one again and again
		want  string
		calls int64
	}{
		"its payment":                     {[]say{about()}, paid, 1},
		"another instruction":             {[]say{about("instruction_id", "INV-1")}, doubt, 3},
		"another participant":             {[]say{about("participant_id", "p9")}, doubt, 3},
		"another key":                     {[]say{about("idempotency_key", "INV-21-b")}, doubt, 3},
		"no key":                          {[]say{about("idempotency_key", "")}, doubt, 3},
		"no state":                        {[]say{about("state", "")}, doubt, 3},
		"another payment, then its own":   {[]say{about("instruction_id", "INV-1"), about()}, paid, 2},
		"a cache's":                       {[]say{aged("86400", about())}, doubt, 3},
		"a cache's refusal":               {[]say{aged("86400", problem(422, ""))}, doubt, 3},
		"no age":                          {[]say{aged("now", about())}, doubt, 3},
		"of the second":                   {[]say{aged("1", about())}, paid, 1},
		"a redirect, with the token":      {[]say{elsewhere}, doubt, 3},
		"a list":                          {[]say{text(200, `["ok"]`)}, doubt, 3},
		"null":                            {[]say{text(200, "null")}, doubt, 3},
		"a text":                          {[]say{text(200, `"state"`)}, doubt, 3},
		"nothing at all":                  {[]say{text(200, "")}, doubt, 3},
		"no text":                         {[]say{text(200, "\xff\xfe{")}, doubt, 3},
		"too deep":                        {[]say{text(200, strings.Repeat("[", 200_000))}, doubt, 3},
		"cut":                             {[]say{raw("HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"outbox_id\":")}, doubt, 3},
		"cut in a chunk":                  {[]say{raw("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{")}, doubt, 3},
		"a refusal that is cut":           {[]say{raw("HTTP/1.1 422 No\r\nContent-Length: 500\r\n\r\n{\"type\":")}, doubt, 3},
		"garbage":                         {[]say{raw("garbage\r\n\r\n")}, doubt, 3},
		"the end of the connection":       {[]say{raw("")}, doubt, 3},
		"cut, then its payment":           {[]say{raw("HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{"), about()}, paid, 2},
		"a gateway's 404":                 {[]say{text(404, "default backend - 404")}, doubt, 3},
		"a gateway's list":                {[]say{text(422, `["no"]`)}, doubt, 3},
		"a gateway that quotes a type":    {[]say{text(403, `{"title": "see `+outbox.ProblemsAt+`any.md"}`)}, doubt, 3},
		"a gateway with another type":     {[]say{text(503, `{"type": "about:blank", "commit": "none"}`)}, doubt, 3},
		"a type with 200":                 {[]say{problem(200, "")}, doubt, 3},
		"a refusal":                       {[]say{problem(422, "")}, refused, 1},
		"a token that is not in force":    {[]say{problem(401, "")}, refused, 1},
		"garbage, then a refusal":         {[]say{raw("garbage\r\n\r\n"), problem(422, "")}, doubt, 3},
		"nothing for now":                 {[]say{none}, nothing, 3},
		"too many":                        {[]say{busy}, nothing, 3},
		"too slow":                        {[]say{problem(408, "")}, nothing, 3},
		"nothing for now, then a refusal": {[]say{none, busy, problem(422, "")}, refused, 3},
		"failed":                          {[]say{problem(500, "")}, doubt, 3},
		"unknown":                         {[]say{problem(503, `, "commit": "unknown"`)}, doubt, 3},
		"unknown, then nothing":           {[]say{problem(503, `, "commit": "unknown"`), none}, doubt, 3},
		"unknown, then its payment":       {[]say{problem(503, `, "commit": "unknown"`), about()}, paid, 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) //nolint:errcheck // a test
				c.says[min(int(calls.Add(1)), len(c.says))-1](w)
			}))
			defer server.Close()
			command := exec.CommandContext(t.Context(), python, "-c", caller)
			command.Env = append(os.Environ(), "RAILHEAD_API="+server.URL, "RAILHEAD_TOKEN=token", "NO_PROXY=*")
			var stdout, stderr bytes.Buffer
			command.Stdout, command.Stderr = &stdout, &stderr
			err := command.Run()
			got := stdout.String()
			if err != nil {
				got = stderr.String()
			}
			if (err == nil) != (c.want == paid) || !strings.Contains(got, c.want) || strings.Contains(got, "Traceback") ||
				calls.Load() != c.calls {
				t.Errorf("%d calls, %v, %s, want %d and %q", calls.Load(), err, lastLine(got), c.calls, c.want)
			}
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return fmt.Sprintf("%d lines that end by %q", len(lines), lines[len(lines)-1])
}
