package api

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/railhead-pay/railhead/outbox"
)

const (
	tokenFresh   = 5 * time.Second // for which a look-up of a token is reused
	tokensMax    = 10_000          // tokens remembered
	tokenTextMax = 128             // bytes
	lookupsMax   = 4               // concurrent look-ups
	burst        = 10 * time.Second
)

// tokenOf returns the digest of the token in a request.
func tokenOf(r *http.Request) ([32]byte, bool) {
	shown := r.Header.Values("Authorization")
	if len(shown) != 1 {
		return [32]byte{}, false
	}
	scheme, token, ok := strings.Cut(shown[0], " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > tokenTextMax {
		return [32]byte{}, false
	}
	return outbox.TokenDigest(token), true
}

// certificateOf returns SHA-256 of the public key of the client's certificate, whose private key
// the handshake has proven; nil: there is none, or it is not valid now.
func certificateOf(r *http.Request) []byte {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	shown, now := r.TLS.PeerCertificates[0], time.Now()
	if now.Before(shown.NotBefore) || now.After(shown.NotAfter) {
		return nil
	}
	sum := sha256.Sum256(shown.RawSubjectPublicKeyInfo)
	return sum[:]
}

// tokens caches what tokens allow. The database checks it again in each statement: the cache saves
// look-ups, and keeps the quotas.
type tokens struct {
	store   Store
	timeout time.Duration
	lookups chan struct{}

	mu    sync.Mutex
	known map[[32]byte]*knownToken
}

// knownToken is one cached token. The mutex guards the fields after it.
type knownToken struct {
	mu      sync.Mutex
	token   outbox.Token
	digest  [32]byte
	at      time.Time // of the look-up
	room    float64   // requests left in its quota
	filled  time.Time // when room was computed
	used    int64
	refused int64
	batches int // under way
	streams int // open
	asked   float64
	askedAt time.Time
}

func newTokens(store Store, timeout time.Duration) *tokens {
	return &tokens{store: store, timeout: timeout, lookups: make(chan struct{}, lookupsMax),
		known: make(map[[32]byte]*knownToken)}
}

// find returns a token as of at most tokenFresh ago, or outbox.ErrToken if it does not exist.
func (t *tokens) find(ctx context.Context, digest [32]byte) (*knownToken, error) {
	if one := t.remembered(digest); one != nil {
		return one, nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	select {
	case t.lookups <- struct{}{}:
		defer func() { <-t.lookups }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to look a token up: %w", ctx.Err())
	}
	if one := t.remembered(digest); one != nil { // another call has looked it up meanwhile
		return one, nil
	}
	found, err := t.store.Token(ctx, digest)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.known[digest]
	if one == nil {
		if len(t.known) >= tokensMax {
			t.forget()
		}
		one = &knownToken{digest: digest, room: roomOf(found), filled: time.Now()}
		t.known[digest] = one
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	one.token, one.at = found, time.Now()
	return one, nil
}

// remembered returns a token that is cached and fresh, or nil.
func (t *tokens) remembered(digest [32]byte) *knownToken {
	t.mu.Lock()
	one := t.known[digest]
	t.mu.Unlock()
	if one == nil || !one.fresh() {
		return nil
	}
	return one
}

// forget drops some tokens without counts to store. The caller holds the mutex.
func (t *tokens) forget() {
	dropped := 0
	for digest, one := range t.known {
		if one.mu.TryLock() {
			if one.used == 0 && one.refused == 0 && one.batches == 0 && one.streams == 0 {
				delete(t.known, digest)
				dropped++
			}
			one.mu.Unlock()
		}
		if dropped >= tokensMax/10 {
			return
		}
	}
}

func (k *knownToken) fresh() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.at) < tokenFresh
}

// admits returns why a token does not admit its bearer, or nil.
func (k *knownToken) admits(who outbox.Bearer) *Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.token.InForce || !k.token.ExpiresAt.After(time.Now()) || k.token.Certificate != nil &&
		string(k.token.Certificate) != string(who.Certificate) {
		k.refused++
		return problemUnauthorized()
	}
	k.used++
	return nil
}

// isFor reports whether the token allows an act, according to the cache.
func (k *knownToken) isFor(verb string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.token.Verbs, verb)
}

// enters counts a batch of the token, unless most are under way; leaves ends it.
func (k *knownToken) enters(most int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.batches >= most {
		return false
	}
	k.batches++
	return true
}

func (k *knownToken) leaves() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.batches--
}

// opens counts a stream of the token, unless most are open; closes ends it.
func (k *knownToken) opens(most int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.streams >= most {
		return false
	}
	k.streams++
	return true
}

func (k *knownToken) closes() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.streams--
}

// eventCalls is the number of calls a minute for all event tokens that narrow one token, a sixth of
// them in a burst. They do not count against the token's quota, which is for payments.
const eventCalls = 300

// takeEvents counts a call by an event token, and returns the wait until there is room; 0: it was
// counted.
func (k *knownToken) takeEvents() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.asked = max(0, k.asked-now.Sub(k.askedAt).Minutes()*eventCalls)
	k.askedAt = now
	if k.asked >= eventCalls/6 {
		return time.Second
	}
	k.asked++
	return 0
}

// roomOf returns how many requests may come at once: at least two, which are a batch and a line of it.
func roomOf(token outbox.Token) float64 {
	return max(2, float64(token.RequestsPerMinute)*burst.Minutes())
}

// take takes requests from the quota, and returns the wait until there is room; 0: they were taken.
func (k *knownToken) take(requests int) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token.RequestsPerMinute == 0 {
		return 0
	}
	now := time.Now()
	k.room = min(roomOf(k.token), k.room+now.Sub(k.filled).Minutes()*float64(k.token.RequestsPerMinute))
	k.filled = now
	if k.room < float64(requests) && k.room < roomOf(k.token) {
		return k.lacks(requests)
	}
	k.room -= float64(requests)
	return 0
}

// until returns the wait until there is room for requests, or for as many as may come at once.
func (k *knownToken) until(requests int) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lacks(requests)
}

// lacks is until. The mutex is held.
func (k *knownToken) lacks(requests int) time.Duration {
	missing := min(float64(requests), roomOf(k.token)) - k.room
	return max(time.Millisecond, time.Duration(missing*float64(time.Minute)/max(1, float64(k.token.RequestsPerMinute))))
}

// use is the uses of one token since the last call.
type use struct {
	digest        [32]byte
	id            string
	uses, refused int64
}

// uses returns and resets the counts of all tokens.
func (t *tokens) uses() []use {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []use
	for digest, one := range t.known {
		one.mu.Lock()
		if one.used > 0 || one.refused > 0 {
			all = append(all, use{digest, one.token.ID, one.used, one.refused})
			one.used, one.refused = 0, 0
		}
		one.mu.Unlock()
	}
	return all
}

// again adds counts that could not be stored.
func (t *tokens) again(all []use) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, each := range all {
		if one := t.known[each.digest]; one != nil {
			one.mu.Lock()
			one.used += each.uses
			one.refused += each.refused
			one.mu.Unlock()
		}
	}
}
