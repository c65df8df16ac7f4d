package console

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"time"
)

// clientID and clientSecret are those of the console at the provider. They protect nothing.
const (
	clientID     = "railhead-console"
	clientSecret = "of a run that guards nothing"
)

// spoil is one way in which a provider, or what stands between, answers wrongly.
type spoil struct {
	claims map[string]any // of the token, in place of the right ones
	state  string         // in place of the console's
	forged bool           // the token is signed by a key that is not the provider's
}

// provider is a provider of OpenID Connect by the code flow with PKCE, with a page on which a person chooses who
// they are.
type provider struct {
	*httptest.Server
	key, other *rsa.PrivateKey

	mu    sync.Mutex
	spoil spoil
	codes map[string]granted
}

// granted is what a code was given for.
type granted struct{ person, challenge, nonce, back string }

// people are the groups of those who have an account at the provider, by their names.
var people = map[string][]string{"amy": {"on-call", "staff"}, "eve": {"support"}, "bob": {"staff"}}

func newProvider() (p *provider, err error) {
	p = &provider{codes: make(map[string]granted)}
	for _, key := range []**rsa.PrivateKey{&p.key, &p.other} {
		if *key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.configuration)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /authorize", p.consent)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewServer(mux)
	return p, nil
}

// set spoils the answers from now on; the zero value spoils none.
func (p *provider) set(spoil spoil) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoil = spoil
}

func sayJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that is gone needs no answer
}

func (p *provider) configuration(w http.ResponseWriter, _ *http.Request) {
	sayJSON(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize",
		"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}})
}

func (p *provider) keys(w http.ResponseWriter, _ *http.Request) {
	public := p.key.PublicKey
	sayJSON(w, map[string]any{"keys": []map[string]string{{"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig",
		"n": base64.RawURLEncoding.EncodeToString(public.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(public.E)).Bytes())}}})
}

var consentPage = template.Must(template.New("consent").Parse(`<!doctype html><html lang="en"><title>Provider</title>
<body><main><h1>Who are you?</h1><form method="post">
{{range $name, $groups := .}}<button name="person" value="{{$name}}">{{$name}}</button>{{end}}</form></main></body></html>`))

// authorize asks the person. What a flow of this kind lacks is refused.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" ||
		query.Get("code_challenge") == "" || query.Get("client_id") != clientID || query.Get("state") == "" ||
		query.Get("nonce") == "" {
		http.Error(w, "this is no code flow with PKCE", http.StatusBadRequest)
		return
	}
	_ = consentPage.Execute(w, people)
}

// consent leads back with a code that is good once.
func (p *provider) consent(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = granted{r.PostFormValue("person"), query.Get("code_challenge"), query.Get("nonce"),
		query.Get("redirect_uri")}
	state := query.Get("state")
	if p.spoil.state != "" {
		state = p.spoil.state
	}
	p.mu.Unlock()
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {state}}.Encode(),
		http.StatusSeeOther)
}

// token gives a token for a code, to the client that has the verifier of its challenge.
func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	given := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if id != clientID || secret != url.QueryEscape(clientSecret) || given.challenge == "" ||
		given.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) || given.back != r.PostFormValue("redirect_uri") {
		http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": clientID, "nonce": given.nonce, "sub": given.person,
		"email": given.person + "@example.org", "email_verified": true, "groups": people[given.person],
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	maps.Copy(claims, p.spoil.claims)
	key := p.key
	if p.spoil.forged {
		key = p.other
	}
	signed, err := sign(key, claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	sayJSON(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": signed})
}

// sign is a token with these claims, by RS256.
func sign(key *rsa.PrivateKey, claims map[string]any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","kid":"1"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}
