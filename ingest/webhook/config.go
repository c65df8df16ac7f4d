package webhook

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/yamlstrict"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails/secret"
)

// Bounds of a file.
const (
	maxEndpoints    = 1000
	maxParticipants = 1000
	maxSecrets      = 2 // used concurrently, while one is being replaced
	maxConcurrency  = 64
	maxTimeout      = 30 * time.Second
)

// File lists the endpoints that events are delivered to.
type File struct {
	Endpoints []Endpoint `json:"endpoints"`
}

// Endpoint is one caller's receiver of events.
type Endpoint struct {
	// ID names the endpoint permanently, in the database too: 1 to 64 of a-z, 0-9, _ and -.
	ID  string `json:"id"`
	URL string `json:"url"`
	// Secrets are the keys of the signatures, each the base64 of 24 to 64 bytes, with or without
	// whsec_: one, or two while one is being replaced.
	Secrets []secret.Ref `json:"secrets"`
	// SigningKey, if given, signs in addition, so that the caller can prove to others who sent the
	// event. It is the base64 of an Ed25519 key of 32 or 64 bytes, with or without whsk_.
	SigningKey secret.Ref `json:"signing_key"`
	// Participants are those whose events are delivered. AllParticipants stands for all of them,
	// including future ones.
	Participants    []string `json:"participants"`
	AllParticipants bool     `json:"all_participants"`
	// Types are the types of events; none means all.
	Types []payment.EventType `json:"types"`
	// From is where a new endpoint starts: NOW, or BEGINNING of the archive.
	From        string           `json:"from"`
	Concurrency int              `json:"concurrency"` // concurrent deliveries, 1 to 64
	Timeout     payment.Duration `json:"timeout"`     // of one delivery, 1 s to 30 s
	// AllowPrivate permits addresses of private networks and of this machine, and http.
	AllowPrivate bool `json:"allow_private"`
}

// The values of From.
const (
	FromNow       = "NOW"
	FromBeginning = "BEGINNING"
)

// ErrBadFile is wrapped by every error about an events file.
var ErrBadFile = errors.New("bad events file")

// Load reads and checks a file of at most 1 MiB and 1,000 endpoints and fills in defaults. It
// returns all faults in one error, each with its line; the error wraps ErrBadFile.
func Load(path string) (File, error) {
	text, err := yamlstrict.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrBadFile, err)
	}
	file, err := Parse(text)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// Parse is like Load, for the text of a file.
func Parse(text []byte) (File, error) {
	var file File
	lines, err := yamlstrict.Decode(text, &file)
	all := []error{err}
	if len(file.Endpoints) > maxEndpoints {
		return File{}, fmt.Errorf("%w: more than %d endpoints", ErrBadFile, maxEndpoints)
	}
	if err == nil && len(file.Endpoints) == 0 {
		all = append(all, errors.New("the file names no endpoint"))
	}
	first := map[string]int{}
	for n := range file.Endpoints {
		endpoint := &file.Endpoints[n]
		at := fmt.Sprintf("endpoints.%d", n)
		for _, fault := range endpoint.complete() {
			all = append(all, fmt.Errorf("line %d: %s.%w", lines.Of(at+"."+fault.field), at, fault))
		}
		if other, twice := first[endpoint.ID]; twice {
			all = append(all, fmt.Errorf("line %d: %s.id %q is that of endpoints.%d too", lines.Of(at+".id"), at, endpoint.ID,
				other))
		}
		first[endpoint.ID] = n
	}
	if err := errors.Join(all...); err != nil {
		return File{}, fmt.Errorf("%w:\n%w", ErrBadFile, err)
	}
	return file, nil
}

// fault is an error about one field.
type fault struct{ field, text string }

func (f fault) Error() string { return f.field + " " + f.text }

// idForm is the form of an id, the same as in the table of endpoints.
var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// complete fills in defaults and returns the faults.
func (e *Endpoint) complete() (all []fault) {
	refuse := func(field, format string, args ...any) { all = append(all, fault{field, fmt.Sprintf(format, args...)}) }
	// An empty list means all, like none.
	if len(e.Types) == 0 {
		e.Types = nil
	}
	if len(e.Participants) == 0 {
		e.Participants = nil
	}
	if e.From == "" {
		e.From = FromNow
	}
	if e.Concurrency == 0 {
		e.Concurrency = 8
	}
	if e.Timeout == 0 {
		e.Timeout = payment.Duration(15 * time.Second)
	}
	if !idForm.MatchString(e.ID) {
		refuse("id", "must be 1 to 64 of a-z, 0-9, _ and -, and begin with a letter or digit")
	}
	for _, text := range e.addressFaults() {
		refuse("url", "%s", text)
	}
	if n := len(e.Secrets); n < 1 || n > maxSecrets {
		refuse("secrets", "are %d, must be one, or two while one is being replaced", n)
	}
	for n, ref := range e.Secrets {
		if ref.IsZero() {
			refuse(fmt.Sprintf("secrets.%d", n), "is empty")
		}
	}
	switch {
	case e.AllParticipants && len(e.Participants) > 0:
		refuse("participants", "are given along with all_participants")
	case !e.AllParticipants && len(e.Participants) == 0:
		refuse("participants", "are missing: name them, or say all_participants: true")
	case len(e.Participants) > maxParticipants:
		refuse("participants", "are more than %d", maxParticipants)
	}
	for n, participant := range e.Participants {
		if participant == "" || len(participant) > 128 {
			refuse(fmt.Sprintf("participants.%d", n), "must be 1 to 128 bytes")
		}
	}
	for n, each := range e.Types {
		if !slices.Contains(payment.EventTypes(), each) {
			refuse(fmt.Sprintf("types.%d", n), "is %q, must be one of %v", each, payment.EventTypes())
		}
	}
	if e.From != FromNow && e.From != FromBeginning {
		refuse("from", "is %q, must be %s or %s", e.From, FromNow, FromBeginning)
	}
	if e.Concurrency < 1 || e.Concurrency > maxConcurrency {
		refuse("concurrency", "is %d, must be 1 to %d", e.Concurrency, maxConcurrency)
	}
	if timeout := time.Duration(e.Timeout); timeout < time.Second || timeout > maxTimeout {
		refuse("timeout", "is %s, must be 1s to %s", timeout, maxTimeout)
	}
	return all
}

// addressFaults returns the faults of the address. It does not quote the address, which may contain
// a secret.
func (e *Endpoint) addressFaults() (all []string) {
	parsed, err := url.Parse(e.URL)
	if err != nil || parsed.Host == "" {
		return []string{"must be an address such as https://shop.example/events"}
	}
	switch {
	case parsed.Scheme == "http" && !e.AllowPrivate:
		all = append(all, "must be https; allow_private: true permits http, for tests")
	case parsed.Scheme != "https" && parsed.Scheme != "http":
		all = append(all, "must be https")
	}
	if parsed.User != nil || parsed.Fragment != "" {
		all = append(all, "must have no user and no fragment")
	}
	return all
}

// Host returns the endpoint's host, for logs: the rest of its address may be a secret.
func (e *Endpoint) Host() string {
	parsed, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return strings.ToLower(parsed.Host)
}
