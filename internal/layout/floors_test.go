package layout

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// floors lists every package of the repository, from the ground up. A package imports packages of lower floors alone.
var floors = [][]string{
	{ // what needs nothing of ours
		"payment", "acl", "alerts", "railsim", "rails/secret", "rails/internal/jsondoc",
		"internal/faultpoint", "internal/guarded", "internal/heap", "internal/jsonlines", "internal/linger", "internal/pgserver",
		"internal/reach", "internal/yamlstrict", "bench/figures", "bench/slowflush",
	},
	{"outbox"}, // what services and the store say to each other
	{ // what needs the vocabulary
		"migrations", "schedule", "ledger", "rails/codes", "ingest/event", "internal/clock", "internal/httpclient", "internal/tracing",
		"cmd/railsim", "internal/pgserver/pgrun", "internal/pgtest", "alerts/promrun", "bench/server", "proofs/twin",
	},
	{ // what the roles of the store have in common, the contract of rails, and what services have in common
		"ledger/internal/store", "rails", "internal/lineage", "internal/service", "internal/tracing/export", "proofs",
		"internal/install", "bench/against", "proofs/mutants", "migrations/next",
	},
	{"ledger/internal/await", "ledger/internal/enqueue", "ledger/executor", "ledger/events", "ledger/reader"}, // the roles of the store,
	{"ledger/callbacks", "ledger/door", "ledger/ingest", "ledger/operator"},                                   // and those that rest on them
	{ // the services, the adapters, and the package for callers
		"", "relayer", "reaper", "ingest/api", "ingest/webhook", "rails/callback", "rails/httpjson", "rails/noop", "rails/railtest",
		"internal/celltest", "internal/localrun", "internal/service/servicetest", "alerts/live", "proofs/apirun", "proofs/faults", "proofs/mutantsrun",
	},
	{"ingest/callback", "rails/railconfig", "alerts/alertsrun", "bench/systems", "proofs/faultsrun"},
	{"internal/metrics", "internal/simrail", "bench"}, // what observes the services, and what stands in for banks
	{"cmd/railhead", "proofs/money"},
	{"proofs/moneyrun"},
}

// tests are folders with tests alone, which may import anything.
var tests = []string{"internal/layout", "internal/readme", "proofs/drill", "proofs/latematrix", "proofs/model", "proofs/outcomes", "proofs/upgrade"}

// rig is what tests, proofs and benchmarks run the product with. The product does not import it.
var rig = []string{
	"internal/celltest", "internal/guarded", "internal/install", "internal/jsonlines", "internal/localrun", "internal/pgserver", "internal/pgtest",
	"internal/service/servicetest", "internal/simrail", "railsim", "cmd/railsim", "bench", "alerts/alertsrun", "alerts/live", "alerts/promrun",
	"proofs/apirun", "proofs/faults", "proofs/faultsrun", "proofs/money", "proofs/moneyrun", "proofs/mutants", "proofs/mutantsrun", "proofs/twin",
	"rails/railtest",
}

// exceptions are imports that break a rule, each with its reason.
var exceptions = map[string]string{
	"cmd/railhead -> internal/localrun": "railhead dev runs a whole installation on this machine",
}

// TestFloors holds every import of every package to floors, and keeps the rig out of the product.
func TestFloors(t *testing.T) {
	floorOf := map[string]int{}
	for n, floor := range floors {
		for _, name := range floor {
			if _, twice := floorOf[name]; twice {
				t.Errorf("%q is on two floors", name)
			}
			floorOf[name] = n
		}
	}
	ofRig := func(name string) bool {
		return slices.ContainsFunc(rig, func(r string) bool { return name == r || strings.HasPrefix(name, r+"/") })
	}
	seen, used := map[string]bool{}, map[string]bool{}
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			return
		}
		name := strings.TrimPrefix(path.Dir(file), ".")
		seen[name] = true
		floor, listed := floorOf[name]
		if !listed && !slices.Contains(tests, name) {
			t.Errorf("%q is on no floor: add it to the list", name)
			return
		}
		for _, imported := range importsOf(t, file) {
			ours, ok := strings.CutPrefix(imported+"/", module)
			ours = strings.TrimSuffix(ours, "/")
			if !ok || !listed {
				continue
			}
			other, known := floorOf[ours]
			said := name + " -> " + ours
			_, excepted := exceptions[said]
			switch {
			case !known:
				t.Errorf("%s: %q is on no floor", said, ours)
			case ofRig(ours) && !ofRig(name):
				if used[said] = true; !excepted {
					t.Errorf("%s: the product does not import what it is tested with", said)
				}
			case other >= floor:
				if used[said] = true; !excepted {
					t.Errorf("%s runs from floor %d to floor %d", said, floor, other)
				}
			}
		}
	})
	for name := range floorOf {
		if !seen[name] {
			t.Errorf("%q is on a floor and has no Go file", name)
		}
	}
	for said := range exceptions {
		if !used[said] {
			t.Errorf("the exception %q is not needed", said)
		}
	}
}
