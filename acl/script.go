package acl

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The parts of the script that read the catalog.
var (
	//go:embed sql/make_roles.sql
	makeRolesSQL string
	//go:embed sql/take_back.sql
	takeBackSQL string
)

// SQL returns the whole matrix as a script, for a DBA who reads it and runs it instead of
// Apply: roles, attributes, default privileges, the revocation of all privileges, and every
// grant with its reason. It is one transaction, and can be run again. It requires a
// superuser, the cell's database, and the schema of this build. The administrators stay members
// of the owner.
func (m Matrix) SQL(cell string, administrators ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- Roles and grants of cell %q. Run as a superuser in its database, "+
		"after the migrations.\nBEGIN;\nSET LOCAL search_path = pg_catalog, pg_temp;\n\n", cell)
	for _, role := range m.Roles {
		fmt.Fprintf(&b, "-- %s: %s.\n", role.Name, role.For)
	}
	b.WriteString(strings.NewReplacer("{roles}", m.roleArray(), "{attributes}", attributeWords()).Replace(makeRolesSQL))
	b.WriteString(m.takeBack(cell, administrators))
	heading := ""
	for i := 0; i < len(m.Grants); {
		g := m.Grants[i]
		run := 1 // columns of one privilege that share their reason
		for i+run < len(m.Grants) && m.Grants[i+run].sharesLine(g) {
			run++
		}
		if g.Role != heading {
			heading = g.Role
			fmt.Fprintf(&b, "\n-- %s\n", heading)
		}
		b.WriteString(grantLine(cell, m.Grants[i:i+run]))
		i += run
	}
	b.WriteString("\nCOMMIT;\n")
	return b.String()
}

// takeBack returns the part of the script that revokes privileges. It reads the catalog by
// the same statements as Diff.
func (m Matrix) takeBack(cell string, administrators []string) string {
	return strings.NewReplacer(
		"{owner}", literal(m.Owner),
		"{privileges}", inline(privilegesSQL, literal(cell)),
		"{defaults}", inline(defaultsSQL, literal(m.Owner), literal(cell)),
		"{members}", inline(membersSQL, literal(m.Owner), m.roleArray(), textArray(administrators)),
	).Replace(takeBackSQL)
}

// inline returns a statement for use inside another, with its arguments inserted.
func inline(statement string, args ...string) string {
	statement = strings.TrimSuffix(strings.TrimSpace(statement), ";")
	for i, arg := range args {
		statement = strings.ReplaceAll(statement, fmt.Sprintf("$%d", i+1), arg)
	}
	return "    " + strings.ReplaceAll(statement, "\n", "\n    ")
}

// roleArray returns the names of all roles as an array of SQL.
func (m Matrix) roleArray() string {
	var names []string
	for _, name := range m.roleNames() {
		names = append(names, literal(name))
	}
	return "ARRAY[" + strings.Join(names, ", ") + "]"
}

func (g Grant) sharesLine(first Grant) bool {
	return g.Object.Column != "" && g.Role == first.Role && g.Object.whole() == first.Object.whole() &&
		g.Privilege == first.Privilege && g.Reason == first.Reason
}

// grantLine returns one GRANT, of a privilege on an object or on some of its columns.
func grantLine(cell string, run []Grant) string {
	g := run[0]
	privilege := g.Privilege
	if g.Object.Column != "" {
		var columns []string
		for _, one := range run {
			columns = append(columns, one.Object.Column)
		}
		privilege += " (" + strings.Join(columns, ", ") + ")"
	}
	target := pgx.Identifier{cell}.Sanitize()
	if g.Object.Name != "" {
		target += "." + g.Object.Name // plain by Load, so it needs no quotes
	}
	return fmt.Sprintf("GRANT %s ON %s %s TO %s; -- %s\n", privilege, g.Object.Kind.noun(), target, g.Role, g.Reason)
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
