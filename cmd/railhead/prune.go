package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
)

// prunedJSON is the result of prune, as data: what was done, or with dry_run would be.
type prunedJSON struct {
	Act     string `json:"act"`
	What    string `json:"what"`
	DryRun  bool   `json:"dry_run"`
	Changed bool   `json:"changed"`
	operator.Pruned
}

func pruneCommand() *cobra.Command {
	var before, reason string
	var dryRun bool
	command := &cobra.Command{
		Use:   "prune",
		Short: "Remove closed dead letters and ended heartbeats that nothing needs any more",
		Long: "Remove the dead letters that were closed, and the heartbeats of components that ended, before a time. It\n" +
			"is an age, such as 90d or 2160h, or a time, such as 2026-01-01T00:00:00Z, and at least 7 days ago by the clock\n" +
			"of the database. What a rule or a proof still needs stays: the letter of a FAILED payment until its month has\n" +
			"left the archive, and the last relayer's heartbeat. So does a letter of reason UNCLAIMABLE until then: nothing\n" +
			"else says that a row was quarantined, and why. The archive, the registry and the operator log are never\n" +
			"pruned (docs/operations.md#retention).\n\n" +
			"It looks at " + strconv.Itoa(operator.PruneBatch) + " rows in a transaction. Each that removes some has a row of " +
			"the operator log,\nwhich names them: Ctrl-C leaves the batches that are done. Connects with RAILHEAD_OPERATOR_URL.",
		Example: "  railhead prune --dead-before 90d --dry-run --reason \"what would go\"\n" +
			"  railhead prune --dead-before 90d --reason \"retention of 90 days\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("%s: the archive is append-only, and nothing in it is pruned: only closed dead letters "+
					"and ended heartbeats are (docs/operations.md#retention)", bounded(args[0], 40)))
			}
			at, age, err := momentOrAge(before)
			if err != nil {
				return usage(err)
			}
			var all []prunedJSON
			out := outputOf(cmd)
			return withOperator(cmd.Context(), func(o *operator.Operator) error {
				for _, what := range []operator.Prunable{operator.PruneLetters, operator.PruneHeartbeats} {
					p := operator.Pruning{What: what, Before: at, Age: age, Reason: reason, DryRun: dryRun,
						Progress: pruneProgress(cmd.ErrOrStderr(), what, dryRun)}
					done, err := o.Prune(cmd.Context(), p)
					if err != nil {
						if done.Pruned > 0 && !dryRun {
							err = fmt.Errorf("%w; %d %s were pruned before that, and are in the operator log", err, done.Pruned, what)
						}
						if out.json && len(all) > 0 {
							err = errors.Join(err, out.document(all)) // what was done before is not undone
						}
						return err
					}
					all = append(all, prunedJSON{"PRUNE", string(what), dryRun, done.Pruned > 0 && !dryRun, done})
					if out.json {
						continue
					}
					if err := out.text("%s\n", pruned(what, done, dryRun)); err != nil {
						return err
					}
				}
				if out.json {
					return out.document(all)
				}
				return nil
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&before, "dead-before", "", "an age, such as 90d or 2160h, or a time, such as 2026-01-01T00:00:00Z")
	flags.BoolVar(&dryRun, "dry-run", false, "count what would be removed, and remove and log nothing")
	must(command.MarkFlagRequired("dead-before"))
	needReason(command, &reason)
	return command
}

// momentOrAge reads a time, or an age in days or as a duration of Go.
func momentOrAge(text string) (at time.Time, age time.Duration, err error) {
	const form = "--dead-before is an age, such as 90d or 2160h, or a time, such as 2026-01-01T00:00:00Z"
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		if at.Year() < 2000 {
			return time.Time{}, 0, errors.New(form + " since the year 2000")
		}
		return at, 0, nil
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.Atoi(days)
		if err != nil || n < 1 || n > 36500 {
			return time.Time{}, 0, errors.New(form + ", with 1 to 36500 days")
		}
		return time.Time{}, time.Duration(n) * 24 * time.Hour, nil
	}
	age, err = time.ParseDuration(text)
	if err != nil || age <= 0 {
		return time.Time{}, 0, errors.New(form)
	}
	return time.Time{}, age, nil
}

// pruneProgress says from time to time how far it is.
func pruneProgress(w io.Writer, what operator.Prunable, dryRun bool) func(operator.Pruned) {
	said := time.Now()
	return func(sum operator.Pruned) {
		if time.Since(said) < sayEvery {
			return
		}
		said = time.Now()
		fmt.Fprintf(w, "railhead: %s: %d seen so far, %d %s\n", what, sum.Seen, sum.Pruned, prunes(dryRun))
	}
}

func prunes(dryRun bool) string {
	if dryRun {
		return "would be pruned"
	}
	return "pruned"
}

// pruned is the sentence of what was done, or with dryRun would be.
func pruned(what operator.Prunable, done operator.Pruned, dryRun bool) string {
	did := prunes(dryRun)
	if what == operator.PruneHeartbeats {
		return fmt.Sprintf("heartbeats: %d of %d %s; kept: %d too recent, %d still needed", done.Pruned, done.Seen, did,
			done.Recent, done.Needed)
	}
	return fmt.Sprintf("dead letters: %d of %d %s; kept: %d open, %d closed too recently, %d still needed", done.Pruned,
		done.Seen, did, done.Open, done.Recent, done.Needed)
}
