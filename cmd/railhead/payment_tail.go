package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/internal/explain"
	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/payment"
)

func paymentTailCommand() *cobra.Command {
	var filter reader.TailFilter
	var state string
	var every time.Duration
	var once bool
	command := &cobra.Command{
		Use: "tail", Short: "Follow the rows of the archive as they commit",
		Long: "Follow the rows of the archive as they commit, a line each: outcomes, repairs, callbacks, operators' acts.\n" +
			"A claim is shown once it has been in flight for a second; every outcome has the time and the worker of its\n" +
			"claim. Ends by Ctrl-C with exit code 0; an outage of the database is reported on standard error, and does\n" +
			"not end it.\n\n" +
			"It reads by the index of callers' events, so that the cost depends on the number of new rows and not on\n" +
			"the size of the archive, and misses no row that commits late. Lines are in the order of commits: if a\n" +
			"transaction has written before others and commits after them, its rows come after theirs. Connects with\n" +
			"RAILHEAD_READER_URL.",
		Example: "  railhead payment tail --rail bank\n  railhead payment tail --since 10m --state FAILED --once -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter.State = payment.State(strings.ToUpper(state))
			if state != "" && !slices.Contains(payment.States(), filter.State) {
				return usage(fmt.Errorf("--state is %q: use one of %v", bounded(state, 40), stateNames()))
			}
			return withReader(cmd.Context(), func(looker *reader.Reader) error {
				if err := sureOfRail(cmd, looker, filter.RailType); err != nil {
					return err
				}
				tail, err := looker.Tail(filter)
				if err != nil {
					return err
				}
				return follow(cmd, every, once, "rows", func(ctx context.Context) (bool, error) {
					for {
						looked, err := tail.Read(ctx, func(row reader.AttemptEvent) error { return writeHappened(outputOf(cmd), row) })
						if looked.WentBack {
							fmt.Fprintln(cmd.ErrOrStderr(), "railhead: the database has lost rows that were shown here (a failover or a "+
								"restore): some rows follow once more")
						}
						if err != nil || !looked.Behind {
							return false, err
						}
					}
				})
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&state, "state", "", "only rows of this state")
	flags.StringVar(&filter.RailType, "rail", "", "only of this rail")
	flags.StringVar(&filter.ParticipantID, "participant", "", "only of this participant")
	spanFlag(flags, &filter.Since, "since", 0, spanMost, "begin so far in the past; 0: now")
	every = time.Second
	spanFlag(flags, &every, "every", pollLeast, pollMost, "time between two polls, 100ms to 1m")
	flags.BoolVar(&once, "once", false, "poll once and end")
	return command
}

// What a poll may take at least and at most.
const (
	pollLeast = 100 * time.Millisecond
	pollMost  = time.Minute
)

// follow polls until it is stopped, or once. look reports whether there are more rows than
// it can show, which follow reports with the name of what is followed. After the first
// successful poll an outage of the database does not end it: it is reported, and follow
// continues where it was.
func follow(
	cmd *cobra.Command, every time.Duration, once bool, what string, look func(context.Context) (behind bool, err error),
) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	looked := false
	var away time.Time // since when the database can't be reached
	for {
		behind, err := look(cmd.Context())
		outage := err != nil && looked && unreachable(err, ledger.SQLState(err))
		switch {
		case err == nil && !away.IsZero():
			fmt.Fprintf(cmd.ErrOrStderr(), "railhead: the database can be reached again after %s; rows that were written "+
				"meanwhile follow\n", span(time.Since(away)))
			away = time.Time{}
		case outage && away.IsZero():
			away = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "railhead: the database can't be reached, and is tried again until Ctrl-C: %s\n",
				printable(eachOnce(err.Error())))
		}
		looked = looked || err == nil
		switch {
		case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
			return nil
		case err != nil && !outage:
			return err
		case behind:
			fmt.Fprintf(cmd.ErrOrStderr(), "railhead: there are more rows than can be followed: %s may be missing here; use "+
				"narrower filters\n", what)
		}
		if once && !behind {
			return nil
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

func writeHappened(o output, row reader.AttemptEvent) error {
	if o.json {
		return o.line(row)
	}
	what := o.paint(string(row.State), toneIn(explain.ToneOfState(string(row.State))))
	fields := []string{clock(row.CreatedAt), row.OutboxID.String(), fmt.Sprintf("row %d", row.AttemptNo), what}
	if row.Result != "" && row.Result != string(row.State) {
		fields = append(fields, row.Result)
	}
	if said := explain.SaidCodes(row.ErrorCode, row.RailCode); said != "" {
		fields = append(fields, oneLine(said))
	}
	if row.LatencyMS != nil {
		fields = append(fields, fmt.Sprintf("%dms", *row.LatencyMS))
	}
	if row.OutcomeUnknown {
		fields = append(fields, o.paint("outcome unknown", alarm))
	}
	fields = append(fields, "rail="+row.RailType, "participant="+row.ParticipantID,
		"instruction="+bounded(row.InstructionID, 60))
	if row.RailReference != "" {
		fields = append(fields, "reference="+oneLine(row.RailReference))
	}
	if row.WorkerID != "" {
		fields = append(fields, "worker="+oneLine(row.WorkerID))
	}
	return o.text("%s\n", strings.Join(fields, "  "))
}
