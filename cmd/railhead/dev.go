package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/test/localrun"
)

// devCommand is what make run calls.
func devCommand() *cobra.Command {
	options := localrun.Options{}
	command := &cobra.Command{
		Use: "dev", Short: "Run a whole installation on this machine and pay a sample",
		Long: "Run a whole installation on this machine: a private PostgreSQL (or the server that DATABASE_URL names),\n" +
			"schema and roles, the simulated bank (or, with --rail nats, a broker with a stream; or, with --rail kafka,\n" +
			"a topic of a fake of Kafka, never of a real one), a relayer, a reaper, the HTTP API and the console, each in\n" +
			"its own process. It enqueues a sample of instructions, shows how they are paid, compares the database with\n" +
			"the bank's own ledger, the stream or the topic, prints a login for each role, a link to the console, a token\n" +
			"of the API and the fault switches of the bank, and runs until Ctrl-C. With --once it ends after the\n" +
			"comparison: 0 if every instruction was dispatched, and executed or stored exactly once, 8 if not.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := readSettings()
			if err != nil {
				return err
			}
			options.DatabaseURL, options.Cell = s.DatabaseURL, s.Cell
			options.Out = cmd.OutOrStdout()
			options.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
			if options.Railhead, err = os.Executable(); err != nil {
				return fmt.Errorf("finding this binary: %w", err)
			}
			if options.Payee == "" {
				program := "railsim"
				if options.Rail != localrun.Bank {
					program = "testbed"
				}
				options.Payee = filepath.Join(filepath.Dir(options.Railhead), program)
			}
			return localrun.Run(cmd.Context(), options)
		},
	}
	flags := command.Flags()
	options.Instructions, options.Participants = 1000, 50
	flags.BoolVar(&options.Once, "once", false, "end when the sample is paid")
	flags.StringVar(&options.Dir, "dir", "build/run", "folder of data, ledger or stream, and logs, kept between runs")
	flags.StringVar(&options.Evidence, "evidence", "build/evidence/run", "folder for the evidence of this run")
	flags.StringVar((*string)(&options.Rail), "rail", string(localrun.Bank),
		"what is paid to: bank, nats for a stream on a real nats-server, or kafka for a topic of a\n"+
			"fake of Kafka, franz-go's kfake")
	flags.StringVar(&options.Payee, "payee", "",
		"the binary of the simulated bank or of the broker; by default railsim, or testbed,\nin the folder of this one")
	numberFlag(command, &options.Instructions, "instructions", 1, 100_000, "how many instructions to pay, 1 to 100000")
	numberFlag(command, &options.Participants, "participants", 1, 100_000, "of how many participants")
	options.Timeout = 5 * time.Minute
	spanFlag(flags, &options.Timeout, "timeout", time.Second, spanMost, "the longest that paying them may take")
	return command
}
