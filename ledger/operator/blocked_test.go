package operator

import "testing"

// TestStatementHead: what is shown of another session's statement ends before the
// first literal, which may be an amount, an account or a key.
func TestStatementHead(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ sql, want string }{
		{"", ""},
		{"COMMIT", "COMMIT"},
		{"SELECT railhead.pause_rail($1, $2)", "SELECT railhead.pause_rail($1, $2)"},
		{"SELECT\n\trailhead.resume_rail('nev',\n 'why')", "SELECT railhead.resume_rail(..."},
		{"SELECT E'x'", "SELECT E..."},
		{"SELECT $$secret$$", "SELECT..."},
		{"SELECT $0", "SELECT..."},
		{"SELECT * FROM t1 WHERE amount = 10.50", "SELECT * FROM t1 WHERE amount =..."},
		{"SELECT a -- DE89370400440532013000", "SELECT a..."},
		{"/* DE89 */ SELECT a", "..."},
		{"SELECT railhead.v7_time(a), é FROM " +
			"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggggggggghhhhhhhhhh",
			"SELECT railhead.v7_time(a), é FROM aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggggg..."},
	} {
		if got := statementHead(one.sql); got != one.want {
			t.Errorf("%q: %q, want %q", one.sql, got, one.want)
		}
	}
}
