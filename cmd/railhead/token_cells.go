package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/migrations"
	"github.com/railhead-pay/railhead/outbox"
)

const cellsFlag = "the settings of the cells in which to do it, such as EAST,WEST"

// checkCells checks the value of --cells.
func checkCells(list []string) error {
	for n, setting := range list {
		if !settingShape.MatchString(setting) || slices.Contains(list[:n], setting) {
			return usage(fmt.Errorf("--cells: %q is not the setting of a cell, such as WEST, or is there twice",
				bounded(setting, 63)))
		}
	}
	return nil
}

// adminCell is an administrator's session in a cell, as the cell's owner.
type adminCell struct {
	setting, schema string
	conn            *pgx.Conn
	standby         *standbyWatch
}

// withAdmins runs do with a session in each of several cells, if all of them are reached.
func withAdmins(ctx context.Context, list []string, do func(all []adminCell) error) error {
	s, err := readSettings()
	if err == nil {
		err = checkCells(list)
	}
	if err != nil {
		return err
	}
	var all []adminCell
	defer func() {
		for _, each := range all {
			each.conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what was done is committed
		}
	}()
	for _, setting := range list {
		one, err := openAdmin(ctx, s, setting)
		if err != nil {
			return fmt.Errorf("cell %s: %w", setting, err)
		}
		all = append(all, one)
	}
	return do(all)
}

func openAdmin(ctx context.Context, s settings, setting string) (adminCell, error) {
	cell, err := s.ofCell(setting)
	if err != nil {
		return adminCell{}, err
	}
	url, err := cell.url("RAILHEAD_ADMIN_URL", cell.AdminURL)
	if err != nil {
		return adminCell{}, err
	}
	config, err := adminConfigOf(cell.variable("RAILHEAD_ADMIN_URL"), url)
	if err != nil {
		return adminCell{}, err
	}
	one := adminCell{setting: setting, schema: cell.Cell, standby: watchStandby(config)}
	if one.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return adminCell{}, fmt.Errorf("connecting: %w", err)
	}
	if _, err := one.conn.Exec(ctx, "SET ROLE "+migrations.OwnerRole); err != nil {
		return adminCell{}, errors.Join(fmt.Errorf("becoming %s: %w", migrations.OwnerRole, err),
			one.conn.Close(context.WithoutCancel(ctx)))
	}
	named, err := operator.OwnSetting(ctx, one.conn, one.schema)
	if err == nil {
		if err = leadsTo(cell, "RAILHEAD_ADMIN_URL", named); err != nil {
			err = usage(err)
		}
	}
	if err != nil {
		return adminCell{}, errors.Join(err, one.conn.Close(context.WithoutCancel(ctx)))
	}
	return one, nil
}

// leadsTo returns an error if the variable of a cell leads to one that has another setting in its map. A cell
// without a map has none, and is not recognised.
func leadsTo(cell settings, variable, named string) error {
	if named == "" || named == cell.Setting {
		return nil
	}
	return fmt.Errorf("%s leads to the cell that has setting %s in its map: correct the variable",
		cell.variable(variable), named)
}

// createInCells creates a token in the first cell, and puts it in force in the others.
func createInCells(cmd *cobra.Command, made operator.NewToken, list []string) error {
	ctx := cmd.Context()
	return withAdmins(ctx, list, func(all []adminCell) error {
		first, id := all[0], ""
		err := pgx.BeginFunc(ctx, first.conn, func(tx pgx.Tx) error {
			token, tokenID, err := operator.CreateToken(ctx, tx, first.schema, made)
			if err != nil {
				return err
			}
			// It is printed before it is in force: after a crash no cell has a token that was not seen.
			id = tokenID
			return writeToken(cmd, token, id, made.ExpiresAt)
		})
		if err == nil {
			err = first.standby.lacks()
		}
		switch {
		case err != nil && id != "":
			return fmt.Errorf("cell %s: token %s was printed, and may not be in force: if railhead token list does not show "+
				"it, create another one: %w", first.setting, id, err)
		case err != nil:
			return fmt.Errorf("cell %s: %w", first.setting, err)
		}
		stored, err := operator.ReadToken(ctx, first.conn, first.schema, id)
		if err != nil {
			return fmt.Errorf("cell %s: %w", first.setting, err)
		}
		done := tokenAct{Act: "CREATE_TOKEN", TokenID: id,
			Cells: []tokenInCell{{Cell: first.setting, Now: inForce, Changed: true}}}
		err = done.copies(ctx, stored, all[1:], made.Reason, list)
		err = errors.Join(err, done.withdraw(ctx, all, made.Reason, list))
		if o := outputOf(cmd); !o.json {
			done.say(func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) })
			fmt.Fprintf(cmd.ErrOrStderr(), "token %s ends %s; this is the only time that it is shown\n", id,
				clock(stored.ExpiresAt))
		}
		return err
	})
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

// copies puts a token in force in cells. The error names those that lack it then.
func (a *tokenAct) copies(
	ctx context.Context, stored operator.StoredToken, cells []adminCell, reason string, list []string,
) error {
	var lack []string
	var failed error
	for _, each := range cells {
		copied, err := operator.CopyToken(ctx, each.conn, each.schema, a.TokenID, stored, reason)
		if err == nil {
			err = each.standby.lacks()
		}
		one := tokenInCell{Cell: each.setting, Now: inForce, Changed: copied}
		if err != nil {
			one.Now, one.Error, one.Changed = notKnown, err.Error(), false
			one.refused = errors.Is(err, outbox.ErrNotAllowed)
			lack, failed = append(lack, each.setting), errors.Join(failed, fmt.Errorf("cell %s: %w", each.setting, err))
		}
		a.Cells = append(a.Cells, one)
	}
	if failed == nil {
		return nil
	}
	return withCode(exitPartial, fmt.Errorf("token %s is not known to be in force in %s: complete it with "+
		"railhead token copy %s --cells %s --reason ...\n%w",
		a.TokenID, strings.Join(lack, ", "), a.TokenID, strings.Join(list, ","), failed))
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
			ctx := cmd.Context()
			return withAdmins(ctx, list, func(all []adminCell) error {
				stored, err := storedIn(ctx, all, args[0])
				if err != nil {
					return err
				}
				done := tokenAct{Act: "COPY_TOKEN", TokenID: args[0]}
				err = done.copies(ctx, stored, all, reason, list)
				err = errors.Join(err, done.withdraw(ctx, all, reason, list))
				return errors.Join(err, done.write(cmd))
			})
		},
	}
	command.Flags().StringSliceVar(&list, "cells", nil, cellsFlag)
	must(command.MarkFlagRequired("cells"))
	needReason(command, &reason)
	return command
}

// storedIn reads a token in the first cell that has it. One that is revoked in any cell is not put in force.
func storedIn(ctx context.Context, all []adminCell, id string) (stored operator.StoredToken, err error) {
	found := false
	for _, each := range all {
		one, err := operator.ReadToken(ctx, each.conn, each.schema, id)
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
