package acl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Code is the kind of a difference. The order is the order of repair: roles first,
// memberships last, because the login that repairs may have one.
type Code string

// The codes, in order of repair.
const (
	MissingRole   Code = "MISSING_ROLE"
	RoleAttribute Code = "ROLE_ATTRIBUTE"
	MissingObject Code = "MISSING_OBJECT" // in the matrix, but not in the schema
	WrongOwner    Code = "WRONG_OWNER"
	DefaultGrant  Code = "DEFAULT_GRANT" // a default privilege, which new objects would get
	ExtraGrant    Code = "EXTRA_GRANT"
	GrantOption   Code = "GRANT_OPTION"
	MissingGrant  Code = "MISSING_GRANT"
	ExtraMember   Code = "EXTRA_MEMBER"
)

func codes() []Code {
	return []Code{
		MissingRole, RoleAttribute, MissingObject, WrongOwner, DefaultGrant,
		ExtraGrant, GrantOption, MissingGrant, ExtraMember,
	}
}

// Difference is one difference between the live catalog and the matrix.
type Difference struct {
	Code      Code
	Object    Object // zero if it is about a role
	Grantee   string // the role, login or PUBLIC
	Privilege string // or the attribute, or the role of which the grantee is a member
	Detail    string // one sentence
	// repair is the statement that removes the difference; "" if an operator has to check it.
	repair string
	// byOwner is set if the owner of the cell runs repair, and not the login itself.
	byOwner bool
}

func (d Difference) String() string { return string(d.Code) + ": " + d.Detail }

func compareDifferences(a, b Difference) int {
	return cmp.Or(
		cmp.Compare(slices.Index(codes(), a.Code), slices.Index(codes(), b.Code)),
		a.Object.compare(b.Object),
		cmp.Compare(a.Grantee, b.Grantee),
		comparePrivileges(a.Object.Kind, a.Privilege, b.Privilege),
		cmp.Compare(a.Detail, b.Detail))
}

// Beginner is a connection, a pool or a transaction.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Diff compares the live catalog of a cell with the matrix and returns every difference,
// in a fixed order. Memberships of the administrators in the owner are none. It changes nothing,
// and any login may run it.
func Diff(ctx context.Context, conn Beginner, cell string, administrators ...string) ([]Difference, error) {
	m, err := Load()
	if err != nil {
		return nil, err
	}
	var found []Difference
	err = inTx(ctx, conn, func(tx pgx.Tx) error {
		found, err = m.differences(ctx, tx, cell, administrators)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("comparing the roles of cell %s with the matrix: %w", cell, err)
	}
	return found, nil
}

// inTx runs f in a transaction of its own, or in a savepoint of the caller's transaction.
func inTx(ctx context.Context, conn Beginner, f func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, f)
}

// differences returns the differences that Diff reports and Apply repairs.
func (m Matrix) differences(
	ctx context.Context, tx pgx.Tx, cell string, administrators []string,
) ([]Difference, error) {
	entries, err := collect[entry](ctx, tx, privilegesSQL, cell)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, ErrNoCell
	}
	ofRoles, err := m.roleDifferences(ctx, tx)
	if err != nil {
		return nil, err
	}
	ofDefaults, err := m.defaultDifferences(ctx, tx, cell)
	if err != nil {
		return nil, err
	}
	ofMembers, err := m.memberDifferences(ctx, tx, administrators)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(ofRoles, m.grantDifferences(entries), ofDefaults, ofMembers)
	slices.SortFunc(all, compareDifferences)
	return all, nil
}

