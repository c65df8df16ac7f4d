package main

import (
	"os"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// TestRailApplyOfWhatGoesOn tests a rail in force of which rail check refuses what it sends: it keeps no other rail of
// the file from being put in force, as long as its own profile stays, and the command ends with the refusal.
func TestRailApplyOfWhatGoesOn(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	const wallet = `  - rail_type: wallet
    adapter: http
    profile:
      acceptance: PROVISIONAL
      callback_deadline: 2h
    http:
      base_url: https://wallet.example
      send:
        path: /transfers
        body: {amount: amount.trimmed, currency: currency, payee: payload.payee, order: instruction_id}
        response: {status: state, statuses: {RESERVED: P, ABORTED: CODE}, reference: transferId, code: errorCode}
    callback:
      secrets: [env:WALLET_CALLBACK_SECRET]
      key: data.reference
      status: data.state
      statuses: {COMMITTED: EXECUTED, ABORTED: REFUSED}
`
	const fault = "callback.key is the rail key of the payment, which no send carries"
	both := writeFile(t, "both.yaml", railsFile("24h")+wallet)
	refused := func(args ...string) {
		t.Helper()
		if got := who.want(exitUsage, append([]string{"rail"}, args...)...); !strings.Contains(got.errors, fault) {
			t.Errorf("%q says %q, want %q", args, got.errors, fault)
		}
	}
	refused("check", both)
	refused("apply", both, "--reason", "both are new")
	file, err := railconfig.LoadKept(both, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := file.Rails[1].Profile.JSON()
	if err != nil {
		t.Fatal(err)
	}
	cell.ApplyProfile("wallet", string(profile))

	refused("check", both)
	before := cell.ProfileInForce("bank")
	longer := writeFile(t, "longer.yaml", railsFile("48h")+wallet)
	for _, options := range [][]string{{"--dry-run"}, {"--reason", "the wallet stays"}} {
		if after := cell.ProfileInForce("bank"); after != before {
			t.Errorf("version %d of the other rail is in force before %v, and was %d", after, options, before)
		}
		refused(append([]string{"apply", longer}, options...)...)
	}
	if after := cell.ProfileInForce("bank"); after != before+1 {
		t.Errorf("version %d of the other rail is in force, and was %d", after, before)
	}
	refused("apply", longer)
	later := strings.Replace(wallet, "callback_deadline: 2h", "callback_deadline: 3h", 1)
	refused("apply", writeFile(t, "later.yaml", railsFile("72h")+later), "--reason", "the wallet changes")
	if after := cell.ProfileInForce("bank"); after != before+1 {
		t.Errorf("version %d is in force after a refusal", after)
	}
}

// TestRailApplyOfAKeylessEdit: an edit that takes the rail key away is refused, though the profile stays.
func TestRailApplyOfAKeylessEdit(t *testing.T) {
	t.Parallel()
	who := at(t, celltest.New(t))
	const header = "        idempotency_header: Idempotency-Key\n"
	const keyed = `rails:
  - rail_type: bank
    adapter: http
    profile:
      resend_on_unknown: SAME_KEY
      key_window: 24h
    http:
      base_url: https://bank.example
      send:
        path: /transfers
` + header + `        body: {amount: amount.trimmed, currency: currency, order: instruction_id}
        response: {status: state, statuses: {OK: OK, NO: CODE}, code: errorCode}
`
	who.want(exitOK, "rail", "apply", writeFile(t, "keyed.yaml", keyed), "--reason", "the first one")
	keyless := writeFile(t, "keyless.yaml", strings.Replace(keyed, header, "", 1))
	for _, options := range [][]string{nil, {"--dry-run"}, {"--reason", "only the request changes"}} {
		got := who.want(exitUsage, append([]string{"rail", "apply", keyless}, options...)...)
		if !strings.Contains(got.errors, "no send carries the rail key") {
			t.Errorf("%v: it says %q", options, got.errors)
		}
	}
}
