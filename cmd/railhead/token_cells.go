package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

const cellsFlag = "the settings of the cells in which to do it, such as EAST,WEST"

// createInCells creates a token in the first cell, by whose clock it expires, and puts it in force in the others.
func createInCells(cmd *cobra.Command, made operator.NewToken, within time.Duration, list []string) error {
	return withAdmins(cmd.Context(), list, func(all []adminCell) error {
		err := withinCell(cmd.Context(), func(ctx context.Context) error {
			now, err := operator.Clock(ctx, all[0].conn, all[0].schema)
			made.ExpiresAt = now.Add(within)
			return err
		})
		if err != nil {
			return fmt.Errorf("cell %s: %w", all[0].setting, err)
		}
		return createWith(cmd, made, all, list)
	})
}

func createWith(cmd *cobra.Command, made operator.NewToken, all []adminCell, list []string) error {
	ctx, first, id := cmd.Context(), all[0], ""
	var stored operator.StoredToken
	err := first.change(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, first.conn, func(tx pgx.Tx) error {
			token, tokenID, err := operator.CreateToken(ctx, tx, first.schema, made)
			if err != nil {
				return err
			}
			// It is read before the commit: if the cell is lost after it, the others still get the token.
			if stored, err = operator.ReadToken(ctx, tx, first.schema, tokenID); err != nil {
				return err
			}
			// It is printed before it is in force: after a crash no cell has a token that was not seen.
			if err := writeToken(cmd, token, tokenID, made.ExpiresAt); err != nil {
				return err
			}
			id = tokenID
			return nil
		})
	})
	switch {
	case err != nil && id != "":
		return withCode(exitPartial, fmt.Errorf("token %s was printed, and is not known to be in force in %s: as soon as "+
			"railhead token list shows it in %s, complete it with %s. Create another one only if it does not, although no "+
			"transaction waits there\ncell %s: %w", id,
			strings.Join(list, ", "), first.setting, copyCommand(id, list), first.setting, err))
	case err != nil:
		return fmt.Errorf("cell %s: %w", first.setting, err)
	}
	done := tokenAct{Act: "CREATE_TOKEN", TokenID: id,
		Cells: []tokenInCell{{Cell: first.setting, Now: inForce, Changed: true}}}
	err = done.copies(ctx, stored, all, all[1:], made.Reason, list)
	err = errors.Join(err, done.withdraw(ctx, all, made.Reason, list))
	if o := outputOf(cmd); !o.json {
		done.say(func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) })
		fmt.Fprintf(cmd.ErrOrStderr(), "token %s ends %s; this is the only time that it is shown\n", id,
			clock(stored.ExpiresAt))
	}
	return err
}

// copyCommand completes a token in several cells.
func copyCommand(id string, list []string) string {
	return fmt.Sprintf("railhead token copy %s --cells %s --reason ...", id, strings.Join(list, ","))
}

// What a token is in a cell.
const (
	inForce  = "in force"
	revoked  = "revoked"
	noToken  = "no such token"
	notKnown = "not known"
)

// tokenAct is the result of an act on a token in several cells, as data.
type tokenAct struct {
	Act     string        `json:"act"`
	TokenID string        `json:"token_id"`
	Cells   []tokenInCell `json:"cells"`
	// NotAsked are the settings of other cells of the directory, in which the token may be in force.
	NotAsked []string `json:"not_asked,omitempty"`
	revoked  []string // the cells in which it was found revoked
}

// tokenInCell is what a token is in a cell now, and whether the act has changed that.
type tokenInCell struct {
	Cell    string `json:"cell"`
	Now     string `json:"now"`
	Changed bool   `json:"changed"`
	Error   string `json:"error,omitempty"`
	refused bool   // the cell has a token of this id that the act must not change
}

// say says what was done in each cell.
func (a tokenAct) say(line func(string)) {
	for _, each := range a.Cells {
		switch {
		case each.Error != "":
			line(fmt.Sprintf("cell %s: %s: %s", each.Cell, each.Now, oneLine(each.Error)))
		case each.Changed:
			line(fmt.Sprintf("cell %s: token %s is %s", each.Cell, oneLine(a.TokenID), each.Now))
		case each.Now == noToken:
			line(fmt.Sprintf("cell %s: there is no token %s", each.Cell, oneLine(a.TokenID)))
		default:
			line(fmt.Sprintf("cell %s: token %s was %s already", each.Cell, oneLine(a.TokenID), each.Now))
		}
	}
	for _, setting := range a.NotAsked {
		line(fmt.Sprintf("cell %s was not asked: token %s may be in force there", setting, oneLine(a.TokenID)))
	}
}

func (a tokenAct) write(cmd *cobra.Command) error {
	o := outputOf(cmd)
	if o.json {
		return o.document(a)
	}
	var failed error
	a.say(func(line string) { failed = errors.Join(failed, o.text("%s\n", line)) })
	return failed
}

