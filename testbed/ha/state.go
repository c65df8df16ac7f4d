package ha

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// member is a host as Patroni shows it.
type member struct {
	Name     string `json:"name"`
	Role     string `json:"role"` // leader, sync_standby or replica
	State    string `json:"state"`
	Timeline int    `json:"timeline"`
}

// members asks the first Patroni that answers.
func (h *Hosts) members(ctx context.Context) ([]member, error) {
	last := fmt.Errorf("no Patroni was asked")
	for _, one := range h.db {
		var answer struct{ Members []member }
		if last = one.ask(ctx, "/cluster", &answer); last == nil {
			return answer.Members, nil
		}
	}
	return nil, last
}

// askWithin bounds one question to a Patroni.
const askWithin = time.Second

// ask asks the Patroni of one host; into may be nil.
func (o *host) ask(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.listen()+":8008"+path, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", o.name, path, answer.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

// named returns the host of a name.
func (h *Hosts) named(name string) *host {
	if n := slices.IndexFunc(h.db, func(o *host) bool { return o.name == name }); n >= 0 {
		return h.db[n]
	}
	return nil
}

// whole returns the primary and the synchronous standby if all three hosts are well, on
// one timeline.
func (h *Hosts) whole(ctx context.Context) (primary, standby *host, ok bool) {
	all, err := h.members(ctx)
	if err != nil || len(all) != hostCount {
		return nil, nil, false
	}
	replicas := 0
	for _, m := range all {
		if m.State != "running" && m.State != "streaming" || m.Timeline != all[0].Timeline {
			return nil, nil, false
		}
		switch m.Role {
		case "leader":
			primary = h.named(m.Name)
		case "sync_standby":
			standby = h.named(m.Name)
		case "replica":
			replicas++
		}
	}
	return primary, standby, primary != nil && standby != nil && replicas == hostCount-2
}

// primaries returns the hosts whose Patroni says that they are the primary.
func (h *Hosts) primaries(ctx context.Context) (all []*host) {
	for _, one := range h.db {
		if one.ask(ctx, "/primary", nil) == nil {
			all = append(all, one)
		}
	}
	return all
}
