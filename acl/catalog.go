package acl

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The statements that read the catalog. The script for a DBA also runs them.
var (
	//go:embed sql/privileges.sql
	privilegesSQL string
	//go:embed sql/defaults.sql
	defaultsSQL string
	//go:embed sql/roles.sql
	rolesSQL string
	//go:embed sql/members.sql
	membersSQL string
	//go:embed sql/login.sql
	loginSQL string
	//go:embed sql/login_idle.sql
	loginIdleSQL string
)

// ErrNoCell is returned if the cell has no schema yet.
var ErrNoCell = errors.New("the cell has no schema: migrate first")

// entry is one privilege in the live catalog, or an object on which only its owner has
// privileges (no grantee). Names are quoted if SQL requires it.
type entry struct {
	Kind      string
	Name      string
	Column    string `db:"col"`
	Ident     string // the name in a statement
	Owner     string
	Partition bool
	RowType   bool
	Grantee   string
	Privilege string
	Grantable bool
}

func (e entry) object() Object { return Object{Kind: Kind(e.Kind), Name: e.name(), Column: e.Column} }

// name returns the name in the matrix, which has none for the schema.
func (e entry) name() string {
	if Kind(e.Kind) == KindSchema {
		return ""
	}
	return e.Name
}

// target returns the privilege and the ON part of a GRANT, with the column if there is one.
func (e entry) target(privilege string) string {
	if e.Column != "" {
		privilege += " (" + pgx.Identifier{e.Column}.Sanitize() + ")"
	}
	return privilege + " ON " + Kind(e.Kind).noun() + " " + e.Ident
}

// roleEntry is one role in the live catalog.
type roleEntry struct {
	Name                                                                                        string
	RolCanLogin, RolSuper, RolBypassRLS, RolCreateRole, RolCreateDB, RolReplication, RolInherit bool
}

// attribute is a property that every role of the matrix must have.
type attribute struct {
	word, opposite string
	has            func(roleEntry) bool // whether the role has word
}

func attributes() []attribute {
	return []attribute{
		{"NOLOGIN", "LOGIN", func(r roleEntry) bool { return !r.RolCanLogin }},
		{"NOSUPERUSER", "SUPERUSER", func(r roleEntry) bool { return !r.RolSuper }},
		{"NOBYPASSRLS", "BYPASSRLS", func(r roleEntry) bool { return !r.RolBypassRLS }},
		{"NOCREATEROLE", "CREATEROLE", func(r roleEntry) bool { return !r.RolCreateRole }},
		{"NOCREATEDB", "CREATEDB", func(r roleEntry) bool { return !r.RolCreateDB }},
		{"NOREPLICATION", "REPLICATION", func(r roleEntry) bool { return !r.RolReplication }},
		{"INHERIT", "NOINHERIT", func(r roleEntry) bool { return r.RolInherit }},
	}
}

// memberEntry is one membership that no role should have.
type memberEntry struct{ Role, Member, Grantor string }

// defaultEntry is one default privilege, which a new object would get.
type defaultEntry struct{ Maker, InSchema, Noun, Grantee, Privilege string }

// collect runs a statement that reads the catalog.
func collect[T any](ctx context.Context, tx pgx.Tx, statement string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, statement, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	return all, nil
}
