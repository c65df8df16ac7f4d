package console

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/internal/service"
	"github.com/railhead-pay/railhead/ledger/operator"
)

// Role is what a person may do.
type Role string

// The roles. Read has the rights of railhead_readonly, Operate those of railhead_operator too.
const (
	Read    Role = "read"
	Operate Role = "operate"
)

// Person is who has logged in.
type Person struct {
	Name string // as the login knows it, up to nameMax characters without control characters
	Role Role
	By   string // the login

	certificate string // the digest of the client certificate that the session is bound to
	before      string // the secret of the session in which the login began; empty: none
}

// May reports whether the person may change anything.
func (p Person) May() bool { return p.Role == Operate }

// nameMax bounds the name of a person, which goes to the operator log with each act. It is refused
// and not cut: two names may begin alike.
const nameMax = 128

// hasName reports whether the operator log can hold the name of a person.
func (p Person) hasName() bool {
	return strings.TrimSpace(p.Name) != "" && len([]rune(p.Name)) <= nameMax && utf8.ValidString(p.Name) &&
		explain.OneLine(p.Name) == p.Name
}

// Roles names the groups, or the persons, of each role. An entry has a kind, such as group:on-call: the
// name of one kind is no name of another. An entry without one gives its role to no person; Check finds it.
type Roles struct{ Read, Operate []string }

// kind is the kind of a name that a login knows a person by, and how an entry of Roles begins.
type kind string

// The kinds of names.
const (
	kindGroup  kind = "group:" // of the claim of an ID token
	kindEmail  kind = "email:" // verified by the provider, or in a certificate
	kindCommon kind = "cn:"    // of a certificate
	kindUnit   kind = "ou:"    // of a certificate
)

// named are the entries that a person with these names may have, all of one kind.
func (k kind) named(names ...string) (entries []string) {
	for _, name := range names {
		if name != "" {
			entries = append(entries, string(k)+name)
		}
	}
	return entries
}

// Check returns an error that names each entry without a kind.
func (r Roles) Check() error {
	var b service.Bounds
	for _, entry := range slices.Concat(r.Read, r.Operate) {
		of, name, _ := strings.Cut(entry, ":")
		known := slices.Contains([]kind{kindGroup, kindEmail, kindCommon, kindUnit}, kind(of+":"))
		if !known || strings.TrimSpace(name) == "" {
			b.Refuse("the role of %q is given to no kind of name: write group:NAME for a group of the claim, email:ADDRESS, "+
				"or cn:NAME and ou:NAME for certificates", entry)
		}
	}
	return b.Err()
}

// of returns the highest role that one of the names has. Each name begins with its kind.
func (r Roles) of(names []string) (Role, bool) {
	has := func(list []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(list, name) })
	}
	switch {
	case has(r.Operate):
		return Operate, true
	case has(r.Read):
		return Read, true
	}
	return "", false
}

// undoneMax bounds what a page says of an act that was not done, in characters.
const undoneMax = 200

// Login is a way to log in: NewLink, NewOIDC and NewCertificates make one.
type Login interface {
	// Offer is the text of the login page, and the address to which it leads; empty: none.
	Offer() (text, address string)
	// LoopbackOnly reports whether the login is for this machine alone.
	LoopbackOnly() bool
	// Register adds the login's own routes, below /login/.
	Register(mux *http.ServeMux, door Door)
}

// Door is what a login does with its result; the console implements it.
type Door interface {
	// Session is the secret of the session that a request belongs to; empty: none.
	Session(r *http.Request) string
	// Admit begins a session, ends the one before and leads to the first page.
	Admit(w http.ResponseWriter, r *http.Request, person Person)
	// Refuse answers that the person may not enter, and what to do about it.
	// The log has the title and the cause; of the cause only what kind of an error it is. nil: none.
	Refuse(w http.ResponseWriter, r *http.Request, title, advice string, cause error)
	// Ask answers with a page that has one button, which sends a form with one secret.
	Ask(w http.ResponseWriter, r *http.Request, title, address, secret string)
}

// Session is the secret of the session that a request belongs to; empty: none.
func (s *Site) Session(r *http.Request) string { return s.secretOf(r) }

