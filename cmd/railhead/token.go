package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/ledger/reader"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

func tokenCommand() *cobra.Command {
	return group("token", "Create, list and revoke the tokens of the HTTP API", tokenCreateCommand(), tokenCopyCommand(),
		tokenListCommand(), tokenRevokeCommand())
}

func tokenCreateCommand() *cobra.Command {
	var made operator.NewToken
	var within time.Duration
	var certificate string
	var cells []string
	command := &cobra.Command{
		Use: "create", Short: "Create a token for participants and acts, and print it once",
		Long: "Create a token of 32 random bytes, valid for participants and acts until it expires, and print it. It is\n" +
			"printed once: the database stores a digest of its digest. Hand it over in private.\n\n" +
			"Connects with RAILHEAD_ADMIN_URL: a login that creates tokens can enqueue for every participant, which\n" +
			"operators can not. The act, the login and the reason go to the operator log.\n\n" +
			"With --cells the token is put in force in several cells, each by a login of its own: with EAST,WEST by\n" +
			"RAILHEAD_ADMIN_URL_EAST and RAILHEAD_ADMIN_URL_WEST. All of them must be reached, or nothing is done. If a\n" +
			"cell lacks it in the end, the error says so, and railhead token copy completes it: do not create another one.",
		Example: "  railhead token create --name shop --participant p1 --verbs enqueue,read --expires-in 2160h --reason " +
			"'ticket 4711'\n" +
			"  railhead token create --name shop --participant p1 --cells EAST,WEST --reason 'ticket 4711'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if leadsNowhere(cmd.OutOrStdout()) {
				return usage(errors.New("standard output is closed or leads nowhere, and the token is printed there once: " +
					"nothing was done"))
			}
			for n, verb := range made.Verbs {
				made.Verbs[n] = strings.ToUpper(strings.TrimSpace(verb))
			}
			if certificate != "" {
				var err error
				if made.Certificate, err = keyOfCertificate(certificate); err != nil {
					return usage(fmt.Errorf("--certificate: %w", err))
				}
			}
			if len(cells) > 0 {
				return createInCells(cmd, made, within, cells)
			}
			var token, id string
			err := asAdmin(cmd.Context(), func(conn *pgx.Conn, cell string) (err error) {
				if _, err := conn.Exec(cmd.Context(), "SET ROLE "+migrations.OwnerRole); err != nil {
					return fmt.Errorf("becoming %s: %w", migrations.OwnerRole, err)
				}
				return withinCell(cmd.Context(), func(ctx context.Context) error {
					now, err := operator.Clock(ctx, conn, cell)
					if err != nil {
						return err
					}
					made.ExpiresAt = now.Add(within)
					token, id, err = operator.CreateToken(ctx, conn, cell, made)
					return unlessRefused(err)
				})
			})
			if err != nil {
				return ifLost(tokenUnseen, err)
			}
			if !outputOf(cmd).json {
				fmt.Fprintf(cmd.ErrOrStderr(), "token %s is in force until %s; this is the only time that it is shown\n", id,
					clock(made.ExpiresAt))
			}
			if err := writeToken(cmd, token, id, made.ExpiresAt); err != nil {
				return &unprinted{fmt.Errorf("token %s is in force until %s, and could not be shown: revoke it, and create "+
					"another one: railhead token revoke %s --reason WHY\n%w", id, clock(made.ExpiresAt), id, err)}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&made.Name, "name", "", "its owner, for lists and logs")
	flags.StringSliceVar(&made.Participants, "participant", nil,
		"a participant for which it is valid; repeat it, or separate several with commas")
	flags.StringSliceVar(&made.Verbs, "verbs", []string{"enqueue", "read"},
		"the acts that it permits: enqueue, read, cancel")
	within = 90 * 24 * time.Hour
	spanFlag(flags, &within, "expires-in", time.Second, spanMost,
		"when it ends, from now by the database's clock, at most 9600h")
	numberFlag(command, &made.RequestsPerMinute, "requests-per-minute", 0, math.MaxInt32,
		"quota in each API process; 0: none")
	flags.StringVar(&certificate, "certificate", "",
		"file of the client certificate (PEM) that has to be presented with the token")
	flags.StringSliceVar(&cells, "cells", nil, cellsFlag)
	must(command.MarkFlagRequired("name"))
	must(command.MarkFlagRequired("participant"))
	needReason(command, &made.Reason)
	return command
}

// unlessRefused is the error of a statement that commits by itself: unless the server has refused it, it may be done.
func unlessRefused(err error) error {
	pgErr, said := errors.AsType[*pgconn.PgError](err)
	_, refused := errors.AsType[*outbox.Fault](err)
	if err == nil || refused || said && pgErr.SeverityUnlocalized == "ERROR" {
		return err
	}
	return fmt.Errorf("%w: %w", outbox.ErrCommitUnknown, err)
}

