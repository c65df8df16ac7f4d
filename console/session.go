package console

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
)

// secretSize is the size of a session's secret and of a one-time link's, in bytes.
const secretSize = 32

// newSecret returns random bytes as text.
func newSecret() string {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // it never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// digest is what is kept of a secret.
type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

// session is one login of a person in one browser.
type session struct {
	person      Person
	begun, used time.Time
	ended       chan struct{} // closed when it is removed

	done   note
	orders map[digest]*given // the latest orders, by the digest of their cells' bases and forms
}

// noteFor is how long what was done is said to have just been done. Later on its subject may be another one: what was
// resumed may be paused again.
const noteFor = 30 * time.Second

// note is what was just done, and the path of the page that says so.
type note struct {
	text, path string
	at         time.Time
}

// sessions are the sessions of this process, which end with it. It is safe for concurrent use.
type sessions struct {
	most           int
	idle, absolute time.Duration

	mu  sync.Mutex
	all map[digest]*session
}

func newSessions(most int, idle, absolute time.Duration) *sessions {
	return &sessions{most: most, idle: idle, absolute: absolute, all: make(map[digest]*session)}
}

// begin returns the secret of a new session. If there are as many as may be, the one that was not
// used for the longest time ends.
func (s *sessions) begin(person Person) string {
	secret, now := newSecret(), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest digest
	for key, one := range s.all {
		if s.over(one, now) {
			s.remove(key)
		} else if found := s.all[oldest]; found == nil || one.used.Before(found.used) {
			oldest = key
		}
	}
	if len(s.all) >= s.most {
		s.remove(oldest)
	}
	s.all[digestOf(secret)] = &session{person: person, begun: now, used: now, ended: make(chan struct{})}
	return secret
}

// person returns the person of a session, and notes its use.
func (s *sessions) person(secret string) (Person, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.find(secret); one != nil {
		one.used = time.Now()
		return one.person, true
	}
	return Person{}, false
}

// peek returns the person of a session, of which it is no use.
func (s *sessions) peek(secret string) (Person, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.find(secret); one != nil {
		return one.person, true
	}
	return Person{}, false
}

// lasts reports whether a session is in force, and returns a channel that is closed when it is removed.
// One that idles or is too old is removed only by the next call.
func (s *sessions) lasts(secret string) (ended <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.find(secret); one != nil {
		return one.ended, true
	}
	return nil, false
}

// find returns a session that is in force, or nil.
func (s *sessions) find(secret string) *session {
	key := digestOf(secret)
	one := s.all[key]
	if one != nil && s.over(one, time.Now()) {
		s.remove(key)
		return nil
	}
	return one
}

func (s *sessions) remove(key digest) {
	if one := s.all[key]; one != nil {
		close(one.ended)
		delete(s.all, key)
	}
}

func (s *sessions) over(one *session, now time.Time) bool {
	return now.Sub(one.used) >= s.idle || now.Sub(one.begun) >= s.absolute
}

// note keeps what was just done, for the page with a path.
func (s *sessions) note(secret, path, done string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.find(secret); one != nil {
		one.done = note{done, path, time.Now()}
	}
}

// noted returns what was just done and when, once; empty: nothing, or another page says so.
func (s *sessions) noted(secret, path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.find(secret)
	if one == nil || one.done.path != path {
		return ""
	}
	done := one.done
	one.done = note{}
	if time.Since(done.at) > noteFor {
		return ""
	}
	return explain.Clock(done.at) + ": " + done.text
}

func (s *sessions) end(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(digestOf(secret))
}

// cookieName is the name of a cookie of the console at an address. Browsers keep one cookie of a name for all
// ports of a host: without the address in it two consoles of one host would end each other's sessions. A name
// with __Host- is accepted by browsers only with TLS, for this host and all its paths.
func cookieName(of, address string, secure bool) string {
	sum := digestOf(strings.ToLower(address))
	name := of + "_" + hex.EncodeToString(sum[:4])
	if secure {
		return "__Host-" + name
	}
	return name
}

// cookie is the cookie of a session; no secret: one that removes it.
func (s *Site) cookie(secret string) *http.Cookie {
	secure := s.secureCookies()
	cookie := &http.Cookie{
		Name: cookieName("railhead_session", s.at, secure), Value: secret, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: secure,
	}
	if secret == "" {
		cookie.MaxAge = -1
	}
	return cookie
}

// secretOf is the secret of the session that a request belongs to; empty: none.
func (s *Site) secretOf(r *http.Request) string {
	if cookie, err := r.Cookie(s.cookie("").Name); err == nil {
		return cookie.Value
	}
	return ""
}

// backgroundHeader marks a request that an open page makes by itself. It is no use of the session: a page
// that is left open must not keep it in force.
const backgroundHeader = "Railhead-Background"

// personOf returns who sent a request. A session by a client certificate is one only together with
// the certificate.
func (s *Site) personOf(r *http.Request) (Person, bool) {
	secret := s.secretOf(r)
	if secret == "" {
		return Person{}, false
	}
	find := s.sessions.person
	if r.Header.Get(backgroundHeader) != "" || s.isStream(r) {
		find = s.sessions.peek
	}
	person, ok := find(secret)
	if !ok || person.certificate != "" && person.certificate != certificateOf(r) {
		return Person{}, false
	}
	return person, true
}
