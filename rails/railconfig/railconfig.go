// Package railconfig reads the file that lists the rails of an installation, and opens them. It is
// separate from package rails because the adapters import that package.
//
// One file serves two purposes. `railhead rail apply` stores its profiles in the database; the
// processes that send use its endpoints and references to secrets, which are stored nowhere else.
package railconfig

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/internal/yamlstrict"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/callback"
	"github.com/railhead-pay/railhead/rails/httpjson"
	"github.com/railhead-pay/railhead/rails/kafka"
	"github.com/railhead-pay/railhead/rails/nats"
	"github.com/railhead-pay/railhead/rails/noop"
)

// File is the whole configuration.
type File struct {
	// AllowNoop permits the adapter that makes no payment.
	AllowNoop bool         `json:"allow_noop"`
	Rails     []RailConfig `json:"rails"`
}

// RailConfig is one rail: its profile, and how this process reaches it.
type RailConfig struct {
	RailType string           `json:"rail_type"`
	Adapter  string           `json:"adapter"` // http, nats, kafka or noop
	Profile  rails.Profile    `json:"profile"`
	HTTP     *httpjson.Config `json:"http"`
	NATS     *nats.Config     `json:"nats"`
	Kafka    *kafka.Config    `json:"kafka"`
	// Callback configures the rail's callbacks; absent: it sends none.
	Callback *callback.Config `json:"callback"`

	allowNoop bool
	getenv    func(string) string
}

// The adapters.
const (
	AdapterHTTP  = "http"
	AdapterNATS  = "nats"
	AdapterKafka = "kafka"
	AdapterNoop  = "noop"
)

// maxRails bounds a file.
const maxRails = 1000

// ErrBadFile is wrapped by every error about a rails file.
var ErrBadFile = errors.New("bad rail configuration")

//go:embed example.yaml
var example string

// Example returns a complete rails file with comments, which LoadProfiles accepts. Its rails are
// invented.
func Example() string { return example }

// Load reads and checks a file of at most 1 MiB and 1,000 rails, and returns all faults in one
// error, each with its line; the error wraps ErrBadFile. It resolves no secret; Open does, with
// getenv. It does not compare a rail's endpoint with its profile: a process that sends uses the
// profile in force.
func Load(path string, getenv func(string) string) (File, error) {
	return load(path, getenv, (*RailConfig).complete)
}

func load(path string, getenv func(string) string, check func(*RailConfig) []error) (File, error) {
	text, err := yamlstrict.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrBadFile, err)
	}
	file, err := parse(text, getenv, check)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// Parse is like Load, for the text of a file.
func Parse(text []byte, getenv func(string) string) (File, error) {
	return parse(text, getenv, (*RailConfig).complete)
}

// parse checks each rail by a function that fills in defaults and returns the faults, each with the
// path of its field first.
func parse(text []byte, getenv func(string) string, check func(*RailConfig) []error) (File, error) {
	var file File
	lines, err := yamlstrict.Decode(text, &file)
	all := []error{err}
	if len(file.Rails) > maxRails {
		return File{}, fmt.Errorf("%w: more than %d rails", ErrBadFile, maxRails)
	}
	if err == nil && len(file.Rails) == 0 {
		all = append(all, errors.New("the file names no rail"))
	}
	first, replies := map[string]int{}, map[string]int{}
	for n := range file.Rails {
		rail := &file.Rails[n]
		rail.allowNoop, rail.getenv = file.AllowNoop, getenv
		at := fmt.Sprintf("rails.%d", n)
		for _, fault := range check(rail) {
			all = append(all, fmt.Errorf("line %d: %s.%w", lines.Of(at+"."+field(fault)), at, fault))
		}
		if other, twice := first[rail.RailType]; twice {
			all = append(all, fmt.Errorf("line %d: %s.rail_type %q is that of rails.%d too",
				lines.Of(at+".rail_type"), at, rail.RailType, other))
		}
		first[rail.RailType] = n
		for _, place := range rail.repliesAt() {
			section := at + "." + rail.Adapter + ".replies"
			if other, twice := replies[place]; twice {
				all = append(all, fmt.Errorf("line %d: %s is that of rails.%d too, so that one rail would take and refuse the "+
					"callbacks of the other: give each its own", lines.Of(section), section, other))
				break
			}
			replies[place] = n
		}
	}
	if err := errors.Join(all...); err != nil {
		return File{}, fmt.Errorf("%w:\n%w", ErrBadFile, err)
	}
	return file, nil
}

