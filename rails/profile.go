package rails

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/codes"
	"github.com/railhead-pay/railhead/rails/internal/jsondoc"
)

// Profile contains the versioned facts about a rail that decide what is safe and how fast. The
// database stores its JSON form, and relayer and reaper read the same one from there. It contains
// no endpoint and no secret: those stay in the configuration of the process that sends.
type Profile struct {
	RailType string `json:"rail_type"`
	// Kind says what the rail's instructions are; default KindPayment.
	Kind Kind `json:"kind,omitzero"`
	// Version is assigned by the database when the profile is applied; 0 before.
	Version int `json:"version,omitempty"`
	payment.Policy
	Timeouts    Timeouts `json:"timeouts"`
	Concurrency int      `json:"concurrency"` // calls in flight per process, 1 to MaxConcurrency; default 32
	Rate        Rate     `json:"rate"`
	Breaker     Breaker  `json:"breaker"`
	Codes       Codes    `json:"codes"`
	Checks      Checks   `json:"checks"`
	Ordering
	// Headers are the names of the caller's headers that the rail carries, in small letters.
	Headers []string `json:"headers,omitempty"`
}

// Codes is how the rail's answers are classified.
type Codes struct {
	// Table classifies the code in the body of an answer: one of codes.Names(). If it is empty,
	// answers have no code, and only Overrides are listed.
	Table string `json:"table,omitempty"`
	// Overrides reclassify single codes of that table.
	Overrides map[string]codes.Class `json:"overrides,omitempty"`
	// HTTP reclassifies single HTTP status codes.
	HTTP map[string]codes.Class `json:"http,omitempty"`
}

// Bounds that Validate checks a profile against.
const (
	MaxConcurrency     = 1024
	defaultConcurrency = 32
	maxProfile         = 256 << 10 // bytes of its JSON form
)

// railType is the form of a rail's name, the same as in the schema.
var railType = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// ErrBadProfile is wrapped by every error about an invalid profile.
var ErrBadProfile = errors.New("bad rail profile")

// ParseProfile decodes the JSON form, fills in the defaults and validates. It refuses unknown and
// repeated fields.
func ParseProfile(text []byte) (Profile, error) {
	if len(text) > maxProfile {
		return Profile{}, fmt.Errorf("%w: longer than %d bytes", ErrBadProfile, maxProfile)
	}
	if _, err := jsondoc.Parse(text); err != nil {
		return Profile{}, fmt.Errorf("%w: %w", ErrBadProfile, err)
	}
	var p Profile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return Profile{}, fmt.Errorf("%w: %w", ErrBadProfile, err)
	}
	p = p.WithDefaults()
	return p, p.Validate()
}

// JSON returns the canonical form that the database stores. It leaves out the version, which the
// database assigns.
func (p Profile) JSON() ([]byte, error) {
	p.Version = 0
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("writing the profile of rail %s: %w", p.RailType, err)
	}
	return text, nil
}

// WithDefaults returns the profile with the documented defaults for what was left out.
func (p Profile) WithDefaults() Profile {
	p.Policy = p.Policy.WithDefaults()
	p.Timeouts = p.Timeouts.WithDefaults()
	if p.Concurrency == 0 {
		p.Concurrency = defaultConcurrency
	}
	p.Rate = p.Rate.withDefaults()
	p.Breaker = p.Breaker.withDefaults(p.Timeouts.Total())
	if p.Kind == "" {
		p.Kind = KindPayment
	}
	p.Ordering = p.Ordering.withDefaults()
	return p
}

// Validate returns every contradiction in one error, each with its explanation. It expects a
// profile that WithDefaults has returned.
func (p Profile) Validate() error {
	faults := p.Faults()
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w of %q: %w", ErrBadProfile, p.RailType, errors.Join(faults...))
}

// Faults returns the errors that Validate joins: one per contradiction, each beginning with the
// path of a field.
func (p Profile) Faults() []error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if !railType.MatchString(p.RailType) {
		refuse("rail_type is %q, must be a lowercase letter followed by lowercase letters, digits, dashes and underscores, "+
			"at most 63 characters", p.RailType)
	}
	if p.Version < 0 {
		refuse("version is %d, must not be negative", p.Version)
	}
	if joined, ok := p.Policy.Validate().(interface{ Unwrap() []error }); ok {
		all = append(all, joined.Unwrap()...)
	}
	if p.Kind != KindPayment && p.Kind != KindMessage {
		refuse("kind is %q, must be %s or %s", p.Kind, KindPayment, KindMessage)
	}
	all = append(all, checkHeaders(p.Headers)...)
	all = append(all, p.Timeouts.validate()...)
	if p.Concurrency < 1 || p.Concurrency > MaxConcurrency {
		refuse("concurrency is %d, must be 1 to %d", p.Concurrency, MaxConcurrency)
	}
	if p.Inquiry.Max > 0 && p.Inquiry.NotFound == payment.NotFoundNotExecuted &&
		time.Duration(p.Inquiry.NotFoundAge) < p.SendBudget() {
		refuse("inquiry.not_found_age is %s, shorter than the send budget %s: the age counts from the claim, "+
			"so the send could still be on the wire when \"no such payment\" is taken as proof",
			p.Inquiry.NotFoundAge, payment.Duration(p.SendBudget()))
	}
	if write := time.Duration(p.Timeouts.Write); p.ResendOnUnknown == payment.ResendSameKey && p.KeyWindow > 0 &&
		!p.MayResend(write) {
		refuse("timeouts.write is %s, longer than what of key_window %s can be used: no re-send could be written before "+
			"the rail forgets the key; shorten timeouts.write, or say resend_on_unknown NEVER", p.Timeouts.Write, p.KeyWindow)
	}
	all = append(all, p.Rate.validate()...)
	all = append(all, p.Breaker.validate(p.Timeouts.Total())...)
	if _, err := p.Codes.BodyTable(); err != nil {
		refuse("codes: %w", err)
	}
	if _, err := p.Codes.HTTPTable(); err != nil {
		refuse("codes.http: %w", err)
	}
	all = append(all, p.Checks.validate()...)
	return append(all, p.Ordering.validate()...)
}

// BodyTable returns the table for codes in the body of an answer.
func (c Codes) BodyTable() (*codes.Table, error) {
	name := c.Table
	if name == "" {
		name = "none"
	}
	table, err := codes.Named(name)
	if err != nil {
		return nil, err
	}
	return table.With(c.Overrides)
}

// HTTPTable returns the table for HTTP status codes.
func (c Codes) HTTPTable() (*codes.Table, error) {
	table, err := codes.Named("http")
	if err != nil {
		return nil, err
	}
	return table.With(c.HTTP)
}

// SendBudget returns the longest time that one call to the rail may take.
func (p Profile) SendBudget() time.Duration { return p.Timeouts.Total() }

// CheckBudget returns an error if a call could outlive its claim; see outbox.TimeBudget.Holds.
func (p Profile) CheckBudget(budget outbox.TimeBudget) error {
	err := budget.Holds(p.SendBudget())
	if err == nil {
		return nil
	}
	t := p.Timeouts
	return fmt.Errorf("%w of %q: %w; its call is connect %s + TLS %s + send %s + read %s", ErrBadProfile, p.RailType, err,
		t.Connect, t.TLS, t.Write, payment.Duration(t.ResponseHeader+t.Body))
}
