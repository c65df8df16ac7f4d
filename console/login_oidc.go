package console

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/railhead-pay/railhead/internal/service"
)

// OIDCConfig configures a login by OpenID Connect.
type OIDCConfig struct {
	Issuer       string // such as https://login.example
	ClientID     string
	ClientSecret string
	PublicURL    string // of the console; the provider leads back to PublicURL/login/oidc/back
	// Claim is the claim of the ID token with the groups (group:) that Roles has; default groups. The
	// person's e-mail address (email:) counts too, if the provider has verified it.
	Claim  string
	Scopes []string // in addition to openid and email
	Roles  Roles
	Client *http.Client // for calls to the provider; nil: one with a timeout of 10 s
}

// OIDC is a login by OpenID Connect, as the code flow with PKCE. It keeps nothing between its two
// steps: a sealed cookie has it.
type OIDC struct {
	config    OIDCConfig
	seal      *seal
	discovery discovery // at the first login
}

// NewOIDC returns a login by OpenID Connect, or all faults of its configuration. The provider is asked
// at the first login.
func NewOIDC(config OIDCConfig) (*OIDC, error) {
	service.Fill(&config.Claim, "groups")
	if config.Client == nil {
		config.Client = &http.Client{Timeout: 10 * time.Second}
	}
	var b service.Bounds
	for name, value := range map[string]string{
		"issuer": config.Issuer, "client id": config.ClientID, "public URL": config.PublicURL,
	} {
		if value == "" {
			b.Refuse("the login by OIDC needs the %s", name)
		}
	}
	for name, value := range map[string]string{"issuer": config.Issuer, "public URL": config.PublicURL} {
		if at, err := url.Parse(value); value != "" && (err != nil || at.Host == "" || !isPrivate(at)) {
			b.Refuse("the %s of the login by OIDC must begin with https://, unless its host is this machine: who is on the way "+
				"could say who a person is", name)
		}
	}
	if len(config.Roles.Read)+len(config.Roles.Operate) == 0 {
		b.Refuse("the login by OIDC gives a role to no group")
	}
	if err := b.Err(); err != nil {
		return nil, err
	}
	return &OIDC{config: config, seal: newSeal()}, nil
}

// Offer is on the login page.
func (o *OIDC) Offer() (text, address string) { return "Log in with " + o.config.Issuer, "/login/oidc" }

// LoopbackOnly is false.
func (o *OIDC) LoopbackOnly() bool { return false }

// Register adds the step to the provider and the step back.
func (o *OIDC) Register(mux *http.ServeMux, door Door) {
	mux.HandleFunc("GET /login/oidc", func(w http.ResponseWriter, r *http.Request) {
		exchange, _, err := o.ask(r.Context())
		if err != nil {
			door.Refuse(w, r, "The login provider did not answer", "Try again, or use another way to log in.", err)
			return
		}
		step := flow{
			State: newSecret(), Nonce: newSecret(), Verifier: oauth2.GenerateVerifier(), Until: time.Now().Add(flowMax),
			Before: door.Session(r),
		}
		http.SetCookie(w, o.cookie(o.seal.close(step)))
		http.Redirect(w, r, exchange.AuthCodeURL(step.State, oidc.Nonce(step.Nonce),
			oauth2.S256ChallengeOption(step.Verifier)), http.StatusSeeOther)
	})
	mux.HandleFunc("GET /login/oidc/back", func(w http.ResponseWriter, r *http.Request) {
		person, err := o.back(r)
		http.SetCookie(w, o.cookie(""))
		switch {
		case errors.Is(err, causeNoRole):
			door.Refuse(w, r, "You have no role here", "Ask for a role: the console names the groups of each role.", err)
		case err != nil:
			// The text of the provider is not repeated: it may have a secret.
			door.Refuse(w, r, "The login was not completed", "Begin again at the first page of the console.", err)
		default:
			door.Admit(w, r, person)
		}
	})
}

// ask returns the client of the provider's endpoints and the check of its tokens.
func (o *OIDC) ask(ctx context.Context) (*oauth2.Config, *oidc.IDTokenVerifier, error) {
	provider, err := o.discovery.wait(ctx, o.discover)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", causeDiscovery, err)
	}
	exchange := &oauth2.Config{
		ClientID: o.config.ClientID, ClientSecret: o.config.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: o.config.PublicURL + "/login/oidc/back",
		Scopes:      append([]string{oidc.ScopeOpenID, "email"}, o.config.Scopes...),
	}
	return exchange, provider.Verifier(&oidc.Config{ClientID: o.config.ClientID}), nil
}

// discover reads the configuration of the provider. The keys are read later, with a context of their own.
func (o *OIDC) discover() (*oidc.Provider, error) {
	ctx, cancel := context.WithTimeout(context.Background(), discoveryMax)
	defer cancel()
	return oidc.NewProvider(oidc.ClientContext(ctx, o.config.Client), o.config.Issuer)
}

// back checks what the provider sent: the state and the nonce are those of this browser, and the code
// gives a token that the provider signed for this console.
func (o *OIDC) back(r *http.Request) (Person, error) {
	cookie, err := r.Cookie(o.cookie("").Name)
	if err != nil {
		return Person{}, causeNoFlow
	}
	step, err := o.seal.open(cookie.Value)
	if err != nil || time.Now().After(step.Until) {
		return Person{}, causeOldFlow
	}
	if subtle.ConstantTimeCompare([]byte(r.FormValue("state")), []byte(step.State)) != 1 {
		return Person{}, causeState
	}
	exchange, verifier, err := o.ask(r.Context())
	if err != nil {
		return Person{}, err
	}
	ctx := oidc.ClientContext(r.Context(), o.config.Client)
	token, err := exchange.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(step.Verifier))
	if err != nil {
		return Person{}, fmt.Errorf("%w: %w", causeExchange, err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Person{}, fmt.Errorf("%w: %w", causeToken, err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(step.Nonce)) != 1 {
		return Person{}, causeNonce
	}
	person, err := o.personOf(id)
	person.before = step.Before
	return person, err
}

// personOf reads the name and the role of a person from a token.
func (o *OIDC) personOf(id *oidc.IDToken) (Person, error) {
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return Person{}, fmt.Errorf("%w: %w", causeToken, err)
	}
	person := Person{Name: id.Subject, By: "oidc"}
	var names []string
	if email, _ := claims["email"].(string); email != "" && claims["email_verified"] == true {
		person.Name, names = email, kindEmail.named(email)
	}
	switch groups := claims[o.config.Claim].(type) {
	case string:
		names = append(names, kindGroup.named(groups)...)
	case []any:
		for _, group := range groups {
			if name, ok := group.(string); ok {
				names = append(names, kindGroup.named(name)...)
			}
		}
	}
	role, ok := o.config.Roles.of(names)
	if !ok {
		return Person{}, causeNoRole
	}
	person.Role = role
	return person, nil
}
