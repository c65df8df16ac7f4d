package main

import (
	"strings"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger/reader"
)

// offeredActs are the acts of explain.Acts, with the verdicts of resolve, as the database takes them.
var offeredActs = map[string]string{
	"acknowledge":          `SELECT railhead.triage_dead_letter($1, 'acknowledged', 'a test')`,
	"escalate":             `SELECT railhead.triage_dead_letter($1, 'escalated', 'a test')`,
	"close":                `SELECT railhead.triage_dead_letter($1, 'resolved', 'a test')`,
	"replay":               `SELECT railhead.replay_payment($1, 'a test', 'infinity')`,
	"inquire":              `SELECT railhead.inquire_payment($1, 'a test')`,
	"cancel":               `SELECT railhead.cancel_payment($1, 'a test')`,
	"skip":                 `SELECT railhead.skip_in_order($1, 'a test')`,
	"send-now":             `SELECT railhead.reschedule_payment($1, NULL, 'a test')`,
	"resolve executed":     `SELECT railhead.resolve_payment($1, true, 'ref-1/' || $1::uuid::text, current_date, 'a document', 'a test')`,
	"resolve not_executed": `SELECT railhead.resolve_payment($1, false, NULL, current_date, 'a document', 'a test', true)`,
}

// withheld reports whether an act that the database takes is not offered on purpose: because it would change
// nothing, because the rail's answer to an inquiry is awaited, or because only the rail's word about a parked
// payment allows a replay, for a time that the page does not know.
func withheld(name, why string, line reader.Timeline) bool {
	switch name {
	case "acknowledge", "escalate":
		return strings.HasPrefix(why, "its dead letter is ")
	case "send-now":
		return why == "it is due already"
	case "resolve not_executed":
		return strings.HasPrefix(why, "its inquiry is pending")
	case "replay":
		return line.State == "PARKED"
	}
	return false
}

// offer holds each act that a page offers, and each that it does not, to the database, and rolls it back.
func (w *teller) offer(line reader.Timeline) {
	w.Helper()
	whys := make(map[string]string)
	for _, act := range explain.Acts(line) {
		whys[act.Name] = act.Why
		for _, verdict := range act.Verdicts {
			delete(whys, act.Name)
			whys[act.Name+" "+verdict.Value] = verdict.Why
		}
	}
	if len(whys) != len(offeredActs) {
		w.Fatalf("%d acts are known here, want %d", len(offeredActs), len(whys))
	}
	for name, why := range whys {
		tx, err := w.onCall.Begin(w.Context())
		w.must(err)
		_, refused := tx.Exec(w.Context(), offeredActs[name], w.id.String())
		w.must(tx.Rollback(w.Context()))
		switch {
		case why == "" && refused != nil:
			w.Errorf("after %s %s is offered, and refused: %v", strings.Join(w.story, "; "), name, refused)
		case why != "" && refused == nil && !withheld(name, why, line):
			w.Errorf("after %s %s is taken, and not offered: %s", strings.Join(w.story, "; "), name, why)
		}
	}
}
