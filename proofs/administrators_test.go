package proofs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/internal/test/pgserver"
	"github.com/railhead-pay/railhead/internal/test/pgtest"
	"github.com/railhead-pay/railhead/proofs"
)

// TestProofsOfAdministrators: a login that is named as an administrator, and may become the owner, is a note of the
// proof of members. Naming one excuses nothing else, also by what prove list prints.
func TestProofsOfAdministrators(t *testing.T) {
	t.Parallel()
	_, cluster := pgtest.Server(t, pgserver.Options{})
	db := database(t, cluster)
	super := db.Conn(t, "")
	do := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	do(`CREATE ROLE dba LOGIN CREATEROLE; CREATE ROLE helper LOGIN; CREATE ROLE dbas CREATEROLE;
		GRANT railhead_owner TO dba; GRANT dbas TO dba; GRANT pg_read_all_data TO dbas`)
	proof, err := proofs.Named([]string{"members"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, plant, undo string
		named             []string
		offence           string // in one of the violations; "" for none
		note              string
	}{
		{name: "no name", offence: "dba reaches the owner role railhead_owner"},
		{name: "named without its group", named: []string{"dba"}, offence: "dbas is a member of pg_read_all_data"},
		{name: "named", named: []string{"dba", "dbas"}, note: "administrators, who may become the owner: dba"},
		{name: "group", named: []string{"dba", "dbas"}, note: "groups of administrators: dbas"},
		{name: "one who does not exist", named: []string{"dba", "dbas", "ops"},
			offence: "ops is named as an administrator, and does not exist"},
		{name: "a service's login", named: []string{"dba", "dbas", celltest.Relayer},
			offence: celltest.Relayer + " is named as an administrator, and may not become railhead_owner"},
		{name: "a role of the cell", named: []string{"dba", "dbas", "railhead_operator"},
			plant: "GRANT railhead_owner TO railhead_operator", undo: "REVOKE railhead_owner FROM railhead_operator",
			offence: "railhead_operator is a member of railhead_owner"},
		{name: "one who acts as a service", named: []string{"dba", "dbas"}, plant: "GRANT railhead_executor TO dba",
			undo: "REVOKE railhead_executor FROM dba", offence: "dba, an administrator, has the rights of railhead_executor"},
		{name: "one who is a service as well", named: []string{"dba", "dbas", celltest.Relayer},
			plant: "GRANT railhead_owner TO " + celltest.Relayer, undo: "REVOKE railhead_owner FROM " + celltest.Relayer,
			offence: celltest.Relayer + ", an administrator, has the rights of railhead_executor"},
		{name: "a login that is a member of one", named: []string{"dba", "dbas"}, plant: "GRANT dba TO helper",
			undo: "REVOKE dba FROM helper", offence: "helper reaches the owner role railhead_owner"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.plant != "" {
				do(test.plant)
				defer do(test.undo)
			}
			o := proofs.Options{Names: []string{"members"}, Administrators: test.named}
			result := prove(t, db.Conn(t, celltest.Auditor), o.ShowingAll()).Proofs[0]
			found := slices.ContainsFunc(result.First, func(line string) bool { return strings.Contains(line, test.offence) })
			if test.offence != "" && !found || test.offence == "" && result.Status != proofs.Passed {
				t.Errorf("it is %s: %q, want %q", result.Status, result.First, test.offence)
			}
			if test.note != "" && !slices.Contains(result.Notes, test.note) {
				t.Errorf("notes %q, want %q", result.Notes, test.note)
			}
			sameByHand(t, db, proof[0], o, result)
		})
	}
}
