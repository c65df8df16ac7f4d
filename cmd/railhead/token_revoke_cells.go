package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// revokeInCells revokes a token in every cell that is reached.
func revokeInCells(cmd *cobra.Command, id, reason string, list []string) error {
	s, err := readSettings()
	if err == nil {
		err = checkCells(list)
	}
	if err != nil {
		return err
	}
	done, known := tokenAct{Act: "REVOKE_TOKEN", TokenID: id}, false
	var left []string
	var failed error
	revoke := func(setting string) tokenInCell {
		was, err := revokeIn(cmd.Context(), s, setting, id, reason)
		switch {
		case errors.Is(err, outbox.ErrNotFound):
			return tokenInCell{Cell: setting, Now: noToken}
		case err != nil:
			left, failed = append(left, setting), errors.Join(failed, fmt.Errorf("cell %s: %w", setting, err))
			return tokenInCell{Cell: setting, Now: notKnown, Error: err.Error()}
		}
		known = true
		return tokenInCell{Cell: setting, Now: revoked, Changed: was}
	}
	for _, setting := range list {
		done.Cells = append(done.Cells, revoke(setting))
	}
	// A copy that began before the first cell was through may have put it in force since in one that lacked it.
	for n, one := range done.Cells {
		if known && one.Now == noToken {
			done.Cells[n] = revoke(one.Cell)
		}
	}
	err = done.write(cmd)
	switch {
	case failed != nil:
		return errors.Join(err, withCode(exitPartial, fmt.Errorf("token %s may be in force in %s: repeat the command\n%w",
			bounded(id, 64), strings.Join(left, ", "), failed)))
	case !known:
		return errors.Join(err, fmt.Errorf("no cell has token %s: %w", bounded(id, 64), outbox.ErrNotFound))
	}
	return err
}

func revokeIn(ctx context.Context, s settings, setting, id, reason string) (was bool, err error) {
	cell, err := s.ofCell(setting)
	if err != nil {
		return false, err
	}
	url, err := cell.url("RAILHEAD_OPERATOR_URL", cell.OperatorURL)
	if err != nil {
		return false, err
	}
	one, err := operator.Open(ctx, cell.config(url))
	if err != nil {
		return false, usage(fmt.Errorf("%s: %w", cell.variable("RAILHEAD_OPERATOR_URL"), err))
	}
	defer one.Close()
	d, err := one.Directory(ctx)
	if err != nil {
		return false, err
	}
	for _, each := range d.Cells {
		if each.Name != d.Here {
			continue
		}
		if err := leadsTo(cell, "RAILHEAD_OPERATOR_URL", each.Setting); err != nil {
			return false, err
		}
	}
	return one.RevokeToken(ctx, id, reason)
}

// withdraw revokes what the act has put in force if a cell has revoked the token meanwhile: a revocation that had
// found no token in a cell looks there again once all cells are through, and one of the two finds it.
func (a *tokenAct) withdraw(ctx context.Context, all []adminCell, reason string, list []string) error {
	var failed error
	var revokedIn, left []string
	for _, each := range all {
		one, err := operator.ReadToken(ctx, each.conn, each.schema, a.TokenID)
		switch {
		case errors.Is(err, outbox.ErrNotFound):
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("cell %s: %w", each.setting, err))
		case !one.RevokedAt.IsZero():
			revokedIn = append(revokedIn, each.setting)
		}
	}
	if len(revokedIn) == 0 {
		if failed != nil {
			failed = withCode(exitPartial, fmt.Errorf("it is not known whether token %s was revoked meanwhile: if it was, "+
				"railhead token revoke %s --cells %s --reason ...\n%w", a.TokenID, a.TokenID, strings.Join(list, ","), failed))
		}
		return failed
	}
	failed = nil
	for i := range a.Cells {
		one := &a.Cells[i]
		if slices.Contains(revokedIn, one.Cell) {
			one.Now, one.Changed = revoked, false
			continue
		}
		// What was there before the revocation finds, and what has other rights is not this token.
		if one.refused || !one.Changed && one.Error == "" {
			continue
		}
		at := all[slices.IndexFunc(all, func(c adminCell) bool { return c.setting == one.Cell })]
		err := operator.WithdrawToken(ctx, at.conn, at.schema, a.TokenID, reason)
		if err == nil {
			err = at.standby.lacks()
		}
		switch {
		case err == nil:
			one.Now, one.Changed, one.Error = revoked, true, ""
		case !errors.Is(err, outbox.ErrNotFound):
			one.Now, one.Error = notKnown, err.Error()
			left, failed = append(left, one.Cell), errors.Join(failed, fmt.Errorf("cell %s: %w", one.Cell, err))
		}
	}
	if failed != nil {
		return withCode(exitPartial, fmt.Errorf("token %s was revoked in %s meanwhile, and may be in force in %s: "+
			"railhead token revoke %s --cells %s --reason ...\n%w", a.TokenID, strings.Join(revokedIn, ", "),
			strings.Join(left, ", "), a.TokenID, strings.Join(list, ","), failed))
	}
	return fmt.Errorf("token %s was revoked in %s meanwhile, and is revoked where this command had put it in force: %w",
		a.TokenID, strings.Join(revokedIn, ", "), outbox.ErrNotAllowed)
}
