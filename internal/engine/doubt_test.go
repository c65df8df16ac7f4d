package engine_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/railhead-pay/railhead/internal/engine"
)

// TestDoubt has the messages that PostgreSQL sends with a success. TestNoSettingHidesACancelledWait has the waits of a
// server.
func TestDoubt(t *testing.T) {
	for name, test := range map[string]struct {
		notice pgconn.Notice
		doubt  bool
	}{
		"a cancelled wait": {pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "01000",
			File: "syncrep.c", Routine: "SyncRepWaitForLSN"}, true},
		"a wait that a shutdown ended": {pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "57P01",
			File: "syncrep.c", Routine: "SyncRepWaitForLSN"}, true},
		"another routine of these waits": {pgconn.Notice{SeverityUnlocalized: "WARNING", File: "syncrep.c",
			Routine: "SyncRepWait"}, true},
		"a commit without a transaction": {pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "25P01",
			File: "xact.c", Routine: "EndTransactionBlock"}, true},
		"a warning without its origin":     {pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "01000"}, true},
		"without its origin and severity":  {pgconn.Notice{Code: "01000"}, true},
		"a notice without its origin":      {pgconn.Notice{SeverityUnlocalized: "NOTICE", Code: "00000"}, false},
		"a database that must be vacuumed": {pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "01000", File: "varsup.c", Routine: "GetNewTransactionId"}, false},
		"a trigger's":                      {pgconn.Notice{SeverityUnlocalized: "WARNING", Code: "01000", File: "pl_exec.c", Routine: "exec_stmt_raise"}, false},
	} {
		if got := engine.Doubt(&test.notice); (got != "") != test.doubt {
			t.Errorf("%s: %q", name, got)
		}
	}
}
