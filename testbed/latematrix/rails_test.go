package latematrix_test

import (
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/rails"
)

// rail is one shape of rail: what the product is told about it, and what the oracle knows.
type rail struct {
	name string
	json string
	bank bank
	// profile is what json describes, as a worker reads it.
	profile rails.Profile
}

const (
	asked   = `"inquiry": {"intervals": ["1s"], "max": 6, "not_found": "NOT_EXECUTED", "not_found_age": "1m", "not_found_until": "24h"}`
	vague   = `"inquiry": {"intervals": ["1s"], "max": 6, "not_found": "INCONCLUSIVE"}`
	sameKey = `"acceptance": "FINAL", "resend_on_unknown": "SAME_KEY", "key_window": "24h"`
	never   = `"acceptance": "FINAL", "resend_on_unknown": "NEVER"`
	same    = `"id_after_refusal": "SAME"`
	covers  = `"answer_covers_key": true`
	taking  = `"acceptance": "PROVISIONAL"`
)

// shapes returns every pair of de-duplication and of what an answer speaks for, with and without
// inquiries, and rails that accept provisionally. A rail that keeps its answer for the key accepts
// no key again after a refusal.
func shapes() []rail {
	return []rail{
		{name: "same-asked", json: `{` + sameKey + `, ` + same + `, ` + asked + `}`, bank: bank{dedupes: true, again: true, indexed: true}},
		{name: "same", json: `{` + sameKey + `, ` + same + `}`, bank: bank{dedupes: true, again: true}},
		{name: "same-covers", json: `{` + sameKey + `, ` + covers + `}`, bank: bank{dedupes: true, covers: true}},
		{name: "same-covers-asked", json: `{` + sameKey + `, ` + covers + `, ` + asked + `}`, bank: bank{dedupes: true, covers: true, indexed: true}},
		{name: "never", json: `{` + never + `, ` + same + `}`, bank: bank{again: true}},
		{name: "never-covers", json: `{` + never + `, ` + covers + `}`, bank: bank{covers: true}},
		{name: "never-asked", json: `{` + never + `, ` + same + `, ` + asked + `}`, bank: bank{again: true, indexed: true}},
		{name: "never-vague", json: `{` + never + `, ` + same + `, ` + vague + `}`, bank: bank{again: true}},
		{name: "takes-never-asked", json: `{` + taking + `, ` + same + `, ` + asked + `}`, bank: bank{again: true, provisional: true, indexed: true}},
		{
			name: "takes-same-covers", bank: bank{dedupes: true, covers: true, provisional: true},
			json: `{` + taking + `, "resend_on_unknown": "SAME_KEY", "key_window": "24h", "callback_deadline": "1h", ` + covers + `}`,
		},
	}
}

func applyShapes(t *testing.T, cell *celltest.Cell) []rail {
	t.Helper()
	all := shapes()
	for n := range all {
		cell.ApplyProfile(all[n].name, all[n].json)
		text, err := celltest.Canonical(all[n].name, all[n].json)
		if err == nil {
			all[n].profile, err = rails.ParseProfile(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Claims that a restore forgot were made before this cell was created, and under these profiles.
	cell.Exec(`ALTER TABLE railhead.payment_rail_profiles DISABLE TRIGGER USER;
		UPDATE railhead.payment_rail_profiles SET applied_at = applied_at - interval '30 days';
		ALTER TABLE railhead.payment_rail_profiles ENABLE ALWAYS TRIGGER payment_rail_profiles_append_only`)
	return all
}
