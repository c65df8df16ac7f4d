package acl

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// EnsureRoles creates the missing roles of the matrix and corrects the attributes of the
// others. Roles belong to the cluster and migrations run as the owner role, so it must run
// before the first migration of any cell. It is idempotent, and safe while others run it in
// any database of the cluster. A login that is no superuser becomes a member of the owner, as
// its administrator: see [Administrator].
func EnsureRoles(ctx context.Context, conn Beginner) error {
	m, err := Load()
	if err != nil {
		return err
	}
	err = retry(ctx, func() error {
		return inTx(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, ownGrantsSQL); err != nil {
				return fmt.Errorf("preparing to make roles: %w", err)
			}
			err := m.repairAll(ctx, tx, func() ([]Difference, error) { return m.roleDifferences(ctx, tx) })
			if err != nil {
				return err
			}
			return m.join(ctx, tx)
		})
	})
	if err != nil {
		return fmt.Errorf("making roles: %w", err)
	}
	return nil
}

// roleDifferences compares roles and their attributes.
func (m Matrix) roleDifferences(ctx context.Context, tx pgx.Tx) ([]Difference, error) {
	entries, err := collect[roleEntry](ctx, tx, rolesSQL, m.roleNames())
	if err != nil {
		return nil, err
	}
	live := make(map[string]roleEntry, len(entries))
	for _, e := range entries {
		live[e.Name] = e
	}
	var all []Difference
	for _, name := range m.roleNames() {
		role, there := live[name]
		if !there {
			all = append(all, Difference{
				Code: MissingRole, Grantee: name,
				Detail: "role " + name + " does not exist",
				repair: "CREATE ROLE " + name + " " + attributeWords(),
			})
			continue
		}
		for _, a := range attributes() {
			if !a.has(role) {
				all = append(all, Difference{
					Code: RoleAttribute, Grantee: name, Privilege: a.opposite,
					Detail: "role " + name + " is " + a.opposite + "; want " + a.word,
					repair: "ALTER ROLE " + name + " " + a.word,
				})
			}
		}
	}
	return all, nil
}

// attributeWords returns the attributes of every role for CREATE ROLE.
func attributeWords() string {
	var words []string
	for _, a := range attributes() {
		words = append(words, a.word)
	}
	return strings.Join(words, " ")
}

// memberDifferences finds members of the owner other than its administrators, and roles of the
// matrix that are members of another role: both bypass the grants.
func (m Matrix) memberDifferences(ctx context.Context, tx pgx.Tx, administrators []string) ([]Difference, error) {
	named := append([]string{}, administrators...) // an empty array, and never a null
	entries, err := collect[memberEntry](ctx, tx, membersSQL, m.Owner, m.roleNames(), named)
	if err != nil {
		return nil, err
	}
	var all []Difference
	for _, e := range entries {
		revoke := "REVOKE " + e.Role + " FROM " + e.Member
		if e.Grantor != "" {
			revoke += " GRANTED BY " + e.Grantor
		}
		all = append(all, Difference{
			Code: ExtraMember, Grantee: e.Member, Privilege: e.Role,
			Detail: e.Member + " is a member of " + e.Role,
			repair: revoke + " CASCADE",
		})
	}
	return all, nil
}
