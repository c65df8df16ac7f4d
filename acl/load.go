package acl

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

//go:embed matrix.yaml
var matrixYAML []byte

// document is the structure of matrix.yaml. The reasons are the values of the innermost
// maps, so that each privilege needs one.
type document struct {
	Attributes map[string]string `yaml:"attributes"`
	Roles      []struct {
		Name  string `yaml:"name"`
		Owner bool   `yaml:"owner"`
		For   string `yaml:"for"`
	} `yaml:"roles"`
	Grants []block `yaml:"grants"`
	Never  []struct {
		Privileges []string `yaml:"privileges"`
		On         []string `yaml:"on"`
		Columns    []string `yaml:"columns"`
		To         []string `yaml:"to"`
		Because    string   `yaml:"because"`
	} `yaml:"never"`
}

// block is a group of grants that some roles share.
type block struct {
	To        []string                     `yaml:"to"`
	Schema    map[string]string            `yaml:"schema"`
	Tables    map[string]map[string]string `yaml:"tables"`
	Views     map[string]map[string]string `yaml:"views"`
	Sequences map[string]map[string]string `yaml:"sequences"`
	Functions map[string]map[string]string `yaml:"functions"`
	Types     map[string]map[string]string `yaml:"types"`
}

// Load returns the matrix of this build. Unknown fields, a grant without a reason, a
// duplicate grant and a forbidden grant are errors; it returns all of them at once.
func Load() (Matrix, error) {
	m, err := embedded()
	m.Roles, m.Grants, m.Never = slices.Clone(m.Roles), slices.Clone(m.Grants), slices.Clone(m.Never)
	return m, err
}

// embedded is the matrix that is compiled in, parsed once a process: making the logins of a cell reads it
// for each.
var embedded = sync.OnceValues(func() (Matrix, error) { return parse(matrixYAML) })

func parse(text []byte) (Matrix, error) {
	var doc document
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.Strict()); err != nil {
		return Matrix{}, fmt.Errorf("reading the role matrix: %w", err)
	}
	var m Matrix
	errs := doc.checkAttributes()
	for _, role := range doc.Roles {
		switch {
		case !plainName().MatchString(role.Name):
			errs = append(errs, fmt.Errorf("role %q: want lower-case letters, digits and underscores", role.Name))
		case slices.Contains(m.roleNames(), role.Name):
			errs = append(errs, fmt.Errorf("role %s: named twice", role.Name))
		case !oneLine(role.For):
			errs = append(errs, fmt.Errorf("role %s: it does not say in one line what it is for", role.Name))
		}
		if role.Owner && m.Owner != "" {
			errs = append(errs, fmt.Errorf("role %s: %s is the owner already", role.Name, m.Owner))
		}
		if role.Owner {
			m.Owner = role.Name
		}
		m.Roles = append(m.Roles, Role{Name: role.Name, For: role.For})
	}
	if m.Owner == "" {
		errs = append(errs, errors.New("no role is the owner"))
	}
	for _, rule := range doc.Never {
		m.Never = append(m.Never, Rule{
			Privileges: rule.Privileges, On: rule.On, Columns: rule.Columns, To: rule.To, Because: rule.Because,
		})
	}
	for _, group := range doc.Grants {
		grants, problems := group.grants()
		m.Grants = append(m.Grants, grants...)
		errs = append(errs, problems...)
	}
	sortGrants(m.roleNames(), m.Grants)
	errs = append(errs, m.check()...)
	if err := errors.Join(errs...); err != nil {
		return Matrix{}, fmt.Errorf("role matrix: %w", err)
	}
	return m, nil
}

// checkAttributes checks that the file has exactly the attributes that the code enforces.
func (d document) checkAttributes() []error {
	var want []string
	for _, a := range attributes() {
		want = append(want, a.word)
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(d.Attributes)); !slices.Equal(got, want) {
		return []error{fmt.Errorf("attributes %v: want exactly %v", got, want)}
	}
	return nil
}

