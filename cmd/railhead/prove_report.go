package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/railhead-pay/railhead/proofs"
)

// seenMax bounds the text of a result in a table; the report has all of it.
const seenMax = 110

// notesShown bounds the notes of a proof that a table shows; the report has all of them.
const notesShown = 30

func toneOf(status proofs.Status) tone {
	switch status {
	case proofs.Passed:
		return good
	case proofs.Failed:
		return alarm
	default:
		return warn
	}
}

// writeReport prints a run: a line for each proof, the violations, the proofs that were
// not run and why, and last the line that scripts parse.
func writeReport(o output, errs io.Writer, report proofs.Report) error {
	if o.json {
		text, err := report.File()
		if err != nil {
			return err
		}
		if err := o.document(json.RawMessage(text)); err != nil {
			return err
		}
		_, err = fmt.Fprintln(errs, report.Summary())
		return wrote(err)
	}
	d := report.Database
	err := o.text("railhead %s, commit %s\ncell %s of database %s, system %s, PostgreSQL %s, schema %s, as %s at %s\n\n",
		report.Railhead, report.Commit, oneLine(d.Cell), oneLine(d.Database), orDash(oneLine(d.SystemIdentifier)),
		oneLine(d.ServerVersion), schemaOf(d), oneLine(d.Login), clock(report.TakenAt))
	if err != nil {
		return err
	}
	rows := make([][]cell, 0, len(report.Proofs))
	for _, p := range report.Proofs {
		rows = append(rows, []cell{
			{text: p.Name}, {text: string(p.Status), tone: toneOf(p.Status)}, {text: strconv.FormatInt(p.Rows, 10)},
			{text: span(millis(p.TookMS))},
			{text: statementsOf(p.Statements)}, {text: p.Expected}, {text: bounded(p.Seen, seenMax)},
		})
	}
	if err := o.table([]string{"PROOF", "RESULT", "CHECKED", "TOOK", "STATEMENT", "EXPECTED", "SEEN"}, rows); err != nil {
		return err
	}
	if err := o.text("%s", remarks(report)); err != nil {
		return err
	}
	return o.text("\n%s\n", report.Summary())
}

// schemaOf is the newest migration, if the login can read it.
func schemaOf(d proofs.Database) string {
	if d.SchemaVersion < 0 {
		return "unknown"
	}
	return strconv.FormatInt(d.SchemaVersion, 10)
}

// statementsOf names the files, or the first and how many more there are.
func statementsOf(files []string) string {
	first := strings.TrimPrefix(files[0], "sql/")
	if len(files) > 1 {
		return fmt.Sprintf("%s +%d", first, len(files)-1)
	}
	return first
}

// remarks are the parts of a report that do not fit into the table.
func remarks(report proofs.Report) string {
	var text strings.Builder
	for _, p := range report.Proofs {
		if p.Status == proofs.Failed {
			fmt.Fprintf(&text, "\n%s failed: %d violations\n", oneLine(p.Name), p.Offences)
			for _, line := range p.First {
				fmt.Fprintf(&text, "  %s\n", oneLine(line))
			}
			if p.Offences > len(p.First) {
				fmt.Fprintf(&text, "  and %d more\n", p.Offences-len(p.First))
			}
		}
	}
	for _, p := range report.Proofs {
		for n, login := range p.Logins {
			if n == 0 {
				fmt.Fprintf(&text, "\nlogins of the roles, found by %s:\n", p.Name)
			}
			fmt.Fprintf(&text, "  %s\n", oneLine(login))
		}
	}
	for _, p := range report.Proofs {
		for n, note := range p.Notes {
			if n == 0 {
				fmt.Fprintf(&text, "\n%s notes:\n", p.Name)
			}
			if n == notesShown {
				fmt.Fprintf(&text, "  and %d more, in the report: --report FILE or -o json\n", len(p.Notes)-n)
				break
			}
			fmt.Fprintf(&text, "  %s\n", oneLine(note))
		}
	}
	if report.NotRun > 0 {
		fmt.Fprintf(&text, "\nnot run, and not counted as passed: %d of the proofs\n", report.NotRun)
	}
	if report.Empty > 0 {
		fmt.Fprintf(&text, "\n%d proofs had nothing to check, which proves nothing: they are not counted as passed\n",
			report.Empty)
	}
	return text.String()
}

// fileReport writes the report that an auditor files. It does not overwrite an existing
// one, which may be evidence.
func fileReport(name string, report proofs.Report) error {
	text, err := report.File()
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("filing the report: %w", err)
	}
	defer file.Close()
	if _, err := file.Write(text); err != nil {
		return fmt.Errorf("filing the report: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("filing the report: %w", err)
	}
	return nil
}

// writeProofs lists proofs, with their SQL on demand.
func writeProofs(o output, list []proofs.Proof, options proofs.Options, asSQL bool) error {
	texts := make([]string, len(list))
	for n, p := range list {
		text, err := p.SQL(options)
		if err != nil {
			return usage(err)
		}
		texts[n] = text
	}
	if o.json {
		type listed struct {
			Name       string   `json:"name"`
			Promise    string   `json:"promise"`
			Shows      string   `json:"shows"`
			Expected   string   `json:"expected"`
			Reads      []string `json:"reads,omitempty"`
			Executes   []string `json:"executes,omitempty"`
			Tries      bool     `json:"tries"`
			Statements []string `json:"statements"`
			RunAs      string   `json:"run_as"` // a role, or "superuser"
			SQL        string   `json:"sql"`
		}
		all := make([]listed, 0, len(list))
		for n, p := range list {
			all = append(all, listed{p.Name, p.Promise, p.Shows, p.Expected, p.Reads, p.Executes, p.Tries, p.Statements,
				p.RunAs, texts[n]})
		}
		return o.document(all)
	}
	if asSQL {
		for n, p := range list {
			if n > 0 {
				if err := o.text("\n"); err != nil {
					return err
				}
			}
			if err := o.text("%s%s", p.Heading(), texts[n]); err != nil {
				return err
			}
		}
		return nil
	}
	rows := make([][]cell, 0, len(list))
	for _, p := range list {
		rows = append(rows, plainCells(p.Name, p.Promise, p.Shows))
	}
	return o.table([]string{"PROOF", "PROMISE", "SHOWS"}, rows)
}
