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
		"payment", "acl", "alerts", "railsim", "rails/secret", "rails/internal/jsondoc", "rails/internal/streak",
		"internal/faultpoint", "internal/heap", "internal/linger", "internal/reach", "internal/serving",
		"internal/yamlstrict",
		"internal/test/await", "internal/test/guarded", "internal/test/railsfile", "testbed/jsonlines", "bench/figures",
		"bench/slowflush", "internal/test/archive", "testbed/brokers",
	},
	// what services and the store say to each other, and TLS of rails; processes
	{"outbox", "rails/internal/tlsconf", "internal/test/child", "internal/test/pgserver"},
	{"internal/engine"},
	{ // what needs the vocabulary
		"migrations", "schedule", "ledger", "rails/codes", "ingest/event", "internal/clock", "internal/httpclient",
		"internal/tracing",
		"cmd/railsim", "internal/test/pgserver/pgrun", "internal/test/pgtest", "internal/test/promrun",
		"internal/test/twin", "bench/server", "testbed/banks", "testbed/browser",
	},
	{ // what the roles of the store have in common, the contract of rails, and what services have in common
		"ledger/internal/store", "rails", "internal/lineage", "internal/service", "internal/tracing/export", "proofs",
		"internal/test/install", "bench/against", "bench/sim", "testbed/mutants", "migrations/next",
	},
	// the roles of the store, and those that rest on them; what rails report
	{
		"ledger/internal/await", "ledger/internal/enqueue", "ledger/internal/route", "ledger/executor",
		"ledger/events", "ledger/reader", "rails/callback",
	},
	{"ledger/callbacks", "ledger/door", "ledger/ingest", "ledger/operator", "internal/explain"},
	{ // the services, the adapters, and the package for callers
		"", "relayer", "reaper", "console", "ingest/api", "ingest/webhook", "rails/httpjson", "rails/kafka", "rails/nats",
		"rails/noop", "internal/cells",
		"rails/railtest",
		"internal/test/celltest", "internal/test/localrun", "internal/test/servicetest", "testbed/alertdrill",
		"testbed/api", "testbed/faults",
	},
	{"ingest/callback", "rails/railconfig", "bench/systems"},
	// what observes the services, and what stands in for banks
	{"internal/metrics", "internal/test/simrail", "testbed/calls", "bench", "bench/growth"},
	{"bench/cmd/scale", "cmd/railhead", "testbed/money", "testbed/cells", "testbed/console", "testbed/ha", "testbed/streams"},
	{"testbed/cmd/testbed"},
}

// tests are folders with tests alone, which may import anything of their module.
var tests = []string{
	"internal/layout", "internal/readme", "testbed/drill", "testbed/latematrix", "testbed/model", "testbed/outcomes",
	"testbed/upgrade",
}

// others are the modules that are no part of the product.
var others = []string{"testbed", "bench"}

// support is what tests and railhead dev run the product with.
const support = "internal/test"

// standIns are packages of the product's module that stand in for others in front of it: banks, and
// the suite that adapters pass.
var standIns = []string{"railsim", "cmd/railsim", "rails/railtest"}

// exceptions are imports by files of the product that break a rule, each with its reason.
var exceptions = map[string]string{
	"cmd/railhead/dev.go -> internal/test/localrun": "railhead dev runs a whole installation on this machine",
}

// below reports whether a package is one of these, or in a folder of one.
func below(name string, these ...string) bool {
	return slices.ContainsFunc(these, func(one string) bool { return name == one || strings.HasPrefix(name, one+"/") })
}

// TestFloors holds every import of every package to floors.
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
	seen := map[string]bool{}
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			return
		}
		name := packageOf(file)
		seen[name] = true
		floor, listed := floorOf[name]
		if !listed && !slices.Contains(tests, name) {
			t.Errorf("%q is on no floor: add it to the list", name)
		}
		for _, ours := range oursOf(t, file) {
			other, known := floorOf[ours]
			switch {
			case !listed:
			case !known:
				t.Errorf("%s -> %s: %q is on no floor", name, ours, ours)
			case other >= floor:
				t.Errorf("%s -> %s runs from floor %d to floor %d", name, ours, floor, other)
			}
		}
	})
	for name := range floorOf {
		if !seen[name] {
			t.Errorf("%q is on a floor and has no Go file", name)
		}
	}
}

// TestProductAlone: nothing of the product's module imports another module of the repository, and
// what its programs are made of imports neither what tests have nor what stands in for others.
func TestProductAlone(t *testing.T) {
	used, imports := map[string]bool{}, 0
	walk(t, func(file string) {
		name := packageOf(file)
		if !strings.HasSuffix(file, ".go") || strings.Contains(file, "/testdata/") || below(name, others...) {
			return
		}
		apart := strings.HasSuffix(file, "_test.go") || below(name, append(standIns, support)...)
		for _, ours := range oursOf(t, file) {
			said := file + " -> " + ours
			switch {
			case below(ours, others...):
				t.Errorf("%s: the product's module needs no other of the repository", said)
			case below(ours, support), below(ours, standIns...):
				if imports++; apart {
					continue
				}
				if used[said] = true; exceptions[said] == "" {
					t.Errorf("%s: the product does not import what it is tested with", said)
				}
			}
		}
	})
	if imports < 100 {
		t.Errorf("only %d imports of test support were seen: the rule looks at nothing", imports)
	}
	for said := range exceptions {
		if !used[said] {
			t.Errorf("the exception %q is not needed", said)
		}
	}
}

func packageOf(file string) string { return strings.TrimPrefix(path.Dir(file), ".") }

// oursOf are the packages of the repository that a file imports.
func oursOf(t *testing.T, file string) []string {
	t.Helper()
	var all []string
	for _, imported := range importsOf(t, file) {
		if ours, ok := strings.CutPrefix(imported+"/", module); ok {
			all = append(all, strings.TrimSuffix(ours, "/"))
		}
	}
	return all
}
