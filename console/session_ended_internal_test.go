package console

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// TestManyWithoutASession: requests that need no session put so many lines a minute into the log, however many come.
func TestManyWithoutASession(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{func(*reader.Timeline) {}}, &scriptedOperator{}, nil,
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"/rails/bank/pause": "an act came without a session", "/login/link?secret=guessed": "a login was refused",
	} {
		log.Reset()
		for range 100 {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
			c.handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		if n := strings.Count(log.String(), says); n != 10 || strings.Count(log.String(), "\n") != n {
			t.Errorf("%s: %d lines of 100 requests: %s", path, n, log.String())
		}
	}
}

// TestActWithoutASession: an act of a person whose session has ended is answered with what was not done, and logged
// without the person or an id.
func TestActWithoutASession(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c, err := New(Config{}, []Login{NewLink(Operate)}, hostileReader{func(*reader.Timeline) {}}, &scriptedOperator{}, nil,
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ended := c.cookie(c.sessions.begin(Person{Name: "ann", Role: Operate}))
	c.sessions.end(ended.Value)
	id := someIDs(1)[0]
	for _, test := range []struct {
		method, path string
		cookie       bool
		says         string
	}{
		{http.MethodPost, "/rails/*/pause", true,
			"Your session has ended. Nothing was done: /rails/*/pause. Log in, and do it again."},
		{http.MethodPost, "/payments/" + id + "/cancel", true,
			"Your session has ended. Nothing was done: /payments/" + id + "/cancel. Log in"},
		{http.MethodPost, "/components/accept", false, "You are not logged in. Nothing was done: /components/accept."},
		{http.MethodDelete, "/rails/bank", true, "Nothing was done: /rails/bank."},
		{http.MethodGet, "/rails", true, ""},
	} {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader("reason=DE02"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if test.cookie {
			r.AddCookie(ended)
		}
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		text := w.Body.String()
		if w.Code != http.StatusUnauthorized || !strings.Contains(text, test.says) ||
			test.says == "" && strings.Contains(text, "Nothing was done") {
			t.Errorf("%s %s: status %d: %s", test.method, test.path, w.Code, text)
		}
		logged := log.String()
		if (test.says != "") != strings.Contains(logged, "an act came without a session") ||
			strings.Contains(logged, id) || strings.Contains(logged, "ann") || strings.Contains(logged, "DE02") {
			t.Errorf("%s %s: the log says %s", test.method, test.path, logged)
		}
	}
}
