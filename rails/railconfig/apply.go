package railconfig

// LoadProfiles is like Load, for a file whose profiles are to be put in force. It also refuses a
// profile that contradicts the rail's own endpoint, because no relayer could open such a rail. And it refuses requests by which two payments could be taken for one, see
// [httpjson.Config.Carries]. With these a rail that is in force goes on.
func LoadProfiles(path string, getenv func(string) string) (File, error) {
	return load(path, getenv, func(rail *RailConfig) []error {
		return append(rail.complete(), rail.disagreements()...)
	})
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
