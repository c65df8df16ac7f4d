package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/railconfig"
)

func railExampleCommand() *cobra.Command {
	return &cobra.Command{
		Use: "example", Short: "Print a complete rails file with comments",
		Long: "Print a complete rails file with comments, to start from. It is the example of docs/rails.md, which\n" +
			"explains every field. Its rails are fictitious. Needs no database.",
		Example: "  railhead rail example > rails.yaml\n" +
			"  railhead rail check rails.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return outputOf(cmd).text("%s", railconfig.Example())
		},
	}
}

func railCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE...", Short: "Check rails files without a database",
		Long: "Check rails files as railhead rail apply does, without a database and without secrets, and print a line\n" +
			"for each rail; with -o json its whole profile, defaults included. Every fault of every file is reported at\n" +
			"once, with its line and field: exit code 2, or 3 where a file does not exist.\n\n" +
			"Only rail apply can check whether the calls of a rail fit into the time budget of a cell: a rail that does\n" +
			"not fit into the default one is noted, and so is what a file states without an effect. docs/rails.md explains\n" +
			"every field.",
		Example: "  railhead rail check rails.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			checked := []checkedRail{}
			var faults []error
			for _, path := range args {
				file, err := loadProfiles(path)
				if err != nil {
					faults = append(faults, fileFaults{path, err})
					continue
				}
				for _, rail := range file.Rails {
					one, err := checkedOf(path, rail)
					if err != nil {
						return err
					}
					checked = append(checked, one)
				}
			}
			if err := writeChecked(cmd, checked); err != nil {
				return err
			}
			return errors.Join(faults...)
		},
	}
}

// loadProfiles reads a file whose profiles are to be put in force, with every check
// that needs no database.
func loadProfiles(path string) (railconfig.File, error) {
	return railconfig.LoadProfiles(path, os.Getenv)
}

// fileFaults are the faults of one file of several, each line with the file's name:
// two files can have the same fault on the same line.
type fileFaults struct {
	path string
	err  error
}

func (f fileFaults) Error() string {
	first, rest, more := strings.Cut(f.err.Error(), "\n")
	if !more {
		return first
	}
	return first + "\n" + f.path + ": " + strings.ReplaceAll(rest, "\n", "\n"+f.path+": ")
}

func (f fileFaults) Unwrap() error { return f.err }

// checkedRail is a rail that was accepted. Its field names are part of the command's contract.
type checkedRail struct {
	File       string          `json:"file"`
	RailType   string          `json:"rail_type"`
	Adapter    string          `json:"adapter"`
	Callbacks  bool            `json:"callbacks"`
	SendBudget string          `json:"send_budget"`
	Profile    json.RawMessage `json:"profile"`
	profile    rails.Profile
	notes      []error
}

func checkedOf(path string, rail railconfig.RailConfig) (checkedRail, error) {
	profile, err := rail.Profile.JSON()
	return checkedRail{
		File: path, RailType: rail.RailType, Adapter: rail.Adapter, Callbacks: rail.Callback != nil,
		SendBudget: payment.Duration(rail.Profile.SendBudget()).String(), Profile: profile, profile: rail.Profile,
		notes: rail.Notes(rail.Profile),
	}, err
}

func writeChecked(cmd *cobra.Command, checked []checkedRail) error {
	for _, rail := range checked {
		if err := outbox.DefaultTimeBudget().Holds(rail.profile.SendBudget()); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s: rail %s does not fit into the default time budget of a cell: %s\n",
				oneLine(rail.File), rail.RailType, oneLine(err.Error()))
		}
		for _, note := range rail.notes {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s: rail %s: %s\n", oneLine(rail.File), rail.RailType, oneLine(note.Error()))
		}
	}
	o := outputOf(cmd)
	if o.json {
		return o.document(checked)
	}
	for _, rail := range checked {
		if err := o.text("%s\n", oneLine(rail.line())); err != nil {
			return err
		}
	}
	return nil
}

// line describes an accepted rail.
func (c checkedRail) line() string {
	p, callbacks, required := c.profile, "no", "nothing"
	if c.Callbacks {
		callbacks = "yes"
	}
	if fields := p.Checks.RequiredPaths(); len(fields) > 0 {
		required = strings.Join(fields, " ")
	}
	return fmt.Sprintf("%s: rail %s: adapter %s, acceptance %s, resend %s, inquiries %d, sends %d, callbacks %s, "+
		"concurrency %d, send budget %s, requires %s",
		c.File, c.RailType, c.Adapter, p.Acceptance, resendOf(p), p.Inquiry.Max, p.Retry.MaxSends, callbacks, p.Concurrency,
		c.SendBudget, required)
}

// resendOf describes whether a payment is sent again after silence, and for how long.
func resendOf(profile rails.Profile) string {
	if profile.ResendOnUnknown == payment.ResendSameKey {
		return string(profile.ResendOnUnknown) + " for " + profile.KeyWindow.String()
	}
	return string(profile.ResendOnUnknown)
}
