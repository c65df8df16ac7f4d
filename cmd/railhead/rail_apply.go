package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

func railApplyCommand() *cobra.Command {
	var reason string
	dryRun, anyBuild := false, false
	command := &cobra.Command{
		Use: "apply FILE", Short: "Put the profiles of a rails file in force",
		Long: "Put the profiles of a rails file in force, each as its rail's next version; a profile that is in force\n" +
			"already stays.\n\n" +
			"It first shows the changes of each profile. Endpoints are checked and stay in the file; secrets are not\n" +
			"resolved. Rails that the file does not name are not changed. Relayers and reapers use a new version within\n" +
			"seconds. Connects with RAILHEAD_OPERATOR_URL; the reason goes to the operator log.\n\n" +
			"A profile with fields that older builds do not know, and that the one in force has not, is refused while\n" +
			"relayers or reapers of another build than this command's run: such a relayer sends no payment of the rail,\n" +
			"and such a reaper may park the claims of lost workers. --any-build says that each of them knows the fields.\n\n" +
			"docs/rails.md explains every field of the file. railhead rail example prints a file to start from,\n" +
			"railhead rail check checks one without a database.",
		Example: "  railhead rail apply rails.yaml --dry-run\n" +
			"  railhead rail apply rails.yaml --reason 'the bank now keeps keys for 48 hours'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			file, refused := loadProfiles(args[0])
			if refused != nil {
				if file, err = railconfig.LoadKept(args[0], os.Getenv); err != nil {
					return refused
				}
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				return applyRails(cmd, s, operator, file, refused, reason, dryRun, anyBuild)
			})
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "the reason, for readers of the operator log; required for a change")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change, change nothing")
	command.Flags().BoolVar(&anyBuild, "any-build", false,
		"put new fields in force while relayers and reapers of other builds run")
	return command
}

// railChange is the change of one rail by a file.
type railChange struct {
	RailType    string        `json:"rail_type"`
	From        int           `json:"from_version"` // 0: the rail is new
	Version     int           `json:"version,omitempty"`
	Changed     bool          `json:"changed"`
	Differences []fieldChange `json:"differences"`
	profile     []byte
	later       []string // fields that older builds do not know, where the profile in force has none
}

type fieldChange struct {
	Field string `json:"field"`
	From  string `json:"from"` // JSON text; empty: not there
	To    string `json:"to"`
}

// applyRails puts the profiles of a file in force. What rail check refuses of a rail whose profile is in force and
// stays keeps no other rail of the file from that. It is returned at the end, so that no script starts relayers with
// the file.
func applyRails(
	cmd *cobra.Command, s settings, operator *operator.Operator, file railconfig.File, refused error, reason string,
	dryRun, anyBuild bool,
) error {
	changes, err := planRails(cmd.Context(), operator, file)
	if err != nil {
		return err
	}
	shared, err := sharedNames(cmd.Context(), operator, file)
	if err != nil {
		return err
	}
	refused = errors.Join(append([]error{refused}, shared...)...)
	if refused != nil && !soundChange(file, changes, shared) {
		return refused
	}
	budget, err := operator.TimeBudget(cmd.Context())
	if err != nil {
		return err
	}
	if err := budget.Agrees(s.asserted()); err != nil {
		return usage(err)
	}
	var faults []error
	for _, rail := range file.Rails {
		if err := rail.Profile.CheckBudget(budget); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return usage(fmt.Errorf("nothing was changed, because no relayer could use it: %w\n"+
			"Shorten the timeouts, or first: railhead settings set claim_timeout VALUE --reason WHY", err))
	}
	o := outputOf(cmd)
	if !o.json {
		for _, change := range changes {
			if err := writeChange(o, change); err != nil {
				return err
			}
		}
	}
	if err := checkBuilds(cmd, operator, changes, dryRun || anyBuild); err != nil {
		return err
	}
	if err := warnMoved(cmd, operator, changes); err != nil {
		return err
	}
	changing := slices.ContainsFunc(changes, func(c railChange) bool { return c.Changed })
	if changing && !dryRun {
		if reason == "" {
			return usage(errors.New("something would change: give --reason, for readers of the operator log"))
		}
		for n := range changes {
			if err := changes[n].apply(cmd, operator, reason); err != nil {
				return notApplied(err, changes[n+1:])
			}
		}
	}
	if o.json {
		if err := o.document(changes); err != nil {
			return err
		}
	}
	switch {
	case refused == nil:
		return nil
	case dryRun:
		return fmt.Errorf("profiles that change can be put in force; refused of rails whose profiles stay: %w", refused)
	default:
		return fmt.Errorf("profiles that changed are in force; refused of rails whose profiles stay: %w", refused)
	}
}

