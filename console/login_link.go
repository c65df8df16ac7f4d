package console

import (
	"crypto/subtle"
	"net/http"
	"sync"
)

// Link is a login by an address that works once, for a console on this machine.
type Link struct {
	role   Role
	secret string

	mu sync.Mutex
	of digest // zero: it was used
}

// NewLink returns a login by a link with 32 random bytes. It works once.
func NewLink(role Role) *Link {
	secret := newSecret()
	return &Link{role: role, secret: secret, of: digestOf(secret)}
}

// Address is the link below the address of the console, such as http://127.0.0.1:8080.
func (l *Link) Address(base string) string { return base + "/login/link?secret=" + l.secret }

// Offer is empty: the link is printed where the console was started.
func (l *Link) Offer() (text, address string) { return "", "" }

// LoopbackOnly is true: what was printed on this machine is for this machine.
func (l *Link) LoopbackOnly() bool { return true }

// Register adds the page with the button, and the address that the button sends to. A request for the
// page alone does not use the link up: browsers make some ahead.
func (l *Link) Register(mux *http.ServeMux, door Door) {
	mux.HandleFunc("GET /login/link", func(w http.ResponseWriter, r *http.Request) {
		door.Ask(w, r, "Log in by the one-time link", "/login/link", r.FormValue("secret"))
	})
	mux.HandleFunc("POST /login/link", func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.RemoteAddr) || !l.use(r.PostFormValue("secret")) {
			door.Refuse(w, r, "The link is not in force", "It works once, on the machine of the console. "+
				"Start the console again for another one.", nil)
			return
		}
		door.Admit(w, r, Person{Name: "one-time link", Role: l.role, By: "link"})
	})
}

// use reports whether the secret is that of the link, for the first time.
func (l *Link) use(secret string) bool {
	got := digestOf(secret)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == (digest{}) || subtle.ConstantTimeCompare(got[:], l.of[:]) != 1 {
		return false
	}
	l.of = digest{}
	return true
}
