package nats

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
	"github.com/railhead-pay/railhead/rails/secret"
)

// Config says how a stream of NATS JetStream is reached. It holds references to secrets, not
// secrets.
type Config struct {
	// Servers are the URLs of the servers of one cluster, tls://HOST:PORT, tried from the one
	// that has last answered, and then in this order.
	Servers        []string       `json:"servers"`
	AllowPlaintext bool           `json:"allow_plaintext"` // also allows nats://
	TLS            tlsconf.Config `json:"tls"`
	// Credentials is a credentials file: a JWT and a seed. Token, and User with Password, are the
	// other ways to log in; at most one of the three.
	Credentials secret.Ref `json:"credentials"`
	Token       secret.Ref `json:"token"`
	User        string     `json:"user"`
	Password    secret.Ref `json:"password"`

	Stream string `json:"stream"` // the stream that must acknowledge
	Domain string `json:"domain"` // the JetStream domain; empty: the account's own
	// Subject has {participant_id}, and {rail_key} as its last token if the rail can be asked.
	Subject string `json:"subject"`
	// InboxPrefix begins the subjects of acknowledgements; default _INBOX_railhead. A random part
	// for each connection follows.
	InboxPrefix string `json:"inbox_prefix"`
	// Replicas are the least that the stream must have, 1 to 5; default 3.
	Replicas int `json:"replicas"`
	// KeepsFor is the least time for which the stream keeps a message; 0: without end.
	KeepsFor payment.Duration `json:"keeps_for"`
	// ClockSkew is the most by which the clocks of the servers, of this machine and of the database
	// differ; default 5s, at most 1m.
	ClockSkew payment.Duration `json:"clock_skew"`
	// Replies is where the rail's callbacks are, if they are messages of a stream.
	Replies *RepliesConfig `json:"replies"`
}

const (
	defaultInbox    = "_INBOX_railhead"
	defaultReplicas = 3
	defaultSkew     = 5 * time.Second
	maxSkew         = time.Minute
	maxServers      = 16
)

var (
	streamName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	inboxPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
)

// WithDefaults returns the configuration with the defaults for what was left out.
func (c Config) WithDefaults() Config {
	if c.InboxPrefix == "" {
		c.InboxPrefix = defaultInbox
	}
	if c.Replicas == 0 {
		c.Replicas = defaultReplicas
	}
	if c.ClockSkew == 0 {
		c.ClockSkew = payment.Duration(defaultSkew)
	}
	return c
}

