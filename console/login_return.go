package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// returnMax bounds the address of a page that a login leads back to, in bytes.
const returnMax = 1000

// keepReturn keeps the address of a page of a cell that was asked for without a session, so that the login
// leads back to it. Whether there is that cell is looked at after the login: no answer before it says so. With one
// cell alone a login leads to the first page.
func (s *Site) keepReturn(w http.ResponseWriter, r *http.Request) {
	to := r.URL.RequestURI()
	if s.only == nil && r.Method == http.MethodGet && r.Header.Get(backgroundHeader) == "" &&
		strings.HasPrefix(to, "/cells/") && !strings.HasSuffix(r.URL.Path, streamPath) && len(to) <= returnMax {
		http.SetCookie(w, s.returnCookie(to))
	}
}

// returnTo returns the address of the page that a login leads to, and forgets it.
func (s *Site) returnTo(w http.ResponseWriter, r *http.Request) string {
	kept, err := r.Cookie(s.returnCookie("").Name)
	if err != nil || s.only != nil {
		return "/"
	}
	http.SetCookie(w, s.returnCookie(""))
	to, err := url.QueryUnescape(kept.Value)
	if err != nil || !s.mayReturn(to) {
		return "/"
	}
	return to
}

// mayReturn reports whether an address is of a page of a cell of this console: a browser keeps the address, and
// other ports of the host can replace what it keeps.
func (s *Site) mayReturn(to string) bool {
	plain := func(r rune) bool { return r > ' ' && r < 0x7f && r != '\\' }
	within := func(c *Console) bool { return c.base != "" && strings.HasPrefix(to, c.base+"/") }
	return len(to) <= returnMax && strings.TrimFunc(to, plain) == "" && slices.ContainsFunc(s.consoles, within)
}

// returnCookie keeps the address until the login; an empty one removes the cookie. It is Lax, because the page
// of a provider leads back to the console: a Strict one would not come along.
func (s *Site) returnCookie(to string) *http.Cookie {
	secure := s.secureCookies()
	cookie := &http.Cookie{
		Name: cookieName("railhead_return", s.at, secure), Value: url.QueryEscape(to), Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: secure, MaxAge: int(flowMax.Seconds()),
	}
	if to == "" {
		cookie.MaxAge = -1
	}
	return cookie
}
