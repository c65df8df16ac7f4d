package migrations_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/acl"
)

// sqlFunction is a file of functions/: the claims of its header, and what its body does.
type sqlFunction struct {
	says          map[string]string // by the keys of headers
	reads, writes map[string]bool   // tables, in its own statements
	calls         map[string]bool   // other functions
}

var (
	headerKey  = regexp.MustCompile(`(?:^ |   )(returns|errors|reads, writes, locks|reads, writes|writes, locks|reads|writes|locks|called by):`)
	headerWord = regexp.MustCompile(`[a-z_0-9]+`)
	sqlComment = regexp.MustCompile(`--[^\n]*`)
	writesOf   = regexp.MustCompile(`(?:INSERT INTO|UPDATE|DELETE FROM)\s+\{cell\}\.([a-z_]+)`)
	readsOf    = regexp.MustCompile(`(DELETE )?(?:FROM|JOIN)\s+\{cell\}\.([a-z_]+)(\s*\()?`)
	callsOf    = regexp.MustCompile(`\{cell\}\.([a-z_0-9]+)\s*\(`)
	tableOf    = regexp.MustCompile(`CREATE TABLE \{cell\}\.([a-z_]+)`)
)

// headerSays takes the sections of a header apart. A section ends at the next key, or at an empty line.
func headerSays(header []string) map[string]string {
	says := map[string]string{}
	key := ""
	for _, line := range header {
		if strings.TrimSpace(line) == "" {
			key = ""
			continue
		}
		places := headerKey.FindAllStringSubmatchIndex(line, -1)
		begin := 0
		for n, place := range places {
			if key != "" {
				says[key] += " " + line[begin:place[0]]
			}
			key = line[place[2]:place[3]]
			begin = place[1]
			if n == len(places)-1 {
				says[key] += " " + line[begin:]
			}
		}
		if len(places) == 0 && key != "" {
			says[key] += " " + line
		}
	}
	return says
}

