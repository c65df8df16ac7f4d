package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/outbox"
	"github.com/railhead-pay/railhead/payment"
	"github.com/railhead-pay/railhead/rails"
	"github.com/railhead-pay/railhead/rails/codes"
)

func railCommand() *cobra.Command {
	return group("rail", "Check rails files, put their profiles in force, show them, pause and resume rails",
		railExampleCommand(), railCheckCommand(), railApplyCommand(), railListCommand(), railCodesCommand(),
		railPauseCommand(), railResumeCommand())
}

func railListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the rails of the cell with the profile in force",
		Long: "List the rails of the cell with the fields of the profile in force that decide what is safe; with -o json\n" +
			"the whole profile, as it is stored. A profile that this build can't read hides no other rail: its line has\n" +
			"\"not read\", standard error says why, and the exit code is 1. Connects with RAILHEAD_READER_URL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				found, err := reader.Rails(cmd.Context())
				if err != nil {
					return err
				}
				return writeRails(outputOf(cmd), found)
			})
		},
	}
}

func writeRails(o output, found []outbox.RailRow) error {
	if o.json {
		type rail struct {
			RailType string          `json:"rail_type"`
			Version  int             `json:"profile_version"`
			Paused   bool            `json:"paused"`
			Profile  json.RawMessage `json:"profile"`
		}
		list := make([]rail, 0, len(found))
		for _, row := range found {
			list = append(list, rail{row.RailType, row.ProfileVersion, row.Paused, row.Profile})
		}
		return o.document(list)
	}
	rows := make([][]cell, 0, len(found))
	var unread []error
	for _, row := range found {
		paused := cell{text: "no"}
		if row.Paused {
			paused = cell{"yes", alarm}
		}
		head := []cell{{text: row.RailType}, {text: strconv.Itoa(row.ProfileVersion)}, paused}
		profile, err := rails.ParseProfile(row.Profile)
		if err != nil {
			unread = append(unread, fmt.Errorf("the profile in force of rail %s: %w", row.RailType, err))
			rows = append(rows, append(append(head, cell{"not read", alarm}), plainCells("-", "-", "-", "-", "-")...))
			continue
		}
		rows = append(rows, append(head,
			cell{text: string(profile.Acceptance)}, cell{text: resendOf(profile)},
			cell{text: strconv.Itoa(profile.Inquiry.Max)}, cell{text: strconv.Itoa(profile.Retry.MaxSends)},
			cell{text: strconv.Itoa(profile.Concurrency)}, cell{text: payment.Duration(profile.SendBudget()).String()},
		))
	}
	err := o.table([]string{"RAIL", "PROFILE", "PAUSED", "ACCEPTANCE", "RESEND", "INQUIRIES", "SENDS", "CONCURRENCY",
		"SEND BUDGET"}, rows)
	if err != nil {
		return err
	}
	return withCode(exitFailure, errors.Join(unread...)) // the command line is right
}

func railCodesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "codes RAIL", Short: "Print the meaning of the rail's answer codes, as in force",
		Long: "Print the code tables of the rail's answers, with the overrides of the profile in force: the codes in\n" +
			"the body of an answer, and those of HTTP. Connects with RAILHEAD_READER_URL.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				found, err := reader.Rails(cmd.Context())
				if err != nil {
					return err
				}
				for _, row := range found {
					if row.RailType == args[0] {
						return writeCodes(outputOf(cmd), row)
					}
				}
				return withCode(exitNotFound, fmt.Errorf("no rail %q in this cell: railhead rail list names them", args[0]))
			})
		},
	}
}

func writeCodes(o output, row outbox.RailRow) error {
	profile, err := rails.ParseProfile(row.Profile)
	if err != nil {
		return fmt.Errorf("the profile in force of rail %s: %w", row.RailType, err)
	}
	var all []*codes.Table
	for _, table := range []func() (*codes.Table, error){profile.Codes.BodyTable, profile.Codes.HTTPTable} {
		made, err := table()
		if err != nil {
			return fmt.Errorf("the code tables of rail %s: %w", row.RailType, err)
		}
		all = append(all, made)
	}
	if o.json {
		return o.document(codesDocument(row, profile, all))
	}
	for n, table := range all {
		if n > 0 {
			if err := o.text("\n"); err != nil {
				return err
			}
		}
		if err := table.Write(o.w, profile.Acceptance); err != nil {
			return wrote(err)
		}
	}
	return nil
}

// ratedCode is one code with what it proves in each context.
type ratedCode struct {
	Code      string         `json:"code"`
	Class     codes.Class    `json:"class"`
	FirstSend payment.Result `json:"first_send"`
	LaterSend payment.Result `json:"later_send"`
	Inquiry   payment.Result `json:"inquiry"`
	Source    string         `json:"source"`
	Meaning   string         `json:"meaning"`
}

type codeTable struct {
	Table   string      `json:"table"`
	Edition string      `json:"edition"`
	Codes   []ratedCode `json:"codes"`
}

type railCodes struct {
	RailType       string             `json:"rail_type"`
	ProfileVersion int                `json:"profile_version"`
	Acceptance     payment.Acceptance `json:"acceptance"`
	Tables         []codeTable        `json:"tables"`
}

func codesDocument(row outbox.RailRow, profile rails.Profile, all []*codes.Table) railCodes {
	document := railCodes{RailType: row.RailType, ProfileVersion: row.ProfileVersion, Acceptance: profile.Acceptance}
	for _, table := range all {
		rated := codeTable{Table: table.Name(), Edition: table.Edition(), Codes: []ratedCode{}}
		for entry := range table.All() {
			proves := func(ctx codes.Context) payment.Result {
				ctx.Acceptance = profile.Acceptance
				result, _ := table.Classify(entry.Code, ctx)
				return result
			}
			rated.Codes = append(rated.Codes, ratedCode{
				Code: entry.Code, Class: entry.Class, FirstSend: proves(codes.Context{SendNo: 1}),
				LaterSend: proves(codes.Context{SendNo: 2}), Inquiry: proves(codes.Context{Inquiry: true}),
				Source: entry.Source, Meaning: entry.Meaning,
			})
		}
		document.Tables = append(document.Tables, rated)
	}
	return document
}