// grantDifferences compares objects and the privileges on them.
func (m Matrix) grantDifferences(entries []entry) []Difference {
	objects := make(map[Object]entry, len(entries))
	held := make(map[key]bool, len(entries))
	for _, e := range entries {
		objects[e.object()] = e
		held[key{role: e.Grantee, privilege: e.Privilege, object: e.object()}] = true
	}
	wanted := make(map[key]bool, len(m.Grants))
	var all []Difference
	for _, g := range m.Grants {
		wanted[g.key()] = true
		e, there := objects[g.Object]
		switch {
		case !there || e.Partition:
			all = append(all, Difference{
				Code: MissingObject, Object: g.Object, Grantee: g.Role, Privilege: g.Privilege,
				Detail: fmt.Sprintf("the matrix grants %s %s on %s, which does not exist", g.Role, g.Privilege, g.Object),
			})
		case !held[g.key()]:
			all = append(all, Difference{
				Code: MissingGrant, Object: g.Object, Grantee: g.Role, Privilege: g.Privilege,
				Detail: fmt.Sprintf("%s lacks %s on %s: %s", g.Role, g.Privilege, g.Object, g.Reason),
				repair: "GRANT " + e.target(g.Privilege) + " TO " + g.Role, byOwner: true,
			})
		}
	}
	for _, e := range entries {
		if e.Grantee != "" {
			all = append(all, m.excess(e, wanted)...)
		}
	}
	for object, e := range objects {
		if e.Owner == m.Owner || object.Column != "" || e.RowType {
			continue
		}
		all = append(all, Difference{
			Code: WrongOwner, Object: object, Grantee: e.Owner,
			Detail: fmt.Sprintf("%s owns %s; want %s. An operator has to check it: its owner can put anything in it",
				e.Owner, object, m.Owner),
		})
	}
	return all
}

// excess returns the difference for a privilege that a role should not have, or not with
// the grant option.
func (m Matrix) excess(e entry, wanted map[key]bool) []Difference {
	g := Grant{Role: e.Grantee, Privilege: e.Privilege, Object: e.object()}
	d := Difference{Object: g.Object, Grantee: g.Role, Privilege: g.Privilege, byOwner: true}
	if wanted[g.key()] && !e.Partition {
		if !e.Grantable {
			return nil
		}
		d.Code = GrantOption
		d.Detail = fmt.Sprintf("%s may pass on %s on %s", g.Role, g.Privilege, g.Object)
		d.repair = "REVOKE GRANT OPTION FOR " + e.target(g.Privilege) + " FROM " + g.Role + " CASCADE"
		return []Difference{d}
	}
	d.Code = ExtraGrant
	d.Detail = fmt.Sprintf("%s has %s on %s, which the matrix does not name", g.Role, g.Privilege, g.Object)
	switch because := m.reasonAgainst(g); {
	case e.Partition:
		d.Detail = fmt.Sprintf("%s has %s on partition %s; access goes through its parent",
			g.Role, g.Privilege, g.Object.Name)
	case because != "":
		d.Detail += "; never, because " + because
	}
	d.repair = "REVOKE " + e.target(g.Privilege) + " FROM " + g.Role + " CASCADE"
	return []Difference{d}
}

// defaultDifferences finds default privileges, which later objects would get.
func (m Matrix) defaultDifferences(ctx context.Context, tx pgx.Tx, cell string) ([]Difference, error) {
	entries, err := collect[defaultEntry](ctx, tx, defaultsSQL, m.Owner, cell)
	if err != nil {
		return nil, err
	}
	var all []Difference
	for _, e := range entries {
		// Only the form without a schema can remove a default: those of a schema add to it.
		repair := "ALTER DEFAULT PRIVILEGES FOR ROLE " + e.Maker
		where := "of the database"
		if e.InSchema != "" {
			repair += " IN SCHEMA " + e.InSchema
			where = "of the cell"
		}
		all = append(all, Difference{
			Code: DefaultGrant, Grantee: e.Grantee, Privilege: e.Privilege,
			Detail: fmt.Sprintf("%s gets %s on new %s %s that %s makes",
				e.Grantee, e.Privilege, strings.ToLower(e.Noun), where, e.Maker),
			repair:  repair + " REVOKE " + e.Privilege + " ON " + e.Noun + " FROM " + e.Grantee,
			byOwner: e.Maker == m.Owner,
		})
	}
	return all, nil
}

// asError returns differences as one error; nil for none.
func asError(differences []Difference) error {
	var errs []error
	for _, d := range differences {
		errs = append(errs, errors.New(d.String()))
	}
	return errors.Join(errs...)
}
