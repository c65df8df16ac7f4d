package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/outbox"
)

// revocation is the revocation of a token in several cells.
type revocation struct {
	s          settings
	id, reason string
}

// revokedCell is what a revocation has found in a cell.
type revokedCell struct {
	tokenInCell
	directory []string // the settings of the cells of its directory
	failed    error
}

// revokeInCells revokes a token in every cell that is reached.
func revokeInCells(cmd *cobra.Command, id, reason string, list []string) error {
	s, err := readSettings()
	if err == nil {
		err = checkCells(list)
	}
	if err != nil {
		return err
	}
	r, done := revocation{s: s, id: id, reason: reason}, tokenAct{Act: "REVOKE_TOKEN", TokenID: id}
	found := r.in(cmd.Context(), list, r.first)
	for _, one := range found {
		for _, setting := range one.directory {
			if !slices.Contains(list, setting) && !slices.Contains(done.NotAsked, setting) {
				done.NotAsked = append(done.NotAsked, setting)
			}
		}
	}
	// A creation or a copy that began before every cell was through may have put it in force since in one that lacked it,
	// and after it was found so in one, it may have gone on in another.
	for looked := false; !looked; {
		var again []string
		for _, one := range found {
			if one.Now == noToken {
				again = append(again, one.Cell)
			}
		}
		looked = true
		for _, one := range r.in(cmd.Context(), again, r.again) {
			found[slices.Index(list, one.Cell)] = one
			looked = looked && one.Now == noToken
		}
	}
	var left []string
	var failed error
	known := false
	for _, one := range found {
		known = known || one.Now != noToken
		done.Cells = append(done.Cells, one.tokenInCell)
		if one.failed != nil {
			left, failed = append(left, one.Cell), errors.Join(failed, fmt.Errorf("cell %s: %w", one.Cell, one.failed))
		}
	}
	err = done.write(cmd)
	if failed != nil {
		failed = fmt.Errorf("token %s may be in force in %s: repeat the command\n%w", bounded(id, 64),
			strings.Join(left, ", "), failed)
	}
	if len(done.NotAsked) > 0 {
		failed = errors.Join(failed, fmt.Errorf("token %s may be in force in %s, which --cells leaves out: repeat the "+
			"command with all cells of the directory", bounded(id, 64), strings.Join(done.NotAsked, ", ")))
	}
	if failed == nil && !known {
		return errors.Join(err, fmt.Errorf("no cell has token %s: %w", bounded(id, 64), outbox.ErrNotFound))
	}
	if failed != nil { // also if a cell's setting is wrong: others may have been revoked
		failed = &exitError{code: exitPartial, err: failed}
	}
	return errors.Join(err, failed)
}

// in does an act in several cells at once, so that one that hangs keeps the token in force in no other. What it
// returns is in the order of the list.
func (r revocation) in(
	ctx context.Context, list []string, act func(context.Context, *operator.Operator) (bool, error),
) []revokedCell {
	found := make([]revokedCell, len(list))
	var all sync.WaitGroup
	for n, setting := range list {
		all.Go(func() { found[n] = r.inCell(ctx, setting, act) })
	}
	all.Wait()
	return found
}

// inCell does an act in a cell, within cellWithin.
func (r revocation) inCell(
	ctx context.Context, setting string, act func(context.Context, *operator.Operator) (bool, error),
) revokedCell {
	one := revokedCell{tokenInCell: tokenInCell{Cell: setting, Now: revoked}}
	err := withinCell(ctx, func(ctx context.Context) error {
		return r.open(ctx, setting, func(at *operator.Operator, directory []string) (err error) {
			one.directory = directory
			one.Changed, err = act(ctx, at)
			return err
		})
	})
	switch {
	case errors.Is(err, outbox.ErrNotFound):
		one.Now, one.Changed = noToken, false
	case err != nil:
		err = fmt.Errorf("it is not known whether the token is in force there, repeat the command: %w", err)
		one.Now, one.Changed, one.Error, one.failed = notKnown, false, err.Error(), err
	}
	return one
}

// first revokes the token in a cell.
func (r revocation) first(ctx context.Context, at *operator.Operator) (bool, error) {
	return at.RevokeToken(ctx, r.id, r.reason)
}

// again revokes the token in a cell that lacked it, also where it is being put in force at this moment.
func (r revocation) again(ctx context.Context, at *operator.Operator) (bool, error) {
	if err := at.AwaitTokenActs(ctx); err != nil {
		return false, err
	}
	return at.RevokeToken(ctx, r.id, r.reason)
}

// open runs do in a cell, with the settings of the cells of its directory.
func (r revocation) open(
	ctx context.Context, setting string, do func(at *operator.Operator, directory []string) error,
) error {
	cell, err := r.s.ofCell(setting)
	if err != nil {
		return err
	}
	url, err := cell.url("RAILHEAD_OPERATOR_URL", cell.OperatorURL)
	if err != nil {
		return err
	}
	one, err := operator.Open(ctx, cell.config(url))
	if err != nil {
		return usage(fmt.Errorf("%s: %w", cell.variable("RAILHEAD_OPERATOR_URL"), err))
	}
	defer func() {
		// Where the cell hangs, so does the end of its connections.
		if ctx.Err() != nil {
			go one.Close()
			return
		}
		one.Close()
	}()
	d, err := one.Directory(ctx)
	if err != nil {
		return err
	}
	var directory []string
	for _, each := range d.Cells {
		directory = append(directory, each.Setting)
		if each.Name != d.Here {
			continue
		}
		if err := leadsTo(cell, "RAILHEAD_OPERATOR_URL", each.Setting); err != nil {
			return err
		}
	}
	return do(one, directory)
}

// revokedIn returns the cells in which the token is revoked, of all but some.
func (a *tokenAct) revokedIn(ctx context.Context, all []adminCell, but ...adminCell) (in []string, failed error) {
	in = a.revoked // a revocation is for good
	for _, each := range all {
		if slices.Contains(but, each) || slices.Contains(a.revoked, each.setting) {
			continue
		}
		one, err := each.read(ctx, a.TokenID)
		switch {
		case errors.Is(err, outbox.ErrNotFound):
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("cell %s: %w", each.setting, err))
		case !one.RevokedAt.IsZero():
			in = append(in, each.setting)
		}
	}
	return in, failed
}

// withdraw revokes what the act has put in force if a cell has revoked the token meanwhile, also where that
// revocation does not look.
func (a *tokenAct) withdraw(ctx context.Context, all []adminCell, reason string, list []string) error {
	revokedIn, failed := a.revokedIn(ctx, all)
	var left []string
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
		err := at.change(ctx, func(ctx context.Context) error {
			return operator.WithdrawToken(ctx, at.conn, at.schema, a.TokenID, reason)
		})
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
