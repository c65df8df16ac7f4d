package store

import (
	"fmt"
	"time"
)

// This file has the bounds of every transaction. A Transaction sets all of them, by
// bound.sql. Transact sets all but the lock timeout, which the functions for operators
// set themselves. A single statement, as of Autocommit, is never idle.

// lockTimeout bounds how long a statement waits for a lock of another session.
const lockTimeout = "1s"

// idleMax is how long a transaction may be idle between two statements before the
// server ends it: the locks of a worker that was frozen or disconnected must not stay
// until an operator notices. A healthy worker is idle only until its next step. It is
// set by SET LOCAL, because behind a transaction pooler a setting of the session would
// affect others.
const idleMax = 5 * time.Second

var idleTimeout = fmt.Sprintf("%dms", idleMax.Milliseconds())

// beginSQL sets the isolation level, whatever the login's default: the slow path must
// read the rows as they are after it has waited for their lock.
const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// beginQuery begins a transaction with its settings, whatever the login's defaults; see
// bound.sql.
var beginQuery = beginSQL + settingsSQL

// snapshotQuery is beginQuery for a transaction whose statements all see what the first one did, and which loses the
// race against another one that has changed a row since.
var snapshotQuery = "BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE" + settingsSQL

var settingsSQL = fmt.Sprintf(`;
	`+LocalPath+`;
	SET LOCAL idle_in_transaction_session_timeout = %d;
	SET LOCAL client_min_messages = warning;
	SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')`,
	idleMax.Milliseconds())

// transactTries bounds the retries of a transaction that lost a race.
const transactTries = 5
