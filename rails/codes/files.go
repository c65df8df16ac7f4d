package codes

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// The tables are text files, so that classifying codes requires no Go. Each line is one of
//
//	table NAME             the name by which profiles refer to the table
//	base NAME              starts from the lines of that table; own lines replace single ones
//	edition TEXT           changes with any class; with a base, the base's is appended
//	about payment|call     whether the codes are about the payment or about the call
//	family hundreds        unmapped xx40 to xx99 count as xx00 (FSPIOP)
//	source KEY TEXT        where the codes that refer to the key are defined
//	CODE CLASS KEY MEANING
//
// A table with a base takes over its about and family, and has none of its own. Empty lines and
// lines that start with # are comments.
//
//go:embed tables/*.txt
var files embed.FS

// maxCode bounds a code, in bytes; maxTable a table, in codes.
const (
	maxCode  = 64
	maxTable = 2000
)

// ErrNoTable is wrapped by the error of Named for an unknown name.
var ErrNoTable = errors.New("no such code table")

var tables = sync.OnceValues(func() (map[string]*Table, error) {
	entries, err := files.ReadDir("tables")
	if err != nil {
		return nil, fmt.Errorf("listing the code tables: %w", err)
	}
	var texts []string
	for _, entry := range entries {
		text, err := files.ReadFile("tables/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading code table %s: %w", entry.Name(), err)
		}
		texts = append(texts, string(text))
	}
	return Parse(texts...)
})

// Named returns a built-in table: one of Names.
func Named(name string) (*Table, error) {
	all, err := tables()
	if err != nil {
		return nil, err
	}
	table, ok := all[name]
	if !ok {
		return nil, fmt.Errorf("%w: %q, there are %s", ErrNoTable, name, strings.Join(Names(), ", "))
	}
	return table, nil
}

// Names returns the names of the built-in tables.
func Names() []string {
	all, _ := tables()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Parse reads tables in the form above and returns them by name, or all faults in one error, each
// with its table and line. A base must be one of the same texts.
func Parse(texts ...string) (map[string]*Table, error) {
	parsed := make(map[string]*parser)
	var faults []error
	for n, text := range texts {
		p := parse(text)
		name := p.table.name
		if name == "" {
			name = fmt.Sprintf("number %d", n+1)
		}
		if _, twice := parsed[name]; twice {
			p.refuse("another table has this name")
		}
		for _, fault := range p.faults {
			faults = append(faults, fmt.Errorf("code table %s: %w", name, fault))
		}
		parsed[name] = p
	}
	all := make(map[string]*Table)
	for _, name := range slices.Sorted(maps.Keys(parsed)) {
		if err := resolve(name, parsed, all, nil); err != nil {
			faults = append(faults, fmt.Errorf("code table %s: %w", name, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return all, nil
}

// parse reads the lines of one table, without its base.
func parse(text string) *parser {
	p := &parser{table: &Table{entries: map[string]Entry{}}, sources: map[string]string{}}
	scanner := bufio.NewScanner(strings.NewReader(text))
	for scanner.Scan() {
		p.line++
		p.read(scanner.Text())
	}
	if err := scanner.Err(); err != nil {
		p.refuse("%w", err)
	}
	switch {
	case p.table.name == "" || p.table.edition == "" || !p.about && p.base == "":
		p.refuse("a table needs the lines table and edition, and about or base")
	case p.base != "" && (p.about || p.table.family != nil):
		p.refuse("a table with a base has the base's about and family, and none of its own")
	}
	if len(p.table.entries) > maxTable {
		p.refuse("a table has at most %d codes, this one %d", maxTable, len(p.table.entries))
	}
	return p
}

// resolve completes a table by its base, which it resolves first. The path lists the tables that
// led here, each based on the next.
func resolve(name string, parsed map[string]*parser, all map[string]*Table, path []string) error {
	if all[name] != nil {
		return nil
	}
	p := parsed[name]
	if p.base == "" {
		all[name] = p.table
		return nil
	}
	if path = append(path, name); slices.Contains(path, p.base) {
		return fmt.Errorf("base %s leads back to it: %s", p.base, strings.Join(append(path, p.base), ", "))
	}
	if parsed[p.base] == nil {
		return fmt.Errorf("base is %q, there are %v", p.base, slices.Sorted(maps.Keys(parsed)))
	}
	if err := resolve(p.base, parsed, all, path); err != nil {
		return err
	}
	base, table := all[p.base], *p.table
	table.edition += "+" + base.String()
	table.ofCall, table.family = base.ofCall, base.family
	table.entries = maps.Clone(base.entries)
	maps.Copy(table.entries, p.table.entries)
	table.sources = append(slices.Clone(base.sources), p.table.sources...)
	all[name] = &table
	return nil
}

type parser struct {
	table   *Table
	sources map[string]string // texts by key
	base    string
	about   bool
	line    int
	faults  []error
}

func (p *parser) refuse(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf("line %d: "+format, append([]any{p.line}, args...)...))
}

func (p *parser) read(line string) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "":
	case "table":
		p.table.name = rest
	case "base":
		p.base = rest
	case "edition":
		p.table.edition = rest
	case "about":
		p.about = rest == "payment" || rest == "call"
		p.table.ofCall = rest == "call"
	case "family":
		if rest != "hundreds" {
			p.refuse("family is %q, must be hundreds", rest)
		}
		p.table.family = hundreds
	case "source":
		key, text, _ := strings.Cut(rest, " ")
		p.sources[key] = strings.TrimSpace(text)
		p.table.sources = append(p.table.sources, p.sources[key])
	default:
		if !strings.HasPrefix(word, "#") {
			p.entry(strings.Fields(line))
		}
	}
}

func (p *parser) entry(fields []string) {
	if len(fields) < 4 {
		p.refuse("a code needs class, source and meaning")
		return
	}
	code, class, source := fields[0], Class(fields[1]), p.sources[fields[2]]
	if !slices.Contains(Classes(), class) {
		p.refuse("class is %q, must be one of %v", class, Classes())
	}
	if source == "" {
		p.refuse("source %q is not declared above", fields[2])
	}
	if _, twice := p.table.entries[code]; twice || len(code) > maxCode {
		p.refuse("code %s is listed twice or is longer than %d characters", code, maxCode)
	}
	p.table.entries[code] = Entry{Code: code, Class: class, Source: source, Meaning: strings.Join(fields[3:], " ")}
}

// hundreds implements FSPIOP's rule for unknown codes: xx40 to xx99 are free for schemes to use and
// count as the family's generic xx00 (API Definition v1.1, section 7.6).
func hundreds(code string) string {
	if len(code) != 4 || code[2] < '4' || code[2] > '9' || strings.ContainsFunc(code, notDigit) {
		return ""
	}
	return code[:2] + "00"
}

func notDigit(r rune) bool { return r < '0' || r > '9' }
