// Package ledger has what the roles of the ledger are opened by, and what a refusal is
// called. The packages below it are the only ones through which running services speak SQL.
//
// There is one package per database role, each with a type whose connection is allowed
// what its role is and no more: ingest takes instructions, door takes them over HTTP,
// executor claims, records and repairs, callbacks and events are for the services of these
// names, operator does what people decide, and reader looks.
//
// Statements live in sql/*.sql; the cell's name, the vocabulary of package migrations
// and the columns of outcomes are put into them once, when a ledger is opened, and
// nothing is ever glued into SQL after that. What the roles have in common is below
// internal: store has connections, statements and transactions, enqueue sends
// instructions together, and await hears of outcomes.
//
// The life of an instruction, in call order:
//
//	Ingest.Enqueue      the instruction waits in pending
//	Executor.Turn       claims it: from here on it may have reached the rail
//	(the rail is called)
//	Executor.Turn       records the outcome: done, or back to pending, or to a person
//	Executor.RecordLate the outcome of a claim that another process has answered
//	Executor.StaleClaims, Executor.Expire
//	                    what a dead worker left, and what came too late
package ledger

import (
	"embed"
	"io/fs"
)

//go:embed sql/*.sql
var files embed.FS

// SQL has the statements of all roles, a file each in its folder sql. What they leave open,
// package store puts in.
func SQL() fs.FS { return files }

// NotifyChannel is the channel that an insert into a cell's pending notifies.
func NotifyChannel(cell string) string { return cell + ".outbox_pending" }
