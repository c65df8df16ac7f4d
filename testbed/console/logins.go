package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
	"github.com/railhead-pay/railhead/testbed/browser"
)

// byHand are requests for each act of the console, by its route: what a person whose pages have no form may send all
// the same. What is in braces is a payment of the hand.
var byHand = map[string][]string{
	"POST /payments/{id}/{act}": {"/payments/{paid}/acknowledge", "/payments/{paid}/escalate", "/payments/{paid}/close",
		"/payments/{paid}/replay", "/payments/{paid}/resolve", "/payments/{paid}/inquire", "/payments/{paid}/cancel",
		"/payments/{paid}/skip", "/payments/{paid}/send-now"},
	"POST /payments/{id}/reveal": {"/payments/{paid}/reveal"},
	"POST /dead-letters/{act}": {"/dead-letters/acknowledge", "/dead-letters/escalate", "/dead-letters/close",
		"/dead-letters/replay", "/dead-letters/inquire"},
	"POST /rails/{name}/{act}":     {"/rails/bank/pause", "/rails/giro/resume", "/rails/*/pause", "/rails/*/resume"},
	"POST /participant/{act}":      {"/participant/pause?id={participant}", "/participant/resume?id={participant}"},
	"POST /endpoints/{name}/{act}": {"/endpoints/shop/redeliver", "/endpoints/shop/discard"},
	"POST /components/accept":      {"/components/accept"},
}

// attempt is a login at the provider.
type attempt struct {
	name   string
	person string
	spoil  spoil
	role   string // that the pages name; empty: it is refused
	says   string // by the page of the refusal
}

// attempts are logins that succeed, and those that must not.
func attempts() []attempt {
	const not = "The login was not completed"
	wrong := func(name string, claims map[string]any) attempt {
		return attempt{"another " + name, "amy", spoil{claims: claims}, "", not}
	}
	return []attempt{
		{"operate", "amy", spoil{}, "operate", ""},
		{"read", "eve", spoil{}, "read", ""},
		{"no role", "bob", spoil{}, "", "You have no role here"},
		{"another state", "amy", spoil{state: "x"}, "", not},
		{"another key", "amy", spoil{forged: true}, "", not},
		wrong("nonce", map[string]any{"nonce": "x"}), wrong("audience", map[string]any{"aud": "shop"}),
		wrong("issuer", map[string]any{"iss": "https://evil.example"}),
		{"expired", "amy", spoil{claims: map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}}, "", not},
	}
}

// logins goes through the logins of people, the provider's by the browser and client certificates by a client of
// HTTPS: a headless Chromium chooses a certificate by a policy of the whole machine alone. It has each role try what
// it may not do.
func (k *walker) logins(ctx context.Context, w *world, b *browser.Browser) error {
	begun := time.Now()
	p, err := newProvider()
	if err != nil {
		return err
	}
	defer p.Close()
	addr, err := child.FreeAddr()
	if err != nil {
		return err
	}
	// Another name of this machine than that of the provider: for a browser they are two sites.
	k.base = "http://" + strings.Replace(addr, "127.0.0.1", "localhost", 1)
	_, err = w.start(ctx, "console", "console-oidc", "RAILHEAD_READER_URL="+w.url(install.Readonly),
		"RAILHEAD_OPERATOR_URL="+w.url(install.Operator), "RAILHEAD_CONSOLE_OPERATE=true", "RAILHEAD_CONSOLE_ADDR="+addr,
		"RAILHEAD_CONSOLE_PUBLIC_URL="+k.base, "RAILHEAD_CONSOLE_OIDC_ISSUER="+p.URL,
		"RAILHEAD_CONSOLE_OIDC_CLIENT_ID="+clientID, "RAILHEAD_CONSOLE_OIDC_CLIENT_SECRET=env:OIDC_SECRET",
		"OIDC_SECRET="+clientSecret, "RAILHEAD_CONSOLE_OPERATORS=group:on-call", "RAILHEAD_CONSOLE_READERS=group:support")
	if err != nil {
		return err
	}
	all := attempts()
	for _, one := range all {
		k.steps++
		p.set(one.spoil)
		if err := k.attempt(ctx, w, b, one); err != nil {
			k.faulty("login: "+one.name, err.Error())
		}
	}
	if err := w.around(ctx); err != nil {
		k.faulty("around the page", err.Error())
	}
	if err := k.certificates(ctx, w); err != nil {
		k.faulty("certificates", err.Error())
	}
	k.out.say("%d logins in %s", len(all), time.Since(begun).Round(100*time.Millisecond))
	return nil
}

