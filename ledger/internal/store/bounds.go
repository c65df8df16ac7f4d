package store

import (
	"fmt"
	"time"
)

// The bounds of every transaction are in this file. A Transaction sets all of them by
// bound.sql; Transact all but that of locks, which the functions for operators set
// themselves; and a statement that is a transaction by itself, as of Alone, is never idle.

// lockTimeout bounds what a statement waits for another session's lock.
const lockTimeout = "1s"

// idleMax is how long a transaction may be left idle between two statements
// before the server ends it: a worker that was frozen, or cut off without a
// word, in the middle of one must not keep its locks until an operator
// notices. No healthy one is idle for more than its own next step. SET LOCAL,
// because a setting of the session leaks to others behind a transaction pooler.
const idleMax = 5 * time.Second

var idleTimeout = fmt.Sprintf("%dms", idleMax.Milliseconds())

// beginSQL says what a login may have set otherwise: the slow path reads the rows
// as they are after it has waited for their lock.
const beginSQL = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// beginQuery begins a transaction whatever the login has set; see bound.sql.
var beginQuery = fmt.Sprintf(beginSQL+`;
	SET LOCAL idle_in_transaction_session_timeout = %d;
	SET LOCAL client_min_messages = warning;
	SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')`, idleMax.Milliseconds())

// transactTries bounds the retries of a transaction that lost a race.
const transactTries = 5