// Validate returns all faults in one error, each with the path of its field first. It expects a
// configuration that WithDefaults has returned.
func (c Config) Validate() error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if len(c.Servers) == 0 || len(c.Servers) > maxServers {
		refuse("servers has %d URLs, must have 1 to %d", len(c.Servers), maxServers)
	}
	for n, server := range c.Servers {
		at, err := url.Parse(server)
		switch {
		case err != nil || at.Host == "" || at.Path != "" || at.RawQuery != "" || at.Fragment != "":
			refuse("servers[%d] is no URL of the form tls://HOST:PORT", n)
		case !validPort(at.Port()):
			refuse("servers[%d] has the port %q, must be 1 to 65535", n, at.Port())
		case at.User != nil:
			refuse("servers[%d] holds a user: use credentials, token, or user and password", n)
		case at.Scheme == "nats" && !c.AllowPlaintext:
			refuse("servers[%d] is nats, with which every host on the network path can read and change payments; "+
				"use tls, or allow_plaintext", n)
		case at.Scheme != "tls" && at.Scheme != "nats":
			refuse("servers[%d] has scheme %q, must be tls or nats", n, at.Scheme)
		}
	}
	logins := 0
	for _, used := range []bool{!c.Credentials.IsZero(), !c.Token.IsZero(), c.User != ""} {
		if used {
			logins++
		}
	}
	if logins > 1 {
		refuse("credentials is one of %d logins: give credentials, or token, or user and password", logins)
	}
	if (c.User == "") != c.Password.IsZero() {
		refuse("password goes with user")
	}
	if c.TLS.ClientCert.IsZero() != c.TLS.ClientKey.IsZero() {
		refuse("tls.client_cert goes with tls.client_key")
	}
	if !streamName.MatchString(c.Stream) {
		refuse("stream is %q, must be 1 to 64 letters, digits, _ and -", c.Stream)
	}
	if c.Domain != "" && !streamName.MatchString(c.Domain) {
		refuse("domain is %q, must be letters, digits, _ and -", c.Domain)
	}
	if _, err := parseSubject(c.Subject); err != nil {
		refuse("subject %w", err)
	}
	if !inboxPrefix.MatchString(c.InboxPrefix) || c.InboxPrefix == "_INBOX" || len(c.InboxPrefix) > 64 {
		refuse("inbox_prefix is %q, must be tokens of letters, digits, _ and -, at most 64 bytes, and not _INBOX, to which "+
			"every other client may listen", c.InboxPrefix)
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		refuse("replicas is %d, must be 1 to 5", c.Replicas)
	}
	if c.KeepsFor < 0 {
		refuse("keeps_for is %s, must not be negative", c.KeepsFor)
	}
	if c.ClockSkew < 0 || time.Duration(c.ClockSkew) > maxSkew {
		refuse("clock_skew is %s, must be at most %s", c.ClockSkew, payment.Duration(maxSkew))
	}
	if c.Replies != nil {
		if err := c.Replies.validate(c.Stream); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func validPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// Agrees returns a joined error of what the profile relies on and the configuration can't do. Each
// error begins with the path of a field from the rail on. It expects a configuration and a profile
// that WithDefaults has returned.
func (c Config) Agrees(profile rails.Profile) error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	subject, err := parseSubject(c.Subject)
	if err != nil {
		return nil // Validate refuses it
	}
	if profile.Inquiry.Max > 0 && !subject.hasKey() {
		refuse("profile.inquiry.max is %d but nats.subject does not end with {rail_key}: a message could not be found",
			profile.Inquiry.Max)
	}
	if profile.Acceptance != payment.AcceptanceFinal && profile.CallbackDeadline == 0 {
		refuse("profile.acceptance is %s but a stream shows no more than that it has the message: only a callback "+
			"could decide; give callback_deadline, or FINAL", profile.Acceptance)
	}
	if kept := time.Duration(c.KeepsFor); kept > 0 {
		if until := time.Duration(profile.Inquiry.NotFoundUntil); until > kept {
			refuse("profile.inquiry.not_found_until is %s, longer than nats.keeps_for %s: a message that the stream has "+
				"discarded would count as never sent", profile.Inquiry.NotFoundUntil, c.KeepsFor)
		}
		if window := time.Duration(profile.KeyWindow); window > kept {
			refuse("profile.key_window is %s, longer than nats.keeps_for %s", profile.KeyWindow, c.KeepsFor)
		}
	}
	if profile.ResendOnUnknown == payment.ResendSameKey && !subject.hasKey() {
		refuse("profile.resend_on_unknown is SAME_KEY but nats.subject does not end with {rail_key}: a server that was " +
			"held up may take a message after the key window, and a second one with it; end it with {rail_key}, or NEVER")
	}
	age := profile.Inquiry.NotFoundAge
	if profile.Inquiry.NotFound == payment.NotFoundNotExecuted && age < minNotFoundAge {
		refuse("profile.inquiry.not_found_age is %s, must be at least %s: a server that was held up may take a message "+
			"after an inquiry did not find it", age, minNotFoundAge)
	}
	return errors.Join(all...)
}

// minNotFoundAge is the least age of the latest send at which "no such message" may count: what a
// server has received it may store after the connection has ended.
const minNotFoundAge = payment.Duration(2 * time.Minute)

// identity returns the references to secrets that identify us to the servers.
func (c Config) identity() string {
	return strings.Join([]string{
		c.Credentials.String(), c.Token.String(), c.User, c.Password.String(), c.TLS.ClientCert.String(),
	}, "|")
}
