package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/migrations"
)

func migrateCommand() *cobra.Command {
	return group("migrate", "Bring the schema of a cell to this build's version, or show it",
		migrateUpCommand(), migrateStatusCommand(), migrateSQLCommand())
}

func migrateUpCommand() *cobra.Command {
	dryRun := false
	var within time.Duration
	command := &cobra.Command{
		Use: "up", Short: "Apply the migrations that the cell lacks, and restore functions changed by hand",
		Long: "Apply the migrations that the cell lacks, each in a transaction of its own, and then restore, in one more,\n" +
			"functions that were dropped or changed by hand, and print their names. A cell with a newer migration than\n" +
			"this binary has is refused, and so is one from before version 0.1.0 whose schema is not that of the\n" +
			"baseline.\n\n" +
			"Components refuse at their start a cell that lacks one of their migrations, and print the command to run.\n" +
			"They accept a cell that a newer build has migrated if that migration serves them. Migrate, apply the\n" +
			"roles, then restart the components one by one with the new binary: docs/upgrades.md has the rules.\n\n" +
			"A migration that does not get its locks within a second is rolled back, so that callers who wait behind it\n" +
			"get through, and tried again a few seconds later, for --within. Each such try names on stderr the\n" +
			"transactions that hold a lock.\n\n" +
			"Connects with RAILHEAD_ADMIN_URL as a superuser or an administrator. Any number may run at once, and while\n" +
			"relayers run: they wait for each other. The roles come first (railhead roles apply), the grants after it\n" +
			"(again).",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, cell, err := adminConfig()
			if err != nil {
				return err
			}
			if dryRun {
				steps, err := migrations.Status(cmd.Context(), config, cell)
				if err != nil {
					return err
				}
				var lacking []migrations.Step
				for _, step := range steps {
					if !step.Applied {
						lacking = append(lacking, step)
					}
				}
				if len(lacking) == 0 {
					if err := sayDifference(cmd, config, cell); err != nil {
						return err
					}
				}
				return writeSteps(outputOf(cmd), lacking)
			}
			standby := watchStandby(config)
			changes, err := migrations.UpWith(cmd.Context(), config, cell, migrations.Patience{
				Within: within,
				Waits:  func(wait migrations.Wait) { fmt.Fprintf(cmd.ErrOrStderr(), "cell %s: %s\n", cell, wait) },
			})
			if err := errors.Join(err, standby.lacks()); err != nil {
				if n := len(changes.Steps); n > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "cell %s: %d migrations applied, up to %s, which stay; "+
						"what is left: railhead migrate status\n", cell, n, changes.Steps[n-1].Name)
				}
				return ifLost(completes, asAdministrators(err))
			}
			baselined := ""
			if changes.Baselined {
				baselined = "equal to the baseline and marked as migrated to it, "
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "cell %s: %s%d migrations applied, %s; next: railhead roles apply\n",
				cell, baselined, len(changes.Steps), functionsRestored(changes.Restored))
			return writeSteps(outputOf(cmd), changes.Steps)
		},
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be applied, apply nothing")
	within = migrations.DefaultWithin
	spanFlag(command.Flags(), &within, "within", time.Millisecond, spanMost,
		"how long one migration is tried again while other transactions hold its locks")
	return command
}

// functionsRestored counts the functions that were changed by hand, and names them.
func functionsRestored(names []string) string {
	if len(names) == 0 {
		return "0 functions restored"
	}
	return fmt.Sprintf("%d functions restored (%s)", len(names), strings.Join(names, ", "))
}

// sayDifference reports how the schema of a cell that lacks no migration differs from
// that of this build.
func sayDifference(cmd *cobra.Command, config *pgx.ConnConfig, cell string) (err error) {
	conn, err := pgx.ConnectConfig(cmd.Context(), config)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(cmd.Context()))) }()
	switch err := migrations.Check(cmd.Context(), conn, cell); {
	case errors.Is(err, migrations.ErrOtherSchema):
		fmt.Fprintln(cmd.ErrOrStderr(), err)
	case err != nil:
		return err
	default:
		fmt.Fprintf(cmd.ErrOrStderr(), "cell %s: nothing would change\n", cell)
	}
	return nil
}

func migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "List the migrations of this build and which of them the cell has",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, cell, err := adminConfig()
			if err != nil {
				return err
			}
			steps, err := migrations.Status(cmd.Context(), config, cell)
			if err != nil {
				return err
			}
			return writeSteps(outputOf(cmd), steps)
		},
	}
}

func migrateSQLCommand() *cobra.Command {
	return &cobra.Command{
		Use: "sql", Short: "Print the SQL of every migration, with the cell's name in place",
		Long: "Print the SQL of every migration, with the cell's name in place, to be read before it runs.\n" +
			"It needs no database.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			all, err := migrations.All(s.Cell)
			if err != nil {
				return err
			}
			o := outputOf(cmd)
			if o.json {
				type script struct {
					Version int64  `json:"version"`
					Name    string `json:"name"`
					SQL     string `json:"sql"`
				}
				scripts := make([]script, 0, len(all))
				for _, migration := range all {
					scripts = append(scripts, script{migration.Version, migration.Name, migration.SQL})
				}
				return o.document(scripts)
			}
			// migrate up sets these as well: without them a constraint may call a function that a login has created.
			if err := o.text("SET search_path = pg_catalog, pg_temp;\nSET check_function_bodies = off;\n\n"); err != nil {
				return err
			}
			for _, migration := range all {
				if err := o.text("-- %s\n\n%s\n", migration.Name, migration.SQL); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func writeSteps(o output, steps []migrations.Step) error {
	if o.json {
		type step struct {
			Version   int64     `json:"version"`
			Name      string    `json:"name"`
			Applied   bool      `json:"applied"`
			AppliedAt time.Time `json:"applied_at,omitzero"`
			TookMS    int64     `json:"took_ms,omitempty"`
		}
		list := make([]step, 0, len(steps))
		for _, s := range steps {
			list = append(list, step{s.Version, s.Name, s.Applied, s.AppliedAt, s.Took.Milliseconds()})
		}
		return o.document(list)
	}
	rows := make([][]cell, 0, len(steps))
	for _, s := range steps {
		applied := cell{text: "no", tone: warn}
		if s.Applied {
			applied = cell{text: clock(s.AppliedAt)}
		}
		rows = append(rows, []cell{{text: strconv.FormatInt(s.Version, 10)}, {text: s.Name}, applied})
	}
	return o.table([]string{"VERSION", "NAME", "APPLIED"}, rows)
}
