package console_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/console"
	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// site is a console that runs on a cell.
type site struct {
	*testing.T
	cell *celltest.Cell
	base string
	link *console.Link
}

// serve runs a console; acts is whether it has the acts of operators.
func serve(t *testing.T, cell *celltest.Cell, role console.Role, acts bool) *site {
	t.Helper()
	login := ""
	if acts {
		login = celltest.Operator
	}
	return serveAs(t, cell, role, login)
}

// serveAs runs a console that acts with a login; empty: it is read-only.
func serveAs(t *testing.T, cell *celltest.Cell, role console.Role, login string) *site {
	t.Helper()
	return serveBy(t, cell, console.Config{Cell: cell.Schema}, role, login)
}

func serveBy(t *testing.T, cell *celltest.Cell, settings console.Config, role console.Role, login string) *site {
	t.Helper()
	config := ledger.Config{URL: cell.URL(celltest.Readonly), Cell: cell.Schema, Name: "console of a test"}
	reading, err := reader.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reading.Close)
	var acting console.Operator
	if login != "" {
		config.URL = cell.URL(login)
		opened, err := operator.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(opened.Close)
		acting = opened
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	link := console.NewLink(role)
	one, err := console.New(settings, []console.Login{link}, reading, acting,
		func() (net.Listener, error) { return listener, nil }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- one.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the console ended with %v", err)
		}
	})
	return &site{T: t, cell: cell, base: "http://" + listener.Addr().String(), link: link}
}

// browser is a client that keeps cookies and follows no redirect.
func (s *site) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return client
}

// answer is what a page answered.
type answer struct {
	status int
	text   string
	header http.Header
}

func (s *site) do(client *http.Client, method, path string, form url.Values, headers ...string) answer {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for n := 0; n < len(headers); n += 2 {
		if headers[n] == "Host" {
			request.Host = headers[n+1]
		}
		request.Header.Set(headers[n], headers[n+1])
	}
	got, err := client.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{got.StatusCode, string(text), got.Header}
}

func (s *site) want(got answer, status int, texts ...string) answer {
	s.Helper()
	if got.status != status {
		s.Errorf("status %d, want %d: %s", got.status, status, got.text)
	}
	for _, text := range texts {
		if !strings.Contains(got.text, text) {
			s.Errorf("the page lacks %q:\n%s", text, got.text)
		}
	}
	return got
}

var hidden = regexp.MustCompile(`name="secret" value="([^"]+)"`)

// login uses the one-time link.
func (s *site) login() *http.Client {
	s.Helper()
	client := s.browser()
	s.loginWith(client)
	return client
}

// loginWith uses the one-time link with a browser.
func (s *site) loginWith(client *http.Client) {
	s.Helper()
	page := s.want(s.do(client, "GET", strings.TrimPrefix(s.link.Address(s.base), s.base), nil), 200)
	secret := hidden.FindStringSubmatch(page.text)
	if secret == nil {
		s.Fatalf("the page of the link has no secret: %s", page.text)
	}
	s.want(s.do(client, "POST", "/login/link", url.Values{"secret": {secret[1]}}), 200, "Logged in")
}

// TestConsolesOfOneHost: a browser keeps one cookie of a name for all ports of a host. A login at one console, and
// a logout there, end no session at another.
func TestConsolesOfOneHost(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	first, second := serve(t, cell, console.Read, false), serve(t, cell, console.Read, false)
	client := first.login()
	second.loginWith(client)
	first.want(first.do(client, "GET", "/", nil), 200)
	second.want(second.do(client, "GET", "/", nil), 200)
	second.want(second.do(client, "POST", "/logout", nil), 303)
	second.want(second.do(client, "GET", "/", nil), 401)
	first.want(first.do(client, "GET", "/", nil), 200)
}

