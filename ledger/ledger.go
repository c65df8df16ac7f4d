// Package ledger has the configuration, the statements and the SQLSTATEs that the roles
// of the ledger share. The packages below it are the only ones through which running
// services execute SQL.
//
// There is one package for each database role, with a type whose connection has the
// rights of that role only: ingest enqueues instructions, door enqueues them over HTTP,
// executor claims, records and repairs, callbacks and events are for the services of
// these names, operator has the acts of operators, and reader only reads.
//
// Statements are in sql/*.sql. The cell's name, the vocabulary of package migrations and
// the columns of outcomes are inserted once, when a ledger is opened; after that no SQL
// text is composed. The common parts of the roles are below internal: store has
// connections, statements and transactions, enqueue sends instructions in batches, and
// await waits for outcomes.
//
// The life of an instruction, in call order:
//
//	Ingest.Enqueue      the instruction waits in pending
//	Executor.Turn       claims it: from here on it may have reached the rail
//	(the rail is called)
//	Executor.Turn       records the outcome: it ends, is pending again, or waits for an operator
//	Executor.RecordLate records the outcome of a claim that another process has answered
//	Executor.StaleClaims, Executor.Expire
//	                    find the claims of dead workers, and end what has expired
package ledger

import (
	"embed"
	"io/fs"
)

//go:embed sql/*.sql
var files embed.FS

// SQL returns the statements of all roles, one in each file of the folder sql. Package
// store replaces their placeholders.
func SQL() fs.FS { return files }

// NotifyChannel returns the channel that an insert into a cell's pending notifies.
func NotifyChannel(cell string) string { return cell + ".outbox_pending" }