// check checks the grants against each other and against the roles. They must be sorted.
func (m Matrix) check() []error {
	var errs []error
	roles := m.roleNames()
	for i, g := range m.Grants {
		what := fmt.Sprintf("%s: %s on %s", g.Role, g.Privilege, g.Object)
		switch {
		case !slices.Contains(roles, g.Role):
			errs = append(errs, fmt.Errorf("%s: unknown role", what))
		case g.Role == m.Owner:
			errs = append(errs, fmt.Errorf("%s: the owner needs no grant", what))
		case !oneLine(g.Reason):
			errs = append(errs, fmt.Errorf("%s: no reason, or one of several lines", what))
		}
		if i > 0 && m.Grants[i-1].key() == g.key() {
			errs = append(errs, fmt.Errorf("%s: granted twice", what))
		}
		// A grant on a column has no effect if the whole table is granted, and is probably a
		// mistake.
		if g.Object.Column != "" && slices.ContainsFunc(m.Grants, func(other Grant) bool {
			return other.Role == g.Role && other.Privilege == g.Privilege && other.Object == g.Object.whole()
		}) {
			errs = append(errs, fmt.Errorf("%s: the whole object is granted already", what))
		}
		if because := m.reasonAgainst(g); because != "" {
			errs = append(errs, fmt.Errorf("%s: never, because %s", what, because))
		}
	}
	return errs
}

// grants returns the single grants of a block.
func (b block) grants() ([]Grant, []error) {
	var all []Grant
	var errs []error
	spread := func(kind Kind, objects map[string]map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(objects)) {
			for _, words := range slices.Sorted(maps.Keys(objects[name])) {
				found, err := read(kind, name, words)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				for _, g := range found {
					g.Reason = strings.TrimSpace(objects[name][words])
					for _, role := range b.To {
						g.Role = role
						all = append(all, g)
					}
				}
			}
		}
	}
	if b.Schema != nil {
		spread(KindSchema, map[string]map[string]string{"": b.Schema})
	}
	spread(KindTable, b.Tables)
	spread(KindView, b.Views)
	spread(KindSequence, b.Sequences)
	spread(KindFunction, b.Functions)
	spread(KindType, b.Types)
	if len(b.To) == 0 {
		errs = append(errs, errors.New("a group of grants names no role"))
	}
	return all, errs
}

// oneLine reports whether a reason is not empty and fits into a comment of SQL.
func oneLine(reason string) bool {
	return strings.TrimSpace(reason) != "" && !strings.ContainsAny(reason, "\r\n")
}

func plainName() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_]*$`) }

// signature matches a function with its argument types, without spaces after commas, as in
// the catalog.
func signature() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z][a-z0-9_]*\(([a-z][a-z0-9_ ]*(\[\])?(,[a-z][a-z0-9_ ]*(\[\])?)*)?\)$`)
}

// read returns the grants of "UPDATE (a, b)" on an object, without role and reason.
func read(kind Kind, name, words string) ([]Grant, error) {
	shape := plainName()
	if kind == KindFunction {
		shape = signature()
	}
	if kind != KindSchema && !shape.MatchString(name) {
		return nil, fmt.Errorf("%s %q: not a name that the catalog would have", kind, name)
	}
	object := Object{Kind: kind, Name: name}
	privilege, columns, onColumns := strings.Cut(words, " (")
	if !slices.Contains(kind.privileges(), privilege) {
		return nil, fmt.Errorf("%s on %s: no such privilege", words, object)
	}
	if !onColumns {
		return []Grant{{Object: object, Privilege: privilege}}, nil
	}
	list, closed := strings.CutSuffix(columns, ")")
	if kind != KindTable && kind != KindView || privilege == "DELETE" || !closed {
		return nil, fmt.Errorf("%s on %s: no such privilege", words, object)
	}
	var grants []Grant
	for column := range strings.SplitSeq(list, ",") {
		object.Column = strings.TrimSpace(column)
		if !plainName().MatchString(object.Column) {
			return nil, fmt.Errorf("%s on %s: %q names no column", words, object.whole(), object.Column)
		}
		grants = append(grants, Grant{Object: object, Privilege: privilege})
	}
	return grants, nil
}