// Admit begins a session. A person's role is no higher than what this console may do, and a person
// without a name that the operator log can hold has none.
func (s *Site) Admit(w http.ResponseWriter, r *http.Request, person Person) {
	if !person.hasName() {
		s.Refuse(w, r, "Your name can't be recorded",
			"The operator log holds names of 1 to 128 characters without control characters. Have the login changed.", nil)
		return
	}
	if s.readOnly {
		person.Role = Read
	}
	for _, secret := range []string{s.secretOf(r), person.before} {
		s.sessions.end(secret) // a secret from before the login is worth nothing after it
	}
	person.before = ""
	s.log.InfoContext(r.Context(), "logged in", "person", person.Name, "role", string(person.Role), "by", person.By)
	http.SetCookie(w, s.cookie(s.sessions.begin(person)))
	// The cookie is Strict, so that a redirect in a chain that another site began would come without
	// it: this page leads on by itself.
	s.show(w, r, "entered.html", page{Title: "Logged in", Body: s.returnTo(w, r)})
}

// Refuse answers that a login was not accepted.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, title, advice string, cause error) {
	if leftOut, ok := s.refusals.Next(); ok {
		s.log.WarnContext(r.Context(), "a login was refused", "why", title, "cause", causeOf(cause), "from", r.RemoteAddr,
			"not_logged", leftOut)
	}
	s.fail(w, r, problem{http.StatusForbidden, title, advice})
}

// Ask answers with a page that has one button.
func (s *Site) Ask(w http.ResponseWriter, r *http.Request, title, address, secret string) {
	s.show(w, r, "ask.html", page{Title: title, Body: map[string]string{"Address": address, "Secret": secret}})
}

// loginPage shows the ways to log in.
func (s *Site) loginPage(w http.ResponseWriter, r *http.Request) { s.askToLogIn(w, r, "") }

// askToLogIn is loginPage with a word about what was not done; empty: there is nothing to say.
func (s *Site) askToLogIn(w http.ResponseWriter, r *http.Request, undone string) {
	type offer struct{ Text, Address string }
	body := struct {
		Undone string
		Offers []offer
	}{Undone: undone}
	for _, login := range s.logins {
		if text, address := login.Offer(); text != "" {
			body.Offers = append(body.Offers, offer{text, address})
		}
	}
	s.showWith(w, r, http.StatusUnauthorized, "login.html", page{Title: "Log in", Body: body})
}

// undone says that an act of a request without a session was not done; empty: the request asks for no act.
func (s *Site) undone(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return ""
	}
	if leftOut, ok := s.undoneActs.Next(); ok {
		s.log.WarnContext(r.Context(), "an act came without a session, and was not done", "path", pathOf(r),
			"act", explain.Bounded(r.PathValue("act"), undoneMax), "not_logged", leftOut)
	}
	why := "You are not logged in."
	if s.secretOf(r) != "" {
		why = "Your session has ended."
	}
	return why + " Nothing was done: " + explain.Bounded(r.URL.Path, undoneMax) + ". Log in, and do it again."
}

// logout ends the session.
func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	s.sessions.end(s.secretOf(r))
	http.SetCookie(w, s.cookie(""))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

// known calls next with the person who sent the request, and shows the login page to others.
func (s *Site) known(next func(http.ResponseWriter, *http.Request, Person)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		person, ok := s.personOf(r)
		if !ok {
			s.keepReturn(w, r)
			s.askToLogIn(w, r, s.undone(r))
			return
		}
		next(w, r, person)
	}
}

// operating is known for acts: a person with the role read gets 403, and so does every act if the
// console is read-only. The operator log has the person of each act.
func (c *Console) operating(next func(http.ResponseWriter, *http.Request, Person)) http.HandlerFunc {
	return c.known(func(w http.ResponseWriter, r *http.Request, person Person) {
		switch {
		case c.operator == nil:
			c.fail(w, r, problem{http.StatusForbidden, "This console is read-only",
				"Nothing was done. Act by the command line, or start the console with acts."})
		case !person.May():
			c.fail(w, r, problem{http.StatusForbidden, "Your role may not act",
				"Nothing was done. Ask a person with the role operate."})
		default:
			next(w, r.WithContext(operator.OnBehalfOf(r.Context(), person.Name)), person)
		}
	})
}
