package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
)

func settingsCommand() *cobra.Command {
	return group("settings", "Show and change the time budget of the cell", settingsShowCommand(), settingsSetCommand())
}

func settingsShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "Show the time budget of the cell, and the components that do not use it yet",
		Long: "Show the time budget of the cell: the claim timeout (claim_timeout) and the spans that have to fit into\n" +
			"it. Relayers, reapers, callback endpoints and rail apply use it. A component that has not adopted the\n" +
			"present version, or that may have open claims under an older one, is listed: its claims are repaired by\n" +
			"the longer one of each span. Connects with RAILHEAD_READER_URL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				budget, err := reader.TimeBudget(cmd.Context())
				if err != nil {
					return err
				}
				status, err := reader.Status(cmd.Context())
				if err != nil {
					return err
				}
				return writeBudget(outputOf(cmd), budget, behind(budget, status.Heartbeats))
			})
		},
	}
}

// behind are the running components that do not use the present version only.
func behind(budget outbox.TimeBudget, beats []reader.Beat) []reader.Beat {
	found := []reader.Beat{}
	for _, beat := range beats {
		if beat.Status != "stopped" && beat.Freshness != reader.Stale && beat.BudgetVersion != budget.Version {
			found = append(found, beat)
		}
	}
	return found
}

// shownSetting is one line of the settings, and its JSON.
type shownSetting struct {
	Name    string `json:"name"`
	ValueMS int64  `json:"value_ms"`
	LowMS   int64  `json:"low_ms"`
	HighMS  int64  `json:"high_ms"`
	Meaning string `json:"meaning"`
}

func writeBudget(o output, budget outbox.TimeBudget, behind []reader.Beat) error {
	if o.json {
		shown := []shownSetting{}
		for _, s := range budget.Settings() {
			shown = append(shown, shownSetting{s.Name, s.Value.Milliseconds(), s.Low.Milliseconds(), s.High.Milliseconds(),
				s.Meaning})
		}
		return o.document(struct {
			Version  int            `json:"version"`
			Settings []shownSetting `json:"settings"`
			Behind   []reader.Beat  `json:"behind"`
		}{budget.Version, shown, behind})
	}
	rows := [][]cell{}
	for _, s := range budget.Settings() {
		rows = append(rows, []cell{{text: s.Name}, {text: payment.Duration(s.Value).String()}, {text: s.Meaning}})
	}
	if err := o.text("time budget, version %d\n\n", budget.Version); err != nil {
		return err
	}
	if err := o.table([]string{"SETTING", "VALUE", "MEANING"}, rows); err != nil || len(behind) == 0 {
		return err
	}
	rows = [][]cell{}
	for _, beat := range behind {
		rows = append(rows, []cell{{text: beat.Kind}, {text: oneLine(beat.Name)}, {strconv.Itoa(beat.BudgetVersion), warn}})
	}
	if err := o.text("\nnot yet at version %d only: their claims are repaired by the longer one of each span\n\n",
		budget.Version); err != nil {
		return err
	}
	return o.table([]string{"COMPONENT", "NAME", "VERSION"}, rows)
}

func settingsSetCommand() *cobra.Command {
	var reason string
	command := &cobra.Command{
		Use: "set NAME VALUE [NAME VALUE]...", Short: "Change the time budget of the cell",
		Long: "Change the time budget of the cell: claim_timeout, start_within, record_within, drain or\n" +
			"heartbeat_stale; several of them change together. start_within + the longest call of any rail in force +\n" +
			"record_within + drain must be less than claim_timeout.\n\n" +
			"Components adopt the change with their next heartbeat. A longer claim timeout applies to the reaper at once. A\n" +
			"shorter one applies to the claims of a sender once that sender has adopted it and no earlier claim can be\n" +
			"open. Connects with RAILHEAD_OPERATOR_URL; the act, the login and the reason go to the operator log.",
		Example: "  railhead settings set claim_timeout 4m --reason 'the bank answers within three minutes'\n" +
			"  railhead settings set claim_timeout 30s start_within 1s drain 5s --reason 'all of it runs in one rack'",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			changes, err := readChanges(args)
			if err != nil {
				return usage(err)
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				version, changed, err := operator.SetTimeBudget(cmd.Context(), changes, reason)
				if err != nil {
					return err
				}
				return act{Act: "SET_TIME_BUDGET", Now: strconv.Itoa(version), Changed: changed}.write(cmd,
					budgetSet(version, changed))
			})
		},
	}
	needReason(command, &reason)
	return command
}

// readChanges reads pairs of a name and a value, and returns every fault at once.
func readChanges(args []string) (map[string]time.Duration, error) {
	if len(args)%2 != 0 {
		return nil, fmt.Errorf("%s has no value: give NAME VALUE, or several such pairs", args[len(args)-1])
	}
	changes := make(map[string]time.Duration, len(args)/2)
	var faults []error
	for n := 0; n < len(args); n += 2 {
		var value payment.Duration
		name := args[n]
		_, again := changes[name]
		_, known := outbox.TimeBudget{}.With(name, 0)
		switch err := value.UnmarshalText([]byte(args[n+1])); {
		case !known:
			faults = append(faults, fmt.Errorf("%q is no setting: railhead settings show lists them", name))
		case again:
			faults = append(faults, fmt.Errorf("%s is given twice", name))
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		default:
			changes[name] = time.Duration(value)
		}
	}
	return changes, errors.Join(faults...)
}

// budgetSet describes the effect of a change of the time budget.
func budgetSet(version int, changed bool) string {
	said := "is in force: components adopt it with their next heartbeat"
	if !changed {
		said = "is in force and stays: nothing differs"
	}
	return fmt.Sprintf("time budget: version %d %s", version, said)
}
