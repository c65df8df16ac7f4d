package localrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/railhead-pay/railhead/internal/test/child"
	"github.com/railhead-pay/railhead/internal/test/install"
)

// What tells a server that local runs may use from another: the comment of the logins that they have made, and the
// reason of their act in the operator log of the cell.
const (
	loginMark = "made by railhead dev"
	cellMark  = "everything is on this machine: a dead relayer can be noticed sooner"
)

// borrow looks at the server that DATABASE_URL names, before anything is changed there. It returns
// ErrBadOptions if the database has a cell in use that no local run has made, or the server has logins of
// Railhead's roles that none has made. Payments that wait in such a cell would be sent to a simulated bank,
// passwords of such logins would change; and since roles belong to the whole server, the logins of this run
// could read and claim the payments of other cells.
func (i *installation) borrow(ctx context.Context) (err error) {
	conn, err := i.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	cells, err := texts(ctx, conn, `SELECT n.nspname::text FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'payment_operator_log' ORDER BY 1`)
	if err != nil {
		return fmt.Errorf("looking for cells: %w", err)
	}
	for _, cell := range cells {
		if err := i.isOwnCell(ctx, conn, cell); err != nil {
			return err
		}
	}
	logins := install.Logins()
	others, err := texts(ctx, conn, `SELECT rolname::text FROM pg_catalog.pg_roles
		WHERE rolname = ANY ($1) AND pg_catalog.shobj_description(oid, 'pg_authid') IS DISTINCT FROM $2 ORDER BY 1`,
		slices.Sorted(maps.Keys(logins)), loginMark)
	if err != nil {
		return fmt.Errorf("reading the server's logins: %w", err)
	}
	if len(others) > 0 {
		return fmt.Errorf("%w: the server that DATABASE_URL names has the logins %s, which railhead dev has not made "+
			"and would give new passwords: unset DATABASE_URL, or name a server without them. If an earlier "+
			"railhead dev made them, say so: COMMENT ON ROLE %s IS '%s'",
			ErrBadOptions, strings.Join(others, ", "), others[0], loginMark)
	}
	others, err = texts(ctx, conn, `SELECT DISTINCT m.rolname::text FROM pg_catalog.pg_auth_members a
		JOIN pg_catalog.pg_roles g ON g.oid = a.roleid JOIN pg_catalog.pg_roles m ON m.oid = a.member
		WHERE g.rolname = ANY ($1) AND m.rolname <> ALL ($2) AND m.rolcanlogin AND NOT m.rolsuper
			AND m.rolname <> session_user ORDER BY 1`,
		slices.Sorted(maps.Values(logins)), slices.Sorted(maps.Keys(logins)))
	if err != nil {
		return fmt.Errorf("reading the members of Railhead's roles: %w", err)
	}
	if len(others) > 0 {
		return fmt.Errorf("%w: on the server that DATABASE_URL names other logins have Railhead's roles (%s), so that one "+
			"of its databases may have a cell in use, whose payments the logins of this run could read and claim: "+
			"unset DATABASE_URL, or name another server", ErrBadOptions, strings.Join(others, ", "))
	}
	return nil
}

func texts(ctx context.Context, conn *pgx.Conn, statement string, values ...any) ([]string, error) {
	rows, err := conn.Query(ctx, statement, values...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// connect returns a session of the administrator, in which no function of a login of that server is preferred.
func (i *installation) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(i.admin)
	if err != nil {
		return nil, fmt.Errorf("%w: reading DATABASE_URL: %w", ErrBadOptions, err)
	}
	config.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting as administrator: %w", err)
	}
	return conn, nil
}

func (i *installation) isOwnCell(ctx context.Context, conn *pgx.Conn, cell string) error {
	in := pgx.Identifier{cell}.Sanitize()
	var own bool
	var payments, rails, components int
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+in+`.payment_operator_log WHERE reason = $1),
		(SELECT count(*) FROM (SELECT FROM `+in+`.payment_outbox_keys LIMIT 1) p),
		(SELECT count(*) FROM `+in+`.payment_rails), (SELECT count(*) FROM `+in+`.outbox_heartbeats)`, cellMark).
		Scan(&own, &payments, &rails, &components)
	switch {
	case err != nil:
		return fmt.Errorf("reading cell %s: %w", cell, err)
	case own || payments+rails+components == 0:
		return nil
	case cell != i.Cell:
		return fmt.Errorf("%w: the database that DATABASE_URL names has cell %s in use, which no railhead dev has made: the "+
			"logins of this run could read and claim its payments. Unset DATABASE_URL, or name another server",
			ErrBadOptions, cell)
	default:
		return fmt.Errorf("%w: cell %s on the server that DATABASE_URL names is in use, and no railhead dev has made it: "+
			"its payments would be sent to a simulated bank. Unset DATABASE_URL, or name another server",
			ErrBadOptions, cell)
	}
}

// mark notes which logins this run has made.
func (i *installation) mark(ctx context.Context) (err error) {
	conn, err := i.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, login := range slices.Sorted(maps.Keys(install.Logins())) {
		comment := "COMMENT ON ROLE " + pgx.Identifier{login}.Sanitize() + " IS '" + loginMark + "'"
		if _, err := conn.Exec(ctx, comment); err != nil {
			return fmt.Errorf("marking login %s: %w", login, err)
		}
	}
	return nil
}

// environment is that of a child: of this process's variables none that would lead it to another installation. What a
// connection string of DATABASE_URL leaves to variables of libpq stays.
func (i *installation) environment(more ...string) []string {
	env := child.Clean(os.Environ())
	if i.server == nil {
		for _, each := range os.Environ() {
			if strings.HasPrefix(each, "PG") {
				env = append(env, each)
			}
		}
	}
	return append(env, more...)
}
