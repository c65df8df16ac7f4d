package kafka

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds of a login.
const (
	maxRounds     = 4       // messages of ours
	minIterations = 4096    // of RFC 7677: a broker that asks for fewer makes the password easy to find
	maxIterations = 100_000 // tenths of a second, which no context ends
)

// login is how a connection identifies itself.
type login struct {
	tls            *tls.Config
	mechanism      string // empty: none
	user, password string
}

// session is one login. It returns the next message to the broker, the first for no challenge, or done
// if the broker has proved what its mechanism asks of it.
type session interface {
	next(challenge []byte) (message []byte, done bool, err error)
}

func (l login) session() session {
	switch l.mechanism {
	case mechanism256:
		return &scram{login: l, nonce: rand.Text(), hash: sha256.New}
	case mechanism512:
		return &scram{login: l, nonce: rand.Text(), hash: sha512.New}
	default:
		return &plain{login: l}
	}
}

// authenticate logs in.
func (c *conn) authenticate(ctx context.Context, by login) error {
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Version, hello.Mechanism = handshakeVersion, by.mechanism
	var welcome kmsg.SASLHandshakeResponse
	if err := c.ask(ctx, hello, &welcome); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	if welcome.ErrorCode != 0 {
		name, _ := nameOf(welcome.ErrorCode)
		return fmt.Errorf("%w: login by %s: %s", errRefused, by.mechanism, name)
	}
	session, challenge := by.session(), []byte(nil)
	for range maxRounds {
		message, done, err := session.next(challenge)
		switch {
		case err != nil:
			return fmt.Errorf("%w: login by %s: %w", errRefused, by.mechanism, err)
		case done:
			return nil
		}
		proof := kmsg.NewPtrSASLAuthenticateRequest()
		proof.Version, proof.SASLAuthBytes = authenticateVersion, message
		var answer kmsg.SASLAuthenticateResponse
		if err := c.ask(ctx, proof, &answer); err != nil {
			return fmt.Errorf("logging in: %w", err)
		}
		if answer.ErrorCode != 0 {
			name, _ := nameOf(answer.ErrorCode)
			return fmt.Errorf("%w: login by %s: %s", errRefused, by.mechanism, name)
		}
		if life := time.Duration(answer.SessionLifetimeMillis) * time.Millisecond; life > 0 {
			c.expires = time.Now().Add(life / 2)
		}
		challenge = answer.SASLAuthBytes
	}
	return errors.New("logging in: the broker does not come to an end")
}

// plain is the mechanism of RFC 4616.
type plain struct {
	login
	said bool
}

func (p *plain) next([]byte) ([]byte, bool, error) {
	if p.said {
		return nil, true, nil
	}
	p.said = true
	return []byte("\x00" + p.user + "\x00" + p.password), false, nil
}

// scram is the mechanism of RFC 5802, without channel binding.
type scram struct {
	login
	nonce     string
	hash      func() hash.Hash
	step      int
	signature []byte // that the broker must show, which proves that it knows the password
}

func (s *scram) next(challenge []byte) ([]byte, bool, error) {
	s.step++
	switch s.step {
	case 1:
		return []byte("n,," + s.first()), false, nil
	case 2:
		message, err := s.prove(string(challenge))
		return message, false, err
	default:
		field, _, _ := strings.Cut(string(challenge), ",")
		value, ok := strings.CutPrefix(field, "v=")
		shown, err := base64.StdEncoding.DecodeString(value)
		if !ok || err != nil || !hmac.Equal(shown, s.signature) {
			return nil, false, errors.New("the broker does not prove that it knows the password")
		}
		return nil, true, nil
	}
}

// first is the first message, without the part about channel binding.
func (s *scram) first() string {
	return "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(s.user) + ",r=" + s.nonce
}

// prove answers the first message of the broker: NONCE, SALT, ITERATIONS.
func (s *scram) prove(challenge string) ([]byte, error) {
	fields := strings.Split(challenge, ",")
	if len(fields) < 3 {
		return nil, errors.New("its first message has no nonce, salt and iterations")
	}
	nonce, ok1 := strings.CutPrefix(fields[0], "r=")
	text, ok2 := strings.CutPrefix(fields[1], "s=")
	number, ok3 := strings.CutPrefix(fields[2], "i=")
	salt, err1 := base64.StdEncoding.DecodeString(text)
	iterations, err2 := strconv.Atoi(number)
	switch {
	case !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil || len(salt) == 0:
		return nil, errors.New("its first message can't be read")
	case len(nonce) <= len(s.nonce) || !strings.HasPrefix(nonce, s.nonce):
		return nil, errors.New("its nonce does not begin with ours")
	case iterations < minIterations || iterations > maxIterations:
		return nil, fmt.Errorf("it asks for %d iterations, must ask for %d to %d", iterations, minIterations, maxIterations)
	}
	salted, err := pbkdf2.Key(s.hash, s.password, salt, iterations, s.hash().Size())
	if err != nil {
		return nil, errors.New("the password can't be salted")
	}
	final := "c=biws,r=" + nonce // biws is "n,,": no channel binding
	all := s.first() + "," + challenge + "," + final
	key := s.mac(salted, "Client Key")
	stored := s.hash()
	stored.Write(key)
	proof := s.mac(stored.Sum(nil), all)
	for n := range proof {
		proof[n] ^= key[n]
	}
	s.signature = s.mac(s.mac(salted, "Server Key"), all)
	return bytes.Join([][]byte{[]byte(final), []byte(base64.StdEncoding.EncodeToString(proof))}, []byte(",p=")), nil
}

func (s *scram) mac(key []byte, text string) []byte {
	sum := hmac.New(s.hash, key)
	sum.Write([]byte(text))
	return sum.Sum(nil)
}
