package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/reader"
)

func logCommand() *cobra.Command {
	var filter reader.LogFilter
	var instruction string
	var following bool
	var every time.Duration
	command := &cobra.Command{
		Use: "log", Short: "Show the acts of operators, with time and reason",
		Long: "Show the operator log: each act of an operator, and each pause that a relayer made, with its login, its\n" +
			"subject and its reason; the newest acts, the oldest of them first. The log is append-only. With --follow\n" +
			"it continues with the acts that commit from then on, also over an outage of the database, and ends by\n" +
			"Ctrl-C with exit code 0. An act comes when its transaction commits, however long that takes; only one\n" +
			"does not that is older than the newest 5,000 when the command begins, or than the newest 10,000 when it\n" +
			"commits. Connects with RAILHEAD_READER_URL.",
		Example: "  railhead log --since 24h\n  railhead log --act PAUSE_RAIL --subject bank\n  railhead log --payment " +
			"INV-1 -o jsonl\n  railhead log --follow",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				if instruction != "" {
					found, err := reader.Find(cmd.Context(), instruction)
					if err != nil {
						return err
					}
					one, err := onlyFound(cmd, instruction, found)
					if err != nil {
						return err
					}
					filter.OutboxID = one.OutboxID
				}
				return showLog(cmd, reader, filter, following, every)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&filter.Actor, "actor", "", "only acts of this login")
	flags.StringVar(&filter.Person, "person", "", "only acts on behalf of this person, as the console names them")
	flags.StringVar(&filter.Act, "act", "",
		"only acts of this kind, such as PAUSE_RAIL, RESOLVE or REPLAY; one that does not exist is "+
			"refused, and all are named")
	flags.StringVar(&filter.Subject, "subject", "", "only acts on this rail, participant, instruction id or setting")
	flags.StringVar(&instruction, "payment", "",
		"only acts on this instruction: an outbox id, a rail key, an instruction id or the rail's reference")
	spanFlag(flags, &filter.Since, "since", 0, spanMost, "only acts of this last time, such as 24h; 0: of all time")
	filter.Limit = 100
	numberFlag(command, &filter.Limit, "limit", 1, 10_000, "the most acts that are shown, 1 to 10000")
	flags.BoolVarP(&following, "follow", "f", false, "continue with the acts that commit from now on")
	every = time.Second
	spanFlag(flags, &every, "every", pollLeast, pollMost, "time between two polls of --follow, 100ms to 1m")
	return command
}

func showLog(
	cmd *cobra.Command, looker *reader.Reader, filter reader.LogFilter, following bool, every time.Duration,
) error {
	o := outputOf(cmd)
	read := func(ctx context.Context) ([]reader.LoggedAct, bool, error) { return looker.OperatorLog(ctx, filter) }
	tail, err := looker.LogTail(filter)
	if err != nil {
		return err
	}
	if following {
		read = tail.Begin
	}
	acts, cutShort, err := read(cmd.Context())
	if err != nil {
		return err
	}
	if cutShort {
		fmt.Fprintf(cmd.ErrOrStderr(), "railhead: older acts are left out: these are the newest %d (--limit)\n", len(acts))
	}
	if !following && len(acts) == 0 {
		never, err := looker.NeverLogged(cmd.Context(), filter)
		if err != nil {
			return err
		}
		for _, sentence := range never {
			fmt.Fprintf(cmd.ErrOrStderr(), "railhead: %s\n", printable(sentence))
		}
	}
	if !following && o.json {
		return o.document(emptyNotNull(acts))
	}
	if !following && len(acts) == 0 {
		return o.text("no act\n")
	}
	for _, act := range acts {
		if err := writeLogged(o, act); err != nil {
			return err
		}
	}
	if !following {
		return nil
	}
	return follow(cmd, every, false, "older acts", func(ctx context.Context) (bool, error) {
		return tail.Read(ctx, func(act reader.LoggedAct) error { return writeLogged(o, act) })
	})
}

// writeLogged is one act on one line, or one JSON value on a line.
func writeLogged(o output, act reader.LoggedAct) error {
	if o.json {
		return o.line(act)
	}
	return o.text("%s  %-18s  %s  by %s: %s\n", clock(act.At), act.Act, bounded(oneLine(act.Subject), 64),
		oneLine(act.By()), bounded(oneLine(act.Reason), 200))
}

// emptyNotNull is for documents: a list without elements is [] and not null.
func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
