// Package acl has the role matrix of a cell as data: the privileges of each role on each
// object, with the reason. It turns the matrix into grants, and compares it with the live
// catalog.
//
// EnsureRoles creates the roles, before the first migration. Apply makes the grants equal
// to the matrix, after each migration. Diff reports the differences. Apply repairs the
// differences that Diff finds until there are none, so both always agree.
package acl

import (
	"cmp"
	"slices"
	"strings"
)

// Kind is a kind of object that has privileges.
type Kind string

// The kinds, by the words of the matrix. A table may be partitioned or foreign,
// a view materialized, a function a procedure or an aggregate, a type a domain.
const (
	KindSchema   Kind = "schema"
	KindTable    Kind = "table"
	KindView     Kind = "view"
	KindSequence Kind = "sequence"
	KindFunction Kind = "function"
	KindType     Kind = "type"
)

// kinds returns every kind in the order of scripts and reports.
func kinds() []Kind {
	return []Kind{KindSchema, KindTable, KindView, KindSequence, KindFunction, KindType}
}

// noun returns the word for the kind in GRANT and REVOKE.
func (k Kind) noun() string {
	switch k {
	case KindView:
		return "TABLE"
	case KindFunction:
		return "ROUTINE"
	default:
		return strings.ToUpper(string(k))
	}
}

// privileges lists the privileges of the kind, in the order of scripts and reports. It
// includes CREATE, TRUNCATE and the like so that Load refuses them for the right reason.
func (k Kind) privileges() []string {
	switch k {
	case KindSchema:
		return []string{"USAGE", "CREATE"}
	case KindTable, KindView:
		return []string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "MAINTAIN"}
	case KindSequence:
		return []string{"USAGE", "SELECT", "UPDATE"}
	case KindFunction:
		return []string{"EXECUTE"}
	default:
		return []string{"USAGE"}
	}
}

// Object is one object of a cell. The schema itself has no name: it is the cell's.
type Object struct {
	Kind   Kind
	Name   string // of a function with the types of its arguments
	Column string // "" unless this is a column of a table or view
}

func (o Object) String() string {
	switch {
	case o.Name == "":
		return string(o.Kind)
	case o.Column != "":
		return string(o.Kind) + " " + o.Name + ", column " + o.Column
	default:
		return string(o.Kind) + " " + o.Name
	}
}

// whole returns the object without its column.
func (o Object) whole() Object {
	o.Column = ""
	return o
}

func (o Object) compare(other Object) int {
	return cmp.Or(
		cmp.Compare(slices.Index(kinds(), o.Kind), slices.Index(kinds(), other.Kind)),
		cmp.Compare(o.Name, other.Name),
		cmp.Compare(o.Column, other.Column))
}

// Role is a set of privileges. No session logs in as a role.
type Role struct {
	Name string
	For  string
}

// Grant is one privilege of one role on one object.
type Grant struct {
	Role      string
	Object    Object
	Privilege string
	Reason    string
}

// key identifies a privilege; two entries with the same key are duplicates.
type key struct {
	role, privilege string
	object          Object
}

func (g Grant) key() key { return key{role: g.Role, privilege: g.Privilege, object: g.Object} }

// Rule forbids grants.
type Rule struct {
	Privileges []string
	On         []string // names of objects; none: every object
	Columns    []string // a grant on one of these, or on the whole object; none: every grant
	To         []string // roles; none: every role
	Because    string
}

func (r Rule) forbids(g Grant) bool {
	return slices.Contains(r.Privileges, g.Privilege) &&
		(len(r.On) == 0 || slices.Contains(r.On, g.Object.Name)) &&
		(len(r.Columns) == 0 || g.Object.Column == "" || slices.Contains(r.Columns, g.Object.Column)) &&
		(len(r.To) == 0 || slices.Contains(r.To, g.Role))
}

// Matrix has all privileges in a cell. The zero value grants nothing.
type Matrix struct {
	Owner string // owns every object and has no members but administrators
	Roles []Role // in the order of the file, the owner among them
	// Grants are sorted by role, object and privilege; a grant on three columns is three.
	Grants []Grant
	Never  []Rule
}

// roleNames returns the names of all roles, in the order of the file.
func (m Matrix) roleNames() []string {
	names := make([]string, 0, len(m.Roles))
	for _, role := range m.Roles {
		names = append(names, role.Name)
	}
	return names
}

// reasonAgainst returns why a Rule forbids the grant; "" if none does.
func (m Matrix) reasonAgainst(g Grant) string {
	for _, rule := range m.Never {
		if rule.forbids(g) {
			return rule.Because
		}
	}
	return ""
}

// sortGrants sorts grants by role, object and privilege.
func sortGrants(roles []string, grants []Grant) {
	slices.SortFunc(grants, func(a, b Grant) int {
		return cmp.Or(
			cmp.Compare(slices.Index(roles, a.Role), slices.Index(roles, b.Role)),
			a.Object.whole().compare(b.Object.whole()),
			comparePrivileges(a.Object.Kind, a.Privilege, b.Privilege),
			cmp.Compare(a.Object.Column, b.Object.Column))
	})
}

func comparePrivileges(kind Kind, a, b string) int {
	order := kind.privileges()
	return cmp.Or(cmp.Compare(slices.Index(order, a), slices.Index(order, b)), cmp.Compare(a, b))
}