// soundChange reports whether a profile changes, and none of a rail of which something is refused.
func soundChange(file railconfig.File, changes []railChange, shared []error) bool {
	sound := false
	for n, rail := range file.Rails {
		if changes[n].Changed && len(rail.Tolerated(rail.Profile)) > 0 || changes[n].Changed && shared[n] != nil {
			return false
		}
		sound = sound || changes[n].Changed
	}
	return sound
}

// notApplied adds to the error that ended the command the rails after that one whose profiles were to change.
func notApplied(err error, rest []railChange) error {
	var names []string
	for _, change := range rest {
		if change.Changed {
			names = append(names, oneLine(change.RailType))
		}
	}
	if len(names) == 0 {
		return err
	}
	return fmt.Errorf("%w\nnot tried: rail %s", err, strings.Join(names, ", rail "))
}

func (c *railChange) apply(cmd *cobra.Command, operator *operator.Operator, reason string) error {
	if !c.Changed {
		return nil
	}
	version, changed, err := operator.ApplyRailProfile(cmd.Context(), c.RailType, c.profile, reason)
	if err != nil {
		return err
	}
	c.Version = version
	if changed {
		fmt.Fprintf(cmd.ErrOrStderr(), "rail %s: version %d is in force\n", c.RailType, version)
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "rail %s: another operator has just put the same in force as version %d\n",
			c.RailType, version)
	}
	return nil
}

// planRails compares the file with the profiles in force.
func planRails(ctx context.Context, operator *operator.Operator, file railconfig.File) ([]railChange, error) {
	found, err := operator.Rails(ctx)
	if err != nil {
		return nil, err
	}
	inForce := make(map[string]outbox.RailRow, len(found))
	for _, row := range found {
		inForce[row.RailType] = row
	}
	changes := make([]railChange, 0, len(file.Rails))
	for _, rail := range file.Rails {
		profile, err := rail.Profile.JSON()
		if err != nil {
			return nil, err
		}
		row := inForce[rail.RailType]
		differences, err := differenceOf(row.Profile, profile)
		if err != nil {
			return nil, fmt.Errorf("comparing the profile of rail %s: %w", rail.RailType, err)
		}
		later, err := laterThan(row.Profile, profile)
		if err != nil {
			return nil, fmt.Errorf("comparing the profile of rail %s: %w", rail.RailType, err)
		}
		changes = append(changes, railChange{
			RailType: rail.RailType, From: row.ProfileVersion, Changed: len(differences) > 0,
			Differences: differences, profile: profile, later: later,
		})
	}
	return changes, nil
}

func writeChange(o output, c railChange) error {
	switch {
	case !c.Changed:
		return o.text("rail %s: version %d is in force and stays\n", c.RailType, c.From)
	case c.From == 0:
		if err := o.text("rail %s: new\n", c.RailType); err != nil {
			return err
		}
	default:
		if err := o.text("rail %s: differs from version %d\n", c.RailType, c.From); err != nil {
			return err
		}
	}
	for _, d := range c.Differences {
		var err error
		switch {
		case d.From == "":
			err = o.text("  %s\n", o.paint("+ "+d.Field+": "+oneLine(d.To), good))
		case d.To == "":
			err = o.text("  %s\n", o.paint("- "+d.Field+": "+oneLine(d.From), alarm))
		default:
			err = o.text("  %s\n", o.paint("~ "+d.Field+": "+oneLine(d.From)+" -> "+oneLine(d.To), warn))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// differenceOf compares two JSON objects field by field; an empty text is an
// object without fields.
func differenceOf(from, to []byte) ([]fieldChange, error) {
	old, err := flattened(from)
	if err != nil {
		return nil, err
	}
	proposed, err := flattened(to)
	if err != nil {
		return nil, err
	}
	fields := maps.Clone(old)
	maps.Copy(fields, proposed)
	differences := []fieldChange{}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if old[field] != proposed[field] {
			differences = append(differences, fieldChange{field, old[field], proposed[field]})
		}
	}
	return differences, nil
}

// flattened returns each leaf of a JSON text as JSON, by its path.
func flattened(text []byte) (map[string]string, error) {
	fields := make(map[string]string)
	if len(text) == 0 {
		return fields, nil
	}
	var root any
	if err := json.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	var walk func(path string, value any) error
	walk = func(path string, value any) error {
		switch value := value.(type) {
		case map[string]any:
			for key, member := range value {
				if err := walk(path+"."+key, member); err != nil {
					return err
				}
			}
			return nil
		case []any:
			for n, member := range value {
				if err := walk(path+"."+strconv.Itoa(n), member); err != nil {
					return err
				}
			}
			return nil
		default:
			leaf, err := json.Marshal(value)
			if path != "" {
				fields[path[1:]] = string(leaf)
			}
			return err
		}
	}
	return fields, walk("", root)
}
