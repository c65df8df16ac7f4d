package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/payment"
)

func letterTriageCommand(word, done string, to operator.Triage, short string) *cobra.Command {
	var reason string
	var seen rowSeen
	long := short + ". It changes nothing about the payment."
	if to == operator.Close {
		long = short + ": FAILED and EXPIRED only, and TAMPERED if it was\nproven executed since. A payment that may have " +
			"been made has to be resolved, with evidence, and can't be closed (exit code 9).\nOnly once one is closed may " +
			"its participant pay in another way: until then it may be replayed."
	}
	command := &cobra.Command{
		Use: word + " ID...", Short: short, Long: long + "\n\n" + severalHelp + word + " --reason WHY\n\n" + idHelp,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onPayments(cmd, args, &seen, func(ctx context.Context, operator *operator.Operator, id payment.ID) error {
				before, err := operator.TriageDeadLetter(ctx, id, to, reason)
				if err != nil {
					return err
				}
				return act{Act: "TRIAGE", OutboxID: id, Before: before, Now: string(to), Changed: before != string(to)}.
					write(cmd, triaged(done, id, before))
			})
		},
	}
	seen.flag(command)
	needReason(command, &reason)
	return command
}

func letterReplayCommand() *cobra.Command {
	var reason, until string
	var never bool
	seen := rowSeen{without: operator.IfNotSentAgain}
	command := &cobra.Command{
		Use: "replay ID...", Short: "Send dead letters again",
		Long: "Return a dead letter to pending: same outbox id, sequence id and rail key, counters from zero. For FAILED\n" +
			"and EXPIRED, and for UNCLAIMABLE, which is quarantined; for an unknown outcome only where the rail has\n" +
			"just answered an inquiry with \"no such payment\" and its profile accepts that as proof. That word holds for 15\n" +
			"minutes: where the rail keeps no keys, it is then parked again and not sent. Refused (exit code\n" +
			"9) where the rail requires a new id after a refusal: then close it first, and the participant enqueues the\n" +
			"payment as a new instruction. One whose time to be sent has passed, by the database's clock, needs\n" +
			"--expires-at or --never-expires (exit code 9), also a quarantined one, unless its outcome is unknown: then it\n" +
			"is asked about, and not sent again. One that was sent again after an earlier replay needs --row (exit code\n" +
			"9): what you know may be about an earlier send.\n\n" +
			severalHelp + "replay --reason WHY\n\n" + idHelp,
		Example: "  railhead dead-letter replay 019... --reason 'account unblocked, ticket 4711' --expires-at " +
			"2026-08-01T18:00:00Z",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var expiresAt time.Time
			if cmd.Flags().Changed("expires-at") {
				var err error
				if expiresAt, err = parseTime("--expires-at", until); err != nil {
					return usage(err)
				}
			}
			switch {
			case never && !expiresAt.IsZero():
				return usage(errors.New("give --expires-at or --never-expires, and not both"))
			case never:
				expiresAt = operator.NeverExpires
			}
			return onPayments(cmd, args, &seen, func(ctx context.Context, operator *operator.Operator, id payment.ID) error {
				number, err := operator.ReplayPayment(ctx, id, expiresAt, reason)
				if err != nil {
					return err
				}
				return act{Act: "REPLAY", OutboxID: id, AttemptNo: number, Now: string(payment.Replayed), Changed: true}.
					write(cmd, replayed(id, number))
			})
		},
	}
	command.Flags().StringVar(&until, "expires-at", "",
		"end it as EXPIRED from then on; by default when it has to end anyway, which must be yet to come")
	command.Flags().BoolVar(&never, "never-expires", false, "it does not expire any more")
	seen.flag(command)
	needReason(command, &reason)
	return command
}

func letterResolveCommand() *cobra.Command {
	var evidence operator.Evidence
	var executed, notExecuted bool
	var date string
	var seen rowSeen
	command := &cobra.Command{
		Use: "resolve ID --executed|--not-executed", Short: "End a payment that may have been made, with evidence",
		Long: "End a payment that is parked with an unknown outcome, or whose evidence is contradictory, by evidence from\n" +
			"the rail: the true outcome is appended as DISPATCHED or FAILED with your login. A FAILED one keeps its\n" +
			"dead letter, to be replayed or closed.\n\n" +
			"Where the rail can be asked, --not-executed needs its answer from the last 15 minutes as well as the\n" +
			"evidence: payment inquire. An answer that proves it is sufficient; after \"executed\" the act is refused\n" +
			"(exit code 9); after any other answer it needs --rail-silent, which the row, the log and the notes of\n" +
			"railhead prove record. From a start or a promotion of the\n" +
			"server until a relayer or a reaper has compared it, --not-executed is refused.\n\n" +
			"Evidence about one send says nothing about a later one. --row names the last row that payment show printed:\n" +
			"if there is another one by now, the act is refused (exit code 9). --not-executed needs it where the payment\n" +
			"was sent more than once.\n\n" + idHelp,
		Example: "  railhead dead-letter resolve 019... --executed --row 3 --rail-reference RS000000000042 \\\n" +
			"      --evidence-date 2026-07-30 --document 'statement 146, line 9' --reason 'on the statement'\n" +
			"  railhead dead-letter resolve 019... --not-executed --row 3 --evidence-date 2026-07-30 \\\n" +
			"      --document 'mail of their operations desk, ticket 4711' --reason 'they never got it'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if executed == notExecuted {
				return usage(errors.New("give one of --executed and --not-executed"))
			}
			if executed && evidence.RailReference == "" {
				return usage(errors.New("--executed needs --rail-reference: the rail's own reference of the payment"))
			}
			var err error
			if evidence.Date, err = time.Parse(time.DateOnly, date); err != nil {
				return usage(fmt.Errorf("--evidence-date is %q: write it as 2026-07-30", date))
			}
			if executed && evidence.RailSilent {
				return usage(errors.New("--rail-silent is for --not-executed: proof of execution needs no answer of the rail"))
			}
			evidence.Executed = executed
			if notExecuted {
				seen.without = operator.IfSentOnce
			}
			return onPayment(cmd, args[0], &seen, func(ctx context.Context, operator *operator.Operator,
				id payment.ID) error {
				state, err := operator.ResolvePayment(ctx, id, evidence)
				if err != nil {
					return err
				}
				return act{Act: "RESOLVE", OutboxID: id, Now: string(state), Changed: true}.write(cmd, resolved(id, state))
			})
		},
	}
	flags := command.Flags()
	seen.flag(command)
	flags.BoolVar(&executed, "executed", false, "the rail executed it")
	flags.BoolVar(&notExecuted, "not-executed", false, "the rail did not execute it and never will")
	flags.BoolVar(&evidence.RailSilent, "rail-silent", false,
		"with --not-executed: the rail was asked and gave no answer that proves anything, or it can't be asked now")
	flags.StringVar(&evidence.RailReference, "rail-reference", "", "the rail's own reference of the payment")
	flags.StringVar(&date, "evidence-date", "", "the day of the evidence, as 2026-07-30")
	flags.StringVar(&evidence.Document, "document", "", "where the evidence is: a statement, a ticket, a letter")
	needReason(command, &evidence.Reason)
	must(command.MarkFlagRequired("evidence-date"))
	must(command.MarkFlagRequired("document"))
	return command
}
