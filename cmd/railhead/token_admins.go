package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/ledger/operator"
	"github.com/railhead-pay/railhead/migrations"
)

// How long a command of several cells waits for one of them.
const (
	cellWithin  = 15 * time.Second // for a connection, and for each answer
	closeWithin = time.Second      // for the end of a connection
	lockWithin  = "5s"             // for a lock, as PostgreSQL writes it
)

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

// adminCell is an administrator's session in a cell, as the cell's owner. It waits for a lock for at most lockWithin.
type adminCell struct {
	setting, schema string
	conn            *pgx.Conn
	standby         *standbyWatch
}

func (c adminCell) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	return c.conn.Close(ctx)
}

// withinCell runs do, which asks the cell, for at most cellWithin.
func withinCell(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, cellWithin)
	defer cancel()
	err := do(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("it has not ended within %s: %w", cellWithin, err)
	}
	return err
}

// read reads a token in the cell.
func (c adminCell) read(ctx context.Context, id string) (stored operator.StoredToken, err error) {
	err = withinCell(ctx, func(ctx context.Context) (err error) {
		stored, err = operator.ReadToken(ctx, c.conn, c.schema, id)
		return err
	})
	return stored, err
}

// change runs do, which commits in the cell.
func (c adminCell) change(ctx context.Context, do func(context.Context) error) error {
	if err := withinCell(ctx, do); err != nil {
		return err
	}
	return c.standby.lacks()
}

// withAdmins runs do with a session in each of several cells, if all of them are reached.
func withAdmins(ctx context.Context, list []string, do func(all []adminCell) error) error {
	return ifLost("", asAdministrators(asAdmins(ctx, list, do))) // the errors of acts in several cells say what to do
}

func asAdmins(ctx context.Context, list []string, do func(all []adminCell) error) error {
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
			each.close(ctx) //nolint:errcheck // what was done is committed
		}
	}()
	for _, setting := range list {
		var one adminCell
		err := withinCell(ctx, func(ctx context.Context) (err error) {
			one, err = openAdmin(ctx, s, setting)
			return err
		})
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
	config.RuntimeParams["lock_timeout"] = lockWithin
	one := adminCell{setting: setting, schema: cell.Cell, standby: watchStandby(config)}
	if one.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return adminCell{}, fmt.Errorf("connecting: %w", err)
	}
	if _, err := one.conn.Exec(ctx, "SET ROLE "+migrations.OwnerRole); err != nil {
		return adminCell{}, errors.Join(fmt.Errorf("becoming %s: %w", migrations.OwnerRole, err), one.close(ctx))
	}
	named, err := operator.OwnSetting(ctx, one.conn, one.schema)
	if err == nil {
		if err = leadsTo(cell, "RAILHEAD_ADMIN_URL", named); err != nil {
			err = usage(err)
		}
	}
	if err != nil {
		return adminCell{}, errors.Join(err, one.close(ctx))
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