// attempt logs in by the pages of the console and of the provider, in a browser without cookies.
func (k *walker) attempt(ctx context.Context, w *world, b *browser.Browser, one attempt) (err error) {
	if k.tab, err = b.Open(browser.View{}); err != nil {
		return err
	}
	defer k.tab.Close()
	if status, err := k.tab.Go(k.base + "/"); err != nil || status != 401 {
		return fmt.Errorf("the first page: status %d: %w", status, err)
	}
	if status, err := k.hand.hand.Follow(k.tab, `main a[href="/login/oidc"]`); err != nil || status != 200 {
		return fmt.Errorf("the page of the provider: status %d: %w", status, err)
	}
	status, err := k.tab.Send(k.hand.hand, "main form", `button[value="`+one.person+`"]`, nil)
	if err != nil {
		return err
	}
	if one.role == "" {
		text, err := k.tab.Text()
		if err != nil || status != 403 || !strings.Contains(text, one.says) {
			return fmt.Errorf("status %d, and the page lacks %q: %w: %s", status, one.says, err, text)
		}
		if status, err := k.tab.Go(k.base + "/"); err != nil || status != 401 {
			return fmt.Errorf("the first page after a refused login: status %d: %w", status, err)
		}
		return nil
	}
	if err := k.tab.Arrives(ctx, "/", one.person+"@example.org, "+one.role); err != nil {
		return fmt.Errorf("status %d: %w", status, err)
	}
	k.faulty("login: "+one.name, k.tab.Faults()...)
	if one.role == "read" {
		return k.tries(ctx, w)
	}
	return k.again(ctx, one.person)
}

// again logs in once more in the same browser, which ends the session before for every copy of its cookie. The provider
// is another site: what leads back from it has no cookie of the session.
func (k *walker) again(ctx context.Context, person string) error {
	before, err := k.tab.Cookies()
	if err != nil {
		return err
	}
	if _, err := k.tab.Go(k.base + "/login"); err != nil {
		return err
	}
	if status, err := k.hand.hand.Follow(k.tab, `main a[href="/login/oidc"]`); err != nil || status != 200 {
		return fmt.Errorf("the page of the provider: status %d: %w", status, err)
	}
	if _, err := k.tab.Send(k.hand.hand, "main form", `button[value="`+person+`"]`, nil); err != nil {
		return err
	}
	if err := k.tab.Arrives(ctx, "/", person); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.base+"/payments", nil)
	if err != nil {
		return err
	}
	for _, cookie := range before {
		request.AddCookie(cookie)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if len(before) == 0 || answer.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("the session before, with %d cookies: status %d, want 401", len(before), answer.StatusCode)
	}
	return nil
}

// acts counts the acts in the operator log.
func (w *world) acts(ctx context.Context) (n int, err error) {
	err = w.admin.QueryRow(ctx, `SELECT count(*) FROM `+cell+`.payment_operator_log`).Scan(&n)
	return n, err
}

// tries sends each act by hand from a page of a person with the role read: each is refused with 403, and none is done.
func (k *walker) tries(ctx context.Context, w *world) error {
	before, err := w.acts(ctx)
	if err != nil {
		return err
	}
	for _, addresses := range byHand {
		for _, address := range addresses {
			k.steps++
			status, err := k.tab.Post(k.names.in(address), "reason=x&count=1&found=executed&compared=yes")
			if err != nil || status != 403 {
				k.faulty("by hand: "+address, fmt.Sprintf("status %d, want 403: %v", status, err))
			}
		}
	}
	if after, err := w.acts(ctx); err != nil || after != before {
		return fmt.Errorf("the operator log has %d acts more: %w", after-before, err)
	}
	return nil
}

// around calls the functions of operators with the login by which the console reads: the database refuses each.
func (w *world) around(ctx context.Context) error {
	matrix, err := acl.Load()
	if err != nil {
		return err
	}
	conn, err := connect(ctx, w.url(install.Readonly))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tried := 0
	var faults []error
	for _, call := range operatorCalls(matrix) {
		tried++
		_, err := conn.Exec(ctx, "SELECT "+cell+"."+call)
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refused.Code != "42501" {
			faults = append(faults, fmt.Errorf("the login of readers calls %s: %v, want 42501", call, err))
		}
	}
	if tried < 15 {
		faults = append(faults, fmt.Errorf("only %d functions of operators are known", tried))
	}
	return errors.Join(faults...)
}

// operatorCalls are calls, with nulls, of the functions that operators may execute and readers may not.
func operatorCalls(matrix acl.Matrix) []string {
	var calls []string
	for _, grant := range matrix.Grants {
		if grant.Role != "railhead_operator" || grant.Privilege != "EXECUTE" || slices.ContainsFunc(matrix.Grants,
			func(other acl.Grant) bool { return other.Role == "railhead_readonly" && other.Object == grant.Object }) {
			continue
		}
		name, types, _ := strings.Cut(strings.TrimSuffix(grant.Object.Name, ")"), "(")
		var nulls []string
		for of := range strings.SplitSeq(types, ",") {
			if of != "" {
				nulls = append(nulls, "NULL::"+of)
			}
		}
		calls = append(calls, name+"("+strings.Join(nulls, ", ")+")")
	}
	return calls
}
