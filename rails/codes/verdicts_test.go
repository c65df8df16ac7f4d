package codes

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/payment"
)

// verdicts says what an answer proves by the standards and the schemes, apart from
// the tables: one line for a table, a status word, a code ("-" is none) and what
// was asked: the number of the send on a FINAL rail, the same on a PROVISIONAL
// one, or an inquiry.
//
//go:embed verdicts.tsv
var verdicts string

type verdict struct {
	line                           int
	table, word, code, asked, want string
}

func readVerdicts(t *testing.T) []verdict {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(verdicts, "\n"), "\n")
	if want := "table\tword\tcode\tasked\tresult\tsource"; lines[0] != want {
		t.Fatalf("the columns are %q, want %q", lines[0], want)
	}
	var all []verdict
	seen := map[string]bool{}
	for n, line := range lines[1:] {
		fields := strings.Split(line, "\t")
		if len(fields) != 6 || slices.Contains(fields, "") {
			t.Fatalf("line %d has not six fields: %q", n+2, line)
		}
		what := strings.Join(fields[:4], " ")
		if seen[what] {
			t.Errorf("line %d: %s is there twice", n+2, what)
		}
		seen[what] = true
		word, code := strings.TrimPrefix(fields[1], "-"), strings.TrimPrefix(fields[2], "-")
		all = append(all, verdict{n + 2, fields[0], word, code, fields[3], fields[4]})
	}
	if least := 400; len(all) < least {
		t.Errorf("%d verdicts, want at least %d", len(all), least)
	}
	return all
}

// result returns what the tables prove.
func (v verdict) result(table *Table) (payment.Result, error) {
	ctx := Context{Acceptance: payment.AcceptanceFinal}
	switch v.asked {
	case "inquiry":
		words := ReportWords{Table: table}
		if v.word == "" {
			words.Words = map[string]payment.Result{"": ReportedByCode}
		}
		return words.Read(v.word, v.code).Result, nil
	case "1":
		ctx.SendNo = 1
	case "2":
		ctx.SendNo = 2
	case "1/provisional":
		ctx.SendNo, ctx.Acceptance = 1, payment.AcceptanceProvisional
	default:
		return "", fmt.Errorf("asked is %q", v.asked)
	}
	return SendWords{Table: table}.Read(v.word, v.code).Class.Result(ctx), nil
}

// TestVerdicts compares every table with the verdicts.
func TestVerdicts(t *testing.T) {
	for _, v := range readVerdicts(t) {
		got, err := v.result(named(t, v.table))
		if err != nil || string(got) != v.want {
			t.Errorf("verdicts.tsv line %d: %s %q %q in answer to %s: %s, want %s (%v)", v.line, v.table, v.word, v.code,
				v.asked, got, v.want, err)
		}
	}
}

// TestEveryLineHasAVerdict: each line of each table is judged as the answer to a
// first send and to an inquiry. A line that is only a word is judged without a
// code; one that is a code, with it.
func TestEveryLineHasAVerdict(t *testing.T) {
	judged := map[string]bool{}
	for _, v := range readVerdicts(t) {
		if v.code == "" {
			judged[strings.Join([]string{v.table, v.word, v.asked}, " ")] = true
		} else if v.word == "" || v.word == "RJCT" { // the word leaves it to the code
			judged[strings.Join([]string{v.table, v.code, v.asked}, " ")] = true
		}
	}
	entries, err := files.ReadDir("tables")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := files.ReadFile("tables/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		own := parse(string(text)).table
		for code := range own.entries {
			for _, asked := range []string{"1", "inquiry"} {
				if what := strings.Join([]string{own.name, code, asked}, " "); !judged[what] {
					t.Errorf("no verdict on %s", what)
				}
			}
		}
	}
}
