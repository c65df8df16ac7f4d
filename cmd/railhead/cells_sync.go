package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/cells"
	"github.com/railhead-pay/railhead/ledger/operator"
)

func cellSyncCommand() *cobra.Command {
	var said cells.Said
	var every time.Duration
	command := &cobra.Command{
		Use: "sync", Short: "Give each cell what the others know of the map",
		Long: "Copy the map between all cells that can be reached: each learns the cells and the changes of buckets\n" +
			"that it lacks. It completes an act that was broken off, and brings back a cell that was away. It gives no\n" +
			"bucket. After each start, failover or restore of its server a cell takes no instruction until this was run,\n" +
			"because it may have forgotten that it gave buckets away: let it run all the time, with --every. It needs every\n" +
			"cell, or --without for those that are lost, with a reason: a cell that is lost for good stays in that list,\n" +
			"also of the one that runs all the time. Exit code 8 if a cell was not reached, refuses the map, or a bucket is\n" +
			"not taken by exactly one cell; with --every it goes on, and prints what has changed.\n\n" +
			"A cell learns nothing of another one that was read on a server which does not follow the one that it knows: it\n" +
			"may be a copy. --server says that it is the cell nevertheless, restored without its history of timelines or\n" +
			"moved to a new PostgreSQL, with a reason.\n\n" +
			cellHelp,
		Example: "  railhead cell sync\n" +
			"  railhead cell sync --without north --reason 'north burned down, ticket 4713'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(said.Without) > 0 && strings.TrimSpace(said.Reason) == "":
				return usage(errors.New("--without needs --reason: a bucket that was given to that cell and forgotten is taken " +
					"twice"))
			case len(said.Servers) > 0 && strings.TrimSpace(said.Reason) == "":
				return usage(errors.New("--server needs --reason: what a copy of the cell's database says would be believed"))
			case every != 0 && len(said.Servers) > 0:
				return usage(errors.New("--server is said of one moment: run it without --every"))
			case every != 0 && said.Reason != "" && len(said.Without) == 0:
				return usage(errors.New("--reason is said of one moment, or of --without: run it without --every"))
			case every != 0 && every < time.Second:
				return usage(fmt.Errorf("--every is %s: it must be 1s to 1h", every))
			}
			return withCells(cmd.Context(), func(start *operator.Operator, at cells.Acts) error {
				if said.Repeated = every != 0; said.Repeated {
					return keepInSync(cmd, start, at, said, every)
				}
				n, err := cells.Sync(cmd.Context(), start, at, said)
				if err != nil {
					return err
				}
				defer n.Close()
				return writeMap(outputOf(cmd), n.State(), said.Without)
			})
		},
	}
	allowWithout(command, &said.Without)
	command.Flags().StringSliceVar(&said.Servers, "server", nil,
		"believe a cell although its server does not follow the one that others know")
	command.Flags().StringVar(&said.Reason, "reason", "",
		"why, with --without or --server, or where there never was another cell; it is stored")
	spanFlag(command.Flags(), &every, "every", 0, time.Hour,
		"go on until it is stopped, and sync as often, 1s to 1h; 0: once")
	return command
}

// keepInSync syncs the maps until the command is stopped. It prints the state whenever it has changed.
func keepInSync(
	cmd *cobra.Command, start *operator.Operator, at cells.Acts, said cells.Said, every time.Duration,
) error {
	ctx, o, last := cmd.Context(), outputOf(cmd), ""
	for {
		var state cells.State
		n, err := cells.Sync(ctx, start, at, said)
		if err == nil {
			state = n.State()
			n.Close()
		}
		if now := fmt.Sprint(state, err); now != last && ctx.Err() == nil {
			last = now
			if err == nil {
				err = writeMap(o, state, said.Without)
			}
			if err != nil {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "railhead cell sync: %s\n", oneLine(err.Error()))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// allowWithout adds the option that leaves out cells that are lost.
func allowWithout(command *cobra.Command, lost *[]string) {
	command.Flags().StringSliceVar(lost, "without", nil,
		"go on without a cell that is lost: the maps of the others count as compared although its own was not")
}