// TestLinkWorksOnce: the second use of a one-time link gives no session, nor does a request for its page.
func TestLinkWorksOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, celltest.New(t), console.Read, false)
	address := strings.TrimPrefix(s.link.Address(s.base), s.base)
	for range 3 { // as a browser that reads ahead does
		s.want(s.do(s.browser(), "HEAD", address, nil), 200)
	}
	client := s.login()
	s.want(s.do(client, "GET", "/", nil), 200, "Overview")
	_, secret, _ := strings.Cut(address, "secret=")
	other := s.browser()
	for _, again := range []string{secret, "", strings.Repeat("A", 43)} {
		s.want(s.do(other, "POST", "/login/link", url.Values{"secret": {again}}), 403, "not in force")
	}
	s.want(s.do(other, "GET", "/", nil), 401, "Log in")
	s.want(s.do(client, "GET", "/", nil), 200)
}

// TestNothingWithoutLogin: no page and no act is for a browser without a session, and no answer to one
// names the cell.
func TestNothingWithoutLogin(t *testing.T) {
	t.Parallel()
	s := serve(t, celltest.New(t), console.Operate, true)
	id := "01900000-0000-7000-8000-000000000000"
	for _, path := range []string{
		"/", "/live", "/state.json", "/live.json", "/payments", "/payments/" + id, "/dead-letters",
		"/dead-letters/orders/x", "/search?id=x", "/none",
		"/runbooks/RailheadBreakerOpen", "/audit", "/audit/log", "/audit/proofs/members",
		"/rails", "/rails/bank", "/participants", "/participant?id=x", "/endpoints", "/components",
	} {
		if got := s.want(s.do(s.browser(), "GET", path, nil), 401, "Log in"); strings.Contains(got.text, "State as of") {
			t.Errorf("%s shows the state of the cell", path)
		}
	}
	for _, act := range everyAct {
		s.want(s.do(s.browser(), "POST", "/payments/"+id+"/"+act, url.Values{"reason": {"x"}}), 401)
		s.want(s.do(s.browser(), "POST", "/dead-letters/"+act,
			url.Values{"id": {id}, "count": {"1"}, "reason": {"x"}}), 401)
	}
}

// TestSessionEnds: a logout ends the session for every copy of its cookie, and a login ends the one before.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, celltest.New(t), console.Read, false)
	client := s.login()
	at, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	thief := s.browser()
	thief.Jar.SetCookies(at, client.Jar.Cookies(at))
	s.want(s.do(thief, "GET", "/payments", nil), 200)
	got := s.want(s.do(client, "POST", "/logout", nil), 303)
	if cookie := got.header.Get("Set-Cookie"); !strings.Contains(cookie, "SameSite=Strict") ||
		!strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "Max-Age=0") {
		t.Errorf("the cookie is %q", cookie)
	}
	for _, each := range []*http.Client{client, thief} {
		s.want(s.do(each, "GET", "/payments", nil), 401)
	}
}

// TestHeaders: every answer has the policy, and no page is kept by a browser or a proxy.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, celltest.New(t), console.Read, false)
	client := s.login()
	for _, path := range []string{"/", "/login", "/none", "/payments", "/static/console.css", "/static/none"} {
		got := s.do(client, "GET", path, nil)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
			"X-Content-Type-Options":  "nosniff", "X-Frame-Options": "DENY",
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, got.header.Get(name))
			}
		}
		if kept := got.header.Get("Cache-Control"); kept != "no-store" && path != "/static/console.css" {
			t.Errorf("%s: Cache-Control is %q", path, kept)
		}
	}
	s.want(s.do(client, "GET", "/", nil, "Host", "railhead.evil.example"), 421)
	s.want(s.do(client, "GET", "/static/..%2fconsole.go", nil), 404)
}

// TestOtherSites: a form of another site does nothing, even with the cookie.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	s := serve(t, celltest.New(t), console.Operate, true)
	client := s.login()
	id := "01900000-0000-7000-8000-000000000000"
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
	} {
		for _, path := range []string{"/logout", "/payments/" + id + "/cancel", "/dead-letters/replay", "/login/link"} {
			s.want(s.do(client, "POST", path, url.Values{"reason": {"x"}}, headers...), 403, "another site")
		}
	}
	s.want(s.do(client, "GET", "/", nil), 200)
	form := url.Values{"reason": {"x"}, "seen": {"0"}}
	s.want(s.do(client, "POST", "/payments/"+id+"/cancel", form, "Origin", s.base), 404)
}
