package migrations

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

const vocabularyFile = "testdata/vocabulary.txt"

// TestVocabulary compares the vocabulary with the committed one, so that a change of
// payment's predicates shows up as the change of the schema that it is.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, usage := range words.usages() {
		name, _, _ := strings.Cut(strings.Trim(usage, "{}"), " ")
		text.WriteString(usage + " = " + words[name] + "\n")
	}
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(vocabularyFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(vocabularyFile)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(committed) {
		t.Errorf("the vocabulary is\n%s\nand the committed one\n%s\nWhere the change is meant, run go test ./migrations "+
			"-update, and review the schema too",
			text.String(), committed)
	}
}

// TestVocabularyRefuses a name that it does not have, in a statement and in a file of
// the schema, and a row where there is none to name.
func TestVocabularyRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{claim_state}", "{claim_states f}", "{is_open}", "{rows}"} {
		if got, err := Statement("SELECT "+text, "railhead"); err == nil {
			t.Errorf("%s was taken for %q", text, got)
		}
	}
	got, err := Statement("SELECT FROM {cell}.t WHERE state IN ({claim_states}) AND profile #>> '{inquiry,max}' = '{}'",
		"railhead")
	if want := "SELECT FROM railhead.t WHERE state IN ('DISPATCHING', 'INQUIRING') AND profile #>> '{inquiry,max}' = " +
		"'{}'"; err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}

// TestOneTruth finds rules that payment has as a predicate written anew in SQL: a list
// of some words of a kind, one column compared with two of them, the question whether a
// claim is open, the upsert of a dead letter. One place has each, and everything else
// names it. The definition of a kind lists all of its words.
func TestOneTruth(t *testing.T) {
	t.Parallel()
	// which is no state of an instruction
	states := slices.DeleteFunc(payment.States(), func(s payment.State) bool { return s == payment.LateOutcome })
	kinds := []kind{
		{"states", worded(states), true}, {"results", worded(payment.Results()), false}, {"reasons", worded(payment.DeadReasons()), true},
		{"statuses of a letter", worded(payment.LetterStatuses()), true}, {"codes of a spent send", payment.SpentCodes(), false},
	}
	files := sqlFiles(t)
	upserts := 0
	for path, text := range files {
		for _, written := range anew(text, kinds) {
			t.Errorf("%s: %s: name the rule in payment, and write its name from the vocabulary", path, written)
		}
		upserts += strings.Count(text, "INSERT INTO {cell}.payment_dead_letters")
	}
	if upserts != 1 {
		t.Errorf("dead letters are opened in %d places: open_dead_letters is the one", upserts)
	}
	if len(files) < 100 {
		t.Errorf("%d files: the test looks in the wrong place", len(files))
	}
	for text, wanted := range map[string]int{
		"a.state IN ('DISPATCHING', 'INQUIRING')":                                                 1,
		"a.state = ANY (ARRAY['DISPATCHING', 'INQUIRING'])":                                       1,
		"a.state = 'DISPATCHING' OR a.state = 'INQUIRING'":                                        1,
		"a.state::text <> 'DISPATCHING' AND a.state::text <> 'INQUIRING'":                         1,
		"d.status NOT IN ('manual_replay', 'resolved')":                                           1,
		"a.result IN ({doubtful_results}, 'REFUSED', 'REFUSED_FINAL')":                            1,
		"a.error_code IN ('NEW_ID_NEEDED', 'BUSINESS_REFUSED')":                                   1,
		"y.attempt_no > f.attempt_no AND y.state <> 'LATE_OUTCOME'":                               1,
		"y.state != 'LATE_OUTCOME' AND y.attempt_no > claim.attempt_no":                           1,
		"a.state IN ({claim_states}, 'CANCELLED')":                                                0,
		"a.state = 'DISPATCHING' AND a.result = 'NOT_SENT'":                                       0,
		"a.state = 'DISPATCHED' OR a.state = 'LATE_OUTCOME'":                                      0,
		"d.reason = 'CONFLICT' OR d.reason = 'TAMPERED' AND e.reason = 'FAILED'":                  0,
		"CHECK (status IN ('pending', 'acknowledged', 'escalated', 'manual_replay', 'resolved'))": 0,
	} {
		if found := anew(text, kinds); len(found) != wanted {
			t.Errorf("%s: found %v, want %d", text, found, wanted)
		}
	}
}

// kind is a kind of words.
type kind struct {
	name    string
	words   []string
	defined bool // by a list of all in the schema
}

var (
	wordList = regexp.MustCompile(`(?:\bIN|\bARRAY)\s?[(\[]([^()\[\]]*)[)\]]`)
	wordPair = regexp.MustCompile(`([a-z_.]+)(?:::text)? (?:=|<>|!=) '(\w+)' (AND|OR) ([a-z_.]+)(?:::text)? (?:=|<>|!=) '(\w+)'( AND)?`)
	constant = regexp.MustCompile(`'(\w+)'`)
	isOpen   = regexp.MustCompile(`\.attempt_no > \w+\.attempt_no AND \w+\.state (?:<>|!=) 'LATE_OUTCOME'|\.state (?:<>|!=) 'LATE_OUTCOME' AND \w+\.attempt_no > \w+\.attempt_no`)
)

// anew gives what a text, whose white space is single, says in words of its own.
func anew(text string, kinds []kind) []string {
	var found []string
	for _, k := range kinds {
		for _, list := range wordList.FindAllStringSubmatch(text, -1) {
			n := 0
			for _, word := range constant.FindAllStringSubmatch(list[1], -1) {
				if slices.Contains(k.words, word[1]) {
					n++
				}
			}
			if n > 1 && (n < len(k.words) || !k.defined) {
				found = append(found, list[0]+" lists some "+k.name)
			}
		}
		for _, pair := range wordPair.FindAllStringSubmatch(text, -1) {
			// After OR, an AND belongs to the second comparison alone.
			if pair[1] == pair[4] && slices.Contains(k.words, pair[2]) && slices.Contains(k.words, pair[5]) &&
				(pair[3] == "AND" || pair[6] == "") {
				found = append(found, pair[0]+" names two "+k.name)
			}
		}
	}
	for _, probe := range isOpen.FindAllString(text, -1) {
		found = append(found, probe+" asks whether a claim is open")
	}
	return found
}

func worded[W ~string](all []W) []string {
	words := make([]string, len(all))
	for n, word := range all {
		words[n] = string(word)
	}
	return words
}

// sqlFiles are the SQL files of the schema and of the services, without comments and
// with single white space.
func sqlFiles(t *testing.T) map[string]string {
	t.Helper()
	comment := regexp.MustCompile(`(?m)--.*$`)
	all := make(map[string]string)
	for _, pattern := range []string{"functions/*.sql", "views/*.sql", "../ledger/sql/*.sql"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%d files in %s (%v)", len(paths), pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = strings.Join(strings.Fields(comment.ReplaceAllString(string(text), "")), " ")
		}
	}
	return all
}
