package migrations_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/migrations"
)

// TestPersonsOfBefore: callers learn from a refusal no person of whom a function of before named one in the reason, in
// whatever way the cell has come to this version.
func TestPersonsOfBefore(t *testing.T) {
	t.Parallel()
	all, err := migrations.All("railhead")
	if err != nil {
		t.Fatal(err)
	}
	bank, err := celltest.Canonical(celltest.Bank, celltest.BankProfile)
	if err != nil {
		t.Fatal(err)
	}
	const says = `SET railhead.person = '%'; SELECT railhead.close_enqueue('cell', '*', '`
	closing := func(person, reason string) string {
		return strings.Replace(says, "%", person, 1) + reason + `')`
	}
	for name, test := range map[string]struct {
		steps []any // versions and statements
		want  string
	}{
		"the words of migration 45": {
			[]any{48, closing("ada@bank.example", "maintenance; until ten"), closing("cy@bank.example", "the bank; asked")},
			"maintenance, until ten; and postgres: the bank, asked; and postgres: once more",
		},
		"a whole text that migration 49 has kept": {
			[]any{48, closing("ada@bank.example", "maintenance; until ten"), 50, closing("cy@bank.example", "longer")},
			"operators see the reason; and postgres: longer; and postgres: once more",
		},
		"a text without words": {
			[]any{48, closing("ada@bank.example", "maintenance"), `UPDATE railhead.payment_closed_gates SET stops = NULL`},
			"operators see the reason; and postgres: once more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := emptyDatabase(t)
			config, err := pgx.ParseConfig(db.URL(""))
			if err != nil {
				t.Fatal(err)
			}
			conn := db.Conn(t, "")
			refused := func() string {
				t.Helper()
				_, err := conn.Exec(t.Context(), enqueue("i-1"))
				refusal, ok := errors.AsType[*pgconn.PgError](err)
				if !ok || refusal.Code != "RH014" {
					t.Fatalf("an enqueue at the closed gate: %v", err)
				}
				return refusal.Message
			}
			step := func(what any) {
				t.Helper()
				sql, isSQL := what.(string)
				if version, ok := what.(int); ok {
					err = migrations.UpTo(t.Context(), config.Copy(), "railhead", all, int64(version))
				} else if isSQL {
					_, err = conn.Exec(t.Context(), sql)
				}
				if err != nil {
					t.Fatalf("%v: %v", what, err)
				}
			}
			step(45)
			step(`SELECT railhead.apply_rail_profile('bank', '` + string(bank) + `', 'a test')`)
			for _, what := range test.steps {
				step(what)
			}
			step(int(all[len(all)-1].Version))
			if said := refused(); strings.Contains(said, "@") {
				t.Errorf("after the upgrade: %s", said)
			}
			step(closing("joan@bank.example", "once more"))
			if said := refused(); !strings.HasSuffix(said, "Z: "+test.want) {
				t.Errorf("after one more: %s\nwant ...: %s", said, test.want)
			}
			// Operators still see all of it.
			var reason string
			if err := conn.QueryRow(t.Context(), `SELECT close_reason FROM railhead.payment_closed_gates`).Scan(&reason); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(reason, "for ada@bank.example: maintenance") {
				t.Errorf("the reason is %s", reason)
			}
		})
	}
}
