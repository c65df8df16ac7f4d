package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/proofs"
)

// proveFlags are the options of a run.
type proveFlags struct {
	since, report string
	behaviour     bool
	inFlightMax   time.Duration
	logins        map[string]string
	// administrators are those of the flag.
	administrators []string
}

func proveCommand() *cobra.Command {
	var flags proveFlags
	command := withProgress(group("prove", "Prove on the live database that Railhead keeps its promises; exit code 8 "+
		"if a proof fails or does not run",
		proveListCommand(&flags), withProgress(proveRunCommand(&flags)), proveCheckCommand()))
	command.Long = "Prove on the live database, production included, that Railhead keeps its promises: the rights of " +
		"each role, that the ledger is append-only and complete, that no payment is lost, doubled or changed.\n" +
		"Without a command it runs every proof.\n\n" +
		"Connects with RAILHEAD_AUDITOR_URL as a member of railhead_auditor, and only reads. A proof that needs\n" +
		"more rights reports that and is not counted as passed; one that is named, or for which an auditor's rights\n" +
		"suffice, makes the exit code 8 if it does not run. With --behaviour, as a superuser, it also attempts what\n" +
		"must be refused, in transactions that are always rolled back; they take short locks, so run it at a quiet\n" +
		"hour or on a copy.\n\n" +
		"Each line is a proof: its result, the number of rows, objects or attempts that it checked, its statements\n" +
		"(railhead prove list NAME prints the same as SQL for psql), what was expected and what was found. See\n" +
		"docs/audit.md."
	command.Example = "  railhead prove --report audit.json\n" +
		"  railhead prove run sequence nothing-lost --since 24h\n" +
		"  railhead prove --login relayer_1=railhead_executor --login ingest_api=railhead_ingest"
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage(fmt.Errorf("unknown command %q: railhead prove run %s runs a proof", args[0], args[0]))
		}
		return prove(cmd, flags, nil)
	}
	set := command.PersistentFlags()
	set.StringVar(&flags.since, "since", "",
		"leave out instructions enqueued before this: a date, an RFC 3339 moment, or an age such as 24h")
	set.StringVar(&flags.report, "report", "", "also write the report, with its digest, to this file")
	set.BoolVar(&flags.behaviour, "behaviour", false,
		"also attempt what must be refused, as a superuser, in transactions that are rolled back")
	spanFlag(set, &flags.inFlightMax, "in-flight-max", 0, spanMost,
		"the age up to which an unanswered claim counts as in flight; 0: 15m, or twice the longest claim timeout in use")
	set.StringToStringVar(&flags.logins, "login", nil,
		"a login that is expected, as LOGIN=ROLE; repeated, the whole list: any other member fails")
	administratorFlag(set, &flags.administrators)
	return command
}

func proveRunCommand(flags *proveFlags) *cobra.Command {
	return &cobra.Command{
		Use: "run NAME...", Short: "Run the proofs of these names",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return prove(cmd, *flags, args) },
	}
}

func proveListCommand(flags *proveFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list [NAME...]", Short: "List the proofs; by name, with their SQL",
		Long: "List the proofs: what each shows and what it expects. With names, or with -o json, also their SQL, with\n" +
			"the cell's name in place: run it in psql as printed, as the role that it names; each row of its result is\n" +
			"a violation. The SQL contains --login, --administrator and --in-flight-max. It reads all instructions in\n" +
			"one snapshot, and has no --since. It needs no database.",
		Example: "  railhead prove list nothing-lost | psql -X \"$RAILHEAD_AUDITOR_URL\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.since != "" {
				return usage(errors.New("--since is for a run: the SQL of prove list reads all instructions"))
			}
			s, err := readSettings()
			if err != nil {
				return err
			}
			list, err := named(args)
			if err != nil {
				return err
			}
			return writeProofs(outputOf(cmd), list, proofs.Options{Cell: s.Cell, Logins: flags.logins,
				Administrators: slices.Concat(flags.administrators, listOf(s.Administrators)),
				InFlightMax:    flags.inFlightMax}, len(args) > 0)
		},
	}
}

func proveCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Compare a filed report with its digest; exit code 8 if it was changed",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("reading the report: %w", err)
			}
			report, digest, err := proofs.Check(text)
			switch {
			case errors.Is(err, proofs.ErrChanged):
				return withCode(exitProof, err)
			case err != nil:
				return usage(err)
			}
			return writeFiled(outputOf(cmd), report, digest)
		},
	}
}