// writeToken prints a token, which is not shown again.
func writeToken(cmd *cobra.Command, token, id string, ends time.Time) error {
	o := outputOf(cmd)
	if o.json {
		return o.document(map[string]any{"token": token, "token_id": id, "expires_at": ends.UTC().Truncate(time.Second)})
	}
	return o.text("%s\n", token)
}

// keyOfCertificate is SHA-256 of the public key of the first certificate of a file.
func keyOfCertificate(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s does not begin with a certificate in PEM", file)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return sum[:], nil
}

func tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tokens of the HTTP API, the newest first",
		Long: "List the tokens of the HTTP API, those that are not in force included: their participants and acts, their\n" +
			"expiry, how often they were used, and how often while they were not in force. At most 10,000 are listed;\n" +
			"where there are more, standard error says so. Connects with RAILHEAD_READER_URL.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withReader(cmd.Context(), func(reader *reader.Reader) error {
				now, err := reader.Now(cmd.Context())
				if err != nil {
					return err
				}
				all, cutShort, err := reader.Tokens(cmd.Context())
				if err != nil {
					return err
				}
				if cutShort {
					fmt.Fprintf(cmd.ErrOrStderr(), "railhead: older tokens are left out: these are the newest %d. In SQL "+
						"api_tokens() has all\n", len(all))
				}
				o := outputOf(cmd)
				switch {
				case o.json:
					return o.document(emptyNotNull(all))
				case len(all) == 0:
					return o.text("no token\n")
				default:
					return writeTokens(o, all, now)
				}
			})
		},
	}
}

func writeTokens(o output, all []reader.ListedToken, now time.Time) error {
	rows := make([][]cell, 0, len(all))
	for _, t := range all {
		end := cell{text: clock(t.ExpiresAt)}
		switch {
		case !t.RevokedAt.IsZero():
			end = cell{"revoked " + clock(t.RevokedAt), alarm}
		case !t.ExpiresAt.After(now):
			end = cell{"expired " + clock(t.ExpiresAt), alarm}
		}
		rows = append(rows, []cell{
			{text: t.ID}, {text: oneLine(t.Name)}, {text: oneLine(strings.Join(t.Participants, " "))},
			{text: strings.ToLower(strings.Join(t.Verbs, " "))},
			end, {text: strconv.FormatInt(t.Uses, 10)}, {text: strconv.FormatInt(t.Refused, 10)}, {text: clock(t.LastUsedAt)},
		})
	}
	return o.table([]string{"TOKEN", "NAME", "PARTICIPANTS", "VERBS", "UNTIL", "USES", "REFUSED", "LAST USED"}, rows)
}

func tokenRevokeCommand() *cobra.Command {
	var reason string
	var cells []string
	command := &cobra.Command{
		Use: "revoke TOKEN_ID", Short: "Revoke a token",
		Long: "Revoke a token for good: the next statement with it is refused. TOKEN_ID is the id that railhead token\n" +
			"list shows, never the token. Connects with RAILHEAD_OPERATOR_URL; the act, the login and the reason go to\n" +
			"the operator log.\n\n" +
			"With --cells it is revoked in several cells at once, by RAILHEAD_OPERATOR_URL_EAST and so on. A cell that is\n" +
			"away, or has not answered within 15 s, stops no other. The error names it, and the cells of the directory\n" +
			"that --cells leaves out, and the command can be repeated. Without --cells it is revoked in one cell.\n\n" +
			"Where a cell lacks the token and is putting one in force, its end is waited for, 15 s at most: after that the\n" +
			"exit code is 7, and the command has to be repeated.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(cells) > 0 {
				return ifLost(completes, revokeInCells(cmd, args[0], reason, cells))
			}
			return withOperator(cmd.Context(), func(operator *operator.Operator) error {
				ctx := cmd.Context()
				was, err := operator.RevokeToken(ctx, args[0], reason)
				if errors.Is(err, outbox.ErrNotFound) { // also where it is being put in force at this moment
					if err = withinCell(ctx, operator.AwaitTokenActs); err != nil {
						return &exitError{code: exitPartial, err: fmt.Errorf("this cell has no token %s, but may be putting it in "+
							"force: repeat the command\n%w", bounded(args[0], 64), err)}
					}
					was, err = operator.RevokeToken(ctx, args[0], reason)
				}
				if err != nil {
					return err
				}
				said := "token " + oneLine(args[0]) + " is revoked in this cell"
				if !was {
					said = "token " + oneLine(args[0]) + " was revoked already in this cell"
				}
				return act{Act: "REVOKE_TOKEN", TokenID: args[0], Now: "revoked", Changed: was}.write(cmd, said)
			})
		},
	}
	command.Flags().StringSliceVar(&cells, "cells", nil, cellsFlag)
	needReason(command, &reason)
	return command
}
