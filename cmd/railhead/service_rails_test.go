package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/railhead-pay/railhead/internal/test/celltest"
)

// asksNoMore is a rail of a file that says how to ask.
const asksNoMore = noopRail + `
  - rail_type: keyless
    adapter: http
    profile: {acceptance: FINAL, id_after_refusal: SAME}
    http:
      base_url: http://127.0.0.1:1
      allow_plaintext: true
      allow_loopback: true
      send:
        path: /payments
        body: {reference: rail_key}
        response: {status: status, statuses: {EXECUTED: OK}}
      inquiry:
        path: /payments/{rail_key}
        response: {status: status, statuses: {EXECUTED: EXECUTED}}
`

// unreadable puts a profile of a later build in force.
func unreadable(cell *celltest.Cell, railType string) {
	cell.Exec(`SELECT railhead.apply_rail_profile($1, '{"a_field_of_a_later_build": 1}', 'in a test')`, railType)
}

// TestRailListGoesOn: a rail whose profile can't be read, as that of a build to come, hides no other; the list says
// why, and ends with an error.
func TestRailListGoesOn(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	unreadable(cell, "aaa") // which comes before the others
	unreadable(cell, "later")
	who := at(t, cell)
	got := who.want(exitFailure, "rail", "list")
	if words := strings.Join(strings.Fields(got.out), " "); !strings.Contains(words, "aaa 1 no not read - - - - - bank") ||
		!strings.Contains(words, "bank 1 no FINAL") || !strings.Contains(words, "later 1 no not read -") {
		t.Errorf("not each rail has its line: %s", got.out)
	}
	for _, rail := range []string{"aaa", "later"} {
		if !strings.Contains(got.errors, "the profile in force of rail "+rail+": ") ||
			strings.Count(got.errors, "a_field_of_a_later_build") != 2 {
			t.Errorf("it is not said why: %s", got.errors)
		}
	}
	if got := who.want(exitOK, "rail", "list", "-o", "json").out; strings.Count(got, "a_field_of_a_later_build") != 2 {
		t.Errorf("as data: %s", got)
	}
}

// TestUnusableProfileAtTheStart: a relayer that is started while the profile of a rail does not agree with its file
// serves the others, and says so; the profile of a rail that its file does not name is none of its faults.
func TestUnusableProfileAtTheStart(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	cell.ApplyProfile("keyless", `{"acceptance": "FINAL", "id_after_refusal": "SAME", "codes": {"table": "iso20022"}}`)
	unreadable(cell, "later")
	enqueued(at(t, cell), "INV-1")
	metrics := start(t, "relayer", cell.URL(celltest.Relayer),
		"RAILHEAD_RAILS_FILE="+writeFile(t, "rails.yaml", asksNoMore))
	paid(t, cell, 1)
	awaitMetrics(t, metrics, `railhead_lane_held{rail="keyless"} 1`, `railhead_lane_held{rail="bank"} 0`)
	status, said := readiness(t, metrics)
	if status != http.StatusServiceUnavailable || !strings.Contains(said,
		"rail keyless is not claimed: its profile in force can't be used here, and the log says why") {
		t.Errorf("%d: %s", status, said)
	}
	eventually(t, "status to say so", func() bool {
		said := at(t, cell).want(exitOK, "status").out
		return strings.Contains(said, "rail keyless is not claimed on its only relayer: its profile in force can't be used "+
			"by the relayer, whose log says why") && strings.Contains(said, "no running relayer serves rail later")
	})
}

// TestReaperWithoutARail: a reaper goes on next to a relayer that is started while none of its rails can be served,
// which serves them once it can.
func TestReaperWithoutARail(t *testing.T) {
	t.Parallel()
	cell := celltest.New(t)
	readable := cell.ProfileInForce("bank")
	enqueued(at(t, cell), "INV-1")
	unreadable(cell, "bank")
	metrics := start(t, "run", cell.URL(celltest.Relayer), "RAILHEAD_REAPER_URL="+cell.URL(celltest.Reaper),
		"RAILHEAD_REFRESH_EVERY=100ms")
	awaitMetrics(t, metrics, `railhead_reaper_cycles_total{result="ok"}`, `railhead_lane_held{rail="bank"} 1`)
	cell.Exec(`UPDATE railhead.payment_rails SET profile_version = $1 WHERE rail_type = 'bank'`, readable)
	paid(t, cell, 1)
	awaitMetrics(t, metrics, `railhead_lane_held{rail="bank"} 0`)
}