// errRevokedMeanwhile: the token was revoked in another cell after the act had begun.
var errRevokedMeanwhile = errors.New("it was revoked in another cell meanwhile")

// copies puts a token in force in some of the cells. The error names those that lack it then.
//
// It looks for a revocation in all cells before each commit. A revocation that has found no token in a cell waits there
// for what is open once all cells are through, and looks again: one of the two finds the other one, also if this
// process is killed.
func (a *tokenAct) copies(
	ctx context.Context, stored operator.StoredToken, all, some []adminCell, reason string, list []string,
) error {
	var lack []string
	var failed error
	for _, each := range some {
		if len(a.revoked) > 0 {
			break // which withdraw says
		}
		copied := false
		err := each.change(ctx, func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, each.conn, func(tx pgx.Tx) (err error) {
				copied, err = operator.CopyToken(ctx, tx, each.schema, a.TokenID, stored, reason)
				if err != nil || !copied {
					return err
				}
				if a.revoked, err = a.revokedIn(ctx, all, each); len(a.revoked) > 0 {
					err = errRevokedMeanwhile
				}
				return err
			})
		})
		one := tokenInCell{Cell: each.setting, Now: inForce, Changed: copied}
		switch {
		case errors.Is(err, errRevokedMeanwhile):
			one.Now, one.Changed = noToken, false
		case err != nil:
			one.Now, one.Error, one.Changed = notKnown, err.Error(), false
			failed = errors.Join(failed, fmt.Errorf("cell %s: %w", each.setting, err))
			if one.refused = errors.Is(err, outbox.ErrNotAllowed); !one.refused {
				lack = append(lack, each.setting)
			}
		}
		a.Cells = append(a.Cells, one)
	}
	if len(lack) == 0 {
		return withCode(exitPartial, failed)
	}
	return withCode(exitPartial, fmt.Errorf("token %s is not known to be in force in %s: complete it with %s\n%w",
		a.TokenID, strings.Join(lack, ", "), copyCommand(a.TokenID, list), failed))
}

func tokenCopyCommand() *cobra.Command {
	var reason string
	var list []string
	command := &cobra.Command{
		Use: "copy TOKEN_ID", Short: "Put a token of one cell in force in others",
		Long: "Put a token in force in each of several cells that lacks it, with the rights and the expiry that the first\n" +
			"one which has it stores. Its bearer presents the same text, which the command does not know: cells store a\n" +
			"digest. It completes a railhead token create --cells that was broken off, and can be repeated. All cells must\n" +
			"be reached; one in which the token is revoked, or has other rights, is not changed.\n\n" +
			"Connects as railhead token create does, with RAILHEAD_ADMIN_URL_EAST and so on. TOKEN_ID is the id that\n" +
			"railhead token list shows, never the token. The act, the login and the reason go to the operator log of each\n" +
			"cell that is changed.",
		Example: "  railhead token copy 4f1c2d3a9b8e7f60 --cells EAST,WEST --reason 'west is new, ticket 4713'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withAdmins(cmd.Context(), list, func(all []adminCell) error {
				return copyWith(cmd, args[0], reason, all, list)
			})
		},
	}
	command.Flags().StringSliceVar(&list, "cells", nil, cellsFlag)
	must(command.MarkFlagRequired("cells"))
	needReason(command, &reason)
	return command
}

func copyWith(cmd *cobra.Command, id, reason string, all []adminCell, list []string) error {
	ctx := cmd.Context()
	stored, err := storedIn(ctx, all, id)
	if err != nil {
		return err
	}
	done := tokenAct{Act: "COPY_TOKEN", TokenID: id}
	err = done.copies(ctx, stored, all, all, reason, list)
	err = errors.Join(err, done.withdraw(ctx, all, reason, list))
	return errors.Join(err, done.write(cmd))
}

// storedIn reads a token in the first cell that has it. One that is revoked in any cell is not put in force.
func storedIn(ctx context.Context, all []adminCell, id string) (stored operator.StoredToken, err error) {
	found := false
	for _, each := range all {
		one, err := each.read(ctx, id)
		switch {
		case errors.Is(err, outbox.ErrNotFound):
		case err != nil:
			return stored, fmt.Errorf("cell %s: %w", each.setting, err)
		case !one.RevokedAt.IsZero():
			return stored, fmt.Errorf("cell %s: token %s is revoked: %w", each.setting, bounded(id, 64), outbox.ErrNotAllowed)
		case !found:
			stored, found = one, true
		}
	}
	if !found {
		err = fmt.Errorf("no cell has token %s: %w", bounded(id, 64), outbox.ErrNotFound)
	}
	return stored, err
}
