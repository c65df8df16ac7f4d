package migrations_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/migrations"
)

var (
	functionText = regexp.MustCompile(`(?s)-- function (\w+)\n(.*?)\n-- end of `)
	dropped      = regexp.MustCompile(`DROP FUNCTION \w+\.(\w+)\(`)
)

// stillCalled are functions that a migration dropped while the text of another one called them, and why no caller of
// the release before notices.
var stillCalled = map[string]string{
	"admits_participant": "only cells that are in a directory evaluated the call, and no release had those",
	"learn_cells":        "name_cell called it, an act of operators that no release had",
}

// TestDropsNothingThatIsCalled: a migration drops no function that another one calls in the text before it. A
// statement of a caller that is under way when the migration commits would fail, as enqueues do under traffic.
func TestDropsNothingThatIsCalled(t *testing.T) {
	t.Parallel()
	all, err := migrations.All(migrations.DefaultCell)
	if err != nil {
		t.Fatal(err)
	}
	before, drops := map[string]string{}, 0
	for _, migration := range all {
		for _, found := range dropped.FindAllStringSubmatch(migration.SQL, -1) {
			drops++
			for caller, text := range before {
				calls := caller != found[1] && strings.Contains(text, migrations.DefaultCell+"."+found[1]+"(")
				if calls && stillCalled[found[1]] == "" {
					t.Errorf("%s drops %s, which %s calls until then: keep it for one release", migration.Name, found[1], caller)
				}
			}
		}
		for _, found := range functionText.FindAllStringSubmatch(migration.SQL, -1) {
			before[found[1]] = found[2]
		}
	}
	if drops == 0 || len(before) < 100 {
		t.Errorf("%d drops and %d functions were found: the test reads them wrongly", drops, len(before))
	}
}

// TestLocksInTheOrderOfAnEnqueue: a number that changes both tables begins with the counters, as an enqueue does; in
// another order the two would wait for each other, and one of them fail.
func TestLocksInTheOrderOfAnEnqueue(t *testing.T) {
	t.Parallel()
	all, err := migrations.All(migrations.DefaultCell)
	if err != nil {
		t.Fatal(err)
	}
	of := func(sql, table string) int {
		at := regexp.MustCompile(`(?m)(^ALTER TABLE | ON )railhead\.` + table + `( ADD| DROP| ALTER|\n  FOR EACH| ENABLE)`).
			FindStringIndex(sql)
		if at == nil {
			return -1
		}
		return at[0]
	}
	found := 0
	for _, migration := range all {
		if migration.Version < 28 { // what came before does not change, and has run
			continue
		}
		counters, buckets := of(migration.SQL, "participant_outbox_sequences"), of(migration.SQL, "payment_buckets")
		if counters < 0 || buckets < 0 {
			continue
		}
		found++
		if counters > buckets {
			t.Errorf("%s locks payment_buckets before participant_outbox_sequences", migration.Name)
		}
	}
	if found == 0 {
		t.Error("no number changes both: the test looks at nothing")
	}
}
