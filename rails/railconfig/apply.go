package railconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/railhead-pay/railhead/rails"
)

// LoadProfiles is like Load, for a file whose profiles are to be put in force. It also refuses a
// profile that no relayer could open: one that contradicts the rail's own endpoint, or that can't be
// read once it is stored. And it refuses what Tolerated returns.
func LoadProfiles(path string, getenv func(string) string) (File, error) {
	return load(path, getenv, func(rail *RailConfig) []error {
		return append(rail.appliable(), rail.Tolerated(rail.Profile)...)
	})
}

// LoadKept is like LoadProfiles, and does not refuse what Tolerated returns, with which a rail whose profile is in
// force goes on.
func LoadKept(path string, getenv func(string) string) (File, error) {
	return load(path, getenv, (*RailConfig).appliable)
}

func (c *RailConfig) appliable() []error {
	all := c.complete()
	if !slices.ContainsFunc(all, func(fault error) bool { return strings.HasPrefix(fault.Error(), "profile.") }) {
		all = append(all, c.unreadable()...)
	}
	return append(all, c.disagreements()...)
}

// Tolerated returns what is refused of a completed rail when its file is checked or its profile is to be put in force,
// and what a rail with this profile in force goes on with: requests by which two payments could be taken for one, see
// [httpjson.Config.Carries], callbacks that can name no payment or are not read, headers that are not carried, and
// promises that can't be kept.
func (c *RailConfig) Tolerated(profile rails.Profile) []error {
	var all []error
	for _, name := range profile.NotCarried() {
		all = append(all, fmt.Errorf("profile.headers has %q, which adapters set themselves", name))
	}
	if c.Callback != nil {
		for _, fault := range split(c.Callback.Paths()) {
			all = append(all, fmt.Errorf("callback.%w", fault))
		}
	}
	all = append(all, c.unkept(profile)...)
	if c.Adapter != AdapterHTTP || c.HTTP == nil {
		return all
	}
	all = append(all, split(c.HTTP.Carries(profile))...)
	if c.Callback != nil && !c.HTTP.CarriesKey() {
		all = append(all, errors.New("callback.key is the rail key of the payment, which no send carries, so that no "+
			"callback is one of ours: give it by http.send.idempotency_header, or as rail_key in http.send.body or "+
			"{rail_key} in http.send.path"))
	}
	return all
}

// SecondKeys returns what is refused of a completed rail in a cell that allows second keys: see
// [httpjson.Config.SecondKeys]. Messages of streams are named by the rail key.
func (c *RailConfig) SecondKeys() error {
	if c.Adapter != AdapterHTTP || c.HTTP == nil {
		return nil
	}
	return c.HTTP.SecondKeys()
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
		return split(c.HTTP.Agrees(c.Profile))
	case c.Adapter == AdapterNATS && c.NATS != nil:
		return split(c.NATS.Agrees(c.Profile))
	case c.Adapter == AdapterKafka && c.Kafka != nil:
		return split(c.Kafka.Agrees(c.Profile))
	default:
		return nil
	}
}
