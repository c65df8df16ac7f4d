package railconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/rails"
)

// LoadProfiles is like Load, for a file whose profiles are to be put in force. It also refuses a
// profile that no relayer could open: one that contradicts the rail's own endpoint, or that can't be
// read once it is stored. And it refuses requests by which two payments could be taken for one, see
// [httpjson.Config.Carries], and headers that are not carried. With these a rail that is in force goes on.
func LoadProfiles(path string, getenv func(string) string) (File, error) {
	return load(path, getenv, func(rail *RailConfig) []error {
		all := rail.complete()
		if !slices.ContainsFunc(all, func(fault error) bool { return strings.HasPrefix(fault.Error(), "profile.") }) {
			all = append(all, rail.unreadable()...)
		}
		for _, name := range rail.Profile.NotCarried() {
			all = append(all, fmt.Errorf("profile.headers has %q, which adapters set themselves", name))
		}
		return append(all, rail.disagreements()...)
	})
}

// unreadable returns why the profile of a completed rail can't be read once it is stored: complete
// adds to it after its bounds were checked, and only the stored text has a length.
func (c *RailConfig) unreadable() []error {
	stored, err := c.Profile.JSON()
	if err == nil {
		_, err = rails.ParseProfile(stored)
	}
	if err == nil {
		return nil
	}
	return []error{fmt.Errorf("profile could be read by no relayer once it is stored, when checks.required has the "+
		"payload paths of http.send.body too: %w", err)}
}

// disagreements returns where the endpoint of a completed rail contradicts its profile, each with
// the path of its field first.
func (c *RailConfig) disagreements() []error {
	switch {
	case c.Adapter == AdapterHTTP && c.HTTP != nil:
		return append(split(c.HTTP.Agrees(c.Profile)), split(c.HTTP.Carries(c.Profile))...)
	case c.Adapter == AdapterNATS && c.NATS != nil:
		return split(c.NATS.Agrees(c.Profile))
	case c.Adapter == AdapterKafka && c.Kafka != nil:
		return split(c.Kafka.Agrees(c.Profile))
	default:
		return nil
	}
}
