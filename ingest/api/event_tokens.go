package api

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

// An event token is for browsers and partners. It only allows reading events, for some of the
// participants and types of a token made by railhead token create, and for a short time. No table
// contains it: what it allows is sealed inside (AES-256-GCM), together with the digest of the token
// that it narrows, which the database checks at each read. So it ends with that token, and reveals
// nothing about it.
const (
	eventTokenPrefix = "rhe_"
	eventTokenMax    = 4096 // bytes
	eventTokenLeast  = 10 * time.Second
	eventTokenMost   = 24 * time.Hour
	eventTokenNames  = 16 // participants listed in it
	eventKeyLeast    = 32 // bytes of a key's secret
	eventKeysMax     = 4
	tokenParameter   = "access_token" // in an address, for EventSource, which sends no header
)

// sealedFor is part of each seal: a token for another use, or of another form, does not open.
const sealedFor = "railhead events token v1"

// seal is one key.
type seal struct{ cipher.AEAD }

func sealsOf(secrets [][]byte) ([]seal, error) {
	if len(secrets) > eventKeysMax {
		return nil, fmt.Errorf("%d keys for tokens of events are more than %d", len(secrets), eventKeysMax)
	}
	all := make([]seal, 0, len(secrets))
	for _, secret := range secrets {
		if len(secret) < eventKeyLeast {
			return nil, fmt.Errorf("a key for tokens of events has %d bytes, fewer than %d: make one by openssl rand -base64 32",
				len(secret), eventKeyLeast)
		}
		key, err := hkdf.Key(sha256.New, secret, nil, sealedFor, 32)
		if err != nil {
			return nil, fmt.Errorf("a key for tokens of events: %w", err)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("a key for tokens of events: %w", err)
		}
		gcm, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, fmt.Errorf("a key for tokens of events: %w", err)
		}
		all = append(all, seal{gcm})
	}
	return all, nil
}

// narrowed is the sealed content of an event token.
type narrowed struct {
	Token        []byte              `json:"d"` // digest of the token that it narrows
	Certificate  []byte              `json:"c,omitempty"`
	Participants []string            `json:"p,omitempty"` // null: all of that token's
	Types        []payment.EventType `json:"t,omitempty"`
	Cell         string              `json:"e,omitempty"` // the setting of the cell; empty: the process serves one
	Until        int64               `json:"x"`           // Unix seconds
}

type narrowKey struct{}

func (n narrowed) until() time.Time { return time.Unix(n.Until, 0) }

// of returns the token.
func (s seal) of(n narrowed) string {
	text, _ := json.Marshal(n) // it has no value that can't be encoded
	return eventTokenPrefix + base64.RawURLEncoding.EncodeToString(s.Seal(nil, nil, text, []byte(sealedFor)))
}

// open opens a token that one of the keys has sealed and that has not expired.
func open(seals []seal, token string) (narrowed, bool) {
	text, ours := strings.CutPrefix(token, eventTokenPrefix)
	box, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ours || err != nil || len(token) > eventTokenMax {
		return narrowed{}, false
	}
	for _, each := range seals {
		inside, err := each.Open(nil, nil, box, []byte(sealedFor))
		if err != nil {
			continue
		}
		var n narrowed
		if json.Unmarshal(inside, &n) != nil || len(n.Token) != sha256.Size || !n.until().After(time.Now()) {
			return narrowed{}, false
		}
		return n, true
	}
	return narrowed{}, false
}

// shown returns the caller by the token in a request. An event token is accepted only for events,
// and may be in the address.
func (a *API) shown(r *http.Request) (who outbox.Bearer, narrow *narrowed, ok bool) {
	token, ok := "", false
	shown := r.Header.Values("Authorization")
	isEvents := r.URL.Path == "/v1/events"
	switch {
	case len(shown) == 1:
		if _, text, found := strings.Cut(shown[0], " "); found &&
			strings.HasPrefix(strings.TrimSpace(text), eventTokenPrefix) {
			token = strings.TrimSpace(text)
		}
	case len(shown) == 0 && isEvents:
		if values := r.URL.Query()[tokenParameter]; len(values) == 1 {
			token = values[0]
		}
	}
	if token == "" {
		digest, ok := tokenOf(r)
		return outbox.Bearer{Token: digest, Certificate: certificateOf(r)}, nil, ok && !r.URL.Query().Has(tokenParameter)
	}
	n, opens := open(a.seals, token)
	if !opens || !isEvents {
		return outbox.Bearer{}, nil, false
	}
	return outbox.Bearer{Token: [32]byte(n.Token), Certificate: n.Certificate}, &n, true
}

// narrows restricts a request to what an event token allows. Where several cells are served, a token that names
// none was made by a process of one cell, which it does not say.
func (n narrowed) narrows(l *listening, several bool) *Problem {
	if several && n.Cell == "" || n.Cell != "" && l.who.Cell != "" && l.who.Cell != n.Cell {
		return kindForbidden.of("token", "CELL", "The token is for events of another cell.")
	}
	l.who.Cell = cmp.Or(l.who.Cell, n.Cell)
	for _, each := range l.who.Participants {
		if n.Participants != nil && !slices.Contains(n.Participants, each) {
			return kindForbidden.of("token", "PARTICIPANT", "The token is not for this participant.")
		}
	}
	for _, each := range l.who.Types {
		if n.Types != nil && !slices.Contains(n.Types, each) {
			return kindForbidden.of("token", "TYPE", "The token is not for events of this type.")
		}
	}
	if l.who.Participants == nil {
		l.who.Participants = n.Participants
	}
	if l.who.Types == nil {
		l.who.Types = n.Types
	}
	l.until = n.until()
	return nil
}

