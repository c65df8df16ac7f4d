// Command railhead is every service and every act of an operator in one binary: it
// migrates the schema and the roles of a cell, enqueues instructions, dispatches them,
// repairs the claims of dead workers, and shows the outcome of each.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/migrations"
)

func main() { os.Exit(run()) }

// run stops in order at the first signal; the second one ends the process at once.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	pipeBreaks()
	err := execute(ctx, rootCommand())
	if errors.Is(err, errReaderLeft) {
		return exitPipe
	}
	if err != nil {
		report(os.Stderr, err)
	}
	return exitCode(err)
}

// execute distinguishes a wrong command line, which did not reach its command, from a
// command that failed.
func execute(ctx context.Context, root *cobra.Command) error {
	began := false
	noteBegin(root, &began)
	err := root.ExecuteContext(ctx)
	if err != nil && !began {
		return usage(err)
	}
	return err
}

func noteBegin(command *cobra.Command, began *bool) {
	if inner := command.RunE; inner != nil {
		command.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			defer patienceOf(cmd)()
			return inner(cmd, args)
		}
	}
	for _, sub := range command.Commands() {
		noteBegin(sub, began)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "railhead",
		Short: "Dispatch payment instructions to payment rails: never lost, never paid twice",
		Long: "Railhead is a transactional outbox for payment instructions: it stores them in PostgreSQL and dispatches\n" +
			"each to its payment rail.\n\n" +
			"Data goes to standard output, everything else to standard error. Exit codes: railhead help exit-codes.\n" +
			"Connections and other settings come from the environment: railhead help environment.",
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return checkGlobals(cmd) },
	}
	flags := root.PersistentFlags()
	flags.StringP("output", "o", formatTable,
		"form of the data on standard output: table, json, or jsonl (a list as one JSON value a line)")
	flags.String("cell", "", "the schema of the installation; by default RAILHEAD_CELL, else "+migrations.DefaultCell)
	root.AddCommand(
		migrateCommand(), rolesCommand(), railCommand(), timelineCommand(),
		withProgress(enqueueCommand()), paymentCommand(), deadLetterCommand(), participantCommand(), intakeCommand(),
		cellCommand(),
		tokenCommand(), settingsCommand(), statusCommand(), withProgress(logCommand()), withProgress(pruneCommand()),
		proveCommand(),
		versionCommand(),
		exitCodesTopic(), environmentTopic(),
	)
	for _, service := range serviceCommands() {
		root.AddCommand(withProgress(service))
	}
	return root
}

// checkGlobals refuses empty flags and applies the global ones before any command runs.
func checkGlobals(cmd *cobra.Command) error {
	if err := refuseEmpty(cmd); err != nil {
		return usage(err)
	}
	if format, err := cmd.Flags().GetString("output"); err == nil && !slices.Contains(formats, format) {
		return usage(fmt.Errorf("--output is %q: use one of %v", bounded(format, 40), formats))
	}
	cell, err := cmd.Flags().GetString("cell")
	if err != nil || cell == "" {
		return nil
	}
	if err := migrations.CheckCell(cell); err != nil {
		return usage(fmt.Errorf("--cell: %w", err))
	}
	// The flag takes precedence over the variable for every command, those that start
	// processes included.
	if err := os.Setenv("RAILHEAD_CELL", cell); err != nil {
		return fmt.Errorf("setting the cell: %w", err)
	}
	return nil
}

// group is a command that only holds others.
func group(use, short string, members ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("unknown command %q: %s --help lists them", args[0], cmd.CommandPath()))
			}
			return cmd.Help()
		},
	}
	command.AddCommand(members...)
	return command
}
