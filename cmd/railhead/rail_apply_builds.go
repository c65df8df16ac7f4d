package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/rails"
)

// firstFields are the fields of a profile that every build knows. A new field is not one of them: a
// build that does not know it can't read the profile.
var firstFields = []string{
	"rail_type", "version", "acceptance", "answer_covers_key", "id_after_refusal", "resend_on_unknown", "key_window",
	"inquiry", "callback_deadline", "retry", "business_retry", "rail_refused", "refuses_before_processing", "timeouts",
	"concurrency", "rate", "breaker", "codes", "checks", "order",
}

// laterFields returns the fields of a profile that a released build may not know, and order with a
// word that it does not know. An empty text is a profile without fields.
func laterFields(profile []byte) ([]string, error) {
	if len(profile) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(profile, &fields); err != nil {
		return nil, err
	}
	var order rails.Order
	if text, ok := fields["order"]; ok {
		if err := json.Unmarshal(text, &order); err != nil {
			return nil, err
		}
	}
	var later []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(firstFields, name) || name == "order" && order != rails.OrderNone {
			later = append(later, name)
		}
	}
	return later, nil
}

// laterThan returns the later fields of a proposed profile that the one in force has not: a build may know some of
// them and not the others.
func laterThan(inForce, proposed []byte) ([]string, error) {
	was, err := laterFields(inForce)
	if err != nil {
		return nil, err
	}
	later, err := laterFields(proposed)
	return slices.DeleteFunc(later, func(name string) bool { return slices.Contains(was, name) }), err
}

// othersMax bounds the components that checkBuilds names.
const othersMax = 10

// checkBuilds refuses profiles with new fields while relayers or reapers of another build run, or
// only says so.
func checkBuilds(cmd *cobra.Command, o *operator.Operator, changes []railChange, only bool) error {
	var what []string
	for _, change := range changes {
		if change.Changed && len(change.later) > 0 {
			what = append(what, fmt.Sprintf("rail %s (%s)", oneLine(change.RailType), strings.Join(change.later, ", ")))
		}
	}
	if len(what) == 0 {
		return nil
	}
	running, err := o.Running(cmd.Context())
	if err != nil {
		return err
	}
	var others []string
	for _, c := range running {
		if (c.Kind == "relayer" || c.Kind == "reaper") && c.Version != buildVersion() {
			others = append(others, oneLine(fmt.Sprintf("%s %s on %s (build %s)", c.Kind, c.Name, c.Host, c.Version)))
		}
	}
	if len(others) == 0 {
		return nil
	}
	if more := len(others) - othersMax; more > 0 {
		others = append(others[:othersMax], fmt.Sprintf("and %d more", more))
	}
	text := fmt.Sprintf("new fields come into force for %s, and components of another build than this command's (%s) "+
		"run: %s.\nOne that does not know a field sends no payment of the rail, and such a reaper may park the claims of "+
		"lost workers", strings.Join(what, ", "), buildVersion(), strings.Join(others, ", "))
	if only {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+text)
		return nil
	}
	return errors.New("nothing was changed: " + text + ".\nReplace them first, or give --any-build if each of them " +
		"knows the fields: docs/upgrades.md")
}
