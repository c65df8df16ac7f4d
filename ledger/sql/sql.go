// Package sql holds the statements of the ledger as text, a file each. The name of the
// cell, the vocabulary and the columns of outcomes are put into them when a ledger is
// opened: see package store.
package sql

import "embed"

// Files are the statements.
//
//go:embed *.sql
var Files embed.FS
