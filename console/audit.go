package console

import (
	"context"
	"net/http"
	"time"

	"github.com/railhead-pay/railhead/acl"
	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/proofs"
)

// auditBody is the body of the page for auditors.
type auditBody struct {
	Roles       []auditRole
	Differences []acl.Difference // between the live catalog and the matrix
	Grants      int              // of the matrix
	Owner       string
	Read        time.Time // when the catalog was read, by this host's clock
	Reports     reports
	Proofs      []auditProof
	Failing     []auditProof // of these, those whose newest result is a failure
}

// auditRole is a role of the matrix, with its grants.
type auditRole struct {
	acl.Role
	Owner  bool
	Grants []auditGrant
}

// auditGrant is a grant of the matrix, and whether the live catalog has it.
type auditGrant struct {
	acl.Grant
	Held bool
}

// auditProof is a proof, and its newest result.
type auditProof struct {
	proofs.Proof
	Newest found
}

// reports are those of the database that the console reads.
func (c *Console) reports(ctx context.Context) (reports, error) {
	if c.cell.ReportsFolder == "" {
		return reportsOf("", c.cell.Schema, reader.Identity{}), nil
	}
	on, err := c.reader.Identity(ctx)
	if err != nil {
		return reports{}, err
	}
	return reportsOf(c.cell.ReportsFolder, c.cell.Schema, on), nil
}

// audit shows the roles of the live catalog against the matrix of this build, the last report of the
// proofs, and every proof.
func (c *Console) audit(w http.ResponseWriter, r *http.Request, _ Person) {
	matrix, err := acl.Load()
	if err != nil {
		c.failed(w, r, err)
		return
	}
	differences, err := c.reader.RoleDifferences(r.Context(), c.cell.Schema, c.cell.Administrators)
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := auditBody{
		Roles: rolesOf(matrix, differences), Differences: differences, Grants: len(matrix.Grants), Owner: matrix.Owner,
		Read: time.Now(),
	}
	if body.Reports, err = c.reports(r.Context()); err != nil {
		c.failed(w, r, err)
		return
	}
	for _, proof := range proofs.All() {
		one := auditProof{proof, body.Reports.newest(proof.Name)}
		body.Proofs = append(body.Proofs, one)
		if one.Newest.Tone == explain.Alarm {
			body.Failing = append(body.Failing, one)
		}
	}
	c.show(w, r, "audit.html", page{Title: "Audit", Body: body})
}

// rolesOf returns the roles of the matrix with their grants, in its order.
func rolesOf(matrix acl.Matrix, differences []acl.Difference) []auditRole {
	type key struct {
		role, privilege string
		object          acl.Object
	}
	missing := make(map[key]bool)
	for _, d := range differences {
		if d.Code == acl.MissingGrant || d.Code == acl.MissingObject {
			missing[key{d.Grantee, d.Privilege, d.Object}] = true
		}
	}
	roles := make([]auditRole, 0, len(matrix.Roles))
	for _, role := range matrix.Roles {
		one := auditRole{Role: role, Owner: role.Name == matrix.Owner}
		for _, grant := range matrix.Grants {
			if grant.Role == role.Name {
				one.Grants = append(one.Grants, auditGrant{grant, !missing[key{grant.Role, grant.Privilege, grant.Object}]})
			}
		}
		roles = append(roles, one)
	}
	return roles
}

// proof shows one proof with its SQL.
func (c *Console) proof(w http.ResponseWriter, r *http.Request, _ Person) {
	list, err := proofs.Named([]string{r.PathValue("name")})
	if err != nil {
		c.fail(w, r, problem{http.StatusNotFound, "There is no such proof", "The page of the audit lists them."})
		return
	}
	sql, err := list[0].SQL(proofs.Options{Cell: c.cell.Schema, Administrators: c.cell.Administrators})
	if err != nil {
		c.failed(w, r, err)
		return
	}
	all, err := c.reports(r.Context())
	if err != nil {
		c.failed(w, r, err)
		return
	}
	body := struct {
		auditProof
		IsThere bool // any report of the database
		SQL     string
	}{auditProof{list[0], all.newest(list[0].Name)}, all.Last != nil, list[0].Heading() + sql}
	c.show(w, r, "proof.html", page{Title: "Proof " + list[0].Name, Body: body})
}