// complete fills in defaults and returns the faults, each with the path of its field first.
func (c *RailConfig) complete() []error {
	var all []error
	refuse := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if c.Profile.RailType != "" && c.Profile.RailType != c.RailType {
		refuse("profile.rail_type is %q, the rail's is %q", c.Profile.RailType, c.RailType)
	}
	if c.Profile.Version != 0 {
		refuse("profile.version is given: the database numbers the versions")
	}
	c.Profile.RailType = c.RailType
	c.Profile = c.Profile.WithDefaults()
	for _, fault := range c.Profile.Faults() {
		if field(fault) == "rail_type" {
			all = append(all, fault)
			continue
		}
		refuse("profile.%w", fault)
	}
	if c.Callback != nil {
		for _, fault := range split(c.Callback.Validate()) {
			refuse("callback.%w", fault)
		}
	}
	if c.Callback == nil && c.Profile.CallbackDeadline > 0 {
		refuse("profile.callback_deadline is given but there is no callback section: no callback could be received")
	}
	if c.HTTP != nil && c.Adapter != AdapterHTTP {
		refuse("http is given: adapter %s does not use it", c.Adapter)
	}
	if c.NATS != nil && c.Adapter != AdapterNATS {
		refuse("nats is given: adapter %s does not use it", c.Adapter)
	}
	if c.Kafka != nil && c.Adapter != AdapterKafka {
		refuse("kafka is given: adapter %s does not use it", c.Adapter)
	}
	switch c.Adapter {
	case AdapterHTTP:
		if c.HTTP == nil {
			refuse("http is missing: adapter http needs it")
			break
		}
		config := c.HTTP.WithDefaults()
		c.HTTP = &config
		for _, fault := range split(config.Validate()) {
			refuse("http.%w", fault)
		}
		checks := &c.Profile.Checks
		required := append(slices.Clone(checks.Required), config.Requires()...)
		checks.Required = slices.Compact(slices.Sorted(slices.Values(required)))
	case AdapterNATS:
		if c.NATS == nil {
			refuse("nats is missing: adapter nats needs it")
			break
		}
		config := c.NATS.WithDefaults()
		c.NATS = &config
		for _, fault := range split(config.Validate()) {
			refuse("nats.%w", fault)
		}
		if config.Replies != nil && c.Callback == nil {
			refuse("nats.replies is given but callback is missing: it says who signs what is read there, and how it is read")
		}
	case AdapterKafka:
		if c.Kafka == nil {
			refuse("kafka is missing: adapter kafka needs it")
			break
		}
		config := c.Kafka.WithDefaults()
		c.Kafka = &config
		for _, fault := range split(config.Validate()) {
			refuse("kafka.%w", fault)
		}
		if config.Replies != nil && c.Callback == nil {
			refuse("kafka.replies is given but callback is missing: it says who signs what is read there, and how it is read")
		}
	case AdapterNoop:
		if !c.allowNoop {
			refuse("adapter is noop, which makes no payment; allow_noop: true at the top of the file permits it")
		}
	default:
		refuse("adapter is %q, must be %s, %s, %s or %s", c.Adapter, AdapterHTTP, AdapterNATS, AdapterKafka, AdapterNoop)
	}
	return all
}

// split returns the errors that were joined.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// field returns the path that a fault begins with, in the form of yamlstrict.Lines.
func field(fault error) string {
	word, _, _ := strings.Cut(fault.Error(), " ")
	word = strings.TrimSuffix(word, ":")
	return strings.NewReplacer("[", ".", "]", "").Replace(word)
}

// Open returns a rail with the profile in force, which need not be the file's: the database
// decides. It resolves the secrets and opens no connection. If the rail is an io.Closer, the caller
// closes it.
func Open(config RailConfig, profile rails.Profile) (rails.Rail, error) {
	if config.RailType != profile.RailType {
		return nil, fmt.Errorf("%w: the rail %q can't have the profile of %q",
			ErrBadFile, config.RailType, profile.RailType)
	}
	switch config.Adapter {
	case AdapterHTTP:
		if config.HTTP == nil || config.getenv == nil {
			return nil, fmt.Errorf("%w: rail %s was not loaded from a file with its secrets at hand", ErrBadFile,
				config.RailType)
		}
		rail, err := httpjson.Open(*config.HTTP, profile, config.getenv)
		if err != nil {
			return nil, fmt.Errorf("opening rail %s: %w", config.RailType, err)
		}
		return rail, nil
	case AdapterNATS:
		if config.NATS == nil || config.getenv == nil {
			return nil, fmt.Errorf("%w: rail %s was not loaded from a file with its secrets at hand", ErrBadFile,
				config.RailType)
		}
		rail, err := nats.Open(*config.NATS, profile, config.getenv)
		if err != nil {
			return nil, fmt.Errorf("opening rail %s: %w", config.RailType, err)
		}
		return rail, nil
	case AdapterKafka:
		if config.Kafka == nil || config.getenv == nil {
			return nil, fmt.Errorf("%w: rail %s was not loaded from a file with its secrets at hand", ErrBadFile,
				config.RailType)
		}
		rail, err := kafka.Open(*config.Kafka, profile, config.getenv)
		if err != nil {
			return nil, fmt.Errorf("opening rail %s: %w", config.RailType, err)
		}
		return rail, nil
	case AdapterNoop:
		if !config.allowNoop {
			return nil, fmt.Errorf("%w: rail %s has adapter noop, which is not allowed", ErrBadFile, config.RailType)
		}
		return noop.Open(profile)
	default:
		return nil, fmt.Errorf("%w: rail %s has adapter %q", ErrBadFile, config.RailType, config.Adapter)
	}
}
