package kafka

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/internal/tlsconf"
	"github.com/railhead-pay/railhead/rails/secret"
)

// Config says how a topic of Kafka is reached. It holds references to secrets, not secrets.
type Config struct {
	// Servers are the URLs of brokers of one cluster, tls://HOST:PORT, asked in this order for the
	// leaders of the topic, to which the records then go.
	Servers        []string       `json:"servers"`
	AllowPlaintext bool           `json:"allow_plaintext"` // also allows kafka://
	TLS            tlsconf.Config `json:"tls"`
	// Mechanism is the SASL mechanism that User and Password log in with; empty: no login.
	Mechanism string     `json:"mechanism"`
	User      string     `json:"user"`
	Password  secret.Ref `json:"password"`

	Topic string `json:"topic"` // the topic that must acknowledge
	// Partitions is the number of the topic's partitions, 1 to 10,000. Another number is refused: it
	// would move participants to other partitions.
	Partitions int `json:"partitions"`
	// Replicas are the least that each partition must have, 1 to 7; default 3.
	Replicas int `json:"replicas"`
	// KeepsFor is the least time for which the topic keeps a record; 0: without end.
	KeepsFor payment.Duration `json:"keeps_for"`
	// Unflushed permits a topic whose brokers acknowledge a record before it is on their disks.
	Unflushed bool `json:"unflushed"`
	// Replies is where the rail's callbacks are, if they are records of a topic.
	Replies *RepliesConfig `json:"replies"`
}

// The SASL mechanisms.
const (
	mechanismPlain = "PLAIN"
	mechanism256   = "SCRAM-SHA-256"
	mechanism512   = "SCRAM-SHA-512"
)

const (
	defaultReplicas = 3
	maxReplicas     = 7
	maxServers      = 16
	maxPartitions   = 10_000
)

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)

// WithDefaults returns the configuration with the defaults for what was left out.
func (c Config) WithDefaults() Config {
	if c.Replicas == 0 {
		c.Replicas = defaultReplicas
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
	first := ""
	for n, server := range c.Servers {
		at, err := url.Parse(server)
		switch {
		case err != nil || at.Hostname() == "" || at.Path != "" || at.RawQuery != "" || at.Fragment != "":
			refuse("servers[%d] is no URL of the form tls://HOST:PORT", n)
			continue
		case !validPort(at.Port()):
			refuse("servers[%d] has the port %q, must be 1 to 65535", n, at.Port())
		case at.User != nil:
			refuse("servers[%d] holds a user: use user and password", n)
		case at.Scheme == schemePlain && !c.AllowPlaintext:
			refuse("servers[%d] is kafka, with which every host on the network path can read and change payments; "+
				"use tls, or allow_plaintext", n)
		case at.Scheme != schemeTLS && at.Scheme != schemePlain:
			refuse("servers[%d] has scheme %q, must be tls or kafka", n, at.Scheme)
		case first != "" && at.Scheme != first:
			refuse("servers[%d] has scheme %q and an earlier one has %q: one cluster is reached by one of them", n, at.Scheme,
				first)
		}
		if first == "" {
			first = at.Scheme
		}
	}
	switch c.Mechanism {
	case "":
		if c.User != "" || !c.Password.IsZero() {
			refuse("mechanism is missing: user and password need one")
		}
	case mechanismPlain, mechanism256, mechanism512:
		if c.User == "" || c.Password.IsZero() {
			refuse("mechanism is %s, which needs user and password", c.Mechanism)
		}
	default:
		refuse("mechanism is %q, must be %s, %s or %s", c.Mechanism, mechanismPlain, mechanism256, mechanism512)
	}
	if c.TLS.ClientCert.IsZero() != c.TLS.ClientKey.IsZero() {
		refuse("tls.client_cert goes with tls.client_key")
	}
	if !topicName.MatchString(c.Topic) || c.Topic == "." || c.Topic == ".." || strings.HasPrefix(c.Topic, "__") {
		refuse("topic is %q, must be 1 to 200 letters, digits, dots, _ and -, and none of the broker's own", c.Topic)
	}
	if c.Partitions < 1 || c.Partitions > maxPartitions {
		refuse("partitions is %d, must be 1 to %d: the number that the topic has", c.Partitions, maxPartitions)
	}
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		refuse("replicas is %d, must be 1 to %d", c.Replicas, maxReplicas)
	}
	if c.KeepsFor < 0 {
		refuse("keeps_for is %s, must not be negative", c.KeepsFor)
	}
	if c.Replies != nil {
		if err := c.Replies.validate(c.Topic); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

func validPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// Agrees returns a joined error of what the profile relies on and a topic can't do: it recognises no
// repetition, refuses none, and can't be asked. Each error begins with the path of a field from the rail on.
// It expects a profile that WithDefaults has returned.
func (c Config) Agrees(profile rails.Profile) error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if profile.ResendOnUnknown != payment.ResendNever {
		refuse("profile.resend_on_unknown is %s but a topic takes every record as a new one, also one with a key that it "+
			"has: it must be %s", profile.ResendOnUnknown, payment.ResendNever)
	}
	if profile.IDAfterRefusal != payment.IDSame {
		refuse("profile.id_after_refusal is %s but a topic takes every key again: it must be %s, so that what an operator "+
			"sends again has the rail key by which consumers recognise it", profile.IDAfterRefusal, payment.IDSame)
	}
	if profile.AnswerCoversKey {
		refuse("profile.answer_covers_key is true but a topic's answer to one record says nothing about an earlier one " +
			"with the same key: it must be false")
	}
	if !profile.RefusesBeforeProcessing {
		refuse("profile.refuses_before_processing is false but a leader refuses before it appends: it must be true, or one " +
			"permission that is withdrawn would park every payment")
	}
	if profile.Inquiry.Max > 0 {
		refuse("profile.inquiry.max is %d but a topic can't be asked for a record by its key: it must be 0, so that what is "+
			"unknown is parked", profile.Inquiry.Max)
	}
	if profile.Acceptance != payment.AcceptanceFinal && profile.CallbackDeadline == 0 {
		refuse("profile.acceptance is %s but a topic shows no more than that it has the record: only a callback could "+
			"decide; give callback_deadline, or FINAL", profile.Acceptance)
	}
	return errors.Join(all...)
}

// identity is what identifies us to the brokers.
func (c Config) identity() string {
	return strings.Join([]string{c.Mechanism, c.User, c.Password.String(), c.TLS.ClientCert.String()}, "|")
}
