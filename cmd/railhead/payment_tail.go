package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
		Use: "tail", Short: "Follow what happens, as it commits",
		Long: "Follow what happens, a line a row of the archive, as it commits: outcomes, repairs, callbacks, acts of people. A\n" +
			"claim is told of once it has been in flight for a second; every outcome says when and by whom it was claimed.\n" +
			"Ends by Ctrl-C with exit code 0; an outage of the database is said on standard error, and does not end it.\n\n" +
			"It asks by the index that callers' events are told by, so that it costs what happens and not what the archive holds, and\n" +
			"misses no row that commits late. Lines come as rows commit: where a transaction has written before others and commits\n" +
			"after them, its rows come after theirs. Connects by RAILHEAD_READER_URL.",
		Example: "  railhead payment tail --rail bank\n  railhead payment tail --since 10m --state FAILED --once -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter.State = payment.State(strings.ToUpper(state))
			if state != "" && !slices.Contains(payment.States(), filter.State) {
				return usage(fmt.Errorf("--state is %q: use one of %v", bounded(state, 40), stateNames()))
			}
			if every < 100*time.Millisecond || every > time.Minute {
				return usage(fmt.Errorf("--every is %s: use 100ms to 1m", every))
			}
			return withReader(cmd.Context(), func(looker *reader.Reader) error {
				tail, err := looker.Tail(filter)
				if err != nil {
					return err
				}
				return follow(cmd, every, once, "rows", func(ctx context.Context) (bool, error) {
					for {
						looked, err := tail.Read(ctx, func(row reader.AttemptEvent) error { return writeHappened(outputOf(cmd), row) })
						if looked.WentBack {
							fmt.Fprintln(cmd.ErrOrStderr(), "railhead: the database has forgotten what was told here (a failover or a restore): some rows follow once more")
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
	flags.DurationVar(&filter.Since, "since", 0, "begin so far back; else now")
	flags.DurationVar(&every, "every", time.Second, "time between two looks, 100ms to 1m")
	flags.BoolVar(&once, "once", false, "look once and end")
	return command
}

// follow looks until it is stopped, which is how it ends, or once. A look reports whether
// more has happened than it can show, which is said with what is followed. Once it has
// looked, an outage of the database ends it no more: it says so, and goes on where it was.
func follow(cmd *cobra.Command, every time.Duration, once bool, what string, look func(context.Context) (behind bool, err error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	looked := false
	var away time.Time // since when the database can't be reached
	for {
		behind, err := look(cmd.Context())
		outage := err != nil && looked && unreachable(err, ledger.SQLState(err))
		switch {
		case err == nil && !away.IsZero():
			fmt.Fprintf(cmd.ErrOrStderr(), "railhead: the database is there again after %s; what was written meanwhile follows\n", span(time.Since(away)))
			away = time.Time{}
		case outage && away.IsZero():
			away = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "railhead: the database can't be reached, and is tried again until Ctrl-C: %s\n", printable(eachOnce(err.Error())))
		}
		looked = looked || err == nil
		switch {
		case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
			return nil
		case err != nil && !outage:
			return err
		case behind:
			fmt.Fprintf(cmd.ErrOrStderr(), "railhead: more happens than can be followed: %s may be missing here; narrow it down\n", what)
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
	what := o.paint(string(row.State), toneOfState(string(row.State)))
	fields := []string{clock(row.CreatedAt), row.OutboxID.String(), fmt.Sprintf("row %d", row.AttemptNo), what}
	if row.Result != "" && row.Result != string(row.State) {
		fields = append(fields, row.Result)
	}
	if said := saidCodes(row.ErrorCode, row.RailCode); said != "" {
		fields = append(fields, oneLine(said))
	}
	if row.LatencyMS != nil {
		fields = append(fields, fmt.Sprintf("%dms", *row.LatencyMS))
	}
	if row.OutcomeUnknown {
		fields = append(fields, o.paint("outcome unknown", alarm))
	}
	fields = append(fields, "rail="+row.RailType, "participant="+row.ParticipantID, "instruction="+bounded(row.InstructionID, 60))
	if row.RailReference != "" {
		fields = append(fields, "reference="+oneLine(row.RailReference))
	}
	if row.WorkerID != "" {
		fields = append(fields, "worker="+oneLine(row.WorkerID))
	}
	return o.text("%s\n", strings.Join(fields, "  "))
}
