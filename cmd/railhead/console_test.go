package main

import (
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
	text, err := os.ReadFile(link)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(link); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the link: %v, %v", info.Mode(), err)
	}
	base, secret, _ := strings.Cut(strings.TrimSpace(string(text)), "/login/link?secret=")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar}
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