func sqlFunctions(t *testing.T) (functions map[string]*sqlFunction, tables map[string]bool) {
	t.Helper()
	tables = map[string]bool{}
	numbered, err := filepath.Glob("sql/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range numbered {
		for _, found := range tableOf.FindAllStringSubmatch(read(t, file), -1) {
			tables[found[1]] = true
		}
	}
	files, err := filepath.Glob("functions/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	functions = map[string]*sqlFunction{}
	bodies := map[string]string{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		var header []string
		lines := strings.Split(read(t, file), "\n")
		for len(lines) > 0 && strings.HasPrefix(lines[0], "--") {
			header, lines = append(header, strings.TrimPrefix(lines[0], "--")), lines[1:]
		}
		bodies[name] = sqlComment.ReplaceAllString(strings.Join(lines, "\n"), "")
		functions[name] = &sqlFunction{says: headerSays(header), reads: map[string]bool{}, writes: map[string]bool{},
			calls: map[string]bool{}}
	}
	for name, body := range bodies {
		f := functions[name]
		for _, found := range writesOf.FindAllStringSubmatch(body, -1) {
			if tables[found[1]] {
				f.writes[found[1]] = true
			}
		}
		for _, found := range readsOf.FindAllStringSubmatch(body, -1) {
			if found[1] == "" && found[3] == "" && tables[found[2]] {
				f.reads[found[2]] = true
			}
		}
		for _, found := range callsOf.FindAllStringSubmatch(body, -1) {
			if functions[found[1]] != nil && found[1] != name {
				f.calls[found[1]] = true
			}
		}
	}
	return functions, tables
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// within adds what a function does by itself and by those that it calls.
func within(
	functions map[string]*sqlFunction, name string, of func(*sqlFunction) map[string]bool,
	into map[string]bool, seen map[string]bool,
) {
	if seen[name] {
		return
	}
	seen[name] = true
	maps.Copy(into, of(functions[name]))
	for called := range functions[name].calls {
		within(functions, called, of, into, seen)
	}
}

// groups are callers that headers name together.
var groups = map[string]func(name string, f *sqlFunction) bool{
	"operator functions":    func(_ string, f *sqlFunction) bool { return f.calls["log_operator_act"] || f.calls["require_reason"] },
	"the enqueue functions": func(name string, _ *sqlFunction) bool { return strings.HasPrefix(name, "enqueue_payment_outbox") },
	"api functions": func(name string, _ *sqlFunction) bool {
		return strings.HasPrefix(name, "api_") || strings.HasPrefix(name, "require_api_")
	},
	"owner's functions": func(string, *sqlFunction) bool { return true },
}

// TestHeadersSayWhatFunctionsDo compares the header of each function with a search over all bodies:
// the tables that it reads and writes, by itself and by what it calls, and the functions that call
// it. A header may name a table, or a function whose tables it means ("what sends_of reads"). What
// a function only reads in order to write it need not be among its reads.
func TestHeadersSayWhatFunctionsDo(t *testing.T) {
	t.Parallel()
	functions, tables := sqlFunctions(t)
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		writes := map[string]bool{}
		within(functions, name, func(f *sqlFunction) map[string]bool { return f.writes }, writes, map[string]bool{})
		for _, kind := range []struct {
			key  string
			of   func(*sqlFunction) map[string]bool
			also map[string]bool
		}{
			{"reads", func(f *sqlFunction) map[string]bool { return f.reads }, writes},
			{"writes", func(f *sqlFunction) map[string]bool { return f.writes }, nil},
		} {
			var said strings.Builder
			for key, text := range f.says {
				if strings.Contains(key, kind.key) {
					said.WriteString(text)
				}
			}
			does, says := map[string]bool{}, map[string]bool{}
			within(functions, name, kind.of, does, map[string]bool{})
			for _, word := range headerWord.FindAllString(said.String(), -1) {
				switch {
				case tables[word]:
					says[word] = true
				case functions[word] != nil:
					within(functions, word, kind.of, says, map[string]bool{})
				}
			}
			for table := range does {
				if !says[table] && !kind.also[table] {
					t.Errorf("%s: its header does not say that it %s %s", name, kind.key, table)
				}
			}
			for table := range says {
				if !does[table] && !kind.also[table] && !strings.Contains(said.String(), table+" by its trigger") {
					t.Errorf("%s: its header says that it %s %s, and no statement does", name, kind.key, table)
				}
			}
		}
		said := strings.Join(strings.Fields(f.says["called by"]), " ")
		if said == "" {
			t.Errorf("%s: its header does not say what calls it", name)
		}
		for caller, by := range functions {
			named := slices.Contains(headerWord.FindAllString(said, -1), caller)
			grouped := false
			for group, has := range groups {
				grouped = grouped || strings.Contains(said, group) && has(caller, by)
			}
			switch calls := by.calls[name]; {
			case calls && !named && !grouped:
				t.Errorf("%s: its header does not say that %s calls it", name, caller)
			case !calls && named && caller != name:
				t.Errorf("%s: its header says that %s calls it, which it does not", name, caller)
			}
		}
	}
}

// TestHeadersNameRoles compares the roles that a header names as callers with the role matrix.
// "readers" stands for roles that only read.
func TestHeadersNameRoles(t *testing.T) {
	t.Parallel()
	functions, _ := sqlFunctions(t)
	matrix, err := acl.Load()
	if err != nil {
		t.Fatal(err)
	}
	granted, roles := map[string]map[string]bool{}, map[string]bool{}
	for _, grant := range matrix.Grants {
		if grant.Object.Kind != acl.KindFunction {
			continue
		}
		name, role := grant.Object.Name, strings.TrimPrefix(grant.Role, "railhead_")
		name, _, _ = strings.Cut(name, "(")
		if granted[name] == nil {
			granted[name] = map[string]bool{}
		}
		granted[name][role], roles[role] = true, true
	}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		text := functions[name].says["called by"]
		for group := range groups {
			text = strings.ReplaceAll(text, group, "")
		}
		said := headerWord.FindAllString(text, -1)
		for role := range roles {
			named := slices.Contains(said, role) || slices.Contains(said, "readers") &&
				slices.Contains([]string{"readonly", "auditor", "operator"}, role)
			if may := granted[name][role]; may && !named {
				t.Errorf("%s: its header does not say that role %s calls it", name, role)
			} else if !may && slices.Contains(said, role) {
				t.Errorf("%s: its header says that role %s calls it, which may not", name, role)
			}
		}
	}
}
