package store

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// describedKey is the key of the statements that a connection has described, in its custom data.
const describedKey = "railhead.described"

// describes reports whether pgx has the server describe one of the statements before it sends them.
func describes(conn *pgx.Conn, statements []*pgx.QueuedQuery) bool {
	switch conn.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return false
	case pgx.QueryExecModeDescribeExec:
		return len(statements) > 0
	}
	known, _ := conn.PgConn().CustomData()[describedKey].(map[string]bool)
	return slices.ContainsFunc(statements, func(q *pgx.QueuedQuery) bool { return !known[q.SQL] })
}

// noteDescribed notes the statements of a batch that was sent, and returns its error. After an
// error pgx has some of them described again, and does not say which.
func noteDescribed(conn *pgx.Conn, batch *pgx.Batch, err error) error {
	data := conn.PgConn().CustomData()
	if err != nil {
		delete(data, describedKey)
		return err
	}
	known, _ := data[describedKey].(map[string]bool)
	if known == nil {
		known = make(map[string]bool)
		data[describedKey] = known
	}
	for _, q := range batch.QueuedQueries {
		known[q.SQL] = true
	}
	return nil
}