// eventTokenRequest is the body of POST /v1/events/tokens.
type eventTokenRequest struct {
	Participants []string
	Types        []payment.EventType
	ExpiresIn    int
	Cell         string
}

// eventTokenMade is the answer.
type eventTokenMade struct {
	Token     string    `json:"token" doc:"Shown once. In the header Authorization, or as access_token in the address of GET /v1/events"`
	ExpiresAt time.Time `json:"expires_at"`
}

// eventToken makes an event token that narrows the caller's token.
func (a *API) eventToken(w http.ResponseWriter, r *http.Request) {
	made, problem := a.makeEventToken(r)
	if problem != nil {
		problem.write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(made) //nolint:errcheck // the caller has disconnected
}

func (a *API) makeEventToken(r *http.Request) (eventTokenMade, *Problem) {
	if problem := wantType(r.Header.Get("Content-Type"), "application/json"); problem != nil {
		return eventTokenMade{}, problem
	}
	asked, problem := readEventToken(r)
	if problem != nil {
		return eventTokenMade{}, problem
	}
	if len(a.seals) == 0 {
		return eventTokenMade{}, kindNotOffered.saying(
			"This installation makes no tokens for events: it has no key (RAILHEAD_API_EVENT_KEYS).")
	}
	if _, served := a.hubs[asked.Cell]; !served {
		if len(a.config.Cells) == 0 {
			return eventTokenMade{}, kindInvalid.of("cell", "KNOWN", "This process serves one cell: leave cell out.")
		}
		return eventTokenMade{}, kindInvalid.of("cell", "KNOWN", a.oneOfCells())
	}
	who := outbox.Subscription{Bearer: bearer(r.Context()), Participants: asked.Participants, Types: asked.Types,
		Cell: asked.Cell}
	// The database checks that the token is for reading, and for these participants.
	ctx, cancel := context.WithTimeout(r.Context(), a.config.StoreTimeout)
	defer cancel()
	if _, err := a.store.Newest(ctx, who); err != nil {
		return eventTokenMade{}, a.refused(ctx, opToken, err)
	}
	until := time.Now().Add(time.Duration(asked.ExpiresIn) * time.Second).Truncate(time.Second)
	token := a.seals[0].of(narrowed{
		Token: who.Token[:], Certificate: who.Certificate, Participants: asked.Participants, Types: asked.Types,
		Cell: asked.Cell, Until: until.Unix(),
	})
	return eventTokenMade{Token: token, ExpiresAt: until.UTC()}, nil
}

// readEventToken parses the body strictly.
func readEventToken(r *http.Request) (eventTokenRequest, *Problem) {
	asked := eventTokenRequest{}
	text, err := io.ReadAll(r.Body)
	fields, problem := readObject(text)
	for name, value := range fields {
		into, known := map[string]any{
			"participants": &asked.Participants, "types": &asked.Types, "expires_in": &asked.ExpiresIn, "cell": &asked.Cell,
		}[name]
		if !known { // also one that differs in case: which of two lists is meant is not known
			err = errors.New("there is no such field")
			break
		}
		err = errors.Join(err, json.Unmarshal(value, into))
	}
	if err != nil || problem != nil {
		return asked, kindBadRequest.saying("The body is one object with expires_in, " +
			"and participants and types if the token is not for all of them, and cell where there are several.")
	}
	asked.Participants, asked.Types = sorted(asked.Participants), sorted(asked.Types)
	life := time.Duration(asked.ExpiresIn) * time.Second
	switch {
	case asked.ExpiresIn < int(eventTokenLeast.Seconds()) || life > eventTokenMost ||
		asked.ExpiresIn > int(eventTokenMost.Seconds()):
		return asked, kindInvalid.of("expires_in", "BOUNDS", "expires_in must be 10 to 86,400 seconds.")
	case asked.Participants != nil && (len(asked.Participants) == 0 || len(asked.Participants) > eventTokenNames):
		return asked, kindInvalid.of("participants", "BOUNDS",
			"participants must be 1 to 16 of the token's; leave it out for all of them.")
	case asked.Types != nil && (len(asked.Types) == 0 || len(asked.Types) > len(payment.EventTypes())):
		return asked, kindInvalid.of("types", "BOUNDS", "types must be at least one; leave it out for all of them.")
	}
	for _, each := range asked.Participants {
		if len(each) == 0 || len(each) > 128 {
			return asked, kindInvalid.of("participants", "FORM", "A participant has 1 to 128 characters.")
		}
	}
	for _, each := range asked.Types {
		if !slices.Contains(payment.EventTypes(), each) {
			return asked, kindInvalid.of("types", "FORM", fmt.Sprintf("types must be of %v.", payment.EventTypes()))
		}
	}
	return asked, nil
}
