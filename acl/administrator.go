package acl

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed sql/administrator.sql
	administratorSQL string
	//go:embed sql/own_grants.sql
	ownGrantsSQL string
	//go:embed sql/acting.sql
	actingSQL string
	//go:embed sql/act_as.sql
	actAsSQL string
)

// ErrLacks is returned if a login that is no superuser lacks what an administrator needs. The
// text of the error has each statement that gives it.
var ErrLacks = errors.New("it lacks what an administrator who is no superuser needs")

// administrator is the current user of a session that creates roles and grants.
type administrator struct {
	Name, Quoted, Session, Database      string
	Superuser, CreatesRoles              bool
	CreatesSchema, Since16, BecomesOwner bool
	OfOthers                             []string // roles of the matrix that it may grant to no login
	Ways                                 []string // members of the owner that it is, or may act as
}

// Administrator returns the name of the current user as an administrator who is no superuser, or
// "" for a superuser. It returns an error that wraps [ErrLacks] if the login can neither create the
// roles of a cell and become their owner, nor create the cell's schema. It changes nothing.
func Administrator(ctx context.Context, conn Beginner, cell string) (name string, err error) {
	m, err := Load()
	if err != nil {
		return "", err
	}
	err = inTx(ctx, conn, func(tx pgx.Tx) error {
		a, err := m.administrator(ctx, tx, cell)
		if err != nil || a.Superuser {
			return err
		}
		name = a.Name
		return a.lacks()
	})
	if err != nil {
		return "", fmt.Errorf("looking what the login may do: %w", err)
	}
	return name, nil
}

// OwnWays returns the members of the owner by which the current user, an administrator who is no
// superuser, may become it: itself, or a group. It has none for any other login.
func OwnWays(ctx context.Context, conn Beginner) (ways []string, err error) {
	m, err := Load()
	if err != nil {
		return nil, err
	}
	err = inTx(ctx, conn, func(tx pgx.Tx) error {
		a, err := m.administrator(ctx, tx, "")
		ways = a.Ways
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the memberships of the login: %w", err)
	}
	return ways, nil
}

func (m Matrix) administrator(ctx context.Context, tx pgx.Tx, cell string) (administrator, error) {
	found, err := collect[administrator](ctx, tx, administratorSQL, m.roleNames(), m.Owner, cell)
	if err != nil {
		return administrator{}, err
	}
	if len(found) != 1 {
		return administrator{}, errors.New("the current user has no role")
	}
	return found[0], nil
}

// lacks returns everything that an administrator lacks, each with the statement that gives it.
func (a administrator) lacks() error {
	var missing []string
	if !a.CreatesRoles {
		missing = append(missing, "it may create no roles: ALTER ROLE "+a.Quoted+" CREATEROLE")
	}
	if !a.CreatesSchema {
		missing = append(missing, "it may create no schema in the database: GRANT CREATE ON DATABASE "+a.Database+
			" TO "+a.Quoted)
	}
	if len(a.OfOthers) > 0 {
		missing = append(missing, "another login has created roles, which it may not grant: GRANT "+
			strings.Join(a.OfOthers, ", ")+" TO "+a.Quoted+" WITH ADMIN TRUE, INHERIT FALSE, SET FALSE")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w\n%s", a.Name, ErrLacks, strings.Join(missing, "\n"))
}

// join makes an administrator who is no superuser a member of the owner, because only a member may
// become it. Before PostgreSQL 16 every member that inherits has the owner's rights in its own
// name; from then on only after SET ROLE.
func (m Matrix) join(ctx context.Context, tx pgx.Tx) error {
	a, err := m.administrator(ctx, tx, "")
	if err != nil || a.Superuser || a.BecomesOwner {
		return err
	}
	grant := "GRANT " + m.Owner + " TO " + a.Quoted
	if a.Since16 {
		grant += " WITH SET TRUE, INHERIT FALSE"
	}
	if _, err := tx.Exec(ctx, grant); err != nil {
		return fmt.Errorf("%s: %w", grant, err)
	}
	return nil
}

// acting runs repairs of objects as the owner, so that an administrator needs none of its rights in
// its own name, and all others as the login.
type acting struct {
	tx      pgx.Tx
	owner   string
	login   string // the setting role of the login
	isOwner bool
}

func (m Matrix) acting(ctx context.Context, tx pgx.Tx) (*acting, error) {
	a := &acting{tx: tx, owner: m.Owner}
	if err := tx.QueryRow(ctx, actingSQL).Scan(&a.login); err != nil {
		return nil, fmt.Errorf("reading the role of the session: %w", err)
	}
	return a, nil
}

// be makes the next statements those of the owner, or of the login.
func (a *acting) be(ctx context.Context, owner bool) error {
	if a.isOwner == owner {
		return nil
	}
	role := a.login
	if owner {
		role = a.owner
	}
	if _, err := a.tx.Exec(ctx, actAsSQL, role); err != nil {
		return fmt.Errorf("becoming %s: %w", role, err)
	}
	a.isOwner = owner
	return nil
}

// repair removes one difference.
func (a *acting) repair(ctx context.Context, d Difference) error {
	if err := a.be(ctx, d.byOwner); err != nil {
		return err
	}
	_, err := a.tx.Exec(ctx, d.repair)
	if err != nil && d.Code == ExtraMember && stateOf(err) == "42501" {
		return fmt.Errorf("%s: %w\nAnother login has granted that: it, or a superuser, has to revoke it. An administrator "+
			"who is to stay is named by --administrator", d.repair, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.repair, err)
	}
	return nil
}