// writeFiled prints what a report is of that has the digest in its file. The file is of another's making.
func writeFiled(o output, report proofs.Report, digest string) error {
	if o.json {
		return o.document(struct {
			Digest   string          `json:"digest"`
			Database proofs.Database `json:"database"`
			TakenAt  time.Time       `json:"taken_at"`
			Passed   int             `json:"passed"`
			Failed   int             `json:"failed"`
			NotRun   int             `json:"not_run"`
			Empty    int             `json:"empty"`
			Rows     int64           `json:"rows"`
		}{digest, report.Database, report.TakenAt, report.Passed, report.Failed, report.NotRun, report.Empty, report.Rows})
	}
	return o.text("%s\n%s of %s, taken at %s\n%s\n", digest, oneLine(report.Database.Cell),
		oneLine(report.Database.Database), clock(report.TakenAt), report.Summary())
}

func named(names []string) ([]proofs.Proof, error) {
	list, err := proofs.Named(names)
	if errors.Is(err, proofs.ErrNoProof) {
		return nil, usage(fmt.Errorf("%w: railhead prove list has them", err))
	}
	return list, err
}

// prove runs proofs, prints and files the report, and returns an error with the exit code of the result.
func prove(cmd *cobra.Command, flags proveFlags, names []string) error {
	s, err := readSettings()
	if err != nil {
		return err
	}
	if _, err := named(names); err != nil {
		return err
	}
	since, age, err := sinceOf(flags.since)
	if err != nil {
		return usage(err)
	}
	url, err := s.url("RAILHEAD_AUDITOR_URL", s.AuditorURL)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(flags.report); err == nil { // refused before the run, which may take long
		return usage(fmt.Errorf("--report %s exists, and a report is never overwritten: name another file", flags.report))
	}
	report, err := runProofs(cmd.Context(), url, proofs.Options{
		Cell: s.Cell, Names: names, Since: since, Age: age, Behaviour: flags.behaviour, InFlightMax: flags.inFlightMax,
		Logins: flags.logins, Administrators: slices.Concat(flags.administrators, listOf(s.Administrators)),
		Build: buildVersion(), Commit: buildCommit(), Progress: progressOn(cmd),
	})
	if err != nil {
		return err
	}
	if flags.report != "" {
		if err := fileReport(flags.report, report); err != nil {
			return err
		}
	}
	if err := writeReport(outputOf(cmd), cmd.ErrOrStderr(), report); err != nil {
		return err
	}
	if report.Failed > 0 {
		return withCode(exitProof, fmt.Errorf("%d of %d proofs failed", report.Failed, len(report.Proofs)))
	}
	if missing := report.Missing(); len(missing) > 0 {
		return withCode(exitProof, fmt.Errorf("%d of the proofs that were asked for did not run: %s", len(missing),
			strings.Join(missing, ", ")))
	}
	return nil
}

func runProofs(ctx context.Context, url string, o proofs.Options) (report proofs.Report, err error) {
	if err := ledger.CheckURL(url); err != nil {
		return proofs.Report{}, usage(fmt.Errorf("RAILHEAD_AUDITOR_URL: %w", err))
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return proofs.Report{}, usage(fmt.Errorf("RAILHEAD_AUDITOR_URL: %w", err))
	}
	config.RuntimeParams["application_name"] = "railhead-prove"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return proofs.Report{}, fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	report, err = proofs.Run(ctx, conn, o)
	switch {
	case errors.Is(err, proofs.ErrNoCell):
		err = withCode(exitNotFound, err)
	case errors.Is(err, proofs.ErrSince):
		err = usage(fmt.Errorf("--since: %w", err))
	}
	return report, err
}

// sayEvery is how often progress is reported.
const sayEvery = time.Second

// progressOn reports the progress of long proofs on standard error.
func progressOn(cmd *cobra.Command) func(what string, done int64) {
	said := time.Now()
	return func(what string, done int64) {
		if time.Since(said) < sayEvery {
			return
		}
		said = time.Now()
		fmt.Fprintf(cmd.ErrOrStderr(), "%d %s so far\n", done, what)
	}
}

// sinceOf reads a date or a moment, or an age. The database's clock judges both.
func sinceOf(text string) (since time.Time, age time.Duration, err error) {
	if text == "" {
		return time.Time{}, 0, nil
	}
	if age, err := time.ParseDuration(text); err == nil && age > 0 {
		return time.Time{}, age, nil
	}
	for _, form := range []string{time.RFC3339Nano, time.DateOnly} {
		if since, err := time.Parse(form, strings.TrimSpace(text)); err == nil {
			return since, 0, nil
		}
	}
	return time.Time{}, 0, fmt.Errorf("--since is %q: use a date such as 2026-01-31, an RFC 3339 moment, or an age such "+
		"as 24h", text)
}
