package acl

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed sql/differences.sql
var differencesSQL string

// DiffSQL returns the comparison of Diff as one statement, for auditors who run it without
// this program, with the same administrators. It contains the matrix, and returns the columns code
// and detail with a row for each difference. standard_conforming_strings must be on.
func (m Matrix) DiffSQL(cell string, administrators ...string) string {
	var names, grants, never []string
	for _, name := range m.roleNames() {
		names = append(names, "("+literal(name)+")")
	}
	for _, g := range m.Grants {
		grants = append(grants,
			valuesRow(g.Role, g.Privilege, string(g.Object.Kind), g.Object.Name, g.Object.Column, g.Reason))
	}
	for n, rule := range m.Never {
		never = append(never, fmt.Sprintf("(%d, %s, %s, %s, %s, %s)", n+1, textArray(rule.Privileges), textArray(rule.On),
			textArray(rule.Columns), textArray(rule.To), literal(rule.Because)))
	}
	return strings.NewReplacer(
		"{names}", valuesOf(names), "{grants}", valuesOf(grants), "{never}", valuesOf(never), "{owner}", literal(m.Owner),
		"{privileges}", inline(privilegesSQL, literal(cell)),
		"{defaults}", inline(defaultsSQL, literal(m.Owner), literal(cell)),
		"{members}", inline(membersSQL, literal(m.Owner), m.roleArray(), textArray(administrators)),
	).Replace(differencesSQL)
}

// valuesOf returns rows for a VALUES list, one on each line.
func valuesOf(rows []string) string { return "    " + strings.Join(rows, ",\n    ") }

// valuesRow returns one row of a VALUES list.
func valuesRow(texts ...string) string {
	quoted := make([]string, len(texts))
	for n, text := range texts {
		quoted[n] = literal(text)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

func textArray(texts []string) string {
	quoted := make([]string, len(texts))
	for n, text := range texts {
		quoted[n] = literal(text)
	}
	return "ARRAY[" + strings.Join(quoted, ", ") + "]::text[]"
}
