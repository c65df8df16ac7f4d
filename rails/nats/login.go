package nats

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/nats-io/nkeys"
)

// login is how a connection identifies itself.
type login struct {
	tls         *tls.Config
	credentials string
	token       string
	user        string
	password    string
}

// refusesLogin reports whether an error of the server is about who we are, and stays until an operator
// acts. Others, such as too many connections, pass.
func refusesLogin(line string) bool {
	line = strings.ToLower(line)
	return strings.Contains(line, "authorization violation") || strings.Contains(line, "authentication expired") ||
		strings.Contains(line, "authentication revoked")
}

// hello returns the JSON of CONNECT.
func (l login) hello(nonce string) ([]byte, error) {
	fields := map[string]any{
		"verbose": false, "pedantic": false, "name": "railhead", "lang": "go", "version": "1", "protocol": 1,
		"headers": true, "no_responders": true, "echo": false,
	}
	switch {
	case l.credentials != "":
		jwt, err := nkeys.ParseDecoratedJWT([]byte(l.credentials))
		if err != nil {
			return nil, errors.New("credentials has no JWT")
		}
		pair, err := nkeys.ParseDecoratedUserNKey([]byte(l.credentials))
		if err != nil {
			return nil, errors.New("credentials has no seed of a user")
		}
		defer pair.Wipe()
		signature, err := pair.Sign([]byte(nonce))
		if err != nil {
			return nil, errors.New("credentials: the nonce can't be signed")
		}
		fields["jwt"], fields["sig"] = jwt, base64.RawURLEncoding.EncodeToString(signature)
	case l.token != "":
		fields["auth_token"] = l.token
	case l.user != "":
		fields["user"], fields["pass"] = l.user, l.password
	}
	return json.Marshal(fields)
}
