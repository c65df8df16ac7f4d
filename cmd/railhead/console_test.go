package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestConsole: the link that the service writes logs in once, for a page of the cell; the file of the
// link is for its owner alone.
func TestConsole(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	link := filepath.Join(t.TempDir(), "link")
	metrics := start(t, "console", cell.URL(celltest.Readonly), "RAILHEAD_CONSOLE_LINK=read",
		"RAILHEAD_CONSOLE_LINK_FILE="+link)
	eventually(t, "the console to be ready", func() bool {
		answer, err := http.Get(strings.TrimSuffix(metrics, "/metrics") + "/readyz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	if info, err := os.Stat(link); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the link: %v, %v", info.Mode(), err)
	}
	client, base, secret := browserFor(t, link)
	for n, want := range []int{http.StatusOK, http.StatusForbidden} {
		answer, err := client.PostForm(base+"/login/link", url.Values{"secret": {secret}})
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.StatusCode != want {
			t.Errorf("use %d of the link: status %d, want %d", n+1, answer.StatusCode, want)
		}
	}
	answer, err := client.Get(base + "/")
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("the first page: status %d", answer.StatusCode)
	}
}

// browserFor is a client for the console whose link is in a file, with its address and the link's secret.
func browserFor(t *testing.T, file string) (client *http.Client, base, secret string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	base, secret, _ = strings.Cut(strings.TrimSpace(string(text)), "/login/link?secret=")
	return &http.Client{Jar: jar}, base, secret
}

// TestConsoleOfCells: one console shows the cells of RAILHEAD_CELLS, each by its own logins, and acts in the cell
// of the page; one that can't be reached keeps no other from being shown.
func TestConsoleOfCells(t *testing.T) {
	t.Parallel()
	east, west := celltest.New(t), celltest.New(t)
	enqueued(at(t, west), "INV-1", "INV-2")
	link := filepath.Join(t.TempDir(), "link")
	env := []string{"RAILHEAD_CELLS=EAST,WEST,NORTH", "DATABASE_URL_NORTH=postgres://unknown@127.0.0.1:1/nowhere",
		"RAILHEAD_CONSOLE_OPERATE=true", "RAILHEAD_CONSOLE_LINK=operate", "RAILHEAD_CONSOLE_LINK_FILE=" + link}
	for setting, cell := range map[string]*celltest.Cell{"EAST": east, "WEST": west} {
		env = append(env, "RAILHEAD_READER_URL_"+setting+"="+cell.URL(celltest.Readonly),
			"RAILHEAD_OPERATOR_URL_"+setting+"="+cell.URL(celltest.Operator))
	}
	metrics := start(t, "console", "postgres://unknown@127.0.0.1:1/nowhere", env...)
	eventually(t, "the console to be ready", func() bool {
		status, _ := readiness(t, metrics)
		return status == http.StatusOK
	})
	client, base, secret := browserFor(t, link)
	read := func(answer *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Request.URL.Path + "\n" + string(text)
	}
	read(client.PostForm(base+"/login/link", url.Values{"secret": {secret}}))
	eventually(t, "the first page to show both cells, and the third one away", func() bool {
		page := read(client.Get(base + "/"))
		return strings.Contains(page, `<a href="/cells/WEST/payments?state=PENDING">2</a>`) &&
			strings.Contains(page, `<a href="/cells/EAST/payments?state=PENDING">0</a>`) &&
			strings.Contains(page, "away, and was not read yet")
	})
	for path, says := range map[string]string{
		"/cells/WEST/payments": "INV-2", "/cells/EAST/payments": "0 shown", "/cells/EAST/": "State as of",
		"/search?id=INV-1": "Cell NORTH was not asked", "/cells/SOUTH/": "There is no such page",
	} {
		if page := read(client.Get(base + path)); !strings.Contains(page, says) {
			t.Errorf("%s lacks %q: %s", path, says, page)
		}
	}
	page := read(client.PostForm(base+"/cells/WEST/rails/bank/pause", url.Values{"reason": {"ticket 4711"}}))
	if !strings.HasPrefix(page, "/cells/WEST/rails/bank\n") || !strings.Contains(page, "Paused.") {
		t.Errorf("the act leads to %s", page)
	}
	const acts = `SELECT count(*) FROM railhead.payment_operator_log WHERE reason = 'ticket 4711'`
	if here, there := west.Int(acts), east.Int(acts); here != 1 || there != 0 {
		t.Errorf("%d acts in the cell of the page, %d in the other one", here, there)
	}
}

// TestConsoleSettings: every fault of the settings is named at once, and a console that nothing leads
// into does not start.
func TestConsoleSettings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  []string
		says []string
	}{
		"no login": {nil, []string{"no way to log in"}},
		"faults": {[]string{
			"RAILHEAD_CONSOLE_LINK=root", "RAILHEAD_CONSOLE_CERT_FILE=x", "RAILHEAD_CONSOLE_OIDC_ISSUER=https://login.example",
			"RAILHEAD_CONSOLE_OIDC_CLIENT_SECRET=plain",
		}, []string{"read or operate", "go together", "the client id", "the public URL", "no group", "CLIENT_SECRET"}},
		"no kind": {[]string{"RAILHEAD_CONSOLE_LINK=read", "RAILHEAD_CONSOLE_OPERATORS=on-call"},
			[]string{"RAILHEAD_CONSOLE_OPERATORS", `"on-call"`, "group:NAME"}},
		"a link behind a proxy": {[]string{"RAILHEAD_CONSOLE_LINK=read", "RAILHEAD_CONSOLE_PUBLIC_URL=https://railhead.example"},
			[]string{"one-time link", "public URL"}},
		"traces": {[]string{"RAILHEAD_CONSOLE_LINK=read", "RAILHEAD_CONSOLE_TRACE_URL=javascript:{trace_id}"},
			[]string{"the address of traces"}},
		"reports of all cells": {
			[]string{"RAILHEAD_CONSOLE_LINK=read", "RAILHEAD_CELLS=EAST", "RAILHEAD_CONSOLE_REPORTS=/tmp"},
			[]string{"RAILHEAD_CONSOLE_REPORTS_WEST"}},
		"a cell without a database": {[]string{"RAILHEAD_CONSOLE_LINK=read", "RAILHEAD_CELLS=EAST,WEST",
			"RAILHEAD_READER_URL_EAST=postgres:///east"}, []string{"for cell WEST: set RAILHEAD_READER_URL_WEST"}},
		"acts without a database": {[]string{"RAILHEAD_CONSOLE_LINK=read", "RAILHEAD_CELLS=EAST",
			"RAILHEAD_CONSOLE_OPERATE=true", "RAILHEAD_READER_URL_EAST=postgres:///east"},
			[]string{"for cell EAST: set RAILHEAD_OPERATOR_URL_EAST"}},
		"in the clear": {[]string{"RAILHEAD_CONSOLE_ADDR=0.0.0.0:0", "RAILHEAD_CONSOLE_LINK=read"}, []string{"loopback"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			who := command{t: t, env: append([]string{"DATABASE_URL=postgres://nowhere.invalid/x"}, test.env...)}
			got := who.want(exitUsage, "console")
			for _, text := range test.says {
				if !strings.Contains(got.errors, text) {
					t.Errorf("it lacks %q: %s", text, got.errors)
				}
			}
		})
	}
}
