package console

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
)

// policy is the Content-Security-Policy: everything comes from the console itself, nothing inline.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// bodyMax bounds the body of a request, which is a form.
const bodyMax = 16 << 10

// secure puts around all routes what no route may lack: headers, the host that is expected, protection
// against forms of other sites, bounds of time and size, and a page for a panic.
func (s *Site) secure(routes http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, problem{http.StatusForbidden, "This form came from another site",
			"Open the page in this console and send the form from there. Nothing was done."})
	}))
	guarded := protection.Handler(routes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.headers(w.Header())
		defer func() {
			if cause := recover(); cause != nil {
				s.panicked(w, r, cause)
			}
		}()
		if !s.expects(r.Host) {
			s.fail(w, r, problem{http.StatusMisdirectedRequest, "The console has another address",
				"Use the address that the console was configured with."})
			return
		}
		within := s.config.RequestTimeout
		if s.isStream(r) {
			within = s.config.SessionMax
		}
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		r = r.WithContext(ctx) // the deferred call needs the one that gets its pattern
		r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
		guarded.ServeHTTP(w, r)
	})
}

// panicked logs where a request panicked. The value is not logged: it may have text of a payload.
func (s *Site) panicked(w http.ResponseWriter, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	mark := rand.Text()[:8]
	s.log.ErrorContext(r.Context(), "a page panicked", "path", pathOf(r), "mark", mark, "stack", string(debug.Stack()))
	s.fail(w, r, problem{http.StatusInternalServerError, "This page has a defect",
		"The log of the console has the place under the mark " + mark + ". Use the command line meanwhile: railhead " +
			"status, railhead payment show ID."})
}

// pathOf is the path of a request without the ids in it, for logs.
func pathOf(r *http.Request) string { return strings.TrimPrefix(r.Pattern, r.Method+" ") }

func (s *Site) headers(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=()")
	h.Set("Cache-Control", "no-store")
	if s.secureCookies() {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// secureCookies reports whether browsers reach the console by TLS.
func (s *Site) secureCookies() bool {
	return s.config.TLS != nil || strings.HasPrefix(s.config.PublicURL, "https://")
}

// expects reports whether a request names a host of this console. A name that a foreign page made
// resolve to a loopback address is none.
func (s *Site) expects(host string) bool {
	if at, err := url.Parse(s.config.PublicURL); err == nil && at.Host != "" {
		return sameHost(at.Scheme, host, at.Host)
	}
	return !s.loopback || isLoopback(host)
}

// sameHost reports whether two hosts with or without a port are one, for addresses with a scheme: names have
// no case, and the scheme has a port of its own.
func sameHost(scheme, a, b string) bool {
	port := map[string]string{"http": ":80", "https": ":443"}[scheme]
	return strings.EqualFold(strings.TrimSuffix(a, port), strings.TrimSuffix(b, port))
}
