package main

import (
	"os"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

// TestRailApplyOfWhatGoesOn tests a rail in force of which rail check refuses what it sends: it keeps no other rail of
// the file from being put in force, as long as its own profile stays.
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
	got := who.want(exitOK, "rail", "apply", longer, "--reason", "the wallet stays")
	if !strings.Contains(got.errors, fault) {
		t.Errorf("it says %q, want a note of %q", got.errors, fault)
	}
	if after := cell.ProfileInForce("bank"); after != before+1 {
		t.Errorf("version %d of the other rail is in force, and was %d", after, before)
	}
	later := strings.Replace(wallet, "callback_deadline: 2h", "callback_deadline: 3h", 1)
	refused("apply", writeFile(t, "later.yaml", railsFile("72h")+later), "--reason", "the wallet changes")
	if after := cell.ProfileInForce("bank"); after != before+1 {
		t.Errorf("version %d is in force after a refusal", after)
	}
}
