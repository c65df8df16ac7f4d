package relayer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/railhead-pay/railhead/internal/service"
)

// errBadLane reports a rail of this process whose profile in force can't be used: this build can't read it, or it
// does not agree with what this process has for the rail.
var errBadLane = errors.New("a rail can't be served")

// unusableSays is what a heartbeat says of such a rail.
const unusableSays = "its profile in force can't be used by the relayer, whose log says why"

// passOver logs rails that can't be served, and returns any other error. Profiles are put in force by others, and one
// that can't be used stops its own lane alone, at the start as well as later: what ended the process here would end
// it at each new start, and with it all other rails. Nothing is claimed by the profile before it.
func (r *Relayer) passOver(ctx context.Context, err error) error {
	if !errors.Is(err, errBadLane) {
		return err
	}
	r.log.ErrorContext(ctx, "a profile in force can't be used; its lane claims nothing until it can", "error", err)
	return nil
}

// servesNone reports whether no rail is open.
func (l *lanes) servesNone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byRail) == 0
}

// unopened returns the rails that can't be served and have no lane of an earlier profile either. The caller holds the
// lock of the lanes.
func (l *lanes) unopened() []string {
	var names []string
	for name := range l.unusable {
		if l.byRail[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// denied returns the rails of which the login may make no claim, at most unservedMax. The caller holds the lock of the
// lanes.
func (l *lanes) denied(now time.Time) []string {
	var names []string
	for name, one := range l.byRail {
		if now.Before(one.denied) {
			names = append(names, "rail "+name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), unservedMax)]
}

// deniedFor is how long after its stop a lane counts as one whose login may not claim. One that has slots is tried
// again sooner.
const deniedFor = 30 * time.Second

// unservedMax bounds the rails that Ready names.
const unservedMax = 5

// unserved returns why this relayer does not serve all of its rails; empty: it does.
func (l *lanes) unserved() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if denied := l.denied(time.Now()); len(denied) > 0 {
		return "no claim is made of " + strings.Join(denied, ", ") + ": " + service.DeniedSays
	}
	if len(l.unusable) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(l.unusable))
	if more := len(names) - unservedMax; more > 0 {
		names = append(names[:unservedMax], fmt.Sprintf("%d more", more))
	}
	if len(names) == 1 {
		return "rail " + names[0] + " is not claimed: its profile in force can't be used here, and the log says why"
	}
	return "rails " + strings.Join(names, ", ") + " are not claimed: their profiles in force can't be used here, and " +
		"the log says why"
}
