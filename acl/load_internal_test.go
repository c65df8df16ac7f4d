package acl

import (
	"slices"
	"strings"
	"testing"
)

// TestLoad reads the matrix of this build; everything else starts here.
func TestLoad(t *testing.T) {
	t.Parallel()
	m, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	if m.Owner != "railhead_owner" || len(m.Roles) != 11 {
		t.Errorf("got owner %q and %d roles", m.Owner, len(m.Roles))
	}
}

// valid is a matrix that parse takes; each case spoils it in one place.
const valid = `
attributes: {NOLOGIN: x, NOSUPERUSER: x, NOBYPASSRLS: x, NOCREATEROLE: x, NOCREATEDB: x, NOREPLICATION: x, INHERIT: x}
roles:
  - {name: owner, owner: true, for: owns}
  - {name: reader, for: reads}
grants:
  - to: [reader]
    schema: {USAGE: names}
    tables:
      pending:
        SELECT: looks
        UPDATE (a, b): moves
    functions:
      "f(text,timestamptz[])":
        EXECUTE: calls
never:
  - {privileges: [TRUNCATE], because: it empties}
  - {privileges: [DELETE], on: [pending], to: [reader], because: it loses}
  - {privileges: [SELECT], on: [keys], columns: [secret], because: it shows}
`

func TestParse(t *testing.T) {
	t.Parallel()
	m, err := parse([]byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Grants) != 5 || m.Grants[2].Object.Column != "a" || m.Grants[3].Object.Column != "b" {
		t.Errorf("got %+v", m.Grants)
	}
	other := strings.Replace(valid, "    functions:", "      keys: {SELECT (name): looks}\n    functions:", 1)
	if _, err := parse([]byte(other)); err != nil {
		t.Errorf("a column that no rule names: %v", err)
	}
	for _, test := range []struct{ name, old, new, want string }{
		{"unknown field", "for: reads", "for: reads, login: yes", "unknown field"},
		{"unknown kind", "    tables:", "    cursors: {}\n    tables:", "unknown field"},
		{"key twice", "        SELECT: looks", "        SELECT: looks\n        SELECT: again", "already"},
		{"unknown privilege", "SELECT: looks", "SELCT: looks", "no such privilege"},
		{"privilege of another kind", "EXECUTE: calls", "SELECT: calls", "no such privilege"},
		{"DELETE by column", "UPDATE (a, b)", "DELETE (a, b)", "no such privilege"},
		{"columns left open", "UPDATE (a, b)", "UPDATE (a, b", "no such privilege"},
		{"no column", "UPDATE (a, b)", "UPDATE (a, )", "names no column"},
		{"no reason", "SELECT: looks", "SELECT: ' '", "no reason"},
		{"reason that leaves its comment", "SELECT: looks", `SELECT: "looks\nDROP"`, "several lines"},
		{"unknown role", "to: [reader]", "to: [reader, writer]", "writer: USAGE on schema: unknown role"},
		{"no role", "to: [reader]\n    schema", "to: []\n    schema", "names no role"},
		{"role twice in a group", "to: [reader]\n    schema", "to: [reader, reader]\n    schema", "granted twice"},
		{"column twice", "UPDATE (a, b)", "UPDATE (a, a)", "granted twice"},
		{"column and the table", "SELECT: looks", "SELECT: looks\n        SELECT (a): looks", "whole object is granted already"},
		{"grant to the owner", "to: [reader]\n    schema", "to: [owner]\n    schema", "needs no grant"},
		{"PUBLIC", "to: [reader]\n    schema", "to: [PUBLIC]\n    schema", "unknown role"},
		{"never, anywhere", "SELECT: looks", "TRUNCATE: empties", "never, because it empties"},
		{"never, a column", "    functions:", "      keys: {SELECT (secret): peeks}\n    functions:", "never, because it shows"},
		{"never, a column by its table", "    functions:", "      keys: {SELECT: peeks}\n    functions:", "never, because it shows"},
		{"never, here", "SELECT: looks", "DELETE: takes", "never, because it loses"},
		{"no owner", "owner: true, ", "", "no role is the owner"},
		{"two owners", "for: reads", "owner: true, for: reads", "owner already"},
		{"role twice", "name: reader", "name: owner", "named twice"},
		{"role with a name for quotes", "name: reader", "name: Reader", "want lower-case"},
		{"role for nothing", "for: reads", "for: ''", "in one line"},
		{"attribute dropped", "NOLOGIN: x, ", "", "want exactly"},
		{"attribute turned", "NOSUPERUSER", "SUPERUSER", "want exactly"},
		{"blank in a signature", "f(text,timestamptz[])", "f(text, timestamptz[])", "not a name"},
		{"name for quotes", "      pending:", "      Pending:", "not a name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spoiled := strings.Replace(valid, test.old, test.new, 1)
			if spoiled == valid {
				t.Fatal("the case spoils nothing")
			}
			if _, err := parse([]byte(spoiled)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v; want it to say %q", err, test.want)
			}
		})
	}
}

// TestScramVerifier is the example of RFC 7677 in the form of RFC 5803.
func TestScramVerifier(t *testing.T) {
	t.Parallel()
	const want = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==" +
		"$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if !verifies(want, "pencil") {
		t.Error("the RFC's verifier is not one of its password")
	}
	for _, stored := range []string{"", "md5abc", scramPrefix, scramPrefix + "%$x:y", want[:len(want)-1]} {
		if verifies(stored, "pencil") {
			t.Errorf("%q verifies", stored)
		}
	}
	if verifies(want, "Pencil") {
		t.Error("another password verifies")
	}
}

// TestPartitionsAreNeverNamed holds for a matrix that tries: access goes through
// the parent.
func TestPartitionsAreNeverNamed(t *testing.T) {
	t.Parallel()
	part := Object{Kind: KindTable, Name: "part"}
	m := Matrix{Owner: "owner", Grants: []Grant{{Role: "reader", Object: part, Privilege: "SELECT", Reason: "looks"}}}
	found := m.grantDifferences([]entry{{
		Kind: "table", Name: "part", Ident: "c.part", Owner: "owner", Partition: true, Grantee: "reader", Privilege: "SELECT",
	}})
	var codes []Code
	for _, d := range found {
		codes = append(codes, d.Code)
	}
	if !slices.Equal(codes, []Code{MissingObject, ExtraGrant}) {
		t.Errorf("got %v", found)
	}
}
