package store

import (
	"fmt"

	"github.com/railhead-pay/railhead/ledger"
	"github.com/railhead-pay/railhead/outbox"
)

// The SQLSTATEs that decide what happens next.
const (
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateReadOnly      = "25006"
	stateCachedPlan    = "0A000"
)

// StateLockTimeout is the SQLSTATE of a lock that was not available within lockTimeout.
const StateLockTimeout = "55P03"

// Transient reports whether the same transaction may succeed when run again.
func Transient(err error) bool {
	switch ledger.SQLState(err) {
	case stateSerialization, stateDeadlock, stateCachedPlan:
		return true
	default:
		return false
	}
}

// demoted reports whether the server has stopped or has become read-only, so that every
// pooled connection to it is useless.
func demoted(err error) bool {
	switch ledger.SQLState(err) {
	case stateReadOnly, "57P01", "57P02", "57P03":
		return true
	default:
		return false
	}
}

// Again repeats a transaction that lost a race, up to transactTries times. It closes all
// connections to a server that has stopped or has become read-only.
func (db *DB) Again(once func() error) error {
	var err error
	for range transactTries {
		err = once()
		if !Transient(err) {
			break
		}
	}
	if demoted(err) {
		db.Pool.Reset()
	}
	return err
}

// Explain wraps an error of the server in the sentinel on which callers branch.
func Explain(err error) error {
	state := ledger.SQLState(err)
	if state == StateLockTimeout {
		return fmt.Errorf("%w: %w", outbox.ErrLockTimeout, err)
	}
	if sentinel := outbox.SentinelOf(state); sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}
