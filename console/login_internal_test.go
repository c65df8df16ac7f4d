package console

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/railhead-pay/railhead/ledger/reader"
)

// provider is a provider of OpenID Connect with one person.
type provider struct {
	*httptest.Server
	key    *rsa.PrivateKey
	claims map[string]any    // of the person
	codes  map[string]string // challenge by code
	nonces map[string]string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, codes: map[string]string{}, nonces: map[string]string{}}
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		say(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize",
			"token_endpoint": p.URL + "/token",
			"jwks_uri":       p.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		say(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		code := r.PostFormValue("code")
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if p.codes[code] == "" || p.codes[code] != base64.RawURLEncoding.EncodeToString(sum[:]) {
			http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
			return
		}
		delete(p.codes, code)
		claims := map[string]any{"iss": p.URL, "aud": "console", "nonce": p.nonces[code], "sub": "4711",
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
		maps.Copy(claims, p.claims)
		text, _ := json.Marshal(claims)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
		if err != nil {
			t.Error(err)
			return
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Error(err)
			return
		}
		compact, err := signed.CompactSerialize()
		if err != nil {
			t.Error(err)
		}
		say(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": compact})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// authorize is the person's consent: it returns the query that leads back.
func (p *provider) authorize(t *testing.T, location string) url.Values {
	t.Helper()
	at, err := url.Parse(location)
	if err != nil || !strings.HasPrefix(location, p.URL+"/authorize") {
		t.Fatalf("the login leads to %q", location)
	}
	query := at.Query()
	if query.Get("code_challenge_method") != "S256" || query.Get("response_type") != "code" {
		t.Errorf("the flow is %v", query)
	}
	code := rand.Text()
	p.codes[code], p.nonces[code] = query.Get("code_challenge"), query.Get("nonce")
	return url.Values{"code": {code}, "state": {query.Get("state")}}
}

func consoleWith(t *testing.T, operator Operator, logins ...Login) *Console {
	t.Helper()
	c, err := New(Config{PublicURL: "https://railhead.example"}, logins, hostileReader{func(*reader.Timeline) {}},
		operator, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Console) try(r *http.Request, cookies ...*http.Cookie) *http.Response {
	r.Host = "railhead.example"
	for _, cookie := range cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Result()
}

// sessionOf is the session that an answer began, or nil.
func (c *Console) sessionOf(answer *http.Response) *http.Cookie {
	for _, cookie := range answer.Cookies() {
		if cookie.Name == c.cookie("").Name && cookie.Value != "" {
			return cookie
		}
	}
	return nil
}

// anOperator has acts that no test calls.
type anOperator struct{ Operator }

// TestOIDC: the code flow gives a session with the role of the person's groups; another state, another
// browser, another nonce, a code that was used and a person without a role give none.
func TestOIDC(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	login, err := NewOIDC(OIDCConfig{Issuer: p.URL, ClientID: "console", PublicURL: "https://railhead.example",
		Roles: Roles{Read: []string{"group:support"}, Operate: []string{"group:on-call", "email:amy@example.org"}}})
	if err != nil {
		t.Fatal(err)
	}
	c := consoleWith(t, anOperator{}, login)
	begin := func() (url.Values, *http.Cookie) {
		answer := c.try(httptest.NewRequest(http.MethodGet, "/login/oidc", nil))
		return p.authorize(t, answer.Header.Get("Location")), answer.Cookies()[0]
	}
	back := func(query url.Values, cookies ...*http.Cookie) *http.Response {
		return c.try(httptest.NewRequest(http.MethodGet, "/login/oidc/back?"+query.Encode(), nil), cookies...)
	}
	other, err := NewOIDC(OIDCConfig{Issuer: p.URL, ClientID: "console", PublicURL: "https://railhead.example:8443",
		Roles: Roles{Read: []string{"group:support"}}})
	if err != nil {
		t.Fatal(err)
	}
	if name := login.cookie("x").Name; name == other.cookie("x").Name {
		t.Errorf("logins at two ports of a host have one cookie, %s", name)
	}
	for name, test := range map[string]struct {
		claims map[string]any
		want   Person
	}{
		"a group":     {map[string]any{"groups": []string{"x", "support"}}, Person{Name: "4711", Role: Read, By: "oidc"}},
		"both groups": {map[string]any{"groups": []string{"support", "on-call"}}, Person{Name: "4711", Role: Operate, By: "oidc"}},
		"an address":  {map[string]any{"email": "amy@example.org", "email_verified": true}, Person{Name: "amy@example.org", Role: Operate, By: "oidc"}},
	} {
		p.claims = test.claims
		query, cookie := begin()
		if !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode ||
			!strings.HasPrefix(cookie.Name, "__Host-") {
			t.Errorf("the cookie of the flow is %v", cookie)
		}
		answer := back(query, cookie)
		session := c.sessionOf(answer)
		if session == nil {
			t.Fatalf("%s: no session, status %d", name, answer.StatusCode)
		}
		if !session.Secure || !session.HttpOnly || session.SameSite != http.SameSiteStrictMode {
			t.Errorf("the cookie of the session is %v", session)
		}
		if got, _ := c.sessions.person(session.Value); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
		if c.sessionOf(back(query, cookie)) != nil {
			t.Errorf("%s: the answer gives a second session", name)
		}
	}
	refused := func(name string, answer *http.Response) {
		t.Helper()
		if answer.StatusCode != http.StatusForbidden || c.sessionOf(answer) != nil {
			t.Errorf("%s: status %d, session %v", name, answer.StatusCode, c.sessionOf(answer))
		}
	}
	query, cookie := begin()
	refused("no cookie", back(query))
	query2, cookie2 := begin()
	refused("the cookie of another login", back(query, cookie2))
	query2.Set("state", query.Get("state"))
	refused("the code of another login", back(query2, cookie))
	forged := *cookie
	forged.Value = newSeal().close(flow{State: query.Get("state"), Until: time.Now().Add(time.Hour)})
	refused("a cookie that this process did not seal", back(query, &forged))
	for name, claims := range map[string]map[string]any{
		"no role":           {"groups": []string{"others"}},
		"no groups":         {},
		"not verified":      {"email": "amy@example.org"},
		"another nonce":     {"nonce": "x", "groups": []string{"support"}},
		"another audience":  {"aud": "shop", "groups": []string{"support"}},
		"over":              {"exp": time.Now().Add(-time.Hour).Unix(), "groups": []string{"support"}},
		"another issuer":    {"iss": "https://evil.example", "groups": []string{"support"}},
		"a group as a text": {"groups": "supporters"},
	} {
		p.claims = claims
		query, cookie := begin()
		refused(name, back(query, cookie))
	}
}

// TestOIDCEndsTheSessionBefore: a login ends the session in which it began, although a browser sends no cookie of that
// with what leads back from the provider's site.
func TestOIDCEndsTheSessionBefore(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.claims = map[string]any{"groups": []string{"support"}}
	login, err := NewOIDC(OIDCConfig{Issuer: p.URL, ClientID: "console", PublicURL: "https://railhead.example",
		Roles: Roles{Read: []string{"group:support"}}})
	if err != nil {
		t.Fatal(err)
	}
	c := consoleWith(t, anOperator{}, login)
	other := c.sessions.begin(Person{Name: "bob", Role: Read})
	var sessions []*http.Cookie
	for range 3 {
		begun := c.try(httptest.NewRequest(http.MethodGet, "/login/oidc", nil), sessions...)
		query := p.authorize(t, begun.Header.Get("Location"))
		answer := c.try(httptest.NewRequest(http.MethodGet, "/login/oidc/back?"+query.Encode(), nil), begun.Cookies()[0])
		session := c.sessionOf(answer)
		if session == nil {
			t.Fatalf("no session, status %d", answer.StatusCode)
		}
		for _, before := range sessions {
			if person, ok := c.sessions.person(before.Value); ok {
				t.Errorf("the session before is in force, of %+v", person)
			}
		}
		sessions = []*http.Cookie{session}
	}
	for _, secret := range []string{other, sessions[0].Value} {
		if person, ok := c.sessions.person(secret); !ok || person.before != "" {
			t.Errorf("a session that no login followed: in force %t, %+v", ok, person)
		}
	}
}

// TestCertificates: a certificate that was verified gives a session, which is one only together with it.
func TestCertificates(t *testing.T) {
	t.Parallel()
	c := consoleWith(t, anOperator{}, NewCertificates(Roles{Read: []string{"ou:support"}, Operate: []string{"cn:amy"}}))
	with := func(r *http.Request, verified bool, leaf *x509.Certificate) *http.Request {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		if verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
		}
		return r
	}
	leaf := func(name, unit string) *x509.Certificate {
		subject := pkix.Name{CommonName: name, OrganizationalUnit: []string{unit}}
		return &x509.Certificate{Raw: []byte(name + unit), Subject: subject}
	}
	post := func() *http.Request { return httptest.NewRequest(http.MethodPost, "/login/certificate", nil) }
	for name, request := range map[string]*http.Request{
		"none": post(), "not verified": with(post(), false, leaf("amy", "")), "no role": with(post(), true, leaf("bob", "x")),
		"no name": with(post(), true, leaf("", "support")), "the name of a unit": with(post(), true, leaf("support", "")),
		"the unit of a name": with(post(), true, leaf("eve", "amy")),
	} {
		if answer := c.try(request); answer.StatusCode != http.StatusForbidden || c.sessionOf(answer) != nil {
			t.Errorf("%s: status %d", name, answer.StatusCode)
		}
	}
	for name, want := range map[string]Role{"amy": Operate, "eve": Read} {
		session := c.sessionOf(c.try(with(post(), true, leaf(name, "support"))))
		if session == nil {
			t.Fatalf("%s: no session", name)
		}
		if got, _ := c.sessions.person(session.Value); got.Name != name || got.Role != want || got.By != "certificate" {
			t.Errorf("%s: %+v", name, got)
		}
		page := func() *http.Request { return httptest.NewRequest(http.MethodGet, "/payments", nil) }
		for request, want := range map[*http.Request]int{
			with(page(), true, leaf(name, "support")): 200, page(): 401, with(page(), true, leaf("mal", "support")): 401,
		} {
			if answer := c.try(request, session); answer.StatusCode != want {
				t.Errorf("%s: status %d, want %d", name, answer.StatusCode, want)
			}
		}
	}
}

// TestRoleOfReadOnly: no login gives the role operate where the console has no acts.
func TestRoleOfReadOnly(t *testing.T) {
	t.Parallel()
	c := consoleWith(t, nil, NewCertificates(Roles{}))
	w := httptest.NewRecorder()
	c.Admit(w, httptest.NewRequest(http.MethodPost, "/login/x", nil),
		Person{Name: strings.Repeat("ä", nameMax), Role: Operate})
	got, _ := c.sessions.person(c.sessionOf(w.Result()).Value)
	if got.Role != Read || len([]rune(got.Name)) != nameMax {
		t.Errorf("%+v", got)
	}
}

// TestNamesAreRecordable: who has a name that the operator log does not hold gets no session.
func TestNamesAreRecordable(t *testing.T) {
	t.Parallel()
	c := consoleWith(t, nil, NewCertificates(Roles{}))
	for _, name := range []string{"", " ", strings.Repeat("a", nameMax+1), "a\nb", "a\x00", "a\u202eb", "\xff"} {
		w := httptest.NewRecorder()
		c.Admit(w, httptest.NewRequest(http.MethodPost, "/login/x", nil), Person{Name: name, Role: Read})
		if w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
			t.Errorf("%q: status %d, cookies %v", name, w.Code, w.Result().Cookies())
		}
	}
}

// TestLinkIsNotBehindAProxy: a proxy makes every request one of this machine, so a one-time link goes with no
// public URL of others.
func TestLinkIsNotBehindAProxy(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"": true, "http://127.0.0.1:8080": true, "https://localhost": true, "https://[::1]:8443": true,
		"https://railhead.example": false, "http://10.0.0.1:8080": false, "https://localhost.example": false,
	} {
		err := (Config{PublicURL: address}).withDefaults().validate([]Login{NewLink(Read)})
		if (err == nil) != want {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestPlainHTTPStaysHere: sessions, logins and the tokens of the provider cross no network unencrypted.
func TestPlainHTTPStaysHere(t *testing.T) {
	t.Parallel()
	const private = "https://login.example"
	for address, want := range map[string]bool{
		private: true, "http://localhost:8080": true, "http://127.0.0.1": true, "http://[::1]:8080": true,
		"http://login.example": false, "http://10.0.0.1": false, "http://localhost.example": false,
		"http://127.0.0.1.example": false,
	} {
		certificates := []Login{&Certificates{}}
		if err := (Config{PublicURL: address}).withDefaults().validate(certificates); (err == nil) != want {
			t.Errorf("public URL %s: %v", address, err)
		}
		for _, config := range []OIDCConfig{{Issuer: address, PublicURL: private}, {Issuer: private, PublicURL: address}} {
			config.ClientID, config.Roles = "console", Roles{Read: []string{"group:a"}}
			if _, err := NewOIDC(config); (err == nil) != want {
				t.Errorf("issuer %s, public URL %s: %v", config.Issuer, config.PublicURL, err)
			}
		}
	}
	if _, err := NewOIDC(OIDCConfig{Issuer: "login.example", PublicURL: private, ClientID: "console",
		Roles: Roles{Read: []string{"group:a"}}}); err == nil {
		t.Error("an issuer without a scheme is accepted")
	}
}

// TestHostsOfThePublicURL: a host is that of the public URL in any case, with the port of its scheme or
// without; no other is.
func TestHostsOfThePublicURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		address, host string
		want          bool
	}{
		{"https://railhead.example", "railhead.example", true}, {"https://railhead.example", "Railhead.EXAMPLE", true},
		{"https://Railhead.example", "railhead.example", true}, {"https://railhead.example", "railhead.example:443", true},
		{"https://railhead.example:443", "railhead.example", true}, {"http://railhead.example", "railhead.example:80", true},
		{"https://railhead.example", "railhead.example:80", false}, {"http://railhead.example", "railhead.example:443", false},
		{"https://railhead.example:8443", "railhead.example", false}, {"https://railhead.example", "evil.example", false},
		{"https://railhead.example", "", false}, {"https://[::1]:443", "[::1]", true},
	} {
		s := &Site{config: Config{PublicURL: test.address}}
		if got := s.expects(test.host); got != test.want {
			t.Errorf("%s, asked as %q: %v", test.address, test.host, got)
		}
	}
}
