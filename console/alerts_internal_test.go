package console

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAlertsAreShown: each alert of the rules has a runbook, what it means, and a page that shows its cause; and
// shownAt has no other.
func TestAlertsAreShown(t *testing.T) {
	t.Parallel()
	rows, err := alertRows()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Cell: "railhead"}, []Login{NewLink(Read)}, hostileReader{}, nil, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		r.AddCookie(c.cookie(c.sessions.begin(Person{Name: "p", Role: Read})))
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("%s: status %d", path, w.Code)
		}
		return w.Body.String()
	}
	list := get("/alerts")
	for _, row := range rows {
		path, anchor, _ := strings.Cut(row.Place.Path, "#")
		if path == "" || row.Severity == "" || len(row.Meaning) == 0 {
			t.Errorf("%s: %+v", row.Name, row)
			continue
		}
		if page := get(path); anchor != "" && !strings.Contains(page, `id="`+anchor+`"`) {
			t.Errorf("%s: %s has no place %q", row.Name, path, anchor)
		}
		if !strings.Contains(list, `<a href="/runbooks/`+row.Name+`">`) {
			t.Errorf("the list lacks the runbook of %s", row.Name)
		}
		if !strings.Contains(get("/runbooks/"+row.Name), "Meaning") {
			t.Errorf("%s has no runbook", row.Name)
		}
	}
	if len(rows) != len(shownAt) || len(rows) < 26 {
		t.Errorf("%d alerts, and %d are shown somewhere", len(rows), len(shownAt))
	}
}
