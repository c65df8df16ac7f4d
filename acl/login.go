package acl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// memberOf is one membership of a login.
type memberOf struct {
	Role, Quoted, Grantor string
	Admin, Inherits       bool
}

// EnsureLogin creates a login that is a member of exactly one role of the matrix, or
// changes an existing login so. It is for `make run` and for tests: an installation
// creates its logins with its own tools. An empty password means none, for servers that
// authenticate their clients by other means.
//
// A login of an operator gets an idle timeout for transactions, unless it has one: other
// operators wait for the locks of an open transaction.
//
// EnsureLogin refuses the owner role, whose members are administrators only, and a login that is
// a superuser or the session's own.
func EnsureLogin(ctx context.Context, conn Beginner, login, role, password string) error {
	m, err := Load()
	if err != nil {
		return err
	}
	roles := m.roleNames()
	switch {
	case role == m.Owner:
		err = errors.New("no login may be a member of " + m.Owner)
	case !slices.Contains(roles, role):
		err = fmt.Errorf("no role %q in the matrix", role)
	case slices.Contains(roles, login) || login == "":
		err = errors.New("that can't be a login's name")
	}
	if err == nil {
		err = retry(ctx, func() error {
			return inTx(ctx, conn, func(tx pgx.Tx) error { return m.ensureLogin(ctx, tx, login, role, password) })
		})
	}
	if err != nil {
		return fmt.Errorf("making login %q a member of %s: %w", login, role, err)
	}
	return nil
}

func (m Matrix) ensureLogin(ctx context.Context, tx pgx.Tx, login, role, password string) error {
	if _, err := tx.Exec(ctx, ownGrantsSQL); err != nil {
		return fmt.Errorf("preparing to make a login: %w", err)
	}
	self, err := m.administrator(ctx, tx, "")
	if err != nil {
		return err
	}
	if login == self.Name || login == self.Session {
		return errors.New("it is the login that administers the roles")
	}
	statements, err := shapeLogin(ctx, tx, login)
	if err != nil {
		return err
	}
	setPassword, err := passwordStatement(ctx, tx, login, password)
	if err != nil {
		return err
	}
	memberships, err := shapeMemberships(ctx, tx, login, role)
	if err != nil {
		return err
	}
	boundIdle, err := idleStatement(ctx, tx, login, role)
	if err != nil {
		return err
	}
	for _, statement := range slices.Concat(statements, setPassword, memberships, boundIdle) {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("changing the login: %w", err) // the statement may contain a password's verifier
		}
	}
	return nil
}

// shapeLogin returns the statements that create the login, or correct its attributes.
func shapeLogin(ctx context.Context, tx pgx.Tx, login string) ([]string, error) {
	found, err := collect[roleEntry](ctx, tx, rolesSQL, []string{login})
	if err != nil {
		return nil, err
	}
	name := pgx.Identifier{login}.Sanitize()
	if len(found) == 0 {
		return []string{"CREATE ROLE " + name + " " + strings.Replace(attributeWords(), "NOLOGIN", "LOGIN", 1)}, nil
	}
	if found[0].RolSuper {
		return nil, errors.New("it is a superuser")
	}
	var statements []string
	for _, a := range attributes() {
		word, has := a.word, a.has(found[0])
		if word == "NOLOGIN" {
			word, has = a.opposite, !has
		}
		if !has {
			statements = append(statements, "ALTER ROLE "+name+" "+word)
		}
	}
	return statements, nil
}

// shapeMemberships returns the statements that make role the login's only membership,
// inherited and without the admin option.
func shapeMemberships(ctx context.Context, tx pgx.Tx, login, role string) ([]string, error) {
	found, err := collect[memberOf](ctx, tx, loginSQL, login)
	if err != nil {
		return nil, err
	}
	name := pgx.Identifier{login}.Sanitize()
	var statements []string
	member := false
	for _, of := range found {
		if of.Role == role && of.Inherits && !of.Admin {
			member = true
			continue
		}
		revoke := "REVOKE " + of.Quoted + " FROM " + name
		if of.Grantor != "" {
			revoke += " GRANTED BY " + of.Grantor
		}
		statements = append(statements, revoke+" CASCADE")
	}
	if !member {
		statements = append(statements, "GRANT "+role+" TO "+name)
	}
	return statements, nil
}

// An open transaction of an operator blocks others that pause the same rail. The server
// ends it after it was idle for operatorIdle.
const (
	operatorRole = "railhead_operator"
	operatorIdle = "1min"
)

// idleStatement returns the statement that sets the idle timeout of an operator's login, if
// that has none.
func idleStatement(ctx context.Context, tx pgx.Tx, login, role string) ([]string, error) {
	if role != operatorRole {
		return nil, nil
	}
	var isSet bool
	if err := tx.QueryRow(ctx, loginIdleSQL, login).Scan(&isSet); err != nil {
		return nil, fmt.Errorf("reading the settings of the login: %w", err)
	}
	if isSet {
		return nil, nil
	}
	name := pgx.Identifier{login}.Sanitize()
	return []string{"ALTER ROLE " + name + " SET idle_in_transaction_session_timeout = '" + operatorIdle + "'"}, nil
}
