package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
)

// TestReplaced: a stale component is replaced if another one of its kind was started after its last
// heartbeat; a fresh one never is.
func TestReplaced(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	beat := func(kind string, freshness reader.Freshness, age, started time.Duration) reader.Beat {
		return reader.Beat{Kind: kind, Freshness: freshness, AgeMS: age.Milliseconds(), StartedAt: now.Add(-started)}
	}
	stale := beat("relayer", reader.Stale, time.Minute, time.Hour)
	for name, test := range map[string]struct {
		of, other reader.Beat
		want      bool
	}{
		"by a younger one":    {stale, beat("relayer", reader.Fresh, 0, 30*time.Second), true},
		"not by an older one": {stale, beat("relayer", reader.Fresh, 0, 2*time.Minute), false},
		"not by another kind": {stale, beat("reaper", reader.Fresh, 0, 30*time.Second), false},
		"not while it beats": {beat("relayer", reader.Fresh, time.Second, time.Hour),
			beat("relayer", reader.Fresh, 0, 0), false},
	} {
		if got := explain.Replaced(test.of, []reader.Beat{test.of, test.other}, now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestHeartbeat: each class of an age has its sentence, and a stale component what follows from its kind.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	beat := reader.Beat{Kind: "relayer", StaleAfterMS: 15_000}
	for freshness, want := range map[reader.Freshness]string{
		reader.Fresh: "is fresh", reader.Warning: "half of 15.0s", reader.Stopped: "announced its stop",
		reader.Stale: "starts no send",
	} {
		beat.Freshness = freshness
		if got := explain.Heartbeat(beat, false); !strings.Contains(got, want) || strings.Contains(got, "another one") {
			t.Errorf("%s: %s", freshness, got)
		}
	}
	said := map[string]bool{}
	for _, kind := range []string{"relayer", "reaper", "ingest", "callback", "events"} {
		beat.Kind, beat.Freshness = kind, reader.Stale
		got := explain.Heartbeat(beat, true)
		if said[got] || !strings.HasSuffix(got, "; another one of its kind was started after that heartbeat") {
			t.Errorf("%s: %s", kind, got)
		}
		said[got] = true
	}
}

// TestServing: the numbers are those of the cell and of the build.
func TestServing(t *testing.T) {
	t.Parallel()
	for want, schema := range map[string]reader.Schema{
		"The cell is at migration 15. Binaries of the migrations 13 to 15 work on it. This one is of migration 14.":             {Migration: 15, Serves: 13, OfBuild: 14},
		"The cell is at migration 15. Binaries of migration 15 work on it, and older ones do not. This one is of migration 15.": {Migration: 15, Serves: 15, OfBuild: 15},
		"The cell has no stamp of a migration.": {OfBuild: 15},
	} {
		if got := explain.Serving(schema); got != want {
			t.Errorf("%+v: %s", schema, got)
		}
	}
}

// TestEndpointState: a pause is more than a missing process, and a lease that has ended is none.
func TestEndpointState(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	const still = "; neither what waits nor what comes after READ UNTIL is delivered"
	for want, e := range map[string]outbox.ListedEndpoint{
		"has a process":              {LeaseUntil: now.Add(time.Second)},
		"no process has it" + still:  {LeaseUntil: now.Add(-time.Second)},
		"paused: it is gone" + still: {PausedAt: now, PauseReason: "it\nis gone", LeaseUntil: now.Add(-time.Second)},
	} {
		if got, tone := explain.EndpointState(e, now); got != want || (tone == explain.Plain) != (want == "has a process") {
			t.Errorf("%s, %q, want %s", got, tone, want)
		}
	}
}
