package main

import (
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// TestRailApplyWhereSecondKeysAreAllowed: a rail that names a payment by its ids alone is put in force in no cell that
// allows second keys, and is refused there when its file is applied again.
func TestRailApplyWhereSecondKeysAreAllowed(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	who := at(t, cell)
	allow := func(second bool) {
		cell.Exec("UPDATE railhead.payment_outbox_settings SET allow_second_key = $1", second)
	}
	const wallet = `  - rail_type: wallet
    adapter: http
    profile:
      kind: payment
    http:
      base_url: https://wallet.example
      send:
        method: PUT
        path: /transfers/{participant_id}/{instruction_id}
        body: {amount: amount.trimmed, currency: currency}
        response: {status: state, statuses: {OK: OK, NO: CODE}, code: errorCode}
`
	const says = "rail wallet: http.send names a payment by instruction_id, which two payments may share"
	file := writeFile(t, "keyless.yaml", railsFile("48h")+wallet)
	who.want(exitOK, "rail", "check", file)
	allow(true)
	refused := func(options ...string) {
		t.Helper()
		got := who.want(exitUsage, append([]string{"rail", "apply", file}, options...)...).errors
		if !strings.Contains(got, says) || strings.Contains(got, "rail bank: http") {
			t.Errorf("%v: it says %q, want %q", options, got, says)
		}
	}
	before := cell.ProfileInForce("bank")
	refused("--dry-run")
	refused("--reason", "a new one")
	if after := cell.ProfileInForce("bank"); after != before {
		t.Errorf("version %d of the other rail is in force after a refusal, and was %d", after, before)
	}
	allow(false)
	who.want(exitOK, "rail", "apply", file, "--reason", "one key for each instruction")
	allow(true)
	refused()
}
