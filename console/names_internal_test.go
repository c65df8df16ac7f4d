package console

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// legalNames are names of each kind, with whatever the schema accepts that an address could change.
func legalNames() map[subject][]string {
	participants := []string{
		".", "..", "...", "./..", "../..", "a/..", "%2e", "%2E%2e", "%2e%2e/", "..%2f..", "a//b", "a b", "a+b", "a%b", "%",
		"%25", "..\\..", "?id=x", "a?b#c", "a&id=b", ";a=b", "participants", "<b>", `"onclick="x`, "*",
		strings.Repeat("/.", 64),
	}
	for char := '!'; char <= '~'; char++ {
		participants = append(participants, string(char))
	}
	return map[subject][]string{
		ofParticipants: participants,
		ofRails:        {"*", "a", "x-1_y", "pause", strings.Repeat("r", 63)},
		ofEndpoints:    {"0", "shop_1-x", "redeliver", strings.Repeat("9", 64)},
	}
}

// browsed is what a browser asks for when it follows a link, as the URL standard of WHATWG says.
func browsed(link string) string {
	link, _, _ = strings.Cut(link, "#")
	path, query, has := strings.Cut(link, "?")
	var parts []string
	all := strings.Split(strings.ReplaceAll(path, `\`, "/"), "/")[1:]
	for n, part := range all {
		switch dots := strings.ReplaceAll(strings.ToLower(part), "%2e", "."); {
		case dots != "." && dots != "..":
			parts = append(parts, part)
			continue
		case dots == ".." && len(parts) > 0:
			parts = parts[:len(parts)-1]
		}
		if n == len(all)-1 {
			parts = append(parts, "")
		}
	}
	path = "/" + strings.Join(parts, "/")
	if has {
		return path + "?" + strings.NewReplacer(`'`, "%27", `"`, "%22", "<", "%3C", ">", "%3E", " ", "%20").Replace(query)
	}
	return path
}

// namedReader lists participants of names, and notes whose page was asked for.
type namedReader struct {
	hostileReader
	names []string
	asked *string
}

func (r namedReader) Participants(context.Context, reader.ParticipantFilter) (reader.ParticipantList, error) {
	var list reader.ParticipantList
	for _, name := range r.names {
		list.Participants = append(list.Participants, reader.ListedParticipant{ParticipantID: name})
	}
	return list, nil
}

func (r namedReader) Participant(_ context.Context, name string) (reader.Participant, error) {
	*r.asked = name
	return reader.Participant{ParticipantID: name}, nil
}

// namedOperator notes on what each act was done.
type namedOperator struct {
	Operator
	did *string
}

func (o namedOperator) PauseRail(_ context.Context, name, _ string, _ time.Time) (bool, error) {
	*o.did = name
	return true, nil
}

func (o namedOperator) PauseParticipant(_ context.Context, name, _ string, _ time.Time) (bool, error) {
	*o.did = name
	return true, nil
}

func (o namedOperator) Redeliver(_ context.Context, name string, _ time.Time, _ string) (int, error) {
	*o.did = name
	return 1, nil
}

var (
	links   = regexp.MustCompile(`<td><a href="([^"]*)">`)
	actions = regexp.MustCompile(`<form action="([^"]*/pause[^"]*)"`)
)

// TestEveryNameHasAnAddress: each name that the schema accepts has a page and acts that a browser reaches by the
// links and forms of the console, and the page after an act says that it was done.
func TestEveryNameHasAnAddress(t *testing.T) {
	t.Parallel()
	var asked, did string
	names := legalNames()
	c, err := New(Config{}, []Login{NewLink(Operate)},
		namedReader{hostileReader{func(*reader.Timeline) {}}, names[ofParticipants], &asked}, namedOperator{did: &did}, nil,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	cookie := c.cookie(c.sessions.begin(Person{Name: "amy", Role: Operate}))
	send := func(method, link string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, browsed(link), strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(cookie)
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		return w
	}
	act := func(link, name string) {
		t.Helper()
		did = ""
		w := send(http.MethodPost, link, url.Values{"reason": {"x"}, "seen": {"0.0.0"}})
		if w.Code != http.StatusSeeOther || did != name {
			t.Fatalf("the form of %q is sent to %s: status %d, done on %q", name, link, w.Code, did)
		}
		after := w.Header().Get("Location")
		if page := send(http.MethodGet, after, nil); page.Code != http.StatusOK ||
			!strings.Contains(page.Body.String(), `<p class="panel good" role="status">`) {
			t.Errorf("the page after an act on %q is %s, which says nothing of it: status %d", name, after, page.Code)
		}
	}
	list := links.FindAllStringSubmatch(send(http.MethodGet, "/participants", nil).Body.String(), -1)
	if len(list) != len(names[ofParticipants]) {
		t.Fatalf("the list has %d links to %d participants", len(list), len(names[ofParticipants]))
	}
	for n, name := range names[ofParticipants] {
		asked = ""
		page := send(http.MethodGet, html.UnescapeString(list[n][1]), nil)
		if page.Code != http.StatusOK || asked != name {
			t.Errorf("the link to %q is %s: status %d, the page of %q", name, list[n][1], page.Code, asked)
			continue
		}
		form := actions.FindStringSubmatch(page.Body.String())
		if form == nil {
			t.Fatalf("the page of %q has no form", name)
		}
		if strings.Contains(page.Body.String(), "everything") {
			t.Errorf("the page of %q speaks of everything", name)
		}
		act(html.UnescapeString(form[1]), name)
	}
	for _, name := range names[ofRails] {
		if page := send(http.MethodGet, addressOf(ofRails, name), nil); page.Code != http.StatusOK {
			t.Errorf("the page of rail %q: status %d", name, page.Code)
		}
		act(actAddress(ofRails, name, "pause"), name)
	}
	for _, name := range names[ofEndpoints] {
		act(actAddress(ofEndpoints, name, "redeliver"), name)
	}
}

// TestBrowsed holds browsed to what browsers do, by examples that Chromium confirms.
func TestBrowsed(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		"/participants/..": "/", "/participants/%2e%2E": "/", "/participants/.": "/participants/", "/a/%2e./b": "/b",
		"/a/.../b": "/a/.../b", `/a\..\b`: "/b", "/participant?id=..": "/participant?id=..",
		"/participant?id=%2e%2e": "/participant?id=%2e%2e",
		"/a?b#c":                 "/a?b",
	} {
		if got := browsed(link); got != want {
			t.Errorf("%s: %s, want %s", link, got, want)
		}
	}
	if !slices.Contains(legalNames()[ofParticipants], "..") {
		t.Error("no name is one that browsers take out of a path")
	}
}
