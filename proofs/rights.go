package proofs

import (
	"context"
	"maps"
	"slices"

	"github.com/railhead-pay/railhead/acl"
)

// rightsProofs are about the rights of roles and logins, by the catalog.
func rightsProofs() []Proof {
	return []Proof{
		{
			Name: "grants", Promise: roles,
			Shows: "Every privilege on tables, columns, views, functions, sequences, types and the schema is in the role " +
				"matrix, and the other way round",
			Expected: "no difference, no option to grant", Statements: []string{matrixComparison},
			whole: differing("%d privileges of %d roles, all as in the matrix",
				acl.MissingObject, acl.ExtraGrant, acl.GrantOption, acl.MissingGrant),
			script: differences(acl.MissingObject, acl.ExtraGrant, acl.GrantOption, acl.MissingGrant),
		},
		{
			Name: "public", Promise: roles,
			Shows: "PUBLIC has no privilege in the cell, no role but the owner can create an object in it or, as PUBLIC, " +
				"anywhere else in the database, and no login of a role can where sessions of others search",
			Expected: "no privilege of PUBLIC, no CREATE but in a login's own schema", Statements: []string{"sql/public.sql"},
			whole: func(ctx context.Context, s *session, t *tally) error {
				return catalogue(ctx, s, t, "public", s.roleNames())
			},
			script: judgement("public", roleArguments),
		},
		{
			Name: "owners", Promise: roles,
			Shows:    "Every object of the cell belongs to the owner role",
			Expected: "no other owner", Statements: []string{matrixComparison},
			whole:  differing("%d privileges of %d roles, every object with its owner", acl.WrongOwner),
			script: differences(acl.WrongOwner),
		},
		{
			Name: "defaults", Promise: roles,
			Shows:    "An object that is created later grants no role a privilege",
			Expected: "no default privilege", Statements: []string{matrixComparison},
			whole:  differing("%d privileges of %d roles, none by default", acl.DefaultGrant),
			script: differences(acl.DefaultGrant),
		},
		{
			Name: "roles", Promise: roles,
			Shows:    "The roles exist and are neither logins nor SUPERUSER, BYPASSRLS, CREATEROLE, CREATEDB or REPLICATION",
			Expected: "every role with exactly these attributes", Statements: []string{matrixComparison},
			whole:  differing("%d privileges of %d roles, each with its attributes", acl.MissingRole, acl.RoleAttribute),
			script: differences(acl.MissingRole, acl.RoleAttribute),
		},
		{
			Name: "members", Promise: roles,
			Shows: "Every login of a role is a member of that role only, by inheritance, and reaches no sessions of others " +
				"through a predefined role; no login but a named administrator reaches the owner, and none reaches all data " +
				"through a predefined role",
			Expected:   "one role for each login, inherited and without ADMIN; no predefined role, none that bypasses grants",
			Statements: []string{matrixComparison, "sql/members.sql"},
			whole:      proveMembers, script: memberships,
		},
		{
			Name: "definers", Promise: roles,
			Shows:      "Functions that run with their owner's rights can't be diverted by a caller's objects, or types",
			Expected:   "search_path = pg_catalog, the cell, pg_temp; tables named in full; no argument of any type",
			Statements: []string{"sql/definers.sql"},
			whole:      judged("definers"), script: judgement("definers", nil),
		},
		{
			Name: "side-doors", Promise: roles,
			Shows: "No view, function, reference, publication, subscription, rule or policy gives access to the cell's " +
				"rows past its grants",
			Expected: "none; those that can't be closed are noted", Statements: []string{"sql/side_doors.sql"},
			whole: func(ctx context.Context, s *session, t *tally) error {
				return catalogue(ctx, s, t, "side_doors", s.roleNames())
			},
			script: judgement("side_doors", roleArguments),
		},
		{
			Name: "replica-mode", Promise: appendOnly,
			Shows: "No role but a superuser can turn triggers off by session_replication_role, or starts with a setting " +
				"that weakens durability",
			Expected: "no such grant, no such setting", Statements: []string{"sql/replica_mode.sql"},
			whole: judged("replica_mode"), script: judgement("replica_mode", nil),
		},
	}
}

// proveMembers adds indirect memberships to the matrix's rule, which covers direct ones.
func proveMembers(ctx context.Context, s *session, t *tally) error {
	found, err := s.diff(ctx)
	if err != nil {
		return err
	}
	for _, d := range found {
		if d.Code == acl.ExtraMember {
			t.offend("%s", d)
		}
	}
	return catalogue(ctx, s, t, "members", s.roleNames(), s.matrix.Owner, s.options.logins(),
		s.options.named())
}

// named returns the administrators as an array of SQL, which is empty, and not null, without any.
func (o Options) named() []string { return append([]string{}, o.Administrators...) }

// logins returns the logins that may be members, as login=role; nil accepts those that exist.
func (o Options) logins() []string {
	var expected []string
	for _, login := range slices.Sorted(maps.Keys(o.Logins)) {
		expected = append(expected, login+"="+o.Logins[login])
	}
	return expected
}
