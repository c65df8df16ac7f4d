package engine

import "github.com/jackc/pgx/v5/pgconn"

// Doubt returns why what a server answered as committed may be lost, by a message that came with the answer, or "" if
// the message is of something else. PostgreSQL reports a cancelled wait for synchronous replication as success with a
// warning, after which a failover may lose the commit. The other warnings are no doubt: near the end of the
// transaction ids each statement that writes has one, and triggers and extensions warn of what they like.
//
// The text of a message is in the server's language, and the SQLSTATE is that of any warning: the routine and the
// file of the source tell which one it is. One that has neither may be it.
func Doubt(notice *pgconn.Notice) string {
	const standby = "the server warned that the commit may not be on its standby"
	switch {
	case notice.Routine == "SyncRepWaitForLSN", notice.File == "syncrep.c":
		return standby
	case notice.Code == "25P01":
		return "the server warned that no transaction was open that could be committed"
	case notice.Routine == "" && notice.File == "" && IsWarning(notice):
		return standby + ", or of something that it does not name"
	default:
		return ""
	}
}

// IsWarning reports whether a message is a warning, or has no severity.
func IsWarning(notice *pgconn.Notice) bool {
	return notice.SeverityUnlocalized == "WARNING" || notice.SeverityUnlocalized == ""
}
